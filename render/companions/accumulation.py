"""How wide an accumulator must be: the variance retention ratio, and a simulator on the terms that a kernel sums.

The ratio needs neither torch nor triton; `swamping`, which runs a kernel, is imported when it is asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from render.trace.accumulation.retention import curve, lost, min_macc, safe_length, suitable, v, vrr
from render.trace.accumulation.simulate import Simulated, simulate_accumulator

if TYPE_CHECKING:
    from render.trace.accumulation.swamping import Swamping, of_run, swamping

__all__ = [
    "Simulated",
    "Swamping",
    "curve",
    "lost",
    "min_macc",
    "of_run",
    "safe_length",
    "simulate_accumulator",
    "suitable",
    "swamping",
    "v",
    "vrr",
]


def __getattr__(name: str) -> Any:
    if name in ("Swamping", "of_run", "swamping"):
        return getattr(import_module("render.trace.accumulation.swamping"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
