"""Follows host code between kernel launches: allocations, overwrites, and what is computed from kernel results.

Host operations are seen by dispatch, below autograd and above the CPU kernels. Operations with a rule carry bounds
(`render.interpreter.hosted`); any other that reads a bounded element taints what it returns (RND302), so that a step
without a rule never turns an interval into a silent point.

What the host computes from plain inputs before a launch rounds as well: a wrapper that casts its operands to float16
has made the same error as a kernel that does. Where there is a rule the result carries it. An operation without a rule
is followed through torch's own decomposition of it, which is what `torch.compile` executes; without one its result is
tainted. Constants, random numbers and what the user hands in are points.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch._ops import HigherOrderOperator, OpOverload
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

from interval_ops.formats.model import Format
from interval_ops.profiles.profile import CAUSES
from render.interpreter import arriving
from render.interpreter.deferred import Deferred, Made
from render.interpreter.graphs import unrecorded
from render.interpreter.hosted.call import (
    Bounds,
    Call,
    Exact,
    Found,
    Result,
    each_result,
    is_wide,
    muted,
    one_each,
    open_integers,
    quiet,
    values,
)
from render.interpreter.hosted.decomposed import composed, decomposition
from render.interpreter.hosted.given_numbers import GivenNumbers
from render.interpreter.hosted.numbers import Ends, LeftNumbers
from render.interpreter.hosted.overloads import (
    OWN_ROOTS,
    HostSite,
    OverloadRule,
    called_so,
    host_site,
    is_coarse,
    is_plain,
    operation,
    rounded_to,
    start_of,
    tensors_of,
    written_arguments,
)  # fmt: skip
from render.interpreter.hosted.table import RULES
from render.interpreter.hosted.unwritten import WHOLE, Void, filled, of_nothing, void_of
from render.interpreter.memory import Envelope
from render.interpreter.memory.host_side import EXACTLY
from render.interpreter.memory.integers import INTEGERS
from render.interpreter.memory.records import NO_TAINT
from render.interpreter.memory.shadow import with_values
from render.interpreter.threads import Lock
from render.ops.aten import ATEN, Form, of_form
from render.ops.dtypes import FORMAT_OF
from render.ops.parts import in_parts

if TYPE_CHECKING:
    from render.interpreter.memory import Memory

Cause = tuple[str, str, int]

ALLOCATIONS = frozenset(["empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"])
_MADE = of_form(Form.MADE)
_SHAPE_ONLY = frozenset(n for n in of_form(Form.MADE, Form.RANDOM) if n.endswith("_like") or n.startswith("new_"))
"""Operations that take a tensor for its shape and dtype."""
_COMBINING = frozenset(["index_put", "_index_put_impl", "put", "scatter"])
_SAME = torch.ops.aten.clone.default


class HostTracker(TorchDispatchMode):
    """Use as a context manager around host code; `paused()` while a kernel runs.

    `lazy`: what inputs alone go into gets its bounds when they are asked for.
    """

    lazy = True

    supports_higher_order_operators = True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Torch would import its whole compiler to keep it away from this mode; nothing is compiled here."""
        return False

    def __init__(self, memory: Memory, mute: Iterable[Any] = (), causes: set[Cause] | None = None) -> None:
        """`mute`: causes, or (cause, file, line), whose error is left out; `causes` takes those that were met.

        `rounded`: unit roundoff of every operation on inputs that rounds, by cause and place.
        """
        super().__init__()
        self.memory = memory
        self.followed = 0
        """Operations so far that read elements with bounds."""
        self.made: dict[int, HostSite] = {}
        """Where the host allocated the storage that begins at an address."""
        self.mute = frozenset(mute)
        self.exact = self.mute >= set(CAUSES)
        self.causes: set[Cause] = set() if causes is None else causes
        self.rounded: dict[Cause, float] = {}
        self._paused = self._launches = 0
        self.open, self.shared, self.lock = False, False, Lock()
        """Within the scope; whether other threads came in; held by the one that works."""
        self._within: HostSite | None = None
        """The line of an operation whose steps are run."""
        self.deferred = Deferred()
        memory.deferred = self.settle
        self._prepared: set[int] = set()
        self.numbers = LeftNumbers(self._taint_at, lambda file: not file.startswith(OWN_ROOTS))

    @contextlib.contextmanager
    def silent(self) -> Iterator[None]:
        """What torch does inside is ours."""
        self._paused += 1
        try:
            yield
        finally:
            self._paused -= 1

    @property
    def is_paused(self) -> bool:
        return self._paused > 0

    def _taint_at(self, code: str, op: str, message: str) -> int:
        return self.memory.taint(code, op, host_site(), message)  # type: ignore[arg-type]

    def ends_of(self, tensor: torch.Tensor) -> Envelope | None:
        """What is known of a tensor that leaves torch."""
        if not is_plain(tensor) or not (self.memory.knows_bounds() or self.deferred):
            return None
        self.settle(tensor)
        return self.memory.host_envelope(tensor)

    def _leaving(self, func: Any, tensor: torch.Tensor) -> Any:
        """One element becomes a Python number."""
        found, value = self.ends_of(tensor), func(tensor)
        if found is not None:
            v = float(value) if not isinstance(value, complex) else 0.0
            lo, hi = (float(e.reshape(-1)[0]) if e.size else v for e in (found.lo, found.hi))
            self.numbers.leave(value, Ends(lo, hi, found.taints | self._of_nothing(func, [tensor])))
        return value

    def _of_nothing(self, func: Any, reads: Sequence[torch.Tensor]) -> frozenset[int]:
        """The taints of what depends as a whole on elements that nothing has written."""
        found = [(t, e) for t in reads if (e := self.memory.host_envelope(t)) and not e.written.all()]
        return NO_TAINT.union(*(e.void or of_nothing(self.memory, func, t, e) for t, e in found))

    def _numbers_in(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[float, Ends]:
        leaves = tree_flatten((args, kwargs))[0]
        return {x: e for x in leaves if isinstance(x, float) and (e := self.numbers.of(x)) is not None}

    def _of_numbers(
        self, func: Any, op: OverloadRule, args: tuple[Any, ...], kwargs: dict[str, Any], ends: dict[float, Ends]
    ) -> Any:
        """Run an operation on numbers that left torch before: to its rule they are tensors of no dimension."""
        targets, leaves = written_arguments(op, args, kwargs), tree_flatten((args, kwargs))[0]
        tensors = [t for t in leaves if is_plain(t)]
        for t in tensors:
            self.settle(t)
        known = {id(t): e for t in tensors if (e := self.memory.host_envelope(t)) is not None}
        taint = NO_TAINT.union(*(e.taints for e in known.values()), *(e.taint for e in ends.values()))
        taint |= self._of_nothing(func, [t for t in tensors if not any(t is x for x in targets)])
        small = all(t.dim() == 0 for t in tensors if t.is_floating_point())
        dtype = tensors[0].dtype if tensors and small and tensors[0].is_floating_point() else torch.float64
        given = GivenNumbers.of(func, args, kwargs, ends, dtype, known)
        seen = self.before(func, given.args, given.kwargs, given.known)
        with muted(self._muted_at(host_site())):
            result = None if op.opaque and op.name in RULES else given.bounds(op.name, self.memory.profile)
        out = func(*args, **kwargs)
        self.followed += 1
        outputs = [t for t in tensors_of(out) if is_plain(t)]
        outputs += [t for t in targets if not any(t is o for o in outputs)]
        for tensor, one in zip(outputs, one_each(result, [tuple(t.shape) for t in outputs]), strict=True):
            self._attach(tensor, one, self._taints(func, one, tensor, taint, True, host_site()), False)
        self.after(seen, out)
        return out

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        self.lock.acquire()
        self._paused += 1
        self._launches += 1
        self._prepared.clear()
        try:
            with unrecorded():
                yield
        finally:
            self._paused -= 1
            self.lock.release()

    @in_parts
    def __torch_dispatch__(
        self, func: Any, types: Sequence[Any], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if type(func) is not OpOverload and isinstance(func, HigherOrderOperator):
            return func(*args, **kwargs)
        op = operation(func)
        if op.view and not self._within:  # most of what a loop over a tensor does, and nothing to follow
            out = func(*args, **kwargs)
            if self.numbers and op.name == "lift_fresh" and not self._paused and not self.numbers.making:
                arriving.made_of_numbers(self, out)
            return out
        if self.shared:
            with self.lock:
                return self._dispatched(func, op, args, dict(kwargs))
        return self._dispatched(func, op, args, dict(kwargs))

    def _dispatched(self, func: Any, op: OverloadRule, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._paused:
            return func(*args, **kwargs)
        if op.name == "_local_scalar_dense":
            return self._leaving(func, args[0])
        if self._within and composed(func):  # below autograd these arrive whole
            with self:
                return func.decompose(*args, **kwargs)
        if op.view:
            return func(*args, **kwargs)
        if op.name in ("set", "resize"):
            return arriving.moved_to(self, func, args, kwargs)
        if op.name in _COMBINING:
            accumulate = (len(args) > 3 and args[3] is True) or bool(kwargs.get("accumulate", False))
            if accumulate or "reduce" in kwargs:
                op = called_so(op, accumulate)
        if self.numbers and (ends := self._numbers_in(args, kwargs)):
            return self._of_numbers(func, op, args, kwargs, ends)
        if op.name in ALLOCATIONS:
            out = func(*args, **kwargs)
            if is_plain(out) and "out" not in kwargs:
                self.memory.mark_unwritten(out)
            return self._placed(op, out)
        if op.name in _SHAPE_ONLY and not op.written:
            return self._placed(op, func(*args, **kwargs))
        if op.name == "copy" and self.lazy and self._only_moves(*args[:2]):
            return self.copy(func, args, kwargs)
        if op.name in ("copy", "clone") and not args[0].is_floating_point() and self.concerned(op, args, kwargs):
            copied = arriving.copy_bytes(self, func, args, kwargs)
            if copied is not None:
                return copied
        rounds = rounded_to(op, args, kwargs) if op.cause else None
        if rounds is None and not op.opaque and not self.concerned(op, args, kwargs):
            out = func(*args, **kwargs)
            for target in written_arguments(op, args, kwargs):
                self.memory.host_write(target)
            return self._placed(op, out)
        return self._follow(func, op, args, kwargs, rounds)

    def _placed(self, op: OverloadRule, out: Any) -> Any:
        """`out`, with the line that allocated it, if that is what the operation does."""
        if op.name in _MADE and is_plain(out):
            self.made[start_of(out)] = host_site()
        return out

    def _follow(
        self, func: Any, op: OverloadRule, args: tuple[Any, ...], kwargs: dict[str, Any], rounds: Format | None
    ) -> Any:
        """Run an operation that may read or overwrite elements with bounds, or that rounds plain ones to `rounds`."""
        targets = written_arguments(op, args, kwargs)
        skip = {id(t) for t in targets} if op.overwrites else {
            id(t) for k, t in kwargs.items() if k == "out" or k.startswith("out")
        }  # fmt: skip
        reads = {id(t): t for t in tensors_of((args, kwargs)) if id(t) not in skip and is_plain(t)}
        if self._may_wait(op, reads, rounds):
            return self._defer(func, op, args, kwargs, reads, rounds)
        if self.deferred:
            for t in (*reads.values(), *targets):
                self.settle(t)
        known = {k: e for k, t in reads.items() if (e := self.memory.host_envelope(t)) is not None}
        for k in known:
            self.memory.read_by_host(reads[k])
        site = host_site() if op.opaque else None if known or rounds is None else self._note(op, rounds)
        if not known and (site is None or not self.memory.interval):
            out = func(*args, **kwargs)
            for target in targets:
                self.memory.host_write(target)
            return out
        self.followed += 1
        before = {start_of(t) for t in reads.values()}
        prepared = all(start_of(reads[k]) in self._prepared for k in known)
        plain = rounds is None and not op.opaque and self.lazy and not self.exact
        if plain and all(e is EXACTLY for e in known.values()):
            return self._of_points(func, args, kwargs, before, targets, prepared)
        site = site or (host_site() if rounds is not None else None)
        void = void_of(self.memory, op, func, args, kwargs, known)
        known = filled(known)
        result, steps = self._bounds_of(func, op, args, kwargs, known, site)
        seen = self.before(func, args, kwargs, known) if steps is None else None
        out = func(*args, **kwargs)
        outputs = [t for t in tensors_of(out) if is_plain(t)]
        found = one_each(result, [tuple(t.shape) for t in outputs])
        taint = NO_TAINT.union(*(e.taints for e in known.values()))
        open_ = self.exact or any(is_wide(e) for e in known.values())
        written = {id(t) for t in targets}
        for i, (tensor, one) in enumerate(zip(outputs, found, strict=True)):
            # A view of an input shares its memory, and with it everything that is known about it.
            if id(tensor) in written or start_of(tensor) not in before:
                mine = self._taints(func, one, tensor, taint, open_, site)
                self._attach(tensor, one, mine, prepared, void, void.flags(tensor, i))
                if steps is not None and i < len(steps):
                    self.after(self.before(_SAME, (steps[i],), {}, self.known(steps[i])), tensor)
        first = found[0] if found and len(outputs) == 1 else None
        for target in targets:
            if not any(target is t for t in outputs):
                mine = self._taints(func, first, target, taint, open_, site)
                self._attach(target, first, mine, prepared, void, void.flags(target))
        if steps is None:
            self.after(seen, out)
        return out

    def _of_points(
        self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], read: set[int], targets: list[torch.Tensor],
        prepared: bool,
    ) -> Any:  # fmt: skip
        """Run an operation that rounds nothing, on operands that came of kernels and are exact all the same."""
        out = func(*args, **kwargs)
        made = [t for t in tensors_of(out) if is_plain(t) and start_of(t) not in read]
        for tensor in (*made, *(t for t in targets if not any(t is m for m in made))):
            self._attach(tensor, Exact(), NO_TAINT, prepared)
        return out

    def _only_moves(self, target: torch.Tensor, source: torch.Tensor | None = None) -> bool:
        """Whether a copy rounds nothing, and takes nothing along but bounds."""
        if source is None or target.dtype != source.dtype or not (self.deferred or self.memory.knows_bounds()):
            return False
        if not (is_plain(target) and is_plain(source)):
            return False
        for t in (source, target):
            self.settle(t)
        return target.numel() > 0 and self.memory.may_copy(target, source)

    def copy(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run such a copy."""
        out = func(*args, **kwargs)
        self.memory.copied(args[0], args[1])
        self.memory.read_by_host(args[1])
        self.followed += 1
        if start_of(args[1]) in self._prepared:
            self._prepared.add(start_of(args[0]))
        return out

    def known(self, tensor: torch.Tensor) -> dict[int, Envelope]:
        found = self.memory.host_envelope(tensor)
        return {} if found is None else {id(tensor): found}

    def _taints(
        self, func: Any, one: Found, tensor: torch.Tensor, taint: frozenset[int], open_: bool, site: HostSite | None
    ) -> frozenset[int]:
        """Those of the operands, and one of its own for a result that no rule bounds.

        `open_`: some operand is not exact; of operands that are, integers come out as they are.
        """
        if isinstance(one, (Bounds, Exact)) or not (open_ or (site is not None and is_coarse(tensor))):
            return taint
        name = func._schema.name
        message = f"host operation {name} has no rule"
        return taint | {self.memory.taint("RND302", name, site or host_site(), message)}  # type: ignore[arg-type]

    def concerned(self, op: OverloadRule, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether any operand has bounds, or waits for them, or is to be overwritten before another's are computed."""
        known, waiting = self.memory.knows_bounds(), bool(self.deferred)
        if not known and not waiting:
            return False
        for x in (*args, *kwargs.values()):
            for t in x if isinstance(x, (list, tuple)) else (x,):
                if not isinstance(t, torch.Tensor) or not is_plain(t):
                    continue
                if waiting and (self.deferred.made(t) or (op.written and self.deferred.reads(t))):
                    return True
                if known and self.memory.is_known(t):
                    return True
        return False

    def _may_wait(self, op: OverloadRule, reads: dict[int, torch.Tensor], rounds: Format | None) -> bool:
        """Whether the bounds of the results may be computed when they are asked for: inputs alone go into them."""
        if not self.lazy or op.written or not (op.name in RULES or op.opaque) or not self.memory.interval:
            return False
        if rounds is None and not op.opaque and not any(self.deferred.made(t) for t in reads.values()):
            return False
        return not any(self.memory.is_known(t) for t in reads.values())

    def _defer(
        self, func: Any, op: OverloadRule, args: tuple[Any, ...], kwargs: dict[str, Any],
        reads: dict[int, torch.Tensor], rounds: Format | None,
    ) -> Any:  # fmt: skip
        """Run the operation; its bounds come later."""
        site = host_site() if rounds is None else self._note(op, rounds)
        out = func(*args, **kwargs)
        starts = {start_of(t) for t in reads.values()}
        for t in reads.values():
            self.memory.read_by_host(t)
        outputs = [t for t in tensors_of(out) if is_plain(t)]
        made = [
            Made.of(i, t)
            for i, t in enumerate(outputs)
            if t.numel() and start_of(t) not in starts and (not op.opaque or is_coarse(t))
        ]
        launches, shapes = self._launches, [tuple(t.shape) for t in outputs]

        def evaluate() -> None:
            known = {k: e for k, t in reads.items() if (e := self.memory.host_envelope(t)) is not None}
            self.followed += 1
            found = one_each(self._bounds_of(func, op, args, kwargs, known, site)[0], shapes)
            taint = NO_TAINT.union(*(e.taints for e in known.values()))
            open_ = any(is_wide(e) for e in known.values())
            for one in made:
                tensor = one.tensor()
                if tensor is not None:
                    result = found[one.place]
                    self._attach(tensor, result, self._taints(func, result, tensor, taint, open_, site), True)
                    if launches != self._launches:
                        self._prepared.discard(start_of(tensor))

        if made:
            self.deferred.add(reads.values(), made, evaluate)
        return out

    def settle(self, tensor: torch.Tensor) -> None:
        """Compute the bounds of what is pending of this tensor's storage."""
        if self.deferred:
            self._paused += 1
            try:
                with unrecorded():
                    self.deferred.settle(tensor)
            finally:
                self._paused -= 1

    def launched(self, arguments: Iterable[Any]) -> None:
        """A kernel ran with these arguments."""

    def before(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], known: dict[int, Envelope]) -> Any:
        """An operation is about to run; what this gives comes back to `after` with the result."""

    def after(self, seen: Any, out: Any) -> None:
        """The operation ran and its bounds are attached."""

    def _bounds_of(
        self, func: Any, op: OverloadRule, args: tuple[Any, ...], kwargs: dict[str, Any], known: dict[int, Envelope],
        site: HostSite | None,
    ) -> tuple[Result, list[torch.Tensor] | None]:  # fmt: skip
        """Bounds of the results by rule; None if there is none for these arguments. `site`: where it rounds.

        Beside them the results of torch's decomposition, if their bounds are those of its steps.
        """
        call = Call(func, args, kwargs, known, self.memory.profile)
        if site is not None or self.exact or any(is_wide(e) for e in known.values()):
            rule, found = RULES.get(op.name), None
            whole = op.name in ATEN and not ATEN[op.name].integers and open_integers(args, kwargs, known)
            if rule is not None and not whole and not op.opaque:
                with muted(self._muted_at(site or host_site())), quiet():
                    found = rule(call)
            if found is None and (op.opaque or op.cause) and not op.written and not whole:
                return self._decomposed(func, args, kwargs, site or host_site())
            if (
                not known
                and site is not None
                and any(isinstance(f, Bounds) and not np.array_equal(f.lo, f.hi) for f in each_result(found))
            ):
                self.causes.add((op.cause, site.file, site.line))
            return found, None
        return Exact(), None

    def _decomposed(
        self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], site: HostSite
    ) -> tuple[Result, list[torch.Tensor] | None]:
        """Bounds by the rules of the steps that torch itself writes the operation as; None without such steps."""
        steps = decomposition(func)
        if steps is None:
            return None, None
        before = self.lazy, self._paused, self._within
        self.lazy, self._paused, self._within = False, 0, self._within or site
        try:
            with self:
                out = steps(*args, **kwargs)
        except (NotImplementedError, RuntimeError, TypeError):  # these arguments have no such steps
            return None, None
        finally:
            self.lazy, self._paused, self._within = before
        outputs = [t for t in tensors_of(out) if is_plain(t)]
        found = [self.memory.host_envelope(t) for t in outputs]
        bounds = tuple(
            None if e is not None and e.taints - self._given_taints(args, kwargs)
            else Exact() if e is None or e.lo.shape != tuple(t.shape) else Bounds(e.lo, e.hi)
            for t, e in zip(outputs, found, strict=True)
        )  # fmt: skip
        return bounds, outputs

    def _given_taints(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> frozenset[int]:
        leaves = [t for t in tensors_of((args, kwargs)) if is_plain(t)]
        return NO_TAINT.union(*(e.taints for t in leaves if (e := self.memory.host_envelope(t)) is not None))

    def _note(self, op: OverloadRule, fmt: Format) -> HostSite:
        """Where an operation on inputs rounds; noted in `rounded`."""
        site = self._within or host_site()
        key = (op.cause, site.file, site.line)
        self.rounded[key] = max(fmt.u, self.rounded.get(key, 0.0))
        return site

    def _muted_at(self, site: HostSite) -> set[str]:
        return {m if isinstance(m, str) else m[0] for m in self.mute
                if isinstance(m, str) or (m[1], m[2]) == (site.file, site.line)}  # fmt: skip

    def _attach(
        self, tensor: Any, result: Found, taint: frozenset[int], prepared: bool, void: Void = WHOLE,
        lost: np.ndarray | None = None,
    ) -> None:  # fmt: skip
        """`prepared`: nothing but inputs went into it; `lost`: elements that were computed of nothing."""
        written = None if lost is None or not lost.any() else ~lost
        exact = isinstance(result, Exact) and written is None and not taint
        if prepared and exact and not self.memory.is_known(tensor):  # of inputs: a tensor like any other
            self.memory.host_write(tensor)
            return
        if prepared:
            self._prepared.add(start_of(tensor))
        if not isinstance(result, Bounds) or (tensor.dtype not in FORMAT_OF and tensor.dtype not in INTEGERS):
            self.memory.carry(tensor, None, None, taint, written, void.why)
            return
        lo, hi = result.lo, result.hi
        if prepared and not taint and self.memory.host_envelope(tensor) is None and np.array_equal(lo, hi):
            v = values(tensor)
            if np.array_equal(np.broadcast_to(lo, v.shape), v):  # nothing was rounded: a tensor like any other
                self.memory.host_write(tensor)
                return
        if not self.mute:  # the value that came out is legal by definition, whatever the rule says
            lo, hi = with_values(values(tensor), lo, hi)
        self.memory.carry(tensor, lo, hi, taint, written, void.why, fresh=not self.mute)
