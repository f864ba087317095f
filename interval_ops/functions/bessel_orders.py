"""Bessel functions of any order, J_n and Y_n, by mpmath at `PRECISION` bits: for the few arguments that need them.

Tested against Arb. mpmath's values are good to far more than float64; `LIBM` relative and 2^-100 absolute are granted.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from interval_ops.arithmetic import rule as arithmetic
from interval_ops.arithmetic.rule import FLOAT64_SLACK
from interval_ops.bounds import Array, Pair
from interval_ops.formats.model import Format
from interval_ops.functions.elementary import error_of
from interval_ops.functions.kernels import LIBM
from interval_ops.profiles.profile import MissingRule, Profile

PRECISION = 160
ONLY_ORDER = 128
"""The one order of J_n for which the vendor states an error."""

_TINY = 2.0**-100
_ENDS = 2.0**-50
"""Above the error of the ends of a chord, which are below 1."""
_LANDAU = 0.6748851
"""|J_n| <= 0.674885... n^(-1/3) (L. Landau, J. London Math. Soc. 61, 2000)."""
_SECOND_MOST, _SECOND_BEND = 0.9, 2.7


@cache
def _mp() -> Any:
    import mpmath

    context = mpmath.mp.clone()
    context.prec = PRECISION
    return context


@cache
def _one(second: bool, n: int, x: float) -> float:
    """J_n(x) or Y_n(x), rounded."""
    if math.isnan(x) or (second and x < 0):
        return math.nan
    if math.isinf(x):
        return 0.0
    if second and x == 0:
        return -math.inf
    context = _mp()
    return float((context.bessely if second else context.besselj)(n, context.mpf(x)))


def values(second: bool, n: Array, x: Array) -> Array:
    """J_n(x) or Y_n(x) element by element, in float64."""
    n, x = np.broadcast_arrays(n, x)
    found = [_one(second, int(k), float(v)) for k, v in zip(n.ravel(), x.ravel(), strict=True)]
    return np.array(found, np.float64).reshape(x.shape)


def first_kind(n: Array, x: Pair, fmt: Format, profile: Profile) -> Pair:
    """J_128(x). Raises MissingRule for other orders: no error of them is documented.

    Even in x and rising up to x = n; beyond, within w^2 / 16 of its chord over a width w, as |J_n''| <= 1/2 (the mean
    of a cosine times the square of a sine, DLMF 10.9.2), and never larger than Landau's bound.
    """
    if (n != ONLY_ORDER).any():
        raise MissingRule("jn", profile.name, f"the vendor states an error for n = {ONLY_ORDER} only")
    most = _LANDAU * ONLY_ORDER ** (-1 / 3)
    lo, hi = _range(False, n, arithmetic.abs_(x), np.float64(ONLY_ORDER), 0.5, most)
    return _spread((lo, hi), np.zeros(1), profile.fn("jn", fmt.name).beyond, "jn", fmt, profile)


def second_kind(n: Array, x: Pair, fmt: Format, profile: Profile) -> Pair:
    """Y_n(x), with top below 0 and where the vendor states no error.

    The vendor's error is ceil(2 + 2.5 n) ulp for x < n in fp32, absolute beyond. Monotone up to max(n, 1), before the
    first extremum (DLMF 10.21.3). From there on |Y_n| < 0.9, as sqrt(J^2 + Y^2) decreases in x (10.18.17) and its value
    at x = n is 0.8967 for n = 1 and smaller for others; |Y_n''| <= |Y_n'| / x + |Y_n| <= 2.7, as
    Y_n' = Y_(n-1) - (n / x) Y_n (10.6.2).
    """
    order = np.abs(n.astype(np.float64))
    lo, hi = _range(True, n, x, np.maximum(order, 1.0), _SECOND_BEND, _SECOND_MOST)
    error = profile.fn("yn", fmt.name)
    open_ = np.isnan(x[0]) | (x[0] < 0)
    steps: Array = np.zeros(1)
    beyond: Array = np.full(1, error.beyond)
    if not profile.muted("function") and error.until < math.inf:
        if fmt.bits == 64:
            open_ = open_ | (n < 0) | (x[0] <= 1.5 * order)
        else:
            open_ = open_ | (n < 0)
            steps = np.where(x[0] < order, np.ceil(2.0 + 2.5 * order), 0.0)
            beyond = np.where(x[1] < order, 0.0, error.beyond)
    lo, hi = _spread((lo, hi), steps, beyond, "yn", fmt, profile)
    zero = (x[0] < (fmt.min_normal if error.ftz and not profile.muted("function") else 0.0)) | (x[0] == 0)
    lo = np.where(zero, -np.inf, lo)
    return np.where(open_, np.nan, lo), np.where(open_, np.nan, hi)


def _range(second: bool, n: Array, x: Pair, knee: Any, bend: float, most: float) -> Pair:
    """Range over x >= 0 of a function that rises up to `knee` and has |f''| <= bend and |f| <= most from there on."""
    first, last = values(second, n, x[0]), values(second, n, x[1])
    start = np.clip(knee, x[0], x[1])
    middle = values(second, n, start)
    with np.errstate(invalid="ignore", over="ignore"):
        sag = np.where(x[1] > start, bend / 8 * (x[1] - start) ** 2 * (1 + 2.0**-40) + _ENDS, 0.0)
        under = np.maximum(np.minimum(middle, last) - sag, -most)
        over = np.minimum(np.maximum(middle, last) + sag, most)
    curved = sag > 0
    low = np.where(curved, np.minimum(first, under), np.minimum(first, last))
    high = np.where(curved, np.maximum(first, over), np.maximum(first, last))
    return low, high


def _spread(bounds: Pair, steps: Array, beyond: Any, name: str, fmt: Format, profile: Profile) -> Pair:
    """The error of our values and that of the target: `steps` ulp from the rounded value, or `beyond` from it."""
    lo, hi = _moved(bounds[0], LIBM, _TINY, True), _moved(bounds[1], LIBM, _TINY, False)
    if profile.muted("function"):
        return lo, hi
    r = fmt.u * (1.0 + 2.0 * steps) + FLOAT64_SLACK
    a = np.maximum(beyond, (steps + 0.5) * fmt.min_subnormal)
    lo, hi = _moved(lo, r, a, True), _moved(hi, r, a, False)
    flush = error_of(name, fmt, fmt, profile).flush
    lo, hi = np.where((lo > 0) & (lo < flush), 0.0, lo), np.where((hi < 0) & (hi > -flush), 0.0, hi)
    return np.where(lo < -fmt.max, -np.inf, lo), np.where(hi > fmt.max, np.inf, hi)


def _moved(x: Array, r: Any, a: Any, down: bool) -> Array:
    """x widened by r relative and a absolute; infinities stay."""
    with np.errstate(invalid="ignore", over="ignore"):
        size = np.where(np.isinf(x), 0.0, np.abs(x) * r + a)
        return x - size if down else x + size


Rule = Callable[[Array, Pair, Format, Profile], Pair]
RULES: dict[str, Rule] = {"jn": first_kind, "yn": second_kind}
