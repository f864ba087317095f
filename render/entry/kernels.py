"""Kernels that a reference or a model launches itself, where it runs again with float64 beside it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

import numpy as np
import torch
from torch.utils._python_dispatch import _disable_current_modes
from triton.tools.tensor_descriptor import TensorDescriptor

from render.interpreter.arguments import KernelCall
from render.interpreter.builder import Builder
from render.interpreter.memory import MemoryFinding
from render.interpreter.no_gpu import Untracked, ValueSession
from render.interpreter.session import CAUSES, Session
from render.result.errors import RenderError, UnsupportedOp


class Beside(Protocol):
    """What runs float64 beside the operations of torch (`render.reference.shadow`)."""

    def value(self, x: torch.Tensor) -> torch.Tensor:
        """The float64 value of a tensor."""

    def error(self, x: torch.Tensor) -> torch.Tensor:
        """How far that may move."""

    def found(self, x: torch.Tensor, value: np.ndarray, error: np.ndarray, estimated: bool) -> None:
        """Something else than torch left this in a tensor."""


class _ByArguments(Builder):
    """Of kernels that reach nothing but what they are given."""

    def create_int_to_ptr(self, *args: Any) -> Any:
        at = self.ctx.site()
        raise UnsupportedOp("a pointer made of an integer", "in a module that is run in float64", at.file, at.line)


class ShadowedKernels(Session):
    """Launches over what their operands move: the middle of what comes out is the value that the float64 beside the run
    has of it, half its width how far it moves. What could not be followed is an estimate. `rounded`: as the target may
    round; else without any rounding. A kernel that makes pointers of integers is refused: what it reaches would be
    exact, with the roundings of its type.
    """

    def __init__(self, mode: Beside, device: str = "any", rounded: bool = False) -> None:
        super().__init__(
            device,
            mute=() if rounded else CAUSES,
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
        estimated = bool(envelope.taints)
        self.mode.found(x, middle, np.full_like(middle, np.inf) if estimated else half, estimated)


class ReferenceKernels(ValueSession):
    """Kernels of a reference as it is, for their values. Raises RenderError for one that uses memory it must not."""

    def __init__(self, device: str) -> None:
        super().__init__(device, redirect=False)
        self.launched = False

    def _launch(self, *launch: Any) -> None:
        self.launched = True
        super()._launch(*launch)

    def warned(self, finding: MemoryFinding) -> None:
        raise RenderError("RND902", f"the reference launches a kernel that is wrong: {finding.message}",
                          "a reference has to be right; `render classify` judges that kernel by itself")  # fmt: skip


def _storages(arguments: Iterable[Any]) -> dict[int, torch.Tensor]:
    """All that a kernel may reach from its arguments, whole: a view is where it begins, not where it ends."""
    found: dict[int, torch.Tensor] = {}
    for x in _tensors(arguments):
        storage = x.untyped_storage()
        if x.is_floating_point() and storage._cdata not in found:
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
