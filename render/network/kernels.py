"""Kernels that a model launches, where it is run again in float64 (`walks.ExactWalk`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import _disable_current_modes
from triton.tools.tensor_descriptor import TensorDescriptor

from render.interpreter.arguments import KernelCall
from render.interpreter.builder import Builder
from render.interpreter.no_gpu import Untracked
from render.interpreter.session import CAUSES, Session
from render.reference.shadow import ShadowMode, is_float
from render.result.errors import UnsupportedOp


class _ByArguments(Builder):
    """Of kernels that reach nothing but what they are given."""

    def create_int_to_ptr(self, *args: Any) -> Any:
        at = self.ctx.site()
        raise UnsupportedOp("a pointer made of an integer", "in a module that is run in float64", at.file, at.line)


class ExactKernels(Session):
    """Launches without any rounding, over what their operands move: the middle of what comes out is the value that the
    float64 beside the run has of it, half its width how far it moves. What could not be followed is an estimate. A
    kernel that makes pointers of integers is refused: what it reaches would be exact, with the roundings of its type.
    """

    def __init__(self, mode: ShadowMode) -> None:
        super().__init__(
            "any",
            mute=CAUSES,
            redirect=False,
            tracker=lambda session: Untracked(),
            printer=lambda text: None,
            builder=_ByArguments,
        )
        self.mode = mode

    def _launch(self, kernel: Any, grid: Any, call: KernelCall) -> None:
        with _disable_current_modes():
            given = _storages(call.arguments.values())
            for x in given.values():
                value, moved = self.mode.value(x).detach().numpy(), self.mode.error(x).numpy()
                self.memory.carry(x, value - moved, value + moved, frozenset())
            super()._launch(kernel, grid, call)
            self.launches.clear()
            self.writers.clear()
            for x in given.values():
                self._made(x)

    def _made(self, x: torch.Tensor) -> None:
        envelope = self.envelope(x, take=True)
        if envelope is None:
            return
        lo, hi = (np.broadcast_to(np.asarray(end, np.float64), tuple(x.shape)) for end in (envelope.lo, envelope.hi))
        with np.errstate(all="ignore"):
            middle, half = 0.5 * lo + 0.5 * hi, 0.5 * hi - 0.5 * lo
        if envelope.taints:
            half, self.mode.estimated = np.full_like(middle, np.inf), True
        self.mode.shadows.put(x, torch.from_numpy(middle), torch.from_numpy(half))


def _storages(arguments: Iterable[Any]) -> dict[int, torch.Tensor]:
    """All that a kernel may reach from its arguments, whole: a view is where it begins, not where it ends."""
    found: dict[int, torch.Tensor] = {}
    for x in _tensors(arguments):
        storage = x.untyped_storage()
        if is_float(x) and storage._cdata not in found:
            found[storage._cdata] = torch.empty(0, dtype=x.dtype).set_(storage)  # type: ignore[arg-type]
    return found


def _tensors(arguments: Iterable[Any]) -> Iterator[torch.Tensor]:
    """Those among arguments, in tuples, and behind descriptors and other objects that point somewhere."""
    for x in arguments:
        if isinstance(x, torch.Tensor):
            yield x
        elif isinstance(x, tuple | list):
            yield from _tensors(x)
        elif isinstance(x, TensorDescriptor) or callable(getattr(x, "data_ptr", None)):
            yield from _tensors(getattr(x, "__dict__", {}).values())
