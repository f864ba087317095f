"""A long loop whose turns leave each other little: what does not depend on it runs for many turns at once.

`for i in range(n): s = s * a + load(p + i)`: of each turn only the product and the sum need the turn before. Two turns
are written down (`turn_tape`). If they did the same, on the same values from outside, their calls fall in three parts:
those that need no variable of the turn before run for many turns at once, along the axis of programs, as turns do that
leave each other nothing (`lockstep`); sums and products that make the next turn's variables are walked through turn by
turn, compiled (`interval_ops.arithmetic.recurrence_kernels`, the rules' own kernels); and what only takes from those,
stores and casts, runs for many turns at once again. Calls, sites and rules are those of the loop as it is written, so
are values, bounds and findings. The last turn runs as it is written: what the loop leaves behind is what it would be.

Where anything else happens (a decision, an atomic, a print, a variable that is no tensor and changes, a finding, two
turns that touch one element), or a rule knows more about values by what they are made of (`builder.related`), the loop
goes on turn by turn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import triton.language as tl
from triton.language import core

from interval_ops.arithmetic import recurrence_kernels as kernels
from interval_ops.arithmetic.hull import rounding_gate
from render.interpreter.builder.floats import same_value
from render.interpreter.builder.related import Terms
from render.interpreter.control import Diverge, OneByOne, Oversized
from render.interpreter.handle import METER, Handle
from render.interpreter.memory.records import Hazard
from render.interpreter.turn_tape import STORES, BuilderCall, TurnTape
from render.interpreter.types import carrier, float_format
from render.ops.table import RULES

if TYPE_CHECKING:
    from render.interpreter.context import Context
    from render.interpreter.lockstep import Trips
    from render.interpreter.recipes import Recipes

TARGET = 3 << 16
"""Elements per handle that turns at once aim for, as chunks of programs do."""
_LEARNT = 2
"""Turns after which the recipes of a loop's operations are known."""
CODES = {"create_fadd": kernels.ADD, "create_fsub": kernels.SUB, "create_fmul": kernels.MUL}
"""What may make the next turn's variables."""
AT_ONCE = frozenset([
    "create_load", "create_masked_load", "create_get_program_id", "create_make_range", "create_splat",
    "create_broadcast", "create_expand_dims", "create_addptr", "create_add", "create_sub", "create_mul",
    "create_sdiv", "create_srem", "create_udiv", "create_urem", "create_and", "create_or", "create_xor",
    "create_int_cast", "create_si_to_fp", "create_ui_to_fp", "create_fadd", "create_fsub", "create_fmul",
    "create_fdiv", "create_fp_trunc", "create_fp_ext", "create_fp_to_fp", "create_select", "create_exp",
    "create_exp2", "create_log", "create_log2", "create_sqrt", "create_fneg", "create_maxnumf", "create_minnumf",
    *(f"create_icmp{kind}" for kind in ("EQ", "NE", "SLT", "SLE", "SGT", "SGE", "ULT", "ULE", "UGT", "UGE")),
])  # fmt: skip
"""What may run for many turns at once: its lanes depend on the same lanes of its operands, or move them."""
LOADS = frozenset(["create_load", "create_masked_load"])
BEHIND = STORES | {"create_splat", "create_broadcast", "create_expand_dims", "create_fp_trunc", "create_fp_ext",
                   "create_fp_to_fp"}  # fmt: skip
"""What may take what the turns made."""

Ref = tuple[str, Any]
"""("call", number), ("from", name of a variable of the turn before), ("turn", None), ("held", a value from outside)
or ("plain", anything else)."""


@dataclass(frozen=True, eq=False)
class Turn:
    """One turn: its calls, operands by what they are, and what its variables are at its end."""

    calls: Sequence[BuilderCall]
    refs: list[tuple[Ref, ...]]
    ends: dict[str, Ref]

    def same(self, other: Turn) -> bool:
        """Whether another turn did the same on the same values from outside."""
        methods = [call.method for call in self.calls] == [call.method for call in other.calls]
        return methods and _equal(self.refs, other.refs) and _equal(self.ends, other.ends)


