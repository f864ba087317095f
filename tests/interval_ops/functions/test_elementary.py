"""Elementary functions against mpmath at 120 bits, and against the sequences and errors that targets document."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from containment import assert_inside, hard_intervals, interval, point, rounded, sample, to_format, well_formed
from support import rng, special_values, trials

from interval_ops.formats.model import BF16, FP16, FP32, FP64, Format
from interval_ops.functions import elementary as functions
from interval_ops.profiles.profile import FnError, MissingRule, Profile, load_profile

IEEE, SM80 = load_profile("ieee"), load_profile("sm_80")
MP = mpmath.mp.clone()
MP.prec = 120
ORACLE = {
    "exp": MP.exp, "exp2": lambda x: MP.power(2, x), "log": MP.log, "log2": lambda x: MP.log(x) / MP.log(2),
    "log10": MP.log10, "log1p": MP.log1p, "expm1": MP.expm1, "sqrt": MP.sqrt,
    "rsqrt": lambda x: 1 / MP.sqrt(x), "cbrt": lambda x: MP.sign(x) * MP.cbrt(abs(x)), "erf": MP.erf, "tanh": MP.tanh,
    "sinh": MP.sinh, "asinh": MP.asinh, "atanh": MP.atanh, "acosh": MP.acosh, "asin": MP.asin, "acos": MP.acos,
    "atan": MP.atan, "sin": MP.sin, "cos": MP.cos, "cosh": MP.cosh, "exp10": lambda x: MP.power(10, x),
    "erfc": MP.erfc, "erfcx": lambda x: MP.exp(x * x) * MP.erfc(x), "erfinv": lambda x: erfinv(x),
    "erfcinv": lambda x: erfcinv(x), "normcdf": MP.ncdf, "normcdfinv": lambda x: -MP.sqrt(2) * erfcinv(2 * x),
    "sinpi": MP.sinpi, "cospi": MP.cospi, "tan": MP.tan, "rcbrt": lambda x: MP.sign(x) / MP.cbrt(abs(x)),
    "tgamma": MP.gamma, "lgamma": lambda x: MP.log(abs(MP.gamma(x))),
    "j0": lambda x: MP.besselj(0, x), "j1": lambda x: MP.besselj(1, x), "y0": lambda x: MP.bessely(0, x),
    "y1": lambda x: MP.bessely(1, x), "cyl_bessel_i0": lambda x: MP.besseli(0, x),
    "cyl_bessel_i1": lambda x: MP.besseli(1, x),
}  # fmt: skip


def erfcinv(x: object) -> object:
    """By bisection on the oracle's own erfc, for 0 < x < 2: mpmath's erfinv loses digits in the tails."""
    if x > 1:
        return -erfcinv(2 - x)
    low, high = MP.mpf(0), MP.mpf(30)
    for _ in range(135):
        middle = (low + high) / 2
        low, high = (middle, high) if MP.erfc(middle) > x else (low, middle)
    return low


def erfinv(x: object) -> object:
    return x * MP.sqrt(MP.pi) / 2 if abs(x) < MP.mpf(2) ** -40 else erfcinv(1 - x)


DOMAIN = {
    "exp": (-110, 95), "exp2": (-155, 130), "expm1": (-50, 95), "sinh": (-95, 95), "log1p": (-0.999, 1e30),
    "atanh": (-0.999, 0.999), "asin": (-1, 1), "acos": (-1, 1), "acosh": (1, 1e30), "tanh": (-12, 12), "erf": (-5, 5),
    "sin": (-1e5, 1e5), "cos": (-1e5, 1e5), "cosh": (-95, 95), "exp10": (-46, 39), "erfc": (-5, 12),
    "erfcx": (-9, 1e30), "erfinv": (-0.9999, 0.9999), "erfcinv": (1e-30, 1.9999), "normcdf": (-14, 9),
    "normcdfinv": (1e-30, 0.9999), "sinpi": (-1e5, 1e5), "cospi": (-1e5, 1e5), "tan": (-1e5, 1e5),
    "tgamma": (1e-30, 35), "lgamma": (1e-30, 1e30), "j0": (-1e5, 1e5), "j1": (-1e5, 1e5), "y0": (1e-30, 1e5),
    "y1": (1e-30, 1e5), "cyl_bessel_i0": (-95, 95), "cyl_bessel_i1": (-95, 95),
}  # fmt: skip
POSITIVE = {"log", "log2", "log10", "sqrt", "sqrt_rn", "rsqrt", "rsqrt_rn", "tgamma", "lgamma", "erfcinv", "normcdfinv",
            "y0", "y1"}  # fmt: skip
ENTRIES = {
    "sqrt_rn": "sqrt", "rsqrt_rn": "rsqrt", "libdevice_exp": "exp", "libdevice_rsqrt": "rsqrt",
    **{f"fast_{name}f": name for name in ("exp", "log", "log2", "log10")},
}  # fmt: skip
"""Entries of profiles for another accuracy of a function."""
for _entry, _name in ENTRIES.items():
    ORACLE[_entry] = ORACLE[_name]
    DOMAIN |= {_entry: DOMAIN[_name]} if _name in DOMAIN else {}
    POSITIVE |= {_entry} & {_entry if _name in POSITIVE else ""}
POLE_AT_ZERO = {*POSITIVE, "rcbrt"}
NEVER_NEGATIVE = {"exp", "exp2", "exp10", "sqrt", "rsqrt", "libdevice_exp", "libdevice_rsqrt", "fast_expf", "erfc",
                  "erfcx", "normcdf"}  # fmt: skip
NAMES = sorted([*functions.FUNCTIONS, *ENTRIES])
SINGLE_ONLY = {"rsqrt_rn", *(entry for entry in ENTRIES if entry.startswith("fast_"))}


def unary(entry: str, a: tuple[np.ndarray, np.ndarray], fmt: Format, profile: Profile) -> tuple[np.ndarray, np.ndarray]:
    """Bounds within the error of an entry, of the function that it belongs to."""
    return functions.unary(ENTRIES.get(entry, entry), a, fmt, profile, entry)


def arguments(generator: np.random.Generator, name: str, fmt: Format, n: int) -> np.ndarray:
    """Special numbers and random ones of any size inside the function's domain."""
    low, high = DOMAIN.get(name, (-1e30, 1e30))
    low = 0 if name in POSITIVE else low
    spread = 2.0 ** generator.uniform(-100, 100, n) * generator.choice([-1.0, 1.0], n)
    x = np.concatenate([special_values(fmt), spread, generator.uniform(max(low, -1e6), min(high, 1e6), n)])
    x = to_format(np.abs(x) if name in POSITIVE else x, fmt)
    return np.unique(x[(x >= low) & (x <= high)])


