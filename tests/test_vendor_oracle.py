"""The vendor's library on the CPU: its instructions do what they stand for, its errors are as declared."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache

import mpmath
import numpy as np
import pytest
from support import rng, special_values, trials
from vendor_oracle import bitcode, exact
from vendor_oracle.balls import ARITY, BALLS, exactly, ulps, worst
from vendor_oracle.bitcode import Library
from vendor_oracle.points import arguments

from interval_ops.formats.model import FP32, FP64, Format
from interval_ops.functions.elementary import FUNCTIONS
from interval_ops.profiles.profile import load_profile, profile_names
from render.ops.library import LIBRARY

pytestmark = pytest.mark.skipif(not bitcode.path().exists(), reason="this Triton has no NVIDIA library")
NVIDIA = [name for name in profile_names() if name.startswith("sm_")]


@cache
def library(contract: bool = False) -> Library:
    return Library(contract=contract)


def neighbours(x: Fraction) -> tuple[np.float32, np.float32]:
    """The fp32 numbers next to x from below and above."""
    near = np.float32(float(x))
    low = near if Fraction(float(near)) <= x else np.nextafter(near, np.float32(-np.inf))
    high = near if Fraction(float(near)) >= x else np.nextafter(near, np.float32(np.inf))
    return low, high


DIRECTED: dict[str, tuple[int, Callable[..., Fraction], str]] = {
    "fadd_rz": (2, lambda a, b: a + b, "zero"),
    "fmul_rz": (2, lambda a, b: a * b, "zero"),
    "fmaf_rz": (3, lambda a, b, c: a * b + c, "zero"),
    "fmaf_rd": (3, lambda a, b, c: a * b + c, "down"),
}


@pytest.mark.parametrize("name", DIRECTED)
def test_directed_instructions_equal_exact_rounding(name: str) -> None:
    """With random and with nearly cancelling operands, against rationals."""
    arity, f, way = DIRECTED[name]
    g, n = rng(5), trials(300)
    args = [np.ldexp(g.uniform(-2, 2, n), g.integers(-30, 3, n)).astype(np.float32) for _ in range(3)]
    args[arity - 1][::3] = -(args[0] if arity == 2 else args[0] * args[1])[::3]
    got = Library(ftz=False).function(f"__nv_{name}")(*args[:arity])
    for i in range(n):
        value = f(*(Fraction(float(a[i])) for a in args[:arity]))
        low, high = neighbours(value)
        assert got[i] == (high if way == "zero" and value < 0 else low)


def test_an_approximate_instruction_leans_as_far_as_documented() -> None:
    """rsqrt.approx within 2^-22.9, and close to that at both ends; ex2 leaves powers of two alone."""
    x = rng(6).uniform(1, 4, 20_000).astype(np.float32)
    f = library().function("rsqrt")
    root = 1 / np.sqrt(x.astype(np.float64))
    for lean in (0.0, 1.0, -1.0):
        error = (f(x, lean_by=lean) - root) / root
        assert np.abs(error).max() <= 2.0**-22.9
        assert abs(error.mean() - lean * (2.0**-22.9 - 2.0**-24)) < 2.0**-27
    whole = np.arange(-20, 20).astype(np.float32)
    assert np.array_equal(library().function("exp2")(whole, lean_by=1.0), np.exp2(whole))


def test_flushing_and_arithmetic_follow_the_flags() -> None:
    tiny = np.array([1e-39], np.float32)
    assert Library(ftz=True).function("sqrt")(tiny) == 0
    assert Library(ftz=False, precise_root=True).function("sqrt")(tiny) == np.sqrt(tiny)


def test_unknown_functions_are_named() -> None:
    with pytest.raises(LookupError, match="no __nv_nothingf"):
        library().function("nothing")


def declared(name: str, bits: int, profile: str = "sm_80") -> float:
    """ulp from the exact value."""
    known = load_profile(profile).functions[LIBRARY[name].entry if bits == 32 else f"{name}@fp64"]
    return known.r * 2.0 ** (23 if bits == 32 else 52)


@pytest.mark.parametrize("bits", [32, pytest.param(64, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", BALLS)
def test_errors_are_within_the_declared_ones(name: str, bits: int) -> None:
    """Against ball arithmetic; fused or not. The rule's interval of a point holds what the library gives."""
    g, n = rng(17), trials(60 if bits == 32 else 2000)
    args = arguments(name, ARITY.get(name, 1), bits, n, g)
    for contract in (False, True) if bits == 64 else (False,):
        got = library(contract).function(name, bits)(*args)
        error, at = worst(name, args, got, bits)
        assert error <= declared(name, bits), at
        fmt, points = (FP32 if bits == 32 else FP64), [np.float64(a)[None] for a in args]
        lo, hi = LIBRARY[name].apply(tuple((p, p) for p in points), fmt, load_profile("sm_80"))  # type: ignore[misc]
        inside = (np.float64(got) >= lo) & (np.float64(got) <= hi)
        assert (inside | np.isnan(lo) | np.isnan(got)).all()