def _equal(a: Any, b: Any) -> bool:
    """Handles by identity, the rest by value."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_equal(a[k], b[k]) for k in a)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(_equal, a, b))
    if isinstance(a, Handle) or isinstance(b, Handle):
        return a is b
    return type(a) is type(b) and (a is b or bool(a == b))


def read(
    tape: TurnTape, at: Any, start: Mapping[str, Any], end: Mapping[str, Any], names: Sequence[str]
) -> Turn | None:
    """The turn of the loop's variable `at`; None where more happened than is known."""
    if not tape.complete:
        return None
    known: dict[int, Ref] = {id(at.handle): ("turn", None)}
    for name in names:
        if isinstance(start.get(name), core.tensor):
            known.setdefault(id(start[name].handle), ("from", name))
    refs = []
    for number, call in enumerate(tape.calls):
        if any(isinstance(x, list | tuple) and any(isinstance(y, Handle) for y in x) for x in call.args):
            return None
        operands = (*call.args, *call.named.values())
        refs.append(tuple(known.get(id(x), ("held", x)) if isinstance(x, Handle) else ("plain", x) for x in operands))
        if isinstance(call.out, Handle):
            known[id(call.out)] = ("call", number)
    ends: dict[str, Ref] = {}
    for name in names:
        x = end.get(name)
        if isinstance(x, core.tensor):
            ends[name] = known.get(id(x.handle), ("held", x.handle))
        elif x is None or type(x) in (bool, int, float, str, tl.dtype):
            ends[name] = ("plain", x)
        else:
            return None
    return Turn(tape.calls, refs, ends)


@dataclass
class Parts:
    """The calls of a turn by part, and the registers of those that go turn by turn."""

    turn: Turn
    builder: Any
    first: list[int] = field(default_factory=list)
    serial: list[int] = field(default_factory=list)
    behind: list[int] = field(default_factory=list)
    carried: list[str] = field(default_factory=list)
    stepped: dict[str, int] = field(default_factory=dict)
    """Variables that each turn moves on by the same number, and the calls that do."""

    @classmethod
    def of(cls, turn: Turn, builder: Any) -> Parts | None:
        """None where a part has a call that it may not have."""
        used = {ref[1] for refs in turn.refs for ref in refs if ref[0] == "from"}
        used |= {ref[1] for ref in turn.ends.values() if ref[0] == "from"}
        stepped = {name: step for name in used if (step := _step(turn, name)) is not None}
        used -= stepped.keys()
        late: set[int] = set()
        for number, refs in enumerate(turn.refs):
            if any((ref[0] == "from" and ref[1] in used) or (ref[0] == "call" and ref[1] in late) for ref in refs):
                late.add(number)
        needed: set[int] = set()
        todo = [turn.ends[name] for name in used if name in turn.ends]
        if len(todo) < len(used):
            return None
        while todo:
            kind, number = todo.pop()
            if kind == "call" and number in late and number not in needed:
                needed.add(number)
                todo += turn.refs[number]
        found = cls(turn, builder, carried=sorted(used), stepped=stepped)
        for number, call in enumerate(turn.calls):
            store = call.method in STORES
            part = found.serial if number in needed else found.behind if number in late or store else found.first
            may = CODES if number in needed else BEHIND if number in late or store else AT_ONCE
            if call.method not in may and not call.method.startswith("get_"):
                return None
            part.append(number)
        return found if found._plain() else None

    def _plain(self) -> bool:
        """Whether all variables are floats of one shape and type, and no rule asks what a value is made of."""
        turn = self.turn
        calls = [turn.calls[n] for n in self.serial]
        if not calls:
            return bool(self.stepped) and not self.carried
        if any(call.named for call in calls):
            return False
        x = calls[0].out
        handles = [h for call in calls for h in (*call.args, call.out)]
        if any(not isinstance(h, Handle) or h.shape != x.shape or h.dtype != x.dtype for h in handles):
            return False
        late: set[Ref] = {("call", n) for n in self.serial}
        late |= {("from", name) for name in self.carried}
        if any(turn.ends[name] not in late for name in self.carried):
            return False
        sums: set[Ref] = {("from", name) for name in self.carried}
        sums |= {("call", n) for n in self.serial if turn.calls[n].method != "create_fmul"}
        differences = [turn.refs[n] for n in self.serial if turn.calls[n].method == "create_fsub"]
        products = [n for n in self.serial if turn.calls[n].method == "create_fmul"]
        others = [n for n in products if turn.refs[n][0] != turn.refs[n][1]]
        return (
            float_format(x.dtype).bits >= 32
            and all(sums.isdisjoint(refs) for refs in differences)
            and not any(same_value(*turn.calls[n].args) for n in others)
        )


