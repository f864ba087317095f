"""Times of a run that is repeated in its process, so that what only a first run pays is told apart.

The first run of a short kernel is mostly first use: memory that the process touches for the first time, code that is
read in. Both sides of a ratio are therefore taken twice: from first runs, and from further ones.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

SHORT_S = 2.0
"""Runs that take longer are not repeated: first use is a small part of them."""
TIMES = 3


def again(run: Callable[[], float], first: float | None) -> float | None:
    """The median of `TIMES` further runs; None where the first took longer than `SHORT_S`, or there was none.

    `run` does the work once more and returns what it took, in seconds of processor time, preparations left out.
    """
    if first is None or first > SHORT_S:
        return None
    return median(run() for _ in range(TIMES))
