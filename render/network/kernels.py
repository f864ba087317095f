"""Kernels that a model launches, where it is run again in float64 (`walks.ExactWalk`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import _disable_current_modes

from render.interpreter.arguments import KernelCall
from render.interpreter.no_gpu import Untracked
from render.interpreter.session import CAUSES, Session
from render.reference.shadow import ShadowMode, is_float


class ExactKernels(Session):
    """Launches without any rounding, over what their operands move: the middle of what comes out is the value that the
    float64 beside the run has of it, half its width how far it moves. What could not be followed is an estimate."""

    def __init__(self, mode: ShadowMode) -> None:
        super().__init__(
            "any", mute=CAUSES, redirect=False, tracker=lambda session: Untracked(), printer=lambda text: None
        )
        self.mode = mode

    def _launch(self, kernel: Any, grid: Any, call: KernelCall) -> None:
        with _disable_current_modes():
            given = [x for x in call.arguments.values() if isinstance(x, torch.Tensor) and is_float(x)]
            for x in given:
                value, moved = self.mode.value(x).detach().numpy(), self.mode.error(x).numpy()
                self.memory.carry(x, value - moved, value + moved, frozenset())
            super()._launch(kernel, grid, call)
            self.launches.clear()
            self.writers.clear()
            for x in given:
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
