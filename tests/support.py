"""Shared test material: trial counts, seeded generators, special values and the exact-rational rounding oracle.

Nothing here uses the code under test: values of a format are built from its parameters (p, emin, max) alone.
"""

from __future__ import annotations

import math
import os
from fractions import Fraction

import numpy as np

from interval_ops.formats.model import Format

MULTIPLIER_VARIABLE = "RENDER_TEST_MULTIPLIER"


def trials(n: int) -> int:
    """`n` random trials scaled by RENDER_TEST_MULTIPLIER (0.1 while editing, 1 in CI, 100 nightly), at least one."""
    return max(1, round(n * float(os.environ.get(MULTIPLIER_VARIABLE, "1"))))


def rng(seed: int) -> np.random.Generator:
    """A seeded generator; the seed is printed, so pytest shows it when the test fails."""
    print(f"rng seed: {seed}")
    return np.random.default_rng(seed)


def exact(x: object) -> Fraction:
    """The finite number `x` (float, int or numpy scalar) as an exact rational."""
    if isinstance(x, np.generic):
        x = x.item()
    if isinstance(x, float) and not math.isfinite(x):
        raise ValueError(f"{x} has no exact rational value")
    return Fraction(x)  # type: ignore[arg-type]


def _ladder(fmt: Format, exponents: list[int]) -> list[float]:
    """Powers of two with their neighbours in the format, as float64."""
    values = []
    for e in exponents:
        below = 2.0 ** (max(e - 1, fmt.emin) - fmt.p + 1)
        above = 2.0 ** (max(e, fmt.emin) - fmt.p + 1)
        values += [2.0**e - below, 2.0**e, 2.0**e + above]
    return values


def _exponents(fmt: Format, dense: bool) -> list[int]:
    bottom, top = fmt.emin - fmt.p + 1, math.frexp(fmt.max)[1] - 1
    if dense or top - bottom <= 64:
        return list(range(bottom, top + 1))
    middle = range(-4, 5)
    edges = {bottom, bottom + 1, bottom + 2, fmt.emin - 1, fmt.emin, fmt.emin + 1, top - 1, top}
    halves = {bottom // 2, fmt.emin // 2, top // 2}
    return sorted(edges | halves | set(middle) | {-24, -14, -10, 8, 10, 11, 15, 23, 24})


def special_values(fmt: Format, halfway: bool = False, dense: bool = False) -> np.ndarray:
    """Awkward values of `fmt` as float64, each exactly representable in it.

    Signed zeros, subnormals, powers of two and their neighbours, the largest finite values, and the infinities and NaN
    that the format has. `halfway=True` adds what a conversion *to* the format stumbles over (not representable in it):
    ties between neighbours, the float64 numbers next to them, the overflow threshold, and inf and NaN in any case.
    `dense=True` takes every power of two of a wide format instead of a selection.
    """
    ladder = _ladder(fmt, _exponents(fmt, dense))
    subnormal = [k * fmt.min_subnormal for k in (1, 2, 3, 5, 7)]
    ulp_max = 2.0 ** (math.frexp(fmt.max)[1] - fmt.p)
    positive = ladder + subnormal + [fmt.max - ulp_max, fmt.max, 3.0, 5.0, 0.75]
    values = np.array([v for v in positive if 0 < v <= fmt.max and _fits(v, fmt)])
    specials = [0.0, -0.0]
    if halfway:
        values = np.concatenate([values, _ties(values, fmt)])
    if fmt.has_inf or halfway:
        specials += [math.inf, -math.inf]
    if fmt.has_nan or halfway:
        specials.append(math.nan)
    return np.concatenate([np.unique(np.concatenate([values, -values])), specials])


def _fits(v: float, fmt: Format) -> bool:
    e = max(math.frexp(v)[1] - 1, fmt.emin)
    return exact(v) % exact(2.0 ** max(e - fmt.p + 1, -1074)) == 0


def _ties(values: np.ndarray, fmt: Format) -> np.ndarray:
    """Midpoints above each positive value of the format, and their float64 neighbours."""
    if fmt.p >= 53:
        return np.empty(0)
    exponents = np.maximum(np.frexp(values)[1] - 1, fmt.emin)
    middle = np.concatenate([values + np.ldexp(0.5, exponents - fmt.p + 1), [fmt.half_subnormal]])
    threshold = np.array([fmt.overflow_threshold, 2 * fmt.max])
    middle = np.concatenate([middle, threshold])
    return np.concatenate([np.nextafter(middle, 0), middle, np.nextafter(middle, np.inf)])


def round_fraction(x: Fraction, fmt: Format, mode: str = "rtne") -> Fraction:
    """`x` rounded to the precision and smallest exponent of `fmt`, with no largest exponent; exact rational arithmetic.

    Modes: rtne (ties to even), rna (ties away), rtz, rd, ru. The spacing is 2**(max(floor(log2 |x|), emin) - p + 1).
    """
    if x == 0:
        return x
    e = abs(x.numerator).bit_length() - x.denominator.bit_length()
    if abs(x) < Fraction(2) ** e:
        e -= 1
    ulp = Fraction(2) ** (max(e, fmt.emin) - fmt.p + 1)
    down = x / ulp // 1
    rest = x / ulp - down
    if mode == "rd" or rest == 0:
        up = False
    elif mode == "ru":
        up = True
    elif mode == "rtz":
        up = x < 0
    elif rest == Fraction(1, 2):
        up = down % 2 == 1 if mode == "rtne" else x > 0
    else:
        up = rest > Fraction(1, 2)
    return (down + up) * ulp


def random_values(generator: np.random.Generator, fmt: Format, n: int) -> np.ndarray:
    """`n` random float64 values, spread evenly over (and a little past) the exponents of `fmt`."""
    top = math.frexp(fmt.max)[1]
    exponents = generator.integers(max(fmt.emin - fmt.p - 1, -1074), min(top + 2, 1024), n)
    return np.ldexp(generator.uniform(0.5, 1.0, n) * generator.choice([-1.0, 1.0], n), exponents)
