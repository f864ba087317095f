"""Memory between the steps of a large case."""

from __future__ import annotations

import contextlib
import gc
import platform
import resource
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from interval_ops.allocator import resident, spare

LARGE = 1 << 20
"""Elements of an output from which on memory is worth a collection of garbage."""


GROWN = 512 << 20
"""Bytes by which a process grows until everything that it holds is looked through."""


@dataclass
class _Aside:
    """How many scopes there are, whether one of them set objects aside, and the size of the process when all of it was
    last looked through."""

    scopes: int = 0
    mine: bool = False
    looked_through: int = 0


_aside, _lock = _Aside(), threading.Lock()


@contextlib.contextmanager
def older_left_alone() -> Iterator[None]:
    """Inside, garbage is looked for among what was made inside: all else that the process holds, hundreds of thousands
    of objects once torch is imported, takes longer to look through than many a run.

    The outermost scope sets it aside, and gives it back. Where somebody set objects aside before, theirs are enough.
    What is garbage by then stays meanwhile, so that all is looked through once the process has grown.
    """
    with _lock:
        _aside.scopes += 1
        if _aside.scopes == 1 and not gc.get_freeze_count():
            _look_through_if_grown()
            gc.freeze()
            _aside.mine = True
    try:
        yield
    finally:
        with _lock:
            _aside.scopes -= 1
            if _aside.scopes == 0 and _aside.mine:
                gc.unfreeze()
                _aside.mine = False


def _look_through_if_grown() -> None:
    if resident() > _aside.looked_through + GROWN:
        gc.collect()
        _aside.looked_through = resident()
    _aside.looked_through = min(_aside.looked_through, resident())


def free_runs(outputs: Iterable[np.ndarray]) -> None:
    """Collects what further runs of a large case left behind: their sessions refer to themselves."""
    if any(x.size >= LARGE for x in outputs):
        gc.collect()
        spare()


def peak_mb() -> float:
    """Highest resident size of this process so far, as the system counts it, in MB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if platform.system() == "Darwin" else 1024)
