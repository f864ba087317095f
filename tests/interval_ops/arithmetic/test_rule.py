"""Arithmetic rules against exact rationals, numpy's IEEE results and the compiled sequences they stand for."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from containment import (
    assert_inside,
    hard_intervals,
    hard_values,
    holds,
    inside,
    interval,
    point,
    rounded,
    sample,
    well_formed,
)
from support import rng, special_values, trials

from interval_ops.arithmetic import rule as arithmetic
from interval_ops.formats.model import BF16, FP8E4NV, FP8E5, FP16, FP32, FP64, Format
from interval_ops.profiles.profile import load_profile

IEEE, SM80 = load_profile("ieee"), load_profile("sm_80")
FORMATS = [FP32, FP16, BF16, FP64]
BINARY = {"add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y}
NUMPY = {"add": np.add, "sub": np.subtract, "mul": np.multiply}


def legal(exact: Fraction, fmt: Format) -> list[float | Fraction]:
    """The exact value, one rounding, and for narrow formats a rounding through fp32."""
    values: list[float | Fraction] = [exact, rounded(exact, fmt)]
    if fmt.bits == 16:
        through = rounded(exact, FP32)
        values.append(through if math.isinf(through) else rounded(Fraction(through), fmt))
    return values


def check(pair, i: int, values, *operands) -> None:
    lo, hi = pair[0][i].item(), pair[1][i].item()
    for v in values:
        ok = holds(lo, hi, v) if isinstance(v, Fraction) else bool(math.isnan(lo) or lo <= v <= hi)
        assert ok, f"operands {operands}: {float(v)!r} not in [{lo!r}, {hi!r}]"


@pytest.mark.parametrize("fmt", FORMATS, ids=lambda f: f.name)
@pytest.mark.parametrize("op", BINARY)
def test_points_hold_the_exact_and_the_rounded_result(op: str, fmt: Format) -> None:
    generator = rng(11)
    x, y = (hard_values(generator, fmt, trials(1500)) for _ in range(2))
    out = getattr(arithmetic, op)((x, x), (y, y), fmt, IEEE)
    well_formed(out)
    for i in range(x.size):
        check(out, i, legal(BINARY[op](Fraction(x[i]), Fraction(y[i])), fmt), x[i], y[i])


@pytest.mark.parametrize("fmt", FORMATS, ids=lambda f: f.name)
@pytest.mark.parametrize("op", BINARY)
def test_intervals_hold_every_choice(op: str, fmt: Format) -> None:
    generator = rng(12)
    a, b = (hard_intervals(generator, fmt, trials(1500)) for _ in range(2))
    out = getattr(arithmetic, op)(a, b, fmt, IEEE)
    well_formed(out)
    for _ in range(2):
        x, y = sample(generator, a, fmt), sample(generator, b, fmt)
        for i in range(x.size):
            check(out, i, legal(BINARY[op](Fraction(x[i]), Fraction(y[i])), fmt), a[0][i], a[1][i], b[0][i], b[1][i])


@pytest.mark.parametrize("op", BINARY)
def test_special_values_agree_with_numpy(op: str) -> None:
    values = special_values(FP32)
    x, y = (v.ravel() for v in np.meshgrid(values, values))
    with np.errstate(all="ignore"):
        expected = NUMPY[op](x.astype(np.float32), y.astype(np.float32)).astype(np.float64)
    out = getattr(arithmetic, op)((x, x), (y, y), FP32, IEEE)
    assert_inside(out, expected, x, y)
    # Top exactly where the IEEE result is NaN: nothing else is given up.
    assert np.array_equal(np.isnan(out[0]), np.isnan(expected))


@pytest.mark.parametrize("op", BINARY)
def test_point_hull_is_tight(op: str) -> None:
    """Correctly rounded: exact and RN, no more (float64 slack where float64 was inexact)."""
    generator = rng(13)
    x, y = (np.float32(generator.standard_normal(trials(2000))).astype(np.float64) for _ in range(2))
    lo, hi = getattr(arithmetic, op)((x, x), (y, y), FP32, IEEE)
    exact = BINARY[op](x, y)
    rn = np.float32(exact).astype(np.float64)
    width = np.abs(rn - exact) + 2.0**-51 * np.abs(exact)
    assert np.all(hi - lo <= width)


@pytest.mark.parametrize("fmt", FORMATS, ids=lambda f: f.name)
def test_exact_results_stay_points(fmt: Format) -> None:
    x, y = (v.ravel() for v in np.meshgrid(np.arange(-8.0, 9), np.arange(-8.0, 9)))
    for op in ("add", "sub", "mul"):
        lo, hi = getattr(arithmetic, op)((x, x), (y, y), fmt, SM80)
        assert lo is hi and np.array_equal(lo, BINARY[op](x, y))
    z = np.zeros(x.shape)
    assert not np.any(arithmetic.mul(interval(x, x + 1), (z, z), fmt, SM80)[1])


@pytest.mark.parametrize("fmt", [FP32, FP16, FP64, BF16], ids=lambda f: f.name)
def test_fma_holds_fused_and_exact(fmt: Format) -> None:
    generator = rng(14)
    a, b, c = (hard_intervals(generator, fmt, trials(800)) for _ in range(3))
    c = (np.where(generator.random(c[0].shape) < 0.5, c[0], -fmt.max * np.tanh(a[0] / fmt.max * b[0])), c[1])
    c = (np.minimum(*c), np.maximum(*c))
    out = arithmetic.fma(a, b, c, fmt, IEEE)
    well_formed(out)
    x, y = sample(generator, a, fmt), sample(generator, b, fmt)
    for z in (c[0], c[1]):
        for i in range(x.size):
            check(out, i, legal(Fraction(x[i]) * Fraction(y[i]) + Fraction(z[i]), fmt), x[i], y[i], z[i])


@pytest.mark.parametrize("fmt", [FP8E5, FP8E4NV], ids=lambda f: f.name)
def test_fp8_results_follow_the_profile_s_conversion(fmt: Format) -> None:
    """fp8 arithmetic is fp32 arithmetic and one conversion: rounded, or saturated where the target saturates."""
    generator = rng(22)
    x, y = (hard_values(generator, fmt, trials(500)) for _ in range(2))
    for op in BINARY:
        out = getattr(arithmetic, op)((x, x), (y, y), fmt, SM80)
        well_formed(out)
        for i in range(x.size):
            exact = BINARY[op](Fraction(x[i]), Fraction(y[i]))
            value = rounded(exact, fmt)
            check(out, i, [exact, math.copysign(fmt.max, value) if math.isinf(value) else value], x[i], y[i])


def test_product_then_sum_encloses_the_contraction() -> None:
    """U13: x*x - C with C = fl(x*x) is 0 unfused and about 1.4e-8 fused."""
    x = float(np.float32(1.1))
    c = float(np.float32(x * x))
    t = arithmetic.sub(arithmetic.mul(point(x), point(x), FP32, SM80), point(c), FP32, SM80)
    fused = float(np.float32(Fraction(x) * Fraction(x) - Fraction(c)))
    assert fused > 1e-9
    assert_inside(t, np.array([0.0]))
    assert_inside(t, np.array([fused]))


def test_constants_are_rounded_when_combined() -> None:
    """U12: fp32 0.1 + 0.2 is 0.3000000119."""
    x, y = np.float32(0.1), np.float32(0.2)
    out = arithmetic.add(point(x), point(y), FP32, SM80)
    assert_inside(out, np.array([np.float64(x + y)]))
    assert_inside(out, np.array([np.float64(x) + np.float64(y)]))


@pytest.mark.parametrize("x", [2.0**-75, 1e-23, 2.0**-149])
def test_underflow_holds_zero_and_the_exact_product(x: float) -> None:
    """Published rule: relative terms only. 2^-75 squared is legally 0 (also U3)."""
    x = float(np.float32(x))
    for out in (arithmetic.mul(point(x), point(x), FP32, SM80), arithmetic.square(point(x), FP32, SM80)):
        check(out, 0, legal(Fraction(x) ** 2, FP32), x)
    assert arithmetic.mul(point(x), point(x), FP32, SM80)[0][0] <= np.float64(np.float32(x) * np.float32(x))


def test_overflow_reaches_infinity_and_keeps_the_exact_value() -> None:
    """U5: fp16 300 * 300 = inf."""
    for fmt, x in ((FP16, 300.0), (FP32, 2.0**80), (FP64, 1e200)):
        lo, hi = arithmetic.mul(point(x), point(x), fmt, SM80)
        assert hi[0] == math.inf and holds(lo[0], hi[0], Fraction(x) ** 2)
        lo, hi = arithmetic.mul(point(x), point(-x), fmt, SM80)
        assert lo[0] == -math.inf and holds(lo[0], hi[0], -(Fraction(x) ** 2))
    lo, hi = arithmetic.add(point(FP64.max), point(FP64.max), FP64, SM80)
    assert lo[0] <= FP64.max and hi[0] == math.inf


def test_float64_underflow_keeps_the_sign() -> None:
    for x, y in ((1e-200, 1e-200), (1e-200, -1e-200), (-5e-324, 0.5), (5e-324, 0.5)):
        for a, b in (((x, x), (y, y)), (interval(x, x), interval(y, y))):
            a, b = (point(a[0]), point(b[0])) if not isinstance(a[0], np.ndarray) else (a, b)
            for fmt in (FP64, FP32):
                lo, hi = arithmetic.mul(a, b, fmt, IEEE)
                assert holds(lo[0], hi[0], Fraction(x) * Fraction(y))
                assert (lo[0] >= 0) == (x * y >= 0 and x > 0 and y > 0)


@pytest.mark.parametrize("fmt", FORMATS, ids=lambda f: f.name)
def test_square_holds_every_choice_and_is_never_negative(fmt: Format) -> None:
    generator = rng(15)
    a = hard_intervals(generator, fmt, trials(1500))
    out = arithmetic.square(a, fmt, IEEE)
    assert np.all(out[0] >= 0)
    x = sample(generator, a, fmt)
    for i in range(x.size):
        check(out, i, legal(Fraction(x[i]) ** 2, fmt), x[i])


@pytest.mark.parametrize("kind", ["div", "div_rn"])
@pytest.mark.parametrize("fmt", FORMATS, ids=lambda f: f.name)
def test_division_holds_the_documented_error(fmt: Format, kind: str) -> None:
    generator = rng(16)
    n = trials(1000)
    a, b = hard_intervals(generator, fmt, n), hard_intervals(generator, fmt, n)
    for profile in (IEEE, SM80):
        error = profile.fn(kind, fmt.name)
        out = arithmetic.div(a, b, fmt, profile, kind)
        well_formed(out)
        x, y = sample(generator, a, fmt), sample(generator, b, fmt)
        for i in np.flatnonzero(y):
            q = Fraction(x[i]) / Fraction(y[i])
            values = legal(q, fmt)
            if kind == "div" and profile is SM80 and fmt is FP32 and abs(q) < Fraction(FP32.max) / 2:
                bound = abs(q) * Fraction(error.r)
                values += [q - bound, q + bound]
            check(out, i, values, x[i], y[i])


def test_fast_division_covers_two_ulp_and_more() -> None:
    """U7: 3/3 may be 1 + 2.38e-7; the published 2 eps is 0.5 ulp short of the documented bound."""
    lo, hi = arithmetic.div(point(3.0), point(3.0), FP32, SM80)
    assert lo[0] <= 1 - 2.5 * 2.0**-23 and hi[0] >= 1 + 2.5 * 2.0**-23 and hi[0] < 1 + 4 * 2.0**-23
    lo, hi = arithmetic.div(point(3.0), point(3.0), FP32, SM80, "div_rn")
    assert lo is hi and lo[0] == 1.0


def test_division_by_intervals_with_zero() -> None:
    cases = {
        ((1.0, 2.0), (-1.0, 1.0)): (-math.inf, math.inf),
        ((1.0, 2.0), (0.0, 1.0)): (-math.inf, math.inf),
        ((-1.0, 2.0), (0.0, 1.0)): (math.nan, math.nan),
        ((1.0, 1.0), (0.0, 0.0)): (-math.inf, math.inf),
        ((1.0, math.inf), (0.0, math.inf)): (math.nan, math.nan),
        ((0.0, 1.0), (0.0, 0.0)): (math.nan, math.nan),
        ((math.inf, math.inf), (1.0, math.inf)): (math.nan, math.nan),
        ((math.inf, math.inf), (1.0, 2.0)): (math.inf, math.inf),
        ((0.0, 0.0), (1.0, 2.0)): (0.0, 0.0),
        ((math.nan, math.nan), (1.0, 2.0)): (math.nan, math.nan),
    }
    for (a, b), expected in cases.items():
        out = arithmetic.div(interval(*a), interval(*b), FP32, SM80)
        assert np.array_equal([out[0][0], out[1][0]], expected, equal_nan=True), (a, b, out)


def test_quotients_keep_their_sign() -> None:
    tiny = float(np.float32(1e-44))
    for x, y in ((tiny, 1e30), (-tiny, -1e30)):
        assert arithmetic.div(point(x), point(y), FP32, SM80)[0][0] >= 0
    assert arithmetic.div(point(tiny), point(-1e30), FP32, SM80)[1][0] <= 0


def _compiled_remainder(x: float, y: float) -> float:
    """div.rn, cvt.rzi, fma.rn in exact rationals."""
    n = math.trunc(Fraction(rounded(Fraction(x) / Fraction(y), FP32)))
    return rounded(Fraction(x) - n * Fraction(y), FP32)


def test_remainder_holds_c_and_compiled_results() -> None:
    generator = rng(17)
    n = trials(1500)
    y = generator.integers(1, 40, n) * 2.0 ** generator.integers(-3, 4, n) * generator.choice([-1, 1], n)
    x = np.float32(y * generator.integers(-50, 50, n) + generator.choice([0.0, 1e-6, -1e-6, 0.3], n)).astype(float)
    w = np.abs(x) * generator.choice([0.0, 2.0**-23, 0.1], n)
    a = (np.float32(x - w).astype(float), np.float32(x + w).astype(float))
    b = (y, np.where(generator.random(n) < 0.8, y, y + np.abs(y) / 8))
    out = arithmetic.fmod(a, b, FP32, SM80)
    well_formed(out)
    for _ in range(2):
        u, v = sample(generator, a, FP32), sample(generator, b, FP32)
        assert_inside(out, np.fmod(u, v), u, v)
        assert_inside(out, np.array([_compiled_remainder(p, q) for p, q in zip(u, v, strict=True)]), u, v)


def test_remainder_at_the_jump() -> None:
    """U10: 5 +- 1 ulp mod 5 may be 0."""
    up = float(np.nextafter(np.float32(5), np.float32(6)))
    down = float(np.nextafter(np.float32(5), np.float32(4)))
    out = arithmetic.fmod(interval(down, up), point(5.0), FP32, SM80)
    for v in (0.0, down, up - 5.0):
        assert_inside(out, np.array([v]))
    lo, hi = arithmetic.fmod(point(7.0), point(3.0), FP32, SM80)
    assert lo[0] == hi[0] == 1.0
    assert np.isnan(arithmetic.fmod(point(1.0), interval(-1.0, 1.0), FP32, SM80)[0][0])


def test_sign_and_integral_rounding() -> None:
    generator = rng(18)
    a = hard_intervals(generator, FP32, trials(1000))
    x = sample(generator, a, FP32)
    assert_inside(arithmetic.neg(a), -x, x)
    assert_inside(arithmetic.abs_(a), np.abs(x), x)
    assert np.all(arithmetic.abs_(a)[0] >= 0)
    for name, function in (("floor", np.floor), ("ceil", np.ceil)):
        for profile in (IEEE, SM80):
            assert_inside(getattr(arithmetic, name)(a, FP32, profile), function(x), x)
    assert_inside(arithmetic.trunc(a), np.trunc(x), x)
    assert_inside(arithmetic.rint(a), np.rint(x), x)
    p = point([1.5, -2.5, 0.0])
    for out in (arithmetic.neg(p), arithmetic.abs_(p), arithmetic.rint(p), arithmetic.floor(p, FP32, SM80)):
        assert out[0] is out[1] and out[0].dtype == np.float64


def test_floor_of_a_flushed_subnormal() -> None:
    """cvt.rmi.ftz: floor(-1e-40) may be 0; the IEEE floor is -1."""
    lo, hi = arithmetic.floor(point(-1e-40), FP32, SM80)
    assert lo[0] == -1 and hi[0] == 0
    lo, hi = arithmetic.ceil(point(1e-40), FP32, SM80)
    assert lo[0] == 0 and hi[0] == 1
    lo, hi = arithmetic.floor(point(-1e-40), FP32, IEEE)
    assert lo[0] == hi[0] == -1


@pytest.mark.parametrize("fmt", FORMATS, ids=lambda f: f.name)
def test_muting_leaves_float64_slack_only(fmt: Format) -> None:
    generator = rng(19)
    x, y = (generator.standard_normal(500) for _ in range(2))
    quiet = SM80.mute("arith", "function")
    for op, exact in ((arithmetic.add, x + y), (arithmetic.mul, x * y), (arithmetic.div, x / y)):
        lo, hi = op(point(x), point(y), fmt, quiet)
        assert np.all(hi - lo <= 2.0**-50 * np.abs(exact)) and inside((lo, hi), exact).all()
    # An exact end need not be a number of the format: it must not pass for a point.
    if fmt.bits < 64:
        third = arithmetic.mul(point(1 + 2.0**-10), point(1 + 2.0**-10), FP16, quiet)
        assert third[0] is not third[1]


@pytest.mark.parametrize("op", ["add", "sub", "mul", "div", "fmod"])
def test_smaller_operands_give_smaller_results(op: str) -> None:
    generator = rng(20)
    a, b = (hard_intervals(generator, FP32, trials(2000)) for _ in range(2))
    x, y = sample(generator, a, FP32), sample(generator, b, FP32)
    y = np.where(y == 0, b[1], y)  # x/0 is top by convention, though x/[0, 1] is not
    inner = (np.minimum(a[0], x), x)
    function = getattr(arithmetic, op)
    outer, part = function(a, b, FP32, SM80), function(inner, (y, y.copy()), FP32, SM80)
    # Up to the slack of float64, which only inexact lanes carry.
    slack = 2.0**-51 * np.maximum(np.abs(part[0]), np.abs(part[1])) + 2.0**-1070
    bad = ~(np.isnan(outer[0]) | (y == 0) | ((outer[0] - slack <= part[0]) & (part[1] <= outer[1] + slack)))
    assert not bad.any(), [v[bad][0] for v in (*a, *b, *inner, y, *outer, *part)]


def test_float32_points_and_broadcasting() -> None:
    generator = rng(21)
    x = generator.standard_normal((5, 1, 7)).astype(np.float32)
    y = generator.standard_normal((1, 300, 7)).astype(np.float32)
    wide = arithmetic.mul((x, x), (y, y), FP32, SM80)
    full = [np.ascontiguousarray(np.broadcast_to(v, (5, 300, 7)), np.float64) for v in (x, y)]
    flat = arithmetic.mul((full[0],) * 2, (full[1],) * 2, FP32, SM80)
    assert all(np.array_equal(p, q) for p, q in zip(wide, flat, strict=True))


def test_intervals_with_infinite_ends() -> None:
    ends = [-math.inf, -1.0, 0.0, 2.0, math.inf]
    boxes = [(p, q) for p, q in itertools.product(ends, ends) if p <= q]
    for (p, q), (r, s) in itertools.product(boxes, boxes):
        for op, function in NUMPY.items():
            out = getattr(arithmetic, op)(interval(p, q), interval(r, s), FP32, SM80)
            well_formed(out)
            with np.errstate(all="ignore"):
                # A zero inside of a box is what an infinite end of the other one must not meet.
                (one, two) = ([*ends, *([0.0] if ends[0] < 0 < ends[1] else [])] for ends in ((p, q), (r, s)))
                corner = np.array([function(u, v) for u in one for v in two])
            assert np.isnan(out[0][0]) == np.isnan(corner).any(), (op, p, q, r, s)
            if not np.isnan(out[0][0]):
                assert out[0][0] == corner.min() and out[1][0] == corner.max()