def between(lo: float, hi: float, value: object) -> bool:
    """Exact comparison: a float64 converts to a 120-bit number without error."""
    return math.isnan(lo) or (MP.mpf(float(lo)) <= value <= MP.mpf(float(hi)))


@pytest.mark.parametrize("fmt", [FP32, FP64], ids=lambda f: f.name)
@pytest.mark.parametrize("name", NAMES)
def test_points_hold_the_exact_value_and_the_documented_error(name: str, fmt: Format) -> None:
    if fmt is FP64 and name in SINGLE_ONLY:
        pytest.skip("the library has no fp64 form")
    generator = rng(71)
    x = arguments(generator, name, fmt, trials(120))
    exact = [ORACLE[name](MP.mpf(float(v))) if not (name in POLE_AT_ZERO and v == 0) else None for v in x]
    for profile in (IEEE, SM80):
        error = profile.fn(name.removeprefix("libdevice_") if fmt is FP64 else name, fmt.name)
        lo, hi = unary(name, (x, x), fmt, profile)
        well_formed((lo, hi))
        for i, value in enumerate(exact):
            if value is None:
                continue
            assert between(lo[i], hi[i], value), (x[i], lo[i], hi[i])
            # The tight exp is judged below, by the sequence it stands for.
            bounded = profile is SM80 and error.r > fmt.u and (name, fmt) not in (("exp", FP32), ("fast_expf", FP32))
            if bounded and x[i] != 0 and abs(value) < fmt.max / 2:
                spread = abs(value) * error.r
                floor = 0 if name in NEVER_NEGATIVE else -math.inf
                assert between(lo[i], hi[i], max(value - spread, floor)), (x[i], lo[i], hi[i])
                assert between(lo[i], hi[i], value + spread), (x[i], lo[i], hi[i])


