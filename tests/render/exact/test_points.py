"""Points, intervals and roundings against fractions, numpy and mpmath."""

from __future__ import annotations

import math
import threading
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from interval_ops.formats.model import FORMATS
from render.exact import formats, points
from render.exact import intervals as iv
from render.exact.points import INF, NINF, number, precision
from tests.render.exact.oracle import extended, fraction
from tests.support import exact, rng, round_fraction, special_values, trials

MODES = {"rtne": "rtne", "rtz": "rtz"}


def some(r, size):
    """Numbers of all sizes, some of few bits, zeros and subnormals among them."""
    x = r.normal(size=size) * 10.0 ** r.integers(-12, 12, size)
    x = np.where(r.random(size) < 0.4, x.astype(np.float32), x)
    x[r.random(size) < 0.1] = 0.0
    x[r.random(size) < 0.05] *= 1e-290
    return x


def intervals(r, size):
    low, width = some(r, size), np.abs(some(r, size))
    return [(float(a), float(a + w)) for a, w in zip(low, np.where(r.random(size) < 0.5, 0.0, width), strict=True)]


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div"])
def test_arithmetic_is_that_of_the_corners_rounded_outward(name):
    r = rng(3)
    way = {"add": Fraction.__add__, "sub": Fraction.__sub__, "mul": Fraction.__mul__, "div": Fraction.__truediv__}[name]
    for x, y in zip(intervals(r, trials(300)), intervals(r, trials(300)), strict=True):
        found = getattr(iv, name)(iv.interval(*x), iv.interval(*y))
        if name == "div" and y[0] <= 0 <= y[1]:
            assert found is None
            continue
        corners = [way(Fraction(p), Fraction(q)) for p in x for q in y]
        low, high = (fraction(end) for end in found)
        for end, want in ((low, min(corners)), (high, max(corners))):
            assert abs(end - want) <= abs(want) / 2**180
        assert low <= min(corners) and max(corners) <= high


@pytest.mark.parametrize("x", [(-1.0, 1.0), (0.0, 0.0), (1.0, math.inf), (-math.inf, -math.inf), (-math.inf, math.inf)])
@pytest.mark.parametrize("y", [(-1.0, 1.0), (0.0, 0.0), (2.0, math.inf), (math.inf, math.inf), (-math.inf, 0.0)])
def test_infinities_give_anything_exactly_where_numbers_of_both_do(x, y):
    """Among products and sums of ends and inner points, NaN appears if and only if the answer is anything."""
    inner = [[*v, *(t for t in (-0.5, 0.0, 3.0) if v[0] <= t <= v[1])] for v in (x, y)]
    with np.errstate(all="ignore"):
        for name, formula in (("mul", np.multiply), ("add", np.add)):
            made = [float(formula(a, b)) for a in inner[0] for b in inner[1]]
            found = getattr(iv, name)(iv.interval(*x), iv.interval(*y))
            assert (found is None) == any(v != v for v in made), name
            assert found is None or (float(found[0]) <= min(made) and max(made) <= float(found[1]))


def test_a_square_is_never_negative():
    assert iv.square(iv.interval(-3.0, 2.0)) == iv.interval(0.0, 9.0)
    assert iv.square(iv.interval(-3.0, -2.0)) == iv.interval(4.0, 9.0)


def test_a_sum_is_exact_before_it_is_rounded():
    assert iv.total([iv.point(v) for v in (1e300, 2.0**-1074, -1e300)]) == iv.point(2.0**-1074)
    x = some(rng(4), trials(300)).tolist()
    low, high = map(fraction, iv.total([iv.point(v) for v in x]))
    want = sum(map(Fraction, x))
    assert low <= want <= high and high - low <= abs(want) / 2**189


def test_negations_of_what_was_computed_are_points():
    for x in iv.div(iv.point(1.0), iv.point(3.0)), iv.total([iv.point(1e300), iv.point(1e-300)]):
        for end in (*x, *iv.neg(x)):
            assert end.is_exact() and (-end).is_exact() and abs(end).is_exact()


@pytest.mark.parametrize("name", ["fp64", "fp32", "fp16", "bf16", "fp8e5", "fp8e4nv", "tf32"])
@pytest.mark.parametrize("mode", ["rtne", "rtz"])
def test_rounding_is_that_of_exact_fractions(name, mode):
    fmt = FORMATS[name]
    x = [v for v in special_values(fmt, halfway=True) if np.isfinite(v)]
    x += (rng(4).normal(size=200) * 10.0 ** rng(5).integers(-8, 5, 200)).tolist()
    for v in map(float, x):
        for odd in (0.0, 2.0**-100, -(2.0**-100)):  # beside a tie by less than float64 shows
            at = number(v) + number(v) * number(odd)
            found = formats.to_format(at, fmt, mode)
            assert fraction(found) == round_fraction(fraction(at), fmt, mode), (v, odd)


def test_roundings_far_outside_of_a_format():
    fp32 = FORMATS["fp32"]
    for e in (-100_000, 100_000):
        x = points.power(e)
        assert formats.to_format(x, fp32) == (0 if e < 0 else x)
        assert formats.nearest(-x, fp32) == (0 if e < 0 else NINF)
        assert formats.to_format(x, fp32, "up") == (points.power(-149) if e < 0 else x)
    assert formats.nearest(INF, fp32) == INF and formats.nearest(number(fp32.max), fp32) == fp32.max


@pytest.mark.parametrize("text", ["1e400", "1e-400", "0.1", "3", "1.7976931348623157e308", "1e308", "5e-324"])
def test_ends_of_any_size_become_float64_numbers_on_the_right_side(text):
    with mpmath.workprec(192):
        man, exp = mpmath.mpf(text).man_exp
        for x in (number(man) * points.power(exp), -number(man) * points.power(exp)):
            low, high = points.below(x), points.above(x)
            assert extended(number(low)) <= fraction(x) <= extended(number(high))
            assert high <= math.nextafter(low, math.inf)


@pytest.mark.parametrize("x", [0.0, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 7.25, -7.75, 2.0**60 + 2.0**8])
def test_whole_numbers_of_points(x):
    at = number(x)
    assert points.integer(at) == int(x) and float(points.rint(at)) == float(np.rint(x))
    assert float(points.truncated(at)) == float(np.trunc(x)) and points.is_whole(at) == x.is_integer()
    if x:
        assert points.exponent(at) == math.frexp(x)[1] - 1
        assert exact(x) / Fraction(2) ** points.lowest_bit(at) % 2 == 1


def test_a_precision_ends_with_its_block_also_after_an_error():
    with precision(100):
        third = number(1) / number(3)
        with pytest.raises(ZeroDivisionError), precision(1000):
            raise ZeroDivisionError
        assert (number(1) / number(3)).lower() == third.lower()


def test_threads_wait_for_each_other_and_keep_their_own_precision():
    wrong: list[float] = []

    def work(bits: int) -> None:
        for _ in range(50):
            with precision(bits):
                found = number(1) / number(3)
                made = sum([found] * 20, number(0))
                if not bits - 12 <= made.rel_accuracy_bits() <= bits + 2:
                    wrong.append(bits)

    threads = [threading.Thread(target=work, args=(bits,)) for bits in (80, 300, 900)]
    with precision(60):
        pass
    points._turn.release()  # the fixture of this room holds it
    try:
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    finally:
        points._turn.acquire()
    assert not wrong


def test_a_precision_that_somebody_else_changed_is_an_error():
    flint = pytest.importorskip("flint")
    with pytest.raises(ArithmeticError, match="changed from outside"), precision(200):
        flint.ctx.prec = 53