def _step(turn: Turn, name: str) -> int | None:
    """The call that moves an integer or a pointer on by a number that is the same in all turns."""
    kind, number = turn.ends.get(name, ("plain", 0))
    if kind != "call" or turn.calls[int(number)].method not in ("create_add", "create_addptr"):
        return None
    moved, by = turn.refs[int(number)]
    return int(number) if moved == ("from", name) and _fixed(turn, by) else None


def _fixed(turn: Turn, ref: Ref) -> bool:
    """Whether it is one number in all turns: a constant, in a block perhaps, or a value from outside."""
    if ref[0] != "call":
        return ref[0] in ("held", "plain")
    method = turn.calls[ref[1]].method
    moved = method in ("create_splat", "create_broadcast", "create_expand_dims")
    return method.startswith("get_") or (moved and all(_fixed(turn, r) for r in turn.refs[ref[1]]))


class Fission:
    """One loop that may go on so: `begin` before each of its first turns, `turned` at its end."""

    def __init__(self, ctx: Context, recipes: Recipes, trips: Trips, names: Sequence[str], count: int) -> None:
        self.ctx, self.recipes, self.trips, self.names, self.count = ctx, recipes, trips, names, count
        self.turn = 0
        """The last turn that is done."""
        self.over = False
        self._at: Any = None
        self._builder: Any = None
        self._start: dict[str, Any] = {}
        self._seen: Turn | None = None

    def begin(self, turn: int, at: Any, builder: Any) -> None:
        """The turn `turn`, of the loop's variable `at`, is about to run."""
        self.turn, self._at, self._builder = turn, at, builder
        self.recipes.tape = TurnTape(builder) if turn >= _LEARNT else None

    def turned(self, variables: Mapping[str, Any]) -> tuple[Any, ...]:
        """The variables for the next turn: what this one made, or what a turn much later (`turn`) did."""
        tape, self.recipes.tape = self.recipes.tape, None
        out = dict(variables)
        if tape is not None:
            found = read(tape, self._at, self._start, variables, self.names)
            if self._seen is not None and found is not None and found.same(self._seen):
                out.update(self._walked(found, variables))
            self.over = found is None or self._seen is not None
            self._seen = found
        self._start = out
        return tuple([out.get(name) for name in self.names])

    def _walked(self, turn: Turn, variables: Mapping[str, Any]) -> dict[str, Any]:
        """The variables after as many turns as there are but the last, or before the first that has to run alone."""
        ctx, memory = self.ctx, self.ctx.memory
        parts, alone = Parts.of(turn, self._builder), ctx.programs == 1
        if parts is None or not (alone or all(turn.calls[n].method not in STORES for n in parts.behind)):
            return {}
        loads = [turn.calls[n].args[0] for n in parts.first if turn.calls[n].method in LOADS]
        if not alone and ctx.num_warps > 1 and (len(ctx.unordered) or any(len(ptr.shape) for ptr in loads)):
            return {}  # what other warps see of it is told program by program
        state = {name: variables[name].handle for name in (*parts.carried, *parts.stepped)}
        most = TARGET // max(1, METER.get().largest * ctx.programs)
        while (turns := min(self.count - 2 - self.turn, most)) >= 2:
            mark, seen = memory.begin_turns(turns) if alone else memory.mark(), ctx.unordered.mark()
            after = self._batch(parts, turns, state)
            clean = memory.end_turns(mark, int(ctx.linear[0])) if alone else memory.quiet(mark)
            if after is None or not clean:
                memory.undo_to(mark)
                ctx.unordered.undo_to(seen)
                break
            state, self.turn = after, self.turn + turns
            ctx.steps.ticks(turns)
        return {  # those that are one value have one name in what was written down
            name: core.tensor(handle, variables[name].type)
            for known, handle in state.items()
            for name, end in turn.ends.items()
            if end == turn.ends[known]
        }

    def _batch(self, parts: Parts, turns: int, state: dict[str, Handle]) -> dict[str, Handle] | None:
        """The variables after so many turns more; None where these have to run one by one."""
        ctx = self.ctx
        pids, linear = ctx.pids, ctx.linear
        ctx.pids, ctx.linear, ctx.turns = pids.repeat(turns, 0), linear.repeat(turns), "fission"
        ctx.unordered.turns = (ctx.linear, linear) if len(linear) == 1 else None
        try:
            return AtOnce(ctx, parts, len(linear), turns).run(self.trips, self.turn + 1, state)
        except (OneByOne, Diverge, Hazard, Oversized):
            return None
        finally:
            ctx.pids, ctx.linear, ctx.turns, ctx.at, ctx.unordered.turns = pids, linear, "", None, None