@pytest.mark.parametrize("name", NAMES)
def test_correctly_rounded_results_are_inside_and_tight(name: str) -> None:
    """Profile ieee: the fp32 rounding of the exact value lies inside, and the width is at most one ulp."""
    x = arguments(rng(72), name, FP32, trials(60))
    lo, hi = unary(name, (x, x), FP32, IEEE)
    for i, v in enumerate(x):
        if v == 0:
            continue
        value = ORACLE[name](MP.mpf(float(v)))
        sign, man, exp, _ = value._mpf_
        rn = rounded(Fraction((-1) ** sign * int(man)) * Fraction(2) ** exp, FP32)
        assert lo[i] <= rn <= hi[i], (v, rn, lo[i], hi[i])
        if math.isfinite(hi[i]):
            # Near its zeros the float64 ln gamma has an absolute error.
            extra = 2.0**-44 if name == "lgamma" else 2.0**-148
            assert hi[i] - lo[i] <= 2.0**-23 * abs(rn) + extra


@pytest.mark.parametrize("name", NAMES)
def test_intervals_hold_every_choice(name: str) -> None:
    generator = rng(73)
    x = arguments(generator, name, FP32, trials(100))
    y = np.roll(x, int(generator.integers(1, 4)))
    a = (np.minimum(x, y), np.maximum(x, y))
    out = unary(name, a, FP32, SM80)
    well_formed(out)
    for _ in range(2):
        v = sample(generator, a, FP32)
        single = unary(name, (v, v.copy()), FP32, SM80)
        for i in range(v.size):
            if v[i] != 0 or name not in POLE_AT_ZERO:
                assert between(out[0][i], out[1][i], ORACLE[name](MP.mpf(float(v[i])))), (a[0][i], a[1][i], v[i])
        # Inclusion isotonicity, up to the slack of float64.
        low, high = (np.where(np.isinf(end), 0, 2.0**-45 * np.abs(end)) for end in single)
        ok = np.isnan(out[0]) | ((out[0] - low <= single[0]) & (single[1] <= out[1] + high))
        assert ok.all(), (a[0][~ok], a[1][~ok], v[~ok])


def legal_exp(x: float) -> tuple[object, object]:
    """ex2(fl(x fl(log2 e))) with the whole documented error of ex2, and e^x."""
    c = Fraction(float.fromhex("0x1.715476p+0"))
    p = rounded(Fraction(x) * c, FP32)
    r = MP.mpf(2.5 * 2.0**-23)
    two_p = MP.power(2, MP.mpf(p))
    return two_p * (1 - r), two_p * (1 + r)


@pytest.mark.parametrize("entry", ["exp", "fast_expf"])
def test_exp_holds_the_compiled_sequence_and_is_tight(entry: str) -> None:
    x = arguments(rng(74), "exp", FP32, trials(300))
    x = x[(x > -87) & (x < 88)]
    lo, hi = functions.unary("exp", (x, x), FP32, SM80, entry)
    for i, v in enumerate(x):
        low, high = legal_exp(v)
        if v == 0:
            assert lo[i] == hi[i] == 1
            continue
        assert between(lo[i], hi[i], low) and between(lo[i], hi[i], high) and between(lo[i], hi[i], MP.exp(v))
        tight = max(high, MP.exp(v)) - min(low, MP.exp(v))
        assert hi[i] - lo[i] <= float(tight) * 1.001 + 2.0**-24 * np.exp(v) + 20 * 2.0**-149