EXACTLY = ("nextafter", "rint", "trunc", "floor", "copysign", "fdim", "sqrt", "round", "logb")


@pytest.mark.parametrize("fmt", [FP32, pytest.param(FP64, marks=pytest.mark.slow)], ids=lambda f: f.name)
@pytest.mark.parametrize("name", [*BALLS, *EXACTLY, "j0", "j1", "y0", "y1", "cyl_bessel_i0", "cyl_bessel_i1"])
def test_special_values_are_inside(name: str, fmt: Format) -> None:
    """Zeros, subnormals (which the library may flush), infinities, the ends of the range and of the domain."""
    rule, g = LIBRARY[name], rng(20)
    x = np.concatenate([special_values(fmt), [np.inf, -np.inf], np.ldexp(g.uniform(-1, 1, 40), fmt.emin)])
    x = x.astype(np.float32 if fmt.bits == 32 else np.float64)
    args = (x,) if rule.arity == 1 else tuple(g.choice(x, trials(4000)) for _ in range(rule.arity))
    points = tuple((a.astype(np.float64)[None],) * 2 for a in args)
    lo, hi = (end[0] for end in rule.apply(points, fmt, load_profile("sm_80")))  # type: ignore[misc]
    try:
        got = library().function(name, fmt.bits)(*args).astype(np.float64)
    except LookupError as missing:
        pytest.skip(str(missing))
    outside = ~((got >= lo) & (got <= hi)) & ~np.isnan(lo)
    assert not outside.any(), [v[outside][:4] for v in (*args, got, lo, hi)]


BESSEL = ("j0", "j1", "y0", "y1", "cyl_bessel_i0", "cyl_bessel_i1")


def bessel_points(name: str, fmt: Format, g: np.random.Generator) -> np.ndarray:
    """Every size of argument; beside the zeros; both sides of 8."""
    n, modified = trials(3000), name.startswith("cyl")
    top = (88.0 if fmt is FP32 else 700.0) if modified else 1e5
    x = np.concatenate([g.uniform(0, 8, n), g.uniform(8, top, n), 10 ** g.uniform(-37, np.log10(top), n)])
    if not modified:
        y = np.zeros(4000)
        FUNCTIONS[name].evaluate(grid := np.linspace(0.05, 60, 4000), y)
        around = grid[:-1][np.sign(y[:-1]) != np.sign(y[1:])] + 0.0075
        x = np.concatenate(
            [x, 10 ** g.uniform(5, 30, n), np.repeat(around, 50) + g.uniform(-0.008, 0.008, 50 * around.size)]
        )
    x = x if name[0] == "y" else x * g.choice([-1.0, 1.0], x.size)
    return np.concatenate([x, [8.0, np.nextafter(np.float32(8), 0), np.nextafter(8.0, 0)]])


@pytest.mark.parametrize("contract", [False, True], ids=["apart", "fused"])
@pytest.mark.parametrize("fmt", [FP32, FP64], ids=lambda f: f.name)
@pytest.mark.parametrize("name", BESSEL)
def test_bessel_functions_are_inside(name: str, fmt: Format, contract: bool) -> None:
    carrier = np.float32 if fmt is FP32 else np.float64
    x = bessel_points(name, fmt, rng(21)).astype(carrier)
    got, wide = library(contract).function(name, fmt.bits)(x).astype(np.float64), x.astype(np.float64)
    for profile in ("sm_80", "any"):
        lo, hi = LIBRARY[name].apply(((wide, wide),), fmt, load_profile(profile))  # type: ignore[misc]
        assert np.all(np.isfinite(lo) | np.isinf(got))
        outside = ~((got >= lo) & (got <= hi))
        assert not outside.any(), [v[outside][:4] for v in (x, got, lo, hi)]


def test_shifts_are_clamped_as_in_ptx() -> None:
    """The parity of 2^1023 is found by a shift past the word: its power of -1 is 1."""
    x, y = np.array([-1.0]), np.array([-(2.0**1023)])
    assert library().function("pow", 64)(x, y) == 1.0


LEANING = ("exp10", "erfinv", "erfcinv", "erfcx", "normcdf", "normcdfinv", "rcbrt", "sinpi", "cospi", "rhypot",
           "norm3d", "norm4d", "rnorm3d", "rnorm4d")  # fmt: skip


@pytest.mark.parametrize("name", LEANING)
def test_derived_errors_hold_for_any_legal_instruction(name: str) -> None:
    """Functions whose error was taken from the library's own code: its instructions at both ends of their errors."""
    args = arguments(name, ARITY.get(name, 1), 32, trials(60), rng(18))
    f = library().function(name)
    for lean in (-1.0, 1.0):
        error, at = worst(name, args, f(*args, lean_by=lean), 32)
        assert all(error <= declared(name, 32, profile) for profile in NVIDIA), at


