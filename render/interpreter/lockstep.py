"""Loops that programs of a chunk leave at different turns: who is done waits, masked off, until all are.

A turn that not all programs take runs for all of them. What it computes for the others is garbage that nobody sees:
they load and store nothing, decide nothing, and at the end of the turn each variable that it assigned is chosen anew,
`where(takes part, new, old)`. The choice is exact, so bounds are those of programs that run apart.

The turns of a loop of one program run at once, along the same axis, where a turn reads no variable of the turn before
(the tiles that a persistent kernel walks through) and nothing listens. That they touch each other's memory shows as it
does between programs; then the program runs again, turn by turn (`OneByOne`).

Where that is not so the chunk is split as at any other branch (`Diverge`): atomics, whose order matters; new taints,
which may come from garbage; variables of which no choice can be made, among them open sums of dots, which a choice
would close.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import triton.language as tl
from triton.language import core

from render.interpreter.blockptr import BlockPointer
from render.interpreter.context import Context
from render.interpreter.control import Diverge, OneByOne
from render.interpreter.handle import METER, Handle
from render.interpreter.waiting import Loop

if TYPE_CHECKING:
    from render.interpreter.builder.base import Base
    from render.interpreter.fission import Fission
    from render.interpreter.recipes import Recipes

TARGET_ELEMENTS = 3 << 16
"""Elements of the largest handle that turns of a loop which run together aim for: enough to hide Python, small enough
for caches."""
OVERHEAD = 1 << 14
"""Lanes whose arithmetic costs what one operation costs besides."""
WASTED = 1 << 17
"""Lanes without use in each turn of a `while` from which on the few programs that are left run apart."""
ENOUGH = 256
"""Turns of a loop from which on it is worth to look which part of each may run at once with the others'."""
_KINDS = 48
"""Different trip counts among which the best way of splitting is looked for."""
_ANEW = 8
"""What running a part anew costs besides, in turns."""
_MISSING = object()


def active(ctx: Context, values: np.ndarray) -> np.ndarray:
    """Of one value per program (or one for all), those of programs that take part."""
    flat: np.ndarray = values.reshape(values.shape[0], -1)[:, 0]
    return flat if ctx.active is None or flat.size == 1 else flat[ctx.active]


def uniform(ctx: Context, values: np.ndarray) -> Any:
    """The one value that all programs share which take part; raises Diverge with a value per program otherwise."""
    seen = active(ctx, values)
    if seen.size == 1 or (seen == seen[0]).all():
        return seen[0]
    raise Diverge(values.reshape(values.shape[0], -1)[:, 0].copy())


def taking_part(builder: Base, mask: Handle | None, shape: tuple[int, ...]) -> Handle | None:
    """The mask of an access, less the programs that take no part."""
    part = mask_of(builder, shape)
    if part is None or mask is None:
        return mask if part is None else part
    found: Handle = builder.create_and(mask, part)  # type: ignore[attr-defined]
    return found


def mask_of(builder: Base, shape: tuple[int, ...]) -> Handle | None:
    """Who takes part, for blocks of this shape; None: everybody."""
    given = builder.ctx.active
    if given is None:
        return None
    out = Handle(given.reshape(-1, *(1,) * len(shape)), tl.int1, shape)
    builder.emit("constant", (), (out,))
    return out


@dataclass
class Trips:
    """What `range` gives: first value, step and number of turns of each program (or one for all)."""

    ctx: Context
    first: np.ndarray
    by: np.ndarray
    count: np.ndarray
    make: Callable[[np.ndarray], Any]

    def at(self, turn: int) -> Any:
        self.ctx.steps.tick()
        return self.make(self.first + turn * self.by)

    def __iter__(self) -> Iterator[Any]:
        return map(self.at, range(int(uniform(self.ctx, self.count))))