@pytest.mark.parametrize(("x", "legal"), [(-79.96136, 1.875968e-35), (-9.99517, None), (-80.0, 1.804850898e-35)])
def test_exp_is_not_a_fixed_number_of_ulps(x: float, legal: float | None) -> None:
    """U2 and the published rule: 48.5 ulp at -79.96, 5.8 ulp at -9.995."""
    v = float(np.float32(x))
    lo, hi = functions.unary("exp", point(v), FP32, SM80)
    p = np.float64(np.float32(v * np.float64(np.float32(1.442695040888963))))
    computed = np.float64(np.float32(2.0**p))
    assert_inside((lo, hi), np.array([computed]))
    assert_inside((lo, hi), np.array([np.exp(v)]))
    if legal is not None:
        assert abs(computed / legal - 1) < 1e-6
    four_ulp = 4 * 2.0**-24 * np.exp(v)
    assert abs(computed - np.exp(v)) > four_ulp


def test_exp_underflow_and_overflow() -> None:
    """U3: exp(-104) is legally 0; overflow goes to infinity and keeps the exact value."""
    for profile in (IEEE, SM80):
        lo, hi = functions.unary("exp", point([-104.0, -1000.0, 100.0, 1000.0, -math.inf, math.inf]), FP32, profile)
        assert np.all(lo[:2] == 0) and np.all(hi[:2] > 0)
        assert hi[2] == hi[3] == math.inf and lo[2] <= math.exp(100) and lo[3] <= 1.8e308
        assert (lo[4], hi[4], lo[5], hi[5]) == (0, 0, math.inf, math.inf)
    lo, hi = functions.unary("exp", point([-745.2, 710.0]), FP64, IEEE)
    assert lo[0] == 0 and hi[0] > 0 and lo[1] < math.inf and hi[1] == math.inf


def test_absolute_error_near_a_zero_of_the_function() -> None:
    """U6: a log with an absolute error (lg2.approx) is off by 1.65e-7 at 1, where a relative error gives nothing."""
    approximate = replace(SM80, functions={**SM80.functions, "log": FnError(2.0**-23, 2.0**-22 * math.log(2))})
    assert_inside(functions.unary("log", point(1.0), FP32, approximate), np.array([1.65e-7]))


def test_cosine_and_sine_have_interior_extrema() -> None:
    """U8, U9 and the published rule: end points alone give [0, 1e-16] for sin over [0, pi]."""
    out = functions.unary("cos", interval(1 - 2e-4, 1 + 2e-4), FP32, SM80)
    assert_inside(out, np.array([0.5403023]))
    out = functions.unary("sin", interval(math.pi / 2 - 0.03, math.pi / 2 + 0.03), FP32, SM80)
    assert_inside(out, np.array([0.99999905]))
    assert_inside(out, np.array([1.0]))
    out = functions.unary("sin", interval(0.0, math.pi), FP32, SM80)
    assert_inside(out, np.array([1.0]))
    lo, hi = functions.unary("sin", interval([1.0, 4.0, -1e7, 1e300], [2.0, 5.0, -1e7 + 1, 1.1e300]), FP32, SM80)
    assert lo[0] > 0.84 and hi[0] >= 1 and lo[1] <= -1 and hi[1] < -0.75
    assert np.all(lo[2:] <= -1) and np.all(hi[2:] >= 1)
    for name in ("sin", "cos", "sinpi", "cospi"):
        assert np.isnan(unary(name, point(math.inf), FP32, SM80)[0][0])
        lo, hi = unary(name, point(1e22), FP64, SM80)
        assert between(lo[0], hi[0], ORACLE[name](MP.mpf(10) ** 22))


