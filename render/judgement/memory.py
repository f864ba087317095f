"""Memory between the steps of a large case."""

from __future__ import annotations

import gc
import platform
import resource
from collections.abc import Iterable

import numpy as np

from interval_ops.allocator import spare

LARGE = 1 << 20
"""Elements of an output from which on memory is worth a collection of garbage."""


def free_runs(outputs: Iterable[np.ndarray]) -> None:
    """Collects what further runs of a large case left behind: their sessions refer to themselves."""
    if any(x.size >= LARGE for x in outputs):
        gc.collect()
        spare()


def peak_mb() -> float:
    """Highest resident size of this process so far, as the system counts it, in MB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if platform.system() == "Darwin" else 1024)
