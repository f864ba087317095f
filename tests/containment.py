"""Helpers of the interval tests: containment, operand pairs, samples. Knows nothing of the rules under test."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from support import random_values, round_fraction, special_values

from interval_ops.formats.model import Format

Pair = tuple[np.ndarray, np.ndarray]


def point(values: object) -> Pair:
    a = np.atleast_1d(np.asarray(values, np.float64))
    return a, a


def interval(lo: object, hi: object) -> Pair:
    return np.atleast_1d(np.asarray(lo, np.float64)), np.atleast_1d(np.asarray(hi, np.float64))


def well_formed(pair: Pair) -> None:
    """float64, ordered, and NaN only in both ends at once."""
    lo, hi = pair
    assert lo.dtype == np.float64 and hi.dtype == np.float64
    assert np.array_equal(np.isnan(lo), np.isnan(hi))
    assert np.all((lo <= hi) | np.isnan(lo)), (lo[~(lo <= hi)], hi[~(lo <= hi)])


def inside(pair: Pair, values: np.ndarray) -> np.ndarray:
    """Which float64 `values` lie in the interval; top (NaN) holds everything, nothing else holds NaN."""
    lo, hi = pair
    return np.isnan(lo) | ((lo <= values) & (values <= hi))


def assert_inside(pair: Pair, values: np.ndarray, *operands: np.ndarray) -> None:
    well_formed(pair)
    bad = ~inside(pair, np.asarray(values))
    if bad.any():
        i = np.flatnonzero(bad.ravel())[0]
        at = [np.broadcast_to(o, bad.shape).ravel()[i].item() for o in operands]
        lo, hi, v = (np.broadcast_to(x, bad.shape).ravel()[i].item() for x in (*pair, values))
        raise AssertionError(f"{bad.sum()} of {bad.size} outside; first: operands {at}, {v!r} not in [{lo!r}, {hi!r}]")


def holds(lo: float, hi: float, value: Fraction) -> bool:
    """Whether the exact rational lies in [lo, hi], ends possibly infinite; top holds it."""
    if math.isnan(lo):
        return True
    return (lo == -math.inf or Fraction(lo) <= value) and (hi == math.inf or value <= Fraction(hi))


def rounded(value: Fraction, fmt: Format) -> float:
    """Round-to-nearest of `fmt` with its overflow to infinity, from the exact value."""
    r = round_fraction(value, fmt)
    if abs(r) > Fraction(fmt.max):
        return math.inf if r > 0 else -math.inf
    return float(r)


def hard_values(generator: np.random.Generator, fmt: Format, n: int) -> np.ndarray:
    """`n` finite numbers of `fmt`: special ones, any exponent, and moderate ones that meet and cancel."""
    special = special_values(fmt)
    special = special[np.isfinite(special)]
    wide = random_values(generator, fmt, n)
    near = generator.integers(-64, 64, n) * 2.0 ** generator.integers(-4, 5, n)
    pool = np.stack([generator.choice(special, n), wide, near, generator.standard_normal(n)])
    out = pool[generator.integers(0, len(pool), n), np.arange(n)]
    return to_format(out, fmt)


def to_format(values: np.ndarray, fmt: Format) -> np.ndarray:
    """Nearest numbers of the format, clamped to its finite range; exact rational rounding for narrow formats."""
    values = np.clip(values, -fmt.max, fmt.max)
    if fmt.bits == 64:
        return values
    if fmt.bits == 32:
        return values.astype(np.float32).astype(np.float64)
    exponent = np.maximum(np.frexp(values)[1] - 1, fmt.emin)
    return np.clip(np.ldexp(np.rint(np.ldexp(values, fmt.p - 1 - exponent)), exponent - fmt.p + 1), -fmt.max, fmt.max)


def hard_intervals(generator: np.random.Generator, fmt: Format, n: int) -> Pair:
    """Intervals with ends in `fmt`: a third narrow, a third around 0 or a special value, the rest anything."""
    a = hard_values(generator, fmt, n)
    width = np.minimum(np.abs(a), fmt.max / 4) * 10.0 ** generator.uniform(-8, 0, n)
    b = np.where(generator.random(n) < 0.5, to_format(a * 0.5 + width, fmt), hard_values(generator, fmt, n))
    b = np.where(generator.random(n) < 0.1, a, b)
    return np.minimum(a, b), np.maximum(a, b)


def sample(generator: np.random.Generator, pair: Pair, fmt: Format) -> np.ndarray:
    """One number of `fmt` from each interval: an end, the middle, or a random place."""
    lo, hi = pair
    t = generator.choice([0.0, 0.5, 1.0], lo.shape)
    t = np.where(generator.random(lo.shape) < 0.5, generator.random(lo.shape), t)
    return np.clip(to_format(lo * (1 - t) + hi * t, fmt), lo, hi)
