"""How wide an accumulator must be: the variance retention ratio, and a simulator on the terms that a kernel sums.

The ratio needs neither torch nor triton; `swamping`, which runs a kernel, is imported when it is asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from render.companions.accumulation.retention import curve, lost, min_macc, safe_length, suitable, v, vrr
from render.companions.accumulation.simulate import Simulated, simulate_accumulator

if TYPE_CHECKING:
    from render.companions.accumulation.swamping import Swamping, swamping

__all__ = [
    "Simulated",
    "Swamping",
    "curve",
    "lost",
    "min_macc",
    "safe_length",
    "simulate_accumulator",
    "suitable",
    "swamping",
    "v",
    "vrr",
]


def __getattr__(name: str) -> Any:
    if name in ("Swamping", "swamping"):
        return getattr(import_module("render.companions.accumulation.swamping"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