def test_waves_at_every_multiple_of_a_quarter_turn() -> None:
    generator = rng(75)
    k = np.concatenate([np.arange(-40, 40), generator.integers(-600000, 600000, trials(200))])
    centre = k * (math.pi / 2)
    width = 10.0 ** generator.uniform(-12, 0.3, k.size)
    a = (centre - width * generator.random(k.size), centre + width * generator.random(k.size))
    for name, function in (("sin", np.sin), ("cos", np.cos)):
        lo, hi = unary(name, a, FP32, SM80)
        for t in np.linspace(0, 1, 9):
            assert_inside((lo, hi), function(np.clip(a[0] * (1 - t) + a[1] * t, *a)))
        # The extremum itself, where it lies inside.
        inside = (a[0] < centre) & (centre < a[1])
        assert_inside((lo[inside], hi[inside]), np.round(function(centre[inside])))
        assert np.all(hi <= 1 + 2.0**-20)


def test_flush_to_zero() -> None:
    """The published sqrt rule misses it: sqrt(1e-39) may be 0; rsqrt of it may be infinite; exp2(-130) may be 0."""
    tiny = float(np.float32(1e-39))
    for name, flushed in (("sqrt", 0.0), ("rsqrt", math.inf), ("exp2", 1.0), ("erf", 0.0), ("sin", 0.0), ("cos", 1.0)):
        out = unary(name, point(tiny), FP32, SM80)
        assert_inside(out, np.array([flushed]))
        assert_inside(out, np.array([float(ORACLE[name](MP.mpf(tiny)))]))
    assert functions.unary("exp2", point(-130.0), FP32, SM80)[0][0] == 0
    assert functions.unary("exp2", point(-130.0), FP32, IEEE)[0][0] > 0
    lo, hi = functions.unary("sqrt", point(tiny), FP32, IEEE)
    assert lo[0] > 3e-20 and hi[0] < 4e-20
    big_erf = point(0.95 * 2.0**-126)
    assert functions.unary("erf", big_erf, FP32, SM80)[0][0] == 0


def test_outside_the_domain_is_top() -> None:
    for name in ("log", "log2", "log10", "sqrt", "sqrt_rn", "rsqrt"):
        for x in (point(-1.0), interval(-1e-9, 1.0), point(math.nan)):
            out = unary(name, x, FP32, SM80)
            assert np.isnan(out[0][0]) and np.isnan(out[1][0])
        assert not np.isnan(unary(name, interval(0.0, 1.0), FP32, SM80)[0][0])
    for name in ("asin", "acos", "atanh"):
        assert np.isnan(unary(name, interval(0.5, 1.5), FP32, SM80)[0][0])
    lo, hi = functions.unary("log", interval(0.0, 1.0), FP32, SM80)
    assert lo[0] == -math.inf and hi[0] >= 0


def test_reciprocal_root_of_zero() -> None:
    lo, hi = functions.unary("rsqrt", point([0.0, -0.0, math.inf]), FP32, SM80)
    assert lo.tolist() == hi.tolist() == [math.inf, -math.inf, 0.0]
    lo, hi = functions.unary("rsqrt", interval([0.0, -0.0], [1.0, 0.0]), FP32, SM80)
    assert lo.tolist() == [-math.inf] * 2 and hi.tolist() == [math.inf] * 2
    lo, hi = functions.unary("rsqrt", point(4.0), FP32, SM80)
    # PTX: 2^-22.9, more than the one ulp of a square root.
    assert lo[0] <= 0.5 * (1 - 2.0**-22.9) and hi[0] >= 0.5 * (1 + 2.0**-22.9)


def test_results_may_leave_the_range_of_the_function() -> None:
    assert functions.unary("tanh", point(20.0), FP32, SM80)[1][0] > 1
    assert functions.unary("erf", point(10.0), FP32, SM80)[1][0] > 1
    assert functions.unary("tanh", point(math.inf), FP32, SM80)[1][0] == 1


