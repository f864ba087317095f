"""What is known of the results of host operations: by rule, through torch's own steps, later, and where it is kept.

The part of `HostTracker` (`render.interpreter.host`) that knows bounds; what host code does is seen there.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from interval_ops.formats.model import Format
from interval_ops.profiles.profile import CAUSES
from render.interpreter.arriving import Arrays, Brought
from render.interpreter.deferred import Deferred, Made
from render.interpreter.graphs import unrecorded
from render.interpreter.hosted.call import (
    Bounds,
    Call,
    Exact,
    Found,
    Missing,
    Result,
    each_result,
    is_wide,
    muted,
    one_each,
    open_integers,
    quiet,
    values,
)
from render.interpreter.hosted.decomposed import decomposition, room_beside
from render.interpreter.hosted.numbers import LeftNumbers
from render.interpreter.hosted.overloads import (
    OWN_ROOTS,
    HostSite,
    OverloadRule,
    host_site,
    is_coarse,
    is_plain,
    start_of,
    tensors_of,
)  # fmt: skip
from render.interpreter.hosted.products import on_cpu
from render.interpreter.hosted.table import RULES, SUMMED
from render.interpreter.hosted.unwritten import WHOLE, Void
from render.interpreter.lent import LentMemory
from render.interpreter.memory import Envelope
from render.interpreter.memory.integers import INTEGERS
from render.interpreter.memory.records import NO_TAINT
from render.interpreter.memory.shadow import with_values
from render.ops import single
from render.ops.aten import ATEN
from render.ops.dtypes import FORMAT_OF

if TYPE_CHECKING:
    from render.interpreter.memory import Memory

Cause = tuple[str, str, int]


def _is_of_nothing(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether all floats that go into an operation are empty tensors: what comes out is a constant (0, 1, NaN)."""
    floats = [t for t in tensors_of((args, kwargs)) if t.is_floating_point() or t.is_complex()]
    return bool(floats) and not any(t.numel() for t in floats)


class HostBounds(TorchDispatchMode):
    """`lazy`: what inputs alone go into gets its bounds when they are asked for."""

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
        self.open, self.shared = False, False
        """Within the scope; whether other threads came in."""
        self._within: HostSite | None = None
        """The line of an operation whose steps are run."""
        self.deferred = Deferred()
        memory.deferred = self.settle
        self._prepared: set[int] = set()
        self.lent = LentMemory()
        self.arrays: Arrays = []
        """What host code made of numbers from outside torch, as it was."""
        self.wide: Brought | None = None
        """Bounds that such a tensor is given (`Settings.brought`)."""
        choices = memory.choices
        otherwise = None if choices is None else lambda value: choices.truth(value, host_site())
        self.numbers = LeftNumbers(self._taint_at, lambda file: not file.startswith(OWN_ROOTS), otherwise)

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
        message = f"host operation {name} has no rule" + (f": {one.why}" if isinstance(one, Missing) else "")
        return taint | {self.memory.taint("RND302", name, site or host_site(), message)}  # type: ignore[arg-type]

    def concerned(self, op: OverloadRule, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether any operand has bounds, or waits for them, or is to be overwritten before another's are computed."""
        known, waiting = self.memory.knows_bounds(), bool(self.deferred)
        if not known and not waiting:
            return False
        for x in (*args, *kwargs.values()):
            for t in x if isinstance(x, (list, tuple)) else (x,):
                if not is_plain(t):
                    continue
                if waiting and (self.deferred.made(t) or (op.written and self.deferred.reads(t))):
                    return True
                if known and self.memory.is_known(t):
                    return True
        return False

    def _may_wait(
        self, op: OverloadRule, args: tuple[Any, ...], reads: dict[int, torch.Tensor], rounds: Format | None
    ) -> bool:
        """Whether the bounds of the results may be computed when they are asked for: inputs alone go into them.

        A product that torch's switches make another kernel of is judged while they stand.
        """
        if self.lent or not self.lazy or op.written or not (op.name in RULES or op.opaque) or not self.memory.interval:
            return False
        if rounds is None and not op.opaque and not any(self.deferred.made(t) for t in reads.values()):
            return False
        if any(self.memory.is_known(t) for t in reads.values()):
            return False
        return not (op.name in SUMMED and single.otherwise(op.name, args, on_cpu(self.memory.profile)))

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
        if _is_of_nothing(args, kwargs):
            return Exact(), None
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
        floats = {t.dtype for t in tensors_of((args, kwargs)) if t.is_floating_point()}
        steps = decomposition(func, len(floats) == 1 and floats.pop().itemsize == 2)
        if steps is None:
            return None, None
        before = self.lazy, self._paused, self._within
        self.lazy, self._paused, self._within = False, 0, self._within or site
        try:
            with self:
                out = steps(*args, **kwargs)
        except (
            NotImplementedError,
            RuntimeError,
            TypeError,
            IndexError,
            ValueError,
        ):  # no such steps of these arguments
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
        known = {id(t): e for t in tensors_of((args, kwargs)) if (e := self.memory.host_envelope(t)) is not None}
        first = bounds[0] if bounds else None
        if isinstance(first, Bounds):
            with muted(self._muted_at(site)):
                room = room_beside(Call(func, args, kwargs, known, self.memory.profile), first)
            if room is not None:
                bounds = (Bounds(first.lo - room, first.hi + room), *bounds[1:])
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
