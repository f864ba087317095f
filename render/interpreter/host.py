"""Follows host code between kernel launches: allocations, overwrites, and what is computed from kernel results.

Host operations are seen by dispatch, below autograd and above the CPU kernels. Data movements and simple arithmetic
carry bounds (`host_rules`); every other operation that reads a bounded element taints what it returns (RND302), so that
a host-side step without a rule never turns an interval into a silent point.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

from render.interpreter.cuda_redirect import cuda_on_cpu
from render.interpreter.host_rules import MOVES, RULES, Bounds, Exact, moved_flags, values
from render.interpreter.memory import Envelope
from render.interpreter.memory.records import NO_TAINT
from render.interpreter.memory.strided import FORMAT_OF

if TYPE_CHECKING:
    from render.interpreter.memory import Memory

__all__ = ["HostTracker", "cuda_on_cpu"]

_ALLOCATIONS = {
    "aten::empty", "aten::empty_like", "aten::empty_strided", "aten::empty_permuted", "aten::new_empty",
    "aten::new_empty_strided",
}  # fmt: skip
_SHAPE_ONLY = {
    f"aten::{name}" for name in ("zeros_like", "ones_like", "full_like", "rand_like", "randn_like", "randint_like",
                                 "new_zeros", "new_ones", "new_full")
}  # fmt: skip
"""Operations that take a tensor for its shape and dtype."""
_OWN_ROOTS = (
    os.path.dirname(torch.__file__) + os.sep, os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep,
    "<",
)  # fmt: skip
_COPIES = {"aten::copy_", "aten::_to_copy"}
_OVERWRITES = {"aten::zero_", "aten::fill_", "aten::normal_", "aten::uniform_", "aten::random_", "aten::bernoulli_",
               "aten::exponential_", "aten::set_", "aten::resize_"}  # fmt: skip
"""In-place operations that do not read what they overwrite."""


@dataclass(frozen=True, slots=True)
class HostSite:
    """The line of host code that asked for an operation."""

    file: str
    line: int


def host_site() -> HostSite:
    """Innermost frame outside torch and this package."""
    frame = sys._getframe(1)
    while frame is not None:
        path = frame.f_code.co_filename
        if not path.startswith(_OWN_ROOTS):
            return HostSite(path, frame.f_lineno)
        frame = frame.f_back  # type: ignore[assignment]
    return HostSite("<host>", 0)


class HostTracker(TorchDispatchMode):
    """Use as a context manager around host code; `paused()` while a kernel runs."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Torch would import its whole compiler to keep it away from this mode; nothing is compiled here."""
        return False

    def __init__(self, memory: Memory) -> None:
        super().__init__()
        self.memory = memory
        self.followed = 0
        """Operations so far that read elements with bounds."""
        self._paused = 0

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        self._paused += 1
        try:
            yield
        finally:
            self._paused -= 1

    def __torch_dispatch__(
        self, func: Any, types: Sequence[Any], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if self._paused:
            return func(*args, **kwargs)
        name = func._schema.name
        if name in _ALLOCATIONS:
            out = func(*args, **kwargs)
            if _plain(out) and "out" not in kwargs:
                self.memory.mark_unwritten(out)
            return out
        if name in _SHAPE_ONLY:
            return func(*args, **kwargs)
        if not self.memory.knows_bounds():
            out = func(*args, **kwargs)
            for target in _written_arguments(func, args, kwargs):
                self.memory.host_write(target)
            return out
        return self._follow(func, name, args, kwargs)

    def _follow(self, func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an operation that may read or overwrite elements with bounds."""
        targets = _written_arguments(func, args, kwargs)
        leaves, _ = tree_flatten((args, kwargs))
        skip = {id(t) for t in targets} if name in _OVERWRITES or name == "aten::copy_" else {
            id(t) for k, t in kwargs.items() if k == "out" or k.startswith("out")
        }  # fmt: skip
        reads = {id(t): t for t in leaves if _plain(t) and id(t) not in skip}
        move = name in MOVES or name in _COPIES
        known = {k: e for k, t in reads.items() if (e := self.memory.host_envelope(t, move)) is not None}
        before = {_start(t) for t in reads.values()}
        if not known:
            out = func(*args, **kwargs)
            for target in targets:
                self.memory.host_write(target)
            return out
        self.followed += 1
        result = self._bounds_of(func, args, kwargs, known)
        seen = self.before(func, args, kwargs, known)
        out = func(*args, **kwargs)
        taint = NO_TAINT.union(*(e.taints for e in known.values()))
        if result is None and any(_wide(e) for e in known.values()):
            message = f"host operation {name} on a kernel result has no rule"
            taint |= {self.memory.taint("RND302", name, host_site(), message)}  # type: ignore[arg-type]
        outputs = [t for t in tree_flatten(out)[0] if _plain(t)]
        written = {id(t) for t in targets}
        for tensor in outputs:
            # A view of an input shares its memory, and with it everything that is known about it.
            if id(tensor) in written or _start(tensor) not in before:
                self._attach(tensor, result, taint)
        for target in targets:
            if not any(target is t for t in outputs):
                self._attach(target, result, taint)
        self.after(seen, out)
        return out

    def before(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], known: dict[int, Envelope]) -> Any:
        """An operation is about to run; what this gives comes back to `after` with the result."""

    def after(self, seen: Any, out: Any) -> None:
        """The operation ran and its bounds are attached."""

    def _bounds_of(
        self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], known: dict[int, Envelope]
    ) -> Bounds | Exact | None:
        """Bounds of the result by rule; None if there is no rule for these arguments."""
        name = func._schema.name
        if any(_wide(e) for e in known.values()):
            rule = RULES.get(name)
            return None if rule is None else rule(func, args, kwargs, known)
        if name not in MOVES and name not in _COPIES:
            return Exact()
        if name in _COPIES:
            written = next(iter(known.values())).written
            return Exact(None if written.all() else written)
        return Exact(moved_flags(func, args, kwargs, known))

    def _attach(self, tensor: Any, result: Bounds | Exact | None, taint: frozenset[int]) -> None:
        written = None if result is None else result.written
        if not isinstance(result, Bounds) or tensor.dtype not in FORMAT_OF:
            self.memory.carry(tensor, None, None, taint, written)
            return
        # The value that came out is legal by definition, whatever the rule says.
        v = values(tensor).astype(np.float64, copy=False)
        lo, hi = np.minimum(result.lo, v), np.maximum(result.hi, v)
        self.memory.carry(tensor, lo, hi, taint, written)


def _plain(t: Any) -> bool:
    """A dense CPU tensor with memory of its own or of a base."""
    return isinstance(t, torch.Tensor) and t.layout == torch.strided and t.device.type == "cpu" and not _functional(t)


def _functional(t: torch.Tensor) -> bool:
    return type(t) is not torch.Tensor and not isinstance(t, torch.nn.Parameter)


def _start(t: torch.Tensor) -> int:
    return t.untyped_storage().data_ptr()


def _wide(e: Envelope) -> bool:
    return e.lo is not e.hi and not np.array_equal(e.lo, e.hi)


def _written_arguments(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[torch.Tensor]:
    """Tensors that the operation's schema says it writes."""
    out: list[torch.Tensor] = []
    if not func._schema.is_mutable:
        return out
    for i, argument in enumerate(func._schema.arguments):
        if argument.alias_info is None or not argument.alias_info.is_write:
            continue
        value = args[i] if i < len(args) else kwargs.get(argument.name)
        out += [t for t in tree_flatten(value)[0] if _plain(t)]
    return out
