"""What a margin around a number supports. The one place that turns margins into evidence.

A margin [lo, hi] around a finite number is *proved* (a running error bound in which every step has a rule, or ball
arithmetic), *estimated* (a step of it could only be sampled, or was assumed), or *unknown* (an end is infinite or NaN:
whatever made it so). An unknown margin supports nothing; an estimated one supports no accusation; one as large as what
it is to explain is no evidence either.
"""

from __future__ import annotations

import math

import numpy as np

SIGMA = 6.0
"""Standard deviations of a probabilistic band; a choice."""
SMALL = 1 / 16
"""A margin is small beside what it is to explain up to this part of it."""


def probable(variance: float, mean: float = 0.0) -> float:
    """Half width of the probabilistic band of a sum of roundings: the one formula of all that carry this label.

    `variance` = sum w_i^2 s_i^2 over roundings taken as independent (e^2 / 3 each where only |error| <= e is known),
    `mean`: what is no chance, with its sign or as a bound. An estimate: it proves nothing, and nothing that is outside
    a bound is round-off by it. Source of the model: Higham and Mary, SIAM J. Sci. Comput. 41(5), 2019.
    """
    return SIGMA * math.sqrt(variance) + abs(mean)


def known(reach: np.ndarray) -> np.ndarray:
    found: np.ndarray = np.isfinite(reach)
    return found


def clear(lo: np.ndarray, hi: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Where a known [lo, hi] lies outside of [low, high] altogether; an end that is NaN excludes nothing."""
    with np.errstate(invalid="ignore"):
        found: np.ndarray = np.isfinite(lo) & np.isfinite(hi) & ((hi < low) | (lo > high))
    return found


def held(lo: np.ndarray, hi: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Where a known [lo, hi] lies in [low, high]."""
    with np.errstate(invalid="ignore"):
        found: np.ndarray = np.isfinite(lo) & np.isfinite(hi) & (lo >= low) & (hi <= high)
    return found


def small(reach: np.ndarray, beside: np.ndarray) -> np.ndarray:
    """Where `reach` is known and a small part of `beside`: only there does agreement within it say anything."""
    with np.errstate(invalid="ignore"):
        found: np.ndarray = np.isfinite(reach) & ((reach <= SMALL * beside) | (reach == 0))
    return found