class Rounds:
    """One run of a loop. `names`: what its body assigns; None where programs must stay together in it. `free`: where
    turns leave nothing to each other, the name of the loop. `idle`: which of its names decide nothing in it.

    The rewritten loop asks for every turn (`again`, or `over` what it walks through), and where a turn is `partial`
    assigns what `merged` gives at its end.
    """

    __slots__ = (
        "builder", "ctx", "fission", "free", "names", "old", "outer", "partial", "recipes", "wait", "wasted",
    )  # fmt: skip

    def __init__(
        self, builder: Base, names: Sequence[str] | None, free: str, idle: Collection[str],
        recipes: Recipes | None = None,
    ) -> None:  # fmt: skip
        self.builder, self.ctx, self.names, self.free = builder, builder.ctx, names, free
        self.recipes, self.fission = recipes, cast("Fission | None", None)
        self.ctx.decisions += 1
        self.wait, self.outer = Loop(self.ctx, idle), self.ctx.active
        self.partial, self.wasted = False, 0
        self.old: dict[str, Any] = {}

    def again(self, condition: Any, values: np.ndarray | None, frame: FrameType) -> bool:
        """`while`: whether there is another turn. `values`: the condition per program, where these do not agree."""
        part = self.ctx.active
        if values is not None:
            self._check(values)
            part = values if part is None else values & part
        if not self.wait(values is not None or condition, frame):
            self._end()
            return False
        if part is not None and (values is not None or self.partial):
            left = int(part.sum())
            self.wasted += (len(part) - left) * METER.get().largest
            if self.wasted > WASTED * (self.wait.turns + 8) and 4 * left < len(part):
                raise Diverge(part)
            self._begin(part, frame.f_locals)
        return True

    def over(self, walked: Iterable[Any]) -> Iterable[Any]:
        """`for`: the values of the loop's variable, turn by turn."""
        return self._turns(walked) if isinstance(walked, Trips) else walked

    def _turns(self, trips: Trips) -> Iterator[Any]:
        counts = trips.count
        mine = active(self.ctx, counts)
        if (mine == mine[0]).all():
            yield from self._at_once(trips, int(mine[0]))
            return
        self._check(counts)
        parts = together(mine)
        if parts.any():
            split = np.zeros(len(counts), parts.dtype)
            split[slice(None) if self.outer is None else self.outer] = parts
            raise Diverge(split)
        whole = np.ones(len(counts), np.bool_) if self.outer is None else self.outer
        self.ctx.steps.foresee(int(mine.max()))
        for turn in range(int(mine.max())):
            part = whole & (counts > turn)
            if (part != whole).any():
                self._begin(part, sys._getframe(1).f_locals)
            yield trips.at(turn)
        self._end()

    def _at_once(self, trips: Trips, count: int) -> Iterator[Any]:
        """Rounds on which all programs agree: one, which shows how large blocks are, then as many as fill a chunk."""
        ctx, turn = self.ctx, 0
        fitting = self.free and ctx.programs == 1 and not ctx.ordered and not self.builder.heard and count > 2
        if not fitting:
            ctx.steps.foresee(count)
        self.fission = None if fitting else self._fission(trips, count)
        while turn < count:
            if self.fission is not None:
                self.partial = True
                at = trips.at(turn)
                self.fission.begin(turn, at, self.builder)
                yield at
                turn = self.fission.turn + 1
                if self.fission.over:
                    self.fission, self.partial = None, False
                continue
            some = min(count - turn, TARGET_ELEMENTS // max(1, METER.get().largest)) if fitting and turn else 1
            if some < 2 or self.free in ctx.apart or ctx.in_turns is not None:
                yield trips.at(turn)
                turn += 1
                continue
            pids, linear = ctx.pids, ctx.linear
            ctx.pids, ctx.linear, ctx.turns = pids.repeat(some, 0), linear.repeat(some), self.free
            ctx.unordered.turns = (ctx.linear, linear)
            mark = ctx.memory.begin_turns(some)
            ctx.steps.tick()
            yield trips.make(trips.first + np.arange(turn, turn + some) * trips.by)
            if not ctx.memory.end_turns(mark, int(linear[0])):
                raise OneByOne
            ctx.pids, ctx.linear, ctx.turns, ctx.unordered.turns = pids, linear, "", None
            turn += some

    def _fission(self, trips: Trips, count: int) -> Fission | None:
        """What may run most of a long loop's work at once, where nothing keeps turns apart and nobody listens."""
        from render.interpreter.builder import Builder
        from render.interpreter.fission import Fission

        ctx, plain = self.ctx, type(self.builder) is Builder  # others have arithmetic of their own
        if self.recipes is None or not self.names or count < ENOUGH or not plain or self.builder.heard:
            return None
        apart = ctx.ordered or ctx.locks or ctx.turns or ctx.in_turns is not None or ctx.active is not None
        if apart or not ctx.interval or ctx.memory.choices is not None or ctx.activity.looks:
            return None
        return Fission(ctx, self.recipes, trips, self.names, count)

    def _check(self, values: np.ndarray) -> None:
        ctx = self.ctx
        if self.names is None or ctx.ordered or ctx.in_turns is not None or len(values) != ctx.programs:
            raise Diverge(values.copy())

    def _begin(self, part: np.ndarray, variables: dict[str, Any]) -> None:
        self.partial, self.ctx.active = True, part
        self.old = {name: variables[name] for name in self.names or () if name in variables}

    def _end(self) -> None:
        self.partial, self.ctx.active, self.old = False, self.outer, {}

    def merged(self, variables: dict[str, Any]) -> tuple[Any, ...]:
        """The variables of `names` after a partial turn."""
        if self.fission is not None:
            return self.fission.turned(variables)
        return tuple(self._one(variables.get(n, _MISSING), self.old.get(n, _MISSING)) for n in self.names or ())

    def _one(self, new: Any, old: Any) -> Any:
        if new is old or (old is _MISSING and new is not _MISSING):
            return new
        if isinstance(new, core.tensor) and isinstance(old, core.tensor) and new.type == old.type:
            return core.tensor(self._chosen(new.handle, old.handle), new.type)
        if isinstance(new, tuple) and isinstance(old, tuple) and len(new) == len(old):
            return tuple(map(self._one, new, old))
        if isinstance(new, core.tuple) and isinstance(old, core.tuple) and new.type == old.type:
            return core.tuple(list(map(self._one, new.values, old.values)), new.type)
        if isinstance(new, BlockPointer) and isinstance(old, BlockPointer) and new.base is old.base:
            offsets = [self._chosen(x, y) for x, y in zip(new.offsets, old.offsets, strict=True)]
            return BlockPointer(new.base, new.extents, new.strides, offsets, new.box)
        if isinstance(new, int | float | str | tl.dtype) and type(new) is type(old) and new == old:
            return new
        raise Diverge(self._part())

    def _chosen(self, new: Handle, old: Handle) -> Handle:
        if new is old:
            return new
        # A sum that is open at both ends of a turn may be one sum; that of zeros may be its beginning.
        if new.pend is not None and (old.pend is not None or (old.is_point and old.v.size == 1)):
            raise Diverge(self._part())
        part = mask_of(self.builder, new.shape)
        assert part is not None
        found: Handle = self.builder.create_select(part, new, old)  # type: ignore[attr-defined]
        return found

    def _part(self) -> np.ndarray:
        assert self.ctx.active is not None
        return self.ctx.active


def together(counts: np.ndarray) -> np.ndarray:
    """A number per program, equal where programs with so many turns had best run together.

    Together they cost the largest count times all their lanes and the overhead of one; the best cut of the sorted
    counts is found by dynamic programming over at most `_KINDS` steps.
    """
    kinds, which, sizes = np.unique(counts, return_inverse=True, return_counts=True)
    step = -(-len(kinds) // _KINDS)
    ends = np.append(np.arange(step, len(kinds), step), len(kinds))  # of coarse kinds, exclusive
    longest, before = kinds[ends - 1], np.concatenate([[0], np.cumsum(sizes)])[np.concatenate([[0], ends])]
    lanes, n = METER.get().largest, len(ends)
    best, start = np.zeros(n + 1), np.zeros(n + 1, int)
    for j in range(1, n + 1):
        costs = best[:j] + (longest[j - 1] + _ANEW) * ((before[j] - before[:j]) * lanes + OVERHEAD)
        start[j] = int(np.argmin(costs))
        best[j] = costs[start[j]]
    part, j = np.zeros(n, int), n
    while j > 0:
        part[start[j] : j] = start[j]
        j = start[j]
    found: np.ndarray = part[np.searchsorted(ends, which, side="right")]
    return found
