"""Library functions of several arguments against mpmath, exact rationals and the C library."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from containment import assert_inside, hard_intervals, interval, point, sample, well_formed
from support import rng, round_fraction, trials

from interval_ops.arithmetic import rule as arithmetic
from interval_ops.bounds import Pair
from interval_ops.formats.model import FP32, FP64, Format
from interval_ops.library import joint, joint_kernels
from interval_ops.profiles.profile import load_profile
from render.ops import library

IEEE, SM80 = load_profile("ieee"), load_profile("sm_80")
MP = mpmath.mp.clone()
MP.prec = 150
RULES = library.LIBRARY


def between(lo: float, hi: float, value: object) -> bool:
    return math.isnan(lo) or (MP.mpf(float(lo)) <= value <= MP.mpf(float(hi)))


def holds_error(out: Pair, i: int, value: object, r: float) -> bool:
    """The exact value and the whole documented error around it lie inside."""
    spread = abs(value) * MP.mpf(r)
    low, high = value - spread, value + spread
    return between(out[0][i], out[1][i], low) and between(out[0][i], out[1][i], high)


def boxes(g: np.random.Generator, n: int, low: float, high: float) -> Pair:
    a = g.uniform(low, high, n).astype(np.float32).astype(float)
    b = (a + g.uniform(0, 1, n) ** 4 * (high - low)).astype(np.float32).astype(float)
    return a, np.minimum(b, high)


def inner(g: np.random.Generator, pair: Pair) -> np.ndarray:
    t = g.choice([0.0, 1.0, g.random()], pair[0].shape)
    return np.clip(pair[0] + t * (pair[1] - pair[0]), *pair)


@pytest.mark.parametrize("fmt", [FP32, FP64], ids=lambda f: f.name)
def test_pow_holds_its_documented_error(fmt: Format) -> None:
    g = rng(101)
    x, y = boxes(g, trials(300), 0.0, 6.0), boxes(g, trials(300), -9.0, 9.0)
    out = joint.power(x, y, fmt, SM80)
    well_formed(out)
    for _ in range(4):
        u, v = inner(g, x), inner(g, y)
        for i in range(u.size):
            if u[i] > 0:
                assert holds_error(out, i, MP.power(u[i], v[i]), SM80.fn("pow", fmt.name).r), (
                    x[0][i],
                    y[0][i],
                    u[i],
                    v[i],
                )


def test_pow_of_negative_bases_needs_one_integer() -> None:
    lo, hi = joint.power(interval([-2, -2, -3, -2, -2, -2, -4], [1, 1, -2, 1, 1, 3, -1]),
                         interval([2, 3, 3, -1, -2, 2.5, 2], [2, 3, 3, -1, -2, 2.5, 3]), FP32, IEEE)  # fmt: skip
    assert lo[0] == 0 and hi[0] >= 4 and hi[0] < 4.001 and lo[1] <= -8 and hi[1] >= 1
    assert lo[2] <= -27 and hi[2] >= -8 and hi[2] < -7.99
    assert (lo[3], hi[3]) == (-math.inf, math.inf) and lo[4] <= 0.25 and lo[4] > 0.2499 and hi[4] == math.inf
    assert np.isnan(lo[5]) and np.isnan(lo[6])


def test_pow_of_an_interval_that_ends_in_zero() -> None:
    """x^n for x in [-a, +0] and odd n < 0 reaches -inf from below 0, and inf at +0."""
    for end in (0.0, -0.0):
        lo, hi = (x.item() for x in joint.power(interval(-1e-3, end), point(-1.0), FP32, IEEE))
        assert lo == -math.inf and hi >= -1000
    lo, hi = (x.item() for x in joint.power(interval(-1e-3, 0.0), point(-2.0), FP32, IEEE))
    assert 9e5 < lo <= 1.0001e6 and hi == math.inf


@pytest.mark.parametrize("pair", [(2.0**-130, 2.0**-130), (2.0**-140, 2.0**-127), (0.0, 2.0**-128), (2.0**-130, 1.0)])
def test_a_subnormal_base_of_pow_may_be_anything_to_the_smallest_normal_number(pair: tuple[float, float]) -> None:
    """Of either sign: (-x)^1 = -(x^1), and a flushing library scales x by a power of two that it flushes as well."""
    lo, hi = (x.item() for x in joint.power(interval(*pair), point(1.0), FP32, SM80))
    low, high = (x.item() for x in joint.power(interval(-pair[1], -pair[0]), point(1.0), FP32, SM80))
    largest = max(pair[1], 2.0**-126)
    assert lo <= 0 <= high and hi >= largest and low <= -largest
    assert math.isclose(hi, -low, rel_tol=2.0**-20)


def test_pow_of_special_values() -> None:
    """C99 F.10.4.4, in the value and as the only legal result."""
    x = np.array([0.0, 0.0, 0.0, 1.0, 5.0, math.inf, math.inf, 0.5, 2.0, 0.5, -0.0, -0.0])
    y = np.array([0.0, 2.0, -2.0, 77.7, 0.0, 2.0, -2.0, math.inf, -math.inf, -math.inf, 3.0, -2.0])
    lo, hi = joint.power((x, x), (y, y), FP32, SM80)
    want = np.array([math.pow(a, b) if a or b >= 0 else math.inf for a, b in zip(x, y, strict=True)])
    assert np.array_equal(lo, want) and np.array_equal(hi, want)
    lo, hi = joint.power(interval(0.0, 2.0), interval(-1.0, 1.0), FP32, SM80)
    assert lo[0] == -math.inf and hi[0] == math.inf  # a -0 among the bases, -1 among the exponents
    lo, hi = joint.power(point(-0.0), point(-3.0), FP32, SM80)
    assert lo[0] == -math.inf
    lo, hi = joint.power(point([1e30, 1e-30]), point(2.0), FP32, SM80)
    assert hi[0] == math.inf and lo[1] == 0 and 0 < hi[1] < 2.0**-125


def test_integer_powers_hold_every_chain_of_products() -> None:
    """By squaring, one after the other, and through the reciprocal, in fp32 arithmetic."""
    g = rng(102)
    x = (g.uniform(0.3, 3.0, trials(400)) * g.choice([-1, 1], trials(400))).astype(np.float32)
    for n in (0, 1, 2, 3, 5, 8, 13, -1, -2, -7):
        count = np.full(x.shape, float(n))
        lo, hi = joint.integer_power((x, x), (count, count), FP32, SM80)
        chain, square, base, k = np.ones_like(x), np.ones_like(x), x.copy(), abs(n)
        for _ in range(k):
            chain = chain * x
        while k:
            square, base, k = (square * base if k & 1 else square), base * base, k >> 1
        inverse = np.ones_like(x)
        for _ in range(abs(n)):
            inverse = inverse * (np.float32(1) / x)
        results = [chain, square] if n >= 0 else [1 / chain, 1 / square]
        for result in results:
            assert_inside((lo, hi), result.astype(float), x)
        for i, v in enumerate(x):
            assert between(lo[i], hi[i], MP.power(float(v), n))
        if abs(n) == 1:
            assert_inside((lo, hi), (inverse if n < 0 else x).astype(float))


@pytest.mark.parametrize("fmt", [FP32, FP64], ids=lambda f: f.name)
def test_atan2_holds_its_documented_error(fmt: Format) -> None:
    g = rng(103)
    y, x = boxes(g, trials(500), -3.0, 3.0), boxes(g, trials(500), -3.0, 3.0)
    out = joint.atan2(y, x, fmt, SM80)
    well_formed(out)
    for _ in range(4):
        u, v = inner(g, y), inner(g, x)
        for i in range(u.size):
            if u[i] != 0 or v[i] != 0:
                whole = out[0][i] <= -math.pi and out[1][i] >= math.pi
                assert whole or holds_error(out, i, MP.atan2(u[i], v[i]), SM80.fn("atan2", fmt.name).r)


def test_atan2_and_the_sign_of_zero() -> None:
    """IEEE 754-2019, 9.2.1: pi and -pi on either side of the cut, and four values at the origin."""
    y = np.array([0.0, -0.0, 0.0, -0.0, 0.0, -0.0, 1.0])
    x = np.array([-1.0, -1.0, 1.0, 1.0, -0.0, 0.0, -0.0])
    lo, hi = joint.atan2((y, y), (x, x), FP32, IEEE)
    want = np.arctan2(y, x)
    assert np.all((lo <= want) & (want <= hi)) and np.all(hi - lo < 1e-6)
    lo, hi = joint.atan2(
        interval([-1.0, 0.0, -1.0], [1.0, 1.0, 1.0]), interval([-2.0, -1.0, 1.0], [-1.0, 1.0, 2.0]), FP32, IEEE
    )
    assert np.all(lo[:2] <= -math.pi) and np.all(hi[:2] >= math.pi) and abs(hi[2] - math.pi / 4) < 1e-6


@pytest.mark.parametrize("name", ["hypot", "rhypot", "norm3d", "rnorm3d", "norm4d", "rnorm4d"])
@pytest.mark.parametrize("fmt", [FP32, FP64], ids=lambda f: f.name)
def test_norms_hold_their_documented_error(name: str, fmt: Format) -> None:
    g = rng(104)
    args = tuple(boxes(g, trials(200), -5.0, 5.0) for _ in range(RULES[name].arity))
    out = RULES[name].apply(args, fmt, SM80)  # type: ignore[misc]
    well_formed(out)
    for _ in range(3):
        picks = [inner(g, a) for a in args]
        for i in range(picks[0].size):
            total = MP.sqrt(sum(MP.mpf(float(p[i])) ** 2 for p in picks))
            assert total == 0 or holds_error(out, i, 1 / total if name[0] == "r" else total, SM80.fn(name, fmt.name).r)


def test_norms_of_special_values() -> None:
    zero, inf = point(0.0), point(math.inf)
    assert joint.norm("hypot", (zero, zero), FP32, SM80)[1][0] == 0
    assert joint.norm("rhypot", (zero, zero), FP32, SM80)[0][0] == math.inf
    assert joint.norm("hypot", (inf, point(1.0)), FP32, SM80)[0][0] == math.inf
    assert np.isnan(joint.norm("norm3d", (point(math.nan), zero, zero), FP32, SM80)[0][0])
    lo, hi = joint.norm("hypot", (point(2e38), point(3e38)), FP32, SM80)
    assert hi[0] == math.inf and lo[0] <= 3.7e38
    assert joint.norm("hypot", (point(1e-39), zero), FP32, SM80)[0][0] == 0


def test_remainder_is_the_one_of_the_c_library() -> None:
    g = rng(105)
    x, y = (g.normal(size=trials(3000)) * 10.0 ** g.integers(-3, 4, trials(3000)) for _ in range(2))
    x[:40], y[:40] = np.arange(40) / 2, 1.0
    lo, hi = joint.remainder((x, x), (y, y))
    want = np.array([math.remainder(a, b) for a, b in zip(x, y, strict=True)])
    assert np.array_equal(lo, want) and np.array_equal(hi, want)
    assert np.isnan(joint.remainder(point(1.0), interval(-1.0, 1.0))[0][0])


def test_remainder_of_intervals_holds_every_choice() -> None:
    g = rng(106)
    x, y = boxes(g, trials(1000), -20.0, 20.0), boxes(g, trials(1000), 0.5, 6.0)
    out = joint.remainder(x, y)
    for _ in range(6):
        u, v = inner(g, x), inner(g, y)
        assert_inside(out, np.array([math.remainder(a, b) for a, b in zip(u, v, strict=True)]), u, v)
    narrow = joint.remainder(interval(7.1, 7.2), interval(2.0, 2.01))
    assert narrow[1][0] - narrow[0][0] < 0.15


def test_copysign_fdim_and_saturate_hold_every_choice() -> None:
    g = rng(107)
    x, y = (hard_intervals(g, FP32, trials(2000)) for _ in range(2))
    for name, oracle in (("copysign", np.copysign), ("fdim", lambda a, b: np.where(a > b, a - b, 0.0))):
        out = RULES[name].apply((x, y), FP32, SM80)  # type: ignore[misc]
        for _ in range(3):
            u, v = sample(g, x, FP32), sample(g, y, FP32)
            v = np.where((v == 0) & (y[0] < y[1]), np.where(y[0] < 0, -1e-300, 0.0), v) if name == "copysign" else v
            v = np.where(y[0] == y[1], y[0], v)  # with the sign of its zero
            assert_inside(out, oracle(u, v), u, v)
    assert np.isnan(joint.copysign(point(math.nan), point(1.0))[0][0])
    lo, hi = joint.copysign(point(2.0), (np.array([math.nan]), np.array([math.nan])))
    assert (lo[0], hi[0]) == (-2, 2)
    lo, hi = joint.saturate(interval([-1.0, 0.5, math.nan], [0.25, 2.0, math.nan]))
    assert lo.tolist() == [0, 0.5, 0] and hi.tolist() == [0.25, 1, 1]


@pytest.mark.parametrize("fmt", [FP32, FP64], ids=lambda f: f.name)
def test_ldexp_is_exact_but_for_the_ends_of_the_range(fmt: Format) -> None:
    g = rng(108)
    x = hard_intervals(g, fmt, trials(300))
    for n in (0, 1, -3, 60, -140, 250, -1060, 1100, 5000, -5000):
        count = np.full(x[0].shape, float(n))
        out = joint.ldexp(x, (count, count), fmt, IEEE)
        for end in x:
            for i, v in enumerate(end):
                value = Fraction(float(v)) * Fraction(2) ** n
                rn = round_fraction(value, fmt)
                for candidate in (value, rn) if abs(rn) <= Fraction(fmt.max) else (value,):
                    assert out[0][i] == -math.inf or Fraction(out[0][i]) <= candidate
                    assert out[1][i] == math.inf or candidate <= Fraction(out[1][i])


OPERATIONS: dict[str, Callable[..., Fraction]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "fma": lambda a, b, c: a * b + c,
    "div": lambda a, b: a / b, "rcp": lambda a: 1 / a,
}  # fmt: skip


@pytest.mark.parametrize("fmt", [FP32, FP64], ids=lambda f: f.name)
@pytest.mark.parametrize("direction", ["rd", "ru", "rz"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_directed_rounding(name: str, direction: str, fmt: Format) -> None:
    """Bounds and values against exact rationals rounded in the direction."""
    g, rule = rng(109), RULES[f"{name}_{direction}"]
    x = [np.ldexp(g.uniform(1, 2, trials(150)) * g.choice([-1, 1], trials(150)), g.integers(-40, 40, trials(150)))
         for _ in range(rule.arity)]  # fmt: skip
    x = [v.astype(np.float32).astype(float) if fmt is FP32 else v for v in x]
    lo, hi = rule.apply(tuple((v, v) for v in x), fmt, IEEE)  # type: ignore[misc]
    kinds = {"add": 0, "sub": 0, "mul": 1, "div": 2, "rcp": 2, "fma": 4}
    operands = [np.ones_like(x[0]), *x] if name == "rcp" else [x[0], -x[1]] if name == "sub" else list(x)
    operands += [np.zeros_like(x[0])] * (3 - len(operands))
    values = np.empty_like(x[0])
    joint_kernels.directed_values(kinds[name], joint.DIRECTIONS[direction], fmt is FP64, fmt.gate, *operands, values)
    mode = {"rd": "rd", "ru": "ru", "rz": "rtz"}[direction]
    for i in range(x[0].size):
        exact = OPERATIONS[name](*(Fraction(v[i]) for v in x))
        want = round_fraction(exact, fmt, mode)
        assert Fraction(lo[i]) <= min(exact, want) and max(exact, want) <= Fraction(hi[i])
        assert Fraction(values[i]) == want, (name, direction, [v[i] for v in x])
        assert hi[i] - lo[i] <= (16 if fmt is FP64 else 6) * fmt.u * abs(float(exact)) + 1e-300


def test_directed_rounding_of_an_overflow_is_finite() -> None:
    big = point(3e38)
    lo, hi = RULES["add_rd"].apply((big, big), FP32, IEEE)  # type: ignore[misc]
    assert lo[0] <= FP32.max <= hi[0]
    lo, hi = RULES["add_ru"].apply((big, big), FP32, IEEE)  # type: ignore[misc]
    assert hi[0] == math.inf


def test_muting_leaves_exact_results() -> None:
    x, y = point([1.5, 0.7]), point([2.5, 1.3])
    quiet = joint.quiet(SM80)
    for name in ("pow", "atan2", "hypot"):
        lo, hi = RULES[name].apply((x, y), FP32, quiet)  # type: ignore[misc]
        assert np.all(hi - lo <= 2.0**-46 * np.abs(lo))
    lo, hi = arithmetic.add(x, y, FP32, quiet)
    assert np.array_equal(*RULES["add_ru"].apply((x, y), FP32, quiet)) and lo[0] == 4  # type: ignore[misc]


def test_atan2_of_subnormal_numbers_is_the_angle_of_any_flush_of_them() -> None:
    """Either operand may become zero, or both, with its sign; no angle beyond these and the documented error. Where y
    may be zero and x not positive, the cut is met and nothing more is claimed."""
    sizes, error = (1e-39, 3e-40, 1e-38 * 1.17, 1e-37, 0.25), SM80.fn("atan2", "fp32")
    tiny = FP32.min_normal
    signed = [s * float(np.float32(v)) for v in sizes for s in (1, -1)]
    for y, x in itertools.product(signed, signed):
        ys, xs = ({v, math.copysign(0.0, v)} if abs(v) < tiny else {v} for v in (y, x))
        angles = [math.atan2(b, a) for b in ys for a in xs]
        lo, hi = (float(end[0]) for end in joint.atan2((np.array([y]),) * 2, (np.array([x]),) * 2, FP32, SM80))
        assert lo <= min(angles) and max(angles) <= hi, (y, x)
        if x > 0 or abs(y) >= tiny:
            room = [1.01 * (error.r * abs(v) + 2 * tiny) for v in (min(angles), max(angles))]
            flushed = abs(x) < tiny and abs(y) < tiny and x > 0
            assert flushed or (min(angles) - room[0] <= lo and hi <= max(angles) + room[1]), (y, x)