FAST = {"fast_log2f": (2.0**-22, 2.0), "fast_logf": (2.0**-21.41, 3.0), "fast_log10f": (2.0**-24, 3.0)}
"""Errors of the CUDA C Programming Guide: absolute in [0.5, 2], in ulp of the rounded value outside."""


@pytest.mark.parametrize("name", FAST)
def test_fast_functions_stay_inside_wherever_the_instruction_lies(name: str) -> None:
    """The library's own code, its instruction at both ends of its error; and the vendor's table around exact values."""
    g, n = rng(23), trials(400)
    near = 1 + np.ldexp(g.uniform(-1, 1, n), -g.integers(0, 24, n))
    x = np.concatenate([special_values(FP32), near, np.ldexp(g.uniform(1, 2, n), g.integers(-125, 127, n)), [np.inf]])
    x = x[x >= 0].astype(np.float32)
    rule, wide = LIBRARY[name], x.astype(np.float64)
    inside, outside = FAST[name]
    for profile in NVIDIA:
        lo, hi = rule.apply(((wide, wide),), FP32, load_profile(profile))  # type: ignore[misc]
        for lean in (-1.0, 0.0, 1.0):
            got = library().function(f"__nv_{name}")(x, lean_by=lean).astype(np.float64)
            assert np.all((got >= lo) & (got <= hi)), x[~((got >= lo) & (got <= hi))][:4]
        for v, low, high in zip(wide, lo, hi, strict=True):
            value = exactly(rule.function, (v,)) if 2.0**-126 <= v < np.inf and v != 1 else None
            if value is not None:
                middle = float(value.mid())
                reach = inside if 0.5 <= v <= 2 else (outside + 0.5) * np.spacing(np.float32(abs(middle)))
                assert low <= middle - reach * (1 - 2.0**-20) and middle + reach * (1 - 2.0**-20) <= high, v


@pytest.mark.parametrize(("name", "reach"), [("sin", 2.0**-20.5), ("cos", 2.0**-20.5)])
def test_fast_waves_are_documented_in_a_period(name: str, reach: float) -> None:
    """The whole of the vendor's error around the exact values in [-pi, pi]; nothing is said of arguments beyond."""
    x = np.concatenate([rng(24).uniform(-np.pi, np.pi, trials(300)), [3.1415925, -3.1415925, 1e-3]])
    x = x.astype(np.float32).astype(np.float64)
    x = x[np.abs(x) < np.pi]
    far = np.array([3.2, -50.0, 1e9, -np.inf])
    for profile in NVIDIA:
        rule = LIBRARY[f"fast_{name}f"]
        lo, hi = rule.apply(((x, x),), FP32, load_profile(profile))  # type: ignore[misc]
        assert np.all(np.isfinite(lo[np.abs(x) < 3.1415925]))
        for v, low, high in zip(x, lo, hi, strict=True):
            value = float((mpmath.sin if name == "sin" else mpmath.cos)(mpmath.mpf(v)))
            assert not low > value - reach * (1 - 2.0**-20) and not value + reach * (1 - 2.0**-20) > high, v
        lo, hi = rule.apply(((far, far),), FP32, load_profile(profile))  # type: ignore[misc]
        assert np.isnan(lo).all() and np.isnan(hi).all()
        lo, hi = rule.apply(((-np.ones(1), np.full(1, 4.0)),), FP32, load_profile(profile))  # type: ignore[misc]
        assert np.isnan(lo).all()


@pytest.mark.parametrize("name", exact.EXACT)
def test_references_in_float64_agree_with_ball_arithmetic(name: str) -> None:
    """To a thousandth of an fp32 ulp, also from a value that is an ulp off."""
    args = arguments(name, 1, 32, trials(40), rng(19))[0].astype(np.float64)
    for x in args:
        value = exactly(name, (float(x),))
        if value is None or not 2.0**-126 < abs(float(value.mid())) < 3.4e38:
            continue
        start = float(value.mid()) * (1 + 2.0**-23)
        assert ulps(value, exact.EXACT[name](float(x), start), 32) < 1e-3, x


def test_comparison_finds_wrong_values() -> None:
    compare = exact.comparison("exp")
    x = np.array([0.5, 1.0, 100.0, -200.0, 3.0], np.float32)
    right = np.clip(np.exp(np.float64(x)), None, 3.4028234663852886e38).astype(np.float32)
    error, _, odd, _ = compare(x, right)
    assert error <= 0.51 and odd == 0
    wrong = right.copy()
    wrong[1] = np.nextafter(np.nextafter(wrong[1], np.float32(9)), np.float32(9))
    error, at, odd, _ = compare(x, wrong)
    assert 1.5 < error < 2.5 and at == 1 and odd == 0
    wrong[4] = np.nan
    assert compare(x, wrong)[2:] == (1, 4)