@pytest.mark.parametrize("fmt", [FP16, BF16], ids=lambda f: f.name)
def test_narrow_formats_round_once_more(fmt: Format) -> None:
    generator = rng(76)
    a = hard_intervals(generator, fmt, trials(300))
    a = (np.clip(a[0], -9, 9), np.clip(a[1], -9, 9))
    x = sample(generator, a, fmt)
    for name, function in (("exp", np.exp), ("tanh", np.tanh), ("erf", np.vectorize(math.erf))):
        out = unary(name, a, fmt, SM80)
        assert_inside(out, function(x), x)
        assert_inside(out, np.array([rounded(Fraction(float(v)), fmt) for v in np.atleast_1d(function(x))]), x)


def test_muting_keeps_float64_slack_only() -> None:
    x = rng(77).uniform(-5, 5, 500)
    for name in ("exp", "sin", "tanh", "erf", "exp2"):
        out = unary(name, (x, x), FP32, SM80.mute("function"))
        value = np.array([float(ORACLE[name](MP.mpf(float(v)))) for v in x])
        assert_inside(out, value)
        assert np.all(out[1] - out[0] <= 2.0**-46 * np.abs(value))


def test_missing_rules_and_unknown_functions_are_errors() -> None:
    silent = replace(SM80, functions={})
    with pytest.raises(MissingRule, match="tanh"):
        functions.unary("tanh", point(1.0), FP32, silent)
    with pytest.raises(LookupError):
        functions.unary("gudermann", point(1.0), FP32, SM80)


def test_layouts_give_the_same_bits() -> None:
    x = rng(78).uniform(-3, 3, (40, 700)).astype(np.float32)
    for name in ("exp", "sin", "erf", "rsqrt"):
        v = np.abs(x) if name == "rsqrt" else x
        whole = unary(name, (v, v), FP32, SM80)
        one = unary(name, (v[3:4], v[3:4]), FP32, SM80)
        transposed = unary(name, (v.T, v.T), FP32, SM80)
        for end in (0, 1):
            assert np.array_equal(whole[end][3:4], one[end])
            assert np.array_equal(whole[end], transposed[end].T)


def test_cosh_turns_at_zero() -> None:
    lo, hi = functions.unary("cosh", interval([-2.0, -3.0, -math.inf], [1.0, -1.0, 0.0]), FP32, SM80)
    assert np.all(lo <= [1, math.cosh(1), 1]) and np.all(hi >= [math.cosh(2), math.cosh(3), math.inf])
    assert lo[0] > 0.9999996 and hi[1] < 10.0677


@pytest.mark.parametrize("name", ["sinpi", "cospi"])
def test_half_turns_are_exact(name: str) -> None:
    """sin(pi x) at 10^6 + 1/2 is 1 to the last bit; reducing pi x instead of x would lose it."""
    x = np.array([0.5, 1.0, 1e6 + 0.5, -7.0, 2.0**40 + 0.25, 2.0**52])
    lo, hi = unary(name, (x, x), FP32, IEEE)
    for i, v in enumerate(x):
        assert between(lo[i], hi[i], ORACLE[name](MP.mpf(float(v))))
    lo, hi = unary(name, interval([-0.1, 0.4, 0.9], [0.6, 1.1, 2.0]), FP32, SM80)
    top = [1, -math.cos(0.1 * math.pi), 0] if name == "sinpi" else [1, math.cos(0.4 * math.pi), 1]
    assert np.all(hi >= np.array(top) - 1e-15) and np.all(hi <= 1 + 2.0**-20)