class AtOnce:
    """Turns that go at once: rows of a handle are those of the first program, one for each turn, then of the next."""

    def __init__(self, ctx: Context, parts: Parts, programs: int, turns: int) -> None:
        self.ctx, self.parts, self.programs, self.turns = ctx, parts, programs, turns
        self.builder: Any = parts.builder
        self.made: dict[Any, Handle] = {}
        self._held: dict[int, Handle] = {}

    def run(self, trips: Trips, first: int, state: dict[str, Handle]) -> dict[str, Handle]:
        shape = (self.programs, self.turns)
        at, by = (np.broadcast_to(a.reshape(-1, 1), (self.programs, 1)) for a in (trips.first, trips.by))
        turn = np.broadcast_to(at + (first + np.arange(self.turns)) * by, shape).reshape(-1)
        self.made["turn", None] = trips.make(turn).handle
        after = {name: self._stepped(name, call, state[name]) for name, call in self.parts.stepped.items()}
        self._calls(self.parts.first)
        if self.parts.serial:
            after |= self._serial({name: state[name] for name in self.parts.carried})
        if self.programs == 1:
            self._calls(self.parts.behind)
        return after

    def _stepped(self, name: str, number: int, start: Handle) -> Handle:
        """The variable at the beginning of each turn; gives it as the last one leaves it."""
        call, (_, ref) = self.parts.turn.calls[number], self.parts.turn.refs[number]
        by = ref[1] if ref[0] == "held" else self.parts.turn.calls[ref[1]].out
        if any(h.taint or h.open is not None or h.lost is not None or not h.is_point for h in (start, by)):
            raise OneByOne
        whole = by.v.dtype if call.method == "create_add" else np.int64  # addresses do not wrap where offsets would
        times = np.arange(self.turns + 1).astype(whole).reshape(1, -1, *(1,) * (by.v.ndim - 1))
        moved = by.v[:, None] * times
        behind = Handle(np.ascontiguousarray(moved[:, -1]), by.dtype, by.shape)
        each = np.broadcast_to(moved[:, :-1], (self.programs, self.turns, *by.v.shape[1:]))
        steps = Handle(each.reshape(-1, *by.v.shape[1:]), by.dtype, by.shape)
        self.ctx.at = call.site
        move = getattr(self.builder, call.method)
        self.made["from", name] = move(self._operand(("held", start)), steps)
        found: Handle = move(start, behind)
        return found

    def _calls(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            call, refs = self.parts.turn.calls[number], self.parts.turn.refs[number]
            pairs = zip(refs, (*call.args, *call.named.values()), strict=True)
            given = [x if ref[0] == "plain" else self._operand(ref) for ref, x in pairs]
            own = len(call.args)
            self.ctx.at = call.site
            out = getattr(self.builder, call.method)(*given[:own], **dict(zip(call.named, given[own:], strict=True)))
            if isinstance(out, Handle):
                if out.taint or out.lost is not None:
                    raise OneByOne
                self.made["call", number] = out

    def _operand(self, ref: Ref) -> Handle:
        """A value of these turns, or one from outside, for each of them."""
        if ref[0] != "held":
            return self.made[ref]
        h: Handle = ref[1]
        if id(h) not in self._held:
            whole = h.v.shape[0] > 1
            self._held[id(h)] = h.map(lambda a: a.repeat(self.turns, 0), h.shape) if whole else h
        return self._held[id(h)]

    def _serial(self, state: dict[str, Handle]) -> dict[str, Handle]:
        turn, serial, carried = self.parts.turn, self.parts.serial, self.parts.carried
        operands = {ref: self._operand(ref) for n in serial for ref in turn.refs[n] if not self._late(ref)}
        x = turn.calls[serial[0]].out
        handles = [*operands.values(), *state.values()]
        if any(h.taint or h.lost is not None or h.pend is not None or h.open is not None or not _simple(h, x)
               for h in handles):  # fmt: skip
            raise OneByOne
        return self._walk(x, operands, state, serial, carried)

    def _late(self, ref: Ref) -> bool:
        return (ref[0] == "from" and ref[1] in self.parts.carried) or (ref[0] == "call" and ref[1] in self.parts.serial)

    def _walk(
        self, x: Handle, operands: dict[Ref, Handle], state: dict[str, Handle], serial: list[int], carried: list[str]
    ) -> dict[str, Handle]:
        """The compiled walk over the turns, and what it makes."""
        turn, fmt = self.parts.turn, float_format(x.dtype)
        register: dict[Any, int] = {key: k for k, key in enumerate([
            *operands, *(("from", name) for name in carried), *(("call", n) for n in serial)])}  # fmt: skip
        block = np.broadcast_shapes(*(h.v.shape[1:] for h in (*operands.values(), *state.values())))
        rows = self.programs if any(h.v.shape[0] > 1 for h in (*operands.values(), *state.values())) else 1
        lanes = rows * int(np.prod(block))
        given = np.empty((len(operands), self.turns, 3, lanes))
        points = np.array([h.is_point for h in operands.values()], np.bool_)
        for k, h in enumerate(operands.values()):
            for end, a in enumerate((h.v, *h.pair)):
                given[k, :, end] = self._by_turn(a, rows, block)
        v, lo, hi = np.empty((3, len(register), lanes))
        point = np.zeros(len(register), np.bool_)
        for name in carried:
            r, h = register["from", name], state[name]
            point[r] = h.is_point
            for to, a in zip((v, lo, hi), (h.v, *h.pair), strict=True):
                to[r] = np.broadcast_to(a, (rows, *block)).reshape(-1)
        steps, gates, never = [], [], METER.get().muted
        for n in serial:
            call = turn.calls[n]
            self.ctx.at = call.site
            rule = RULES[call.method.removeprefix("create_")]
            muted = self.ctx.model(rule.cause or "").muted("arith")
            never = never or (muted and fmt.bits < 64)
            gates.append(rounding_gate(fmt, muted))
            steps.append((CODES[call.method], *(register[ref] for ref in turn.refs[n]), register["call", n]))
        moves = [(register[turn.ends[name]], register["from", name]) for name in carried]
        behind = (
            [ref for n in self.parts.behind for ref in turn.refs[n] if self._late(ref)] if self.programs == 1 else []
        )
        kept = list(dict.fromkeys(behind))
        out = np.empty((len(kept), self.turns, 3, lanes))
        program = kernels.TurnProgram(
            np.array(steps, np.int64), np.array(gates), np.array(moves, np.int64),
            np.array([register[ref] for ref in kept], np.int64), carrier(x.dtype) == np.float32, never,
        )  # fmt: skip
        kernels.walk(program, given, points, kernels.Registers(v, lo, hi, point), out)
        METER.get().work += self.turns * len(serial) * lanes
        for ref, found in zip(kept, out, strict=True):
            value, low, high = found.swapaxes(0, 1).reshape(3, self.turns, *block)
            self.made[ref] = _handle(x, value, low, high, never)
        after = {}
        for name in carried:
            r = register["from", name]
            value, low, high = (a[r].reshape(rows, *block) for a in (v, lo, hi))
            after[name] = _handle(x, value, low, high, not point[r])
        return after

    def _by_turn(self, a: np.ndarray, rows: int, block: tuple[int, ...]) -> np.ndarray:
        """(turns, lanes) of an operand's values."""
        if a.shape[0] == 1:
            return np.broadcast_to(a, (rows, *block)).reshape(1, -1)
        whole = np.broadcast_to(a, (a.shape[0], *block)).reshape(self.programs, self.turns, -1)
        return whole.swapaxes(0, 1).reshape(self.turns, -1)


def _simple(h: Handle, x: Handle) -> bool:
    """Whether the handle is a float like `x` of which no rule knows what it is made of, but for a sum's two terms."""
    return h.shape == x.shape and h.dtype == x.dtype and (h.kin is None or isinstance(h.kin, Terms))


def _handle(x: Handle, v: np.ndarray, lo: np.ndarray, hi: np.ndarray, wide: bool) -> Handle:
    """A handle like `x`; `wide`: it has ends even where these are equal."""
    value = v.astype(carrier(x.dtype))
    point = not wide and np.array_equal(lo, hi)
    return Handle(value, x.dtype, x.shape) if point else Handle(value, x.dtype, x.shape, lo.copy(), hi.copy())
