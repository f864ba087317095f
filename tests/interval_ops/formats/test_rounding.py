"""The rounding gate against exact rational arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from support import exact, random_values, rng, round_fraction, special_values, trials

from interval_ops.formats import rounding
from interval_ops.formats.model import FORMATS, FP16, FP64, Format

NARROW = tuple(f for f in FORMATS.values() if f != FP64)
each_format = pytest.mark.parametrize("fmt", NARROW, ids=lambda f: f.name)
DIRECTIONS = {"rtne": rounding.rn, "rd": rounding.rd, "ru": rounding.ru, "rtz": rounding.rz}


def samples(fmt: Format) -> list[float]:
    values = np.concatenate([special_values(fmt, halfway=True), random_values(rng(7), fmt, trials(300))])
    return [float(v) for v in values if np.isfinite(v)]


def expected(x: float, fmt: Format, mode: str) -> float:
    """Rounded without a largest exponent, then: to nearest overflows to inf, directed rounding stops at max inwards."""
    r = round_fraction(exact(x), fmt, mode)
    if abs(r) <= exact(fmt.max):
        return float(r)
    inward = {"rtne": False, "rtz": True, "rd": r > 0, "ru": r < 0}[mode]
    return math.copysign(fmt.max if inward else math.inf, r)


@each_format
@pytest.mark.parametrize("mode", DIRECTIONS)
def test_rounding_equals_exact_rationals(fmt: Format, mode: str) -> None:
    gate, function = rounding.gate_of(fmt), DIRECTIONS[mode]
    for x in samples(fmt):
        assert function(x, gate) == expected(x, fmt, mode), x.hex()


@each_format
@pytest.mark.parametrize("mode", DIRECTIONS)
def test_infinities_and_nan(fmt: Format, mode: str) -> None:
    function, gate = DIRECTIONS[mode], rounding.gate_of(fmt)
    assert function(math.inf, gate) == math.inf
    assert function(-math.inf, gate) == -math.inf
    assert math.isnan(function(math.nan, gate))
    assert function(0.0, gate) == 0.0


@each_format
def test_hull_holds_exact_and_rounded(fmt: Format) -> None:
    gate = rounding.gate_of(fmt)
    for x in samples(fmt):
        low, high, near = rounding.lower(x, gate), rounding.upper(x, gate), expected(x, fmt, "rtne")
        assert (low, high) == (min(x, near), max(x, near))


@each_format
def test_binade(fmt: Format) -> None:
    gate = rounding.gate_of(fmt)
    for x in samples(fmt):
        power = rounding.binade(x, gate)
        assert power == fmt.min_normal or power <= abs(x) < 2 * power
        assert power >= fmt.min_normal


@pytest.mark.parametrize(
    ("op", "reference"),
    (
        (lambda a, b: a + b, lambda a, b: a + b),
        (lambda a, b: a * b, lambda a, b: a * b),
        (lambda a, b: a / b, lambda a, b: a / b),
    ),
    ids=("add", "mul", "div"),
)
def test_slack_covers_one_float64_operation(
    op: Callable[[float, float], float], reference: Callable[[Fraction, Fraction], Fraction]
) -> None:
    generator = rng(3)
    for a, b in generator.normal(size=(trials(2000), 2)):
        computed, true = op(float(a), float(b)), reference(exact(a), exact(b))
        assert exact(rounding.slack_down(computed)) <= true <= exact(rounding.slack_up(computed))


def test_slack_keeps_zero() -> None:
    assert rounding.slack_down(0.0) == 0.0
    assert rounding.slack_up(0.0) == 0.0


def test_relative_test_for_overflow_is_wrong() -> None:
    """65520 rounds past the largest fp16 number although it is below 65504 (1 + u)."""
    assert FP16.max * (1 + FP16.u) > 65520
    assert rounding.rn(65520.0, FP16.gate) == math.inf
    assert rounding.rn(math.nextafter(65520.0, 0.0), FP16.gate) == 65504.0
