"""Does a device output belong to the inputs that were judged? A count for outputs that nobody recorded with them.

If the device had other inputs, its element y_i is as near to the interpreted value v_i as the other elements y_j are:
|y_i - v_i| is below the median of |y_j - v_i|, j != i, with probability 1/2. So the elements below it are counted, at
up to 2048 places. The output belongs to the inputs where so many would come by chance with a probability of at most
2^-20 (exact binomial tail), or, of fewer than 20 elements, where all are. Not compared are places where the two are
equal. An output of one and the same number, or of these numbers in other places (at least half of the sorted
values lie in the sorted bounds), is no output of other inputs either.
"""

from __future__ import annotations

import math

import numpy as np

from render.result.decision import Case

PLACES = 2048
CHANCE = 2.0**-20


def belongs(case: Case) -> bool:
    """Whether y_dev belongs to the values of the run, as far as a count can tell."""
    assert case.device is not None
    usable = np.isfinite(case.device).reshape(-1) & np.isfinite(case.value).reshape(-1)
    if usable.sum() < max(2, usable.size // 2) or np.ptp(case.device.reshape(-1)[usable]) == 0:
        return bool(usable.size > 1)
    if _in_other_places(case, usable):
        return True
    y, v = (np.asarray(x.reshape(-1)[usable], np.float64) for x in (case.device, case.value))
    rng = np.random.default_rng(0)
    at = np.arange(len(y)) if len(y) <= PLACES else rng.choice(len(y), PLACES, replace=False)
    own = np.abs(y[at] - v[at])
    others = np.array([np.median(np.abs(np.delete(y[at], k) - v[i])) for k, i in enumerate(at)])
    wins, count = int((own < others).sum()), int((own != others).sum())
    if not count:
        return False
    return wins == count if count < 20 else _tail(wins, count) <= CHANCE


def _tail(wins: int, count: int) -> float:
    """P(K >= wins) of `count` fair coins."""
    if wins <= count // 2:
        return 1.0
    total = sum(math.comb(count, k) for k in range(wins, count + 1))
    return float(total / 2**count) if count < 1000 else math.exp(_log(total) - count * math.log(2))


def _log(x: int) -> float:
    shift = max(x.bit_length() - 64, 0)
    return math.log(max(x >> shift, 1)) + shift * math.log(2)


def _in_other_places(case: Case, usable: np.ndarray) -> bool:
    inside = np.ones(int(np.count_nonzero(usable)), bool)
    y = _sorted(case.device, usable)
    inside &= y >= _sorted(case.lo, usable)
    inside &= y <= _sorted(case.hi, usable)
    return bool(2 * np.count_nonzero(inside) >= len(y))


def _sorted(x: np.ndarray | None, usable: np.ndarray) -> np.ndarray:
    """The usable numbers in order, of whatever type they are kept in: a copy for one end at a time."""
    assert x is not None
    found: np.ndarray = x.reshape(-1)[usable]
    found.sort()
    return found
