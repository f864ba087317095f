"""Follows host code between kernel launches: allocations, overwrites, and what is computed from kernel results.

Host operations are seen by dispatch, below autograd and above the CPU kernels. Operations with a rule carry bounds
(`render.interpreter.hosted`); any other that reads a bounded element taints what it returns (RND302), so that a step
without a rule never turns an interval into a silent point.

What the host computes from plain inputs before a launch rounds as well: a wrapper that casts its operands to float16
has made the same error as a kernel that does. Where there is a rule the result carries it. An operation without a rule
is followed through torch's own decomposition of it, which is what `torch.compile` executes; without one its result is
tainted. Random numbers and what the user hands in are points; so are constants that their type holds, others are the
hull of what is written and its rounding.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch._ops import HigherOrderOperator, OpOverload
from torch.utils._pytree import tree_flatten

from interval_ops.formats import casting
from interval_ops.formats.model import Format
from render.interpreter import arriving
from render.interpreter.graphs import unrecorded
from render.interpreter.host_bounds import HostBounds
from render.interpreter.hosted.call import (
    Exact,
    Result,
    is_wide,
    muted,
    one_each,
    values,
)
from render.interpreter.hosted.carried import Carried
from render.interpreter.hosted.decomposed import composed
from render.interpreter.hosted.given_numbers import GivenNumbers
from render.interpreter.hosted.numbers import Ends
from render.interpreter.hosted.overloads import (
    SHAPE_ONLY,
    HostSite,
    OverloadRule,
    called_so,
    draws,
    host_site,
    is_coarse,
    is_plain,
    is_sparse_among,
    operation,
    read_arguments,
    rounded_to,
    start_of,
    symbols_of,
    takes_in,
    taking_in,
    tensors_of,
    written_arguments,
)  # fmt: skip
from render.interpreter.hosted.table import RULES
from render.interpreter.hosted.truths import alike_for_all
from render.interpreter.hosted.unwritten import filled, of_nothing, void_of
from render.interpreter.lent import noticed
from render.interpreter.memory import Envelope
from render.interpreter.memory.host_side import EXACTLY
from render.interpreter.memory.records import NO_TAINT
from render.interpreter.threads import TURN
from render.ops.aten import Form, of_form
from render.ops.dtypes import FORMAT_OF
from render.ops.parts import in_parts

ALLOCATIONS = frozenset(["empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"])
_MADE = of_form(Form.MADE)
_COMBINING = frozenset(["index_put", "_index_put_impl", "put", "scatter"])
_PARTS = frozenset(["values", "_values"])
"""What gives the memory of a sparse tensor's elements, in which their bounds are known as any other's."""
_MOVED = frozenset(f"{start}{layout}" for start in ("to_sparse", "_to_sparse") for layout in
                   ("", "_csr", "_csc", "_bsr", "_bsc")) | frozenset([
    "to_dense", "_to_dense", "clone", "detach", "alias", "transpose", "t", "is_coalesced",
    "_sparse_compressed_tensor_unsafe", "_sparse_coo_tensor_unsafe", "_sparse_coo_tensor_with_dims_and_tensors",
    "sparse_compressed_tensor", "sparse_coo_tensor", "crow_indices", "col_indices", "ccol_indices", "row_indices",
    "indices", "_indices",
])  # fmt: skip
"""What moves elements into another layout, or tells where they are, and rounds nothing."""
_SAME = torch.ops.aten.clone.default
_COMPRESSED = (torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)


class HostTracker(HostBounds):
    """Use as a context manager around host code; `paused()` while a kernel runs."""

    def ends_of(self, tensor: torch.Tensor) -> Envelope | None:
        """What is known of a tensor that leaves torch."""
        if not is_plain(tensor) or not (self.memory.knows_bounds() or self.deferred):
            return None
        self.settle(tensor)
        return self.memory.host_envelope(tensor)

    def returned(self, value: Any, tensor: torch.Tensor, place: tuple[str, int] | None) -> None:
        """A function returned what is no tensor, of which one was made."""
        before, self._within = self._within, HostSite(*(place or ("<host>", 0)))
        try:
            with self.silent():
                arriving.returned(self, value, tensor)
        finally:
            self._within = before

    def _leaving(self, func: Any, tensor: torch.Tensor) -> Any:
        """One element becomes a Python number."""
        self.memory.read_by_host(tensor)
        found, value = self.ends_of(tensor), func(tensor)
        if found is not None:
            v = float(value) if not isinstance(value, complex) else 0.0
            lo, hi = (float(e.reshape(-1)[0]) if e.size else v for e in (found.lo, found.hi))
            self.numbers.leave(value, Ends(lo, hi, found.taints | self._of_nothing(func, [tensor])))
        return value

    def _asked(self, func: Any, op: OverloadRule, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Whether two tensors are the same, or nearly: a truth value that host code may go on by."""
        found = func(*args, **kwargs)  # the user's call
        if self.concerned(op, args, kwargs):
            sides = [values(t).astype(np.float64) for t in args[:2]]
            known = [self.ends_of(t) for t in args[:2]]
            boxes = [(v, v) if e is None else (e.lo, e.hi) for v, e in zip(sides, known, strict=True)]
            taint = NO_TAINT.union(*(e.taints for e in known if e is not None))
            if taint or not alike_for_all(op.name, boxes, found, *args[2:], **kwargs):
                self.numbers.goes(Ends(0.0, 1.0, taint), None, Carried.FLOAT, sys._getframe(1))
        return found

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
            self.memory.read_by_host(t)
        known = {id(t): e for t in tensors if (e := self.memory.host_envelope(t)) is not None}
        taint = NO_TAINT.union(*(e.taints for e in known.values()), *(e.taint for e in ends.values()))
        taint |= self._of_nothing(func, [t for t in tensors if not any(t is x for x in targets)])
        given = GivenNumbers.of(func, args, kwargs, ends, tensors, known, self.memory.profile)
        seen = self.before(func, given.args, given.kwargs, given.known)
        result = self._bounds_by_numbers(op, given)
        out = func(*args, **kwargs)  # the user's call
        self.followed += 1
        outputs = [t for t in tensors_of(out) if is_plain(t)]
        outputs += [t for t in targets if not any(t is o for o in outputs)]
        for tensor, one in zip(outputs, one_each(result, [tuple(t.shape) for t in outputs]), strict=True):
            self._attach(tensor, one, self._taints(func, one, tensor, taint, True, host_site()), False)
        self.after(seen, out)
        return out

    def _bounds_by_numbers(self, op: OverloadRule, given: GivenNumbers) -> Result:
        """Bounds of the results of an operation on numbers that left torch; None without a rule."""
        with muted(self._muted_at(host_site())):
            return None if op.opaque and op.name in RULES else given.bounds(op.name, self.memory.profile)

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        TURN.acquire()
        noticed(self)
        self._paused += 1
        self._launches += 1
        self._prepared.clear()
        try:
            with unrecorded():
                yield
        finally:
            self.lent.refresh()
            self._paused -= 1
            TURN.release()

    @in_parts
    def __torch_dispatch__(
        self, func: Any, types: Sequence[Any], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if type(func) is not OpOverload and isinstance(func, HigherOrderOperator):
            return self._unseen(func, args, kwargs)
        op = operation(func)
        if (
            op.view and not self._within and getattr(args[0], "layout", None) == torch.strided
        ):  # most of what a loop over a tensor does, and nothing to follow
            out = func(*args, **kwargs)  # the user's call
            if self.numbers and op.name == "lift_fresh" and not self._paused and not self.numbers.making:
                arriving.made_of_numbers(self, out)
            return out
        if self.lent and not self._paused:
            noticed(self)
            try:
                return self._locked(func, op, args, dict(kwargs))
            finally:
                with self.silent():
                    self.lent.refresh()
        return self._locked(func, op, args, dict(kwargs))

    def _unseen(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """An operation of functions, which run where nobody sees what they do; launches are seen by themselves."""
        out = func(*args, **kwargs)  # the user's call
        given = [t for t in tensors_of((args, kwargs)) if is_plain(t)]
        if not func.name().startswith("triton_kernel") and any(self.memory.is_known(t) for t in given):
            message = f"host operation {func.name()} has no rule"
            taint = self.memory.taint("RND302", func.name(), host_site(), message)  # type: ignore[arg-type]
            for tensor in (t for t in tensors_of(out) if is_plain(t) and not any(t is g for g in given)):
                self._attach(tensor, None, frozenset([taint]), False)
        return out

    def _locked(self, func: Any, op: OverloadRule, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self.shared:
            with TURN:
                return self._dispatched(func, op, args, kwargs)
        return self._dispatched(func, op, args, kwargs)

    def __exit__(self, *exc: Any) -> None:
        noticed(self)
        super().__exit__(*exc)

    def _dispatched(self, func: Any, op: OverloadRule, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._paused:
            return func(*args, **kwargs)  # the user's call
        if op.name == "_local_scalar_dense":
            return self._leaving(func, args[0])
        if op.name in ("equal", "allclose"):
            return self._asked(func, op, args, kwargs)
        if self._within and composed(func):  # below autograd these arrive whole
            with self:
                return func.decompose(*args, **kwargs)  # the user's call
        if "sparse" in op.name or is_sparse_among(args):
            return self._of_sparse(func, op, args, kwargs)
        if op.view:
            return func(*args, **kwargs)  # the user's call
        if op.name in ("set", "resize"):
            return arriving.moved_to(self, func, args, kwargs)
        if op.name in _COMBINING:
            accumulate = (len(args) > 3 and args[3] is True) or bool(kwargs.get("accumulate", False))
            if accumulate or "reduce" in kwargs:
                op = called_so(op, accumulate)
        if self.numbers and (ends := self._numbers_in(args, kwargs)):
            return self._of_numbers(func, op, args, kwargs, ends)
        if op.name in ALLOCATIONS:
            out = func(*args, **kwargs)  # the user's call
            if is_plain(out) and "out" not in kwargs:
                self.memory.mark_unwritten(out)
            return self._placed(op, out)
        taken = takes_in(func, op, args, kwargs) if op.takes_in and self.memory.interval else None
        if taken is not None:
            self.memory.symbols |= symbols_of(func, op, args, kwargs)
            op = taking_in(op)
        if op.name in SHAPE_ONLY and not op.written and taken is None:
            return self._placed(op, func(*args, **kwargs))  # the user's call
        if op.name == "copy" and self.lazy and self._only_moves(*args[:2]):
            return self.copy(func, args, kwargs)
        if op.name in ("copy", "clone") and not args[0].is_floating_point() and self.concerned(op, args, kwargs):
            copied = arriving.copy_bytes(self, func, args, kwargs)
            if copied is not None:
                return copied
        rounds = taken or (rounded_to(op, args, kwargs) if op.cause else None)
        if rounds is None and not op.opaque and not self.concerned(op, args, kwargs):
            return self._placed(op, self._overwriting(func, args, kwargs, written_arguments(op, args, kwargs)))
        return self._placed(op, self._follow(func, op, args, kwargs, rounds))

    def _of_sparse(self, func: Any, op: OverloadRule, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an operation that takes or gives sparse tensors: exact where it moves exact elements, else without rule.

        Several elements at one place (a tensor that is not coalesced) would be added.
        """
        given, moves = (
            self._dense((args, kwargs)),
            op.name in _MOVED or (op.name == "_to_copy" and _widens(args, kwargs)),
        )
        moved = moves and not any(map(self._is_open, given))
        with self.silent():
            single = all(t.is_coalesced() for t in tensors_of(args) if t.layout == torch.sparse_coo)
        exact = op.name in _PARTS or (moved and (single or "dense" not in op.name))
        before = {start_of(t) for t in given} if moves else set()
        out = func(*args, **kwargs)  # the user's call
        made = (t for t in self._dense(out) if is_coarse(t) and start_of(t) not in before)
        for tensor in () if exact else made:
            name = func._schema.name
            message = f"host operation {name} on sparse tensors has no rule"
            taint = self.memory.taint("RND302", name, host_site(), message)  # type: ignore[arg-type]
            self._attach(tensor, None, frozenset([taint]), False)
        return out

    def _dense(self, x: Any) -> list[torch.Tensor]:
        """The plain tensors among these, and the elements of sparse ones."""
        with self.silent():
            parts = [t._values() if t.layout == torch.sparse_coo else t.values() if t.layout in _COMPRESSED else t
                     for t in tensors_of(x)]  # fmt: skip
        return [t for t in parts if is_plain(t)]

    def _is_open(self, tensor: torch.Tensor) -> bool:
        self.settle(tensor)
        found = self.memory.host_envelope(tensor)
        return found is not None and (bool(found.taints) or is_wide(found))

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
        reads = {id(t): t for t in read_arguments(op, args, kwargs)}
        if self._may_wait(op, args, reads, rounds):
            return self._defer(func, op, args, kwargs, reads, rounds)
        if self.deferred:
            for t in (*reads.values(), *targets):
                self.settle(t)
        known = {k: e for k, t in reads.items() if (e := self.memory.host_envelope(t)) is not None}
        for k in known:
            self.memory.read_by_host(reads[k])
        site = host_site() if op.opaque else None if known or rounds is None else self._note(op, rounds)
        if not known and (site is None or not self.memory.interval):
            return self._overwriting(func, args, kwargs, targets)
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
        drawn = torch.get_rng_state() if self.memory.choices is not None and draws(func) else None
        out = func(*args, **kwargs)  # the user's call
        outputs = [t for t in tensors_of(out) if is_plain(t)]
        found = one_each(result, [tuple(t.shape) for t in outputs])
        if self.memory.choices is not None and steps is None:
            with self.silent():
                place = site or host_site()
                found = tuple(self.memory.choices.taken(func, args, kwargs, known, outputs, found, place, drawn))
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

    def _overwriting(
        self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], targets: Sequence[torch.Tensor]
    ) -> Any:
        """Run an operation on what is exact, whose results may take the place of elements with bounds."""
        out = func(*args, **kwargs)  # the user's call
        for target in targets:
            self.memory.host_write(target)
        return out

    def _of_points(
        self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], read: set[int], targets: list[torch.Tensor],
        prepared: bool,
    ) -> Any:  # fmt: skip
        """Run an operation that rounds nothing, on operands that came of kernels and are exact all the same."""
        out = func(*args, **kwargs)  # the user's call
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
        out = func(*args, **kwargs)  # the user's call
        self.memory.copied(args[0], args[1])
        self.memory.read_by_host(args[1])
        self.followed += 1
        if start_of(args[1]) in self._prepared:
            self._prepared.add(start_of(args[0]))
        return out


def _widens(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a copy has the type of its operand, or one that holds all its numbers."""
    before, after = args[0].dtype, kwargs.get("dtype") or args[0].dtype
    known = before in FORMAT_OF and after in FORMAT_OF
    return before == after or (known and casting.holds(FORMAT_OF[after], FORMAT_OF[before]))
