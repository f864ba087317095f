"""Roundings of points to formats, against exact rationals and, where a format has few numbers, all of them."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from interval_ops.formats.model import FORMATS, Format
from render.exact import formats
from render.exact.points import Ball, precision
from tests.render.exact.oracle import fraction
from tests.support import exact, rng, round_fraction, special_values, trials

SEVERAL = [FORMATS[name] for name in ("fp64", "fp32", "bf16", "fp16", "fp8e4nv", "fp8e5")]


def samples(fmt: Format) -> list[Fraction]:
    """Values of the format, ties, and rationals of many bits beside both."""
    g, tiny = rng(3), Fraction(1, 2**200)
    known = [exact(float(v)) for v in special_values(fmt, halfway=True) if math.isfinite(v) and v]
    drawn = [exact(float(v)) for v in g.normal(size=trials(200)) * 2.0 ** g.integers(-10, 10, trials(200))]
    return [v for x in known + drawn for v in (x, x * (1 + tiny), x * (1 - tiny))]


@pytest.mark.parametrize("fmt", SEVERAL, ids=lambda f: f.name)
@pytest.mark.parametrize("mode", ["rtne", "rtz"])
def test_one_rounding(fmt: Format, mode: str) -> None:
    with precision(4000):
        for x in samples(fmt):
            ball = Ball(x.numerator) / Ball(x.denominator)
            if ball.is_exact():
                assert fraction(formats.to_format(ball, fmt, mode)) == round_fraction(x, fmt, mode), (x, fmt.name)


@pytest.mark.parametrize("fmt", SEVERAL[1:], ids=lambda f: f.name)
def test_both_ways_to_a_narrow_format_lie_in_the_hull(fmt: Format) -> None:
    with precision():
        for x in samples(fmt)[::5]:
            ball = Ball(x.numerator) / Ball(x.denominator)
            if not ball.is_exact() or abs(x) > exact(fmt.max):
                continue
            low, high = formats.rounded((ball, ball), fmt) or (None, None)
            direct = round_fraction(x, fmt, "rtne")
            through = round_fraction(round_fraction(x, FORMATS["fp32"], "rtne"), fmt, "rtne")
            assert fraction(low) == min(x, direct, through) or fraction(low) <= min(x, direct, through)
            if max(abs(direct), abs(through)) <= exact(fmt.max):
                assert fraction(low) <= min(x, direct, through) <= max(x, direct, through) <= fraction(high)


def test_past_the_largest_number() -> None:
    fmt = FORMATS["fp16"]
    assert [float(formats.nearest(Ball(x), fmt)) for x in (65519, -65520)] == [65504, -math.inf]
    assert formats.rounded(None, fmt) is None