def test_tangent_has_poles() -> None:
    half = math.pi / 2
    lo, hi = functions.unary(
        "tan", interval([half - 1e-6, -0.5, 1.6, -1e7, 3.0], [half + 1e-6, 0.5, 4.6, 1e7, 3.2]), FP32, SM80
    )
    assert lo[0] == lo[3] == -math.inf and hi[0] == hi[3] == math.inf
    assert lo[1] <= -math.tan(0.5) and hi[1] >= math.tan(0.5) and hi[1] < 0.5464
    assert lo[2] <= math.tan(1.6) and hi[2] >= math.tan(4.6) and np.isfinite(lo[2])
    assert lo[4] <= math.tan(3.0) and hi[4] >= math.tan(3.2) and hi[4] < 0.06
    assert np.isnan(functions.unary("tan", point(math.inf), FP32, SM80)[0][0])


def test_reciprocal_cube_root_has_a_pole() -> None:
    lo, hi = functions.unary("rcbrt", interval([-8.0, 0.0, -1.0, 1e-40], [-1.0, 8.0, 8.0, 1.0]), FP32, SM80)
    assert lo[0] <= -1 and hi[0] >= -0.5 and hi[0] < -0.4999
    assert np.all(lo[1:] == -math.inf) and np.all(hi[1:] == math.inf)
    lo, hi = functions.unary("rcbrt", point([0.0, -0.0, math.inf]), FP32, SM80)
    assert lo.tolist() == hi.tolist() == [math.inf, -math.inf, 0.0]


def test_gamma_turns_at_its_minimum_and_has_poles() -> None:
    low, high = interval([1.0, 1.4, -0.5, -1.0, 0.0, -3.5, -2.9], [2.0, 1.5, 1.0, -1.0, 1.0, -3.5, -2.1])
    lo, hi = functions.unary("tgamma", (low, high), FP32, SM80)
    minimum = MP.gamma(MP.findroot(MP.digamma, 1.46))
    for i in (0, 1):
        assert between(lo[i], hi[i], minimum) and hi[i] >= float(MP.gamma(high[i] if i == 0 else low[i])) - 1e-15
    assert np.all(np.isnan(lo[[2, 3, 4]]))
    assert between(lo[5], hi[5], MP.gamma(-3.5)) and hi[5] - lo[5] < 1e-5
    for x in np.linspace(-2.9, -2.1, 17):
        assert between(lo[6], hi[6], MP.gamma(float(x)))
    generator = rng(79)
    x = generator.uniform(-30, 0, trials(200)).astype(np.float32).astype(float)
    lo, hi = functions.unary("tgamma", (x, x), FP32, SM80)
    for i, v in enumerate(x):
        assert between(lo[i], hi[i], MP.gamma(float(v)))


def test_log_gamma_only_where_its_error_is_documented() -> None:
    """CUDA: 6 ulp outside (-10.001, -2.264) in fp32, 4 outside (-23.0001, -2.2637) in fp64."""
    lo, hi = functions.unary(
        "lgamma", interval([1.0, 0.0, 0.5, -3.5, -1.5, -2.2], [2.0, 3.0, 1.2, -3.5, -1.2, -2.2]), FP32, SM80
    )
    assert between(lo[0], hi[0], ORACLE["lgamma"](MP.findroot(MP.digamma, 1.46))) and hi[0] >= 0
    assert hi[1] == math.inf and lo[1] <= -0.1214 and hi[2] >= 0.5723
    assert np.all(np.isnan(lo[[3, 4]])) and between(lo[5], hi[5], ORACLE["lgamma"](MP.mpf(-2.2)))
    lo, hi = functions.unary("lgamma", point([1.0, 2.0, 0.0, math.inf]), FP32, SM80)
    assert lo.tolist() == hi.tolist() == [0.0, 0.0, math.inf, math.inf]


def test_poles_may_be_met_by_flushed_arguments() -> None:
    tiny = float(np.float32(1e-39))
    for name in ("tgamma", "lgamma", "rcbrt"):
        assert unary(name, point(tiny), FP32, SM80)[1][0] == math.inf
    assert functions.unary("tgamma", point(-tiny), FP32, SM80)[0][0] == -math.inf
