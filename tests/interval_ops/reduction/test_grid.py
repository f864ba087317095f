"""Terms on a common grid: sums that are exact in any order, on every unit, and the ends of that rule."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from amd_dots import INSTRUCTIONS
from amd_dots import run as amd_run
from block_fma import UNITS, chain, fractions, in_order, operand_format, run
from support import exact, rng, round_fraction, special_values, trials

from interval_ops.dot.rule import PendingDot
from interval_ops.formats.model import BF16, FP16, FP32, FP64, Format
from interval_ops.profiles.profile import load_profile, profile_names
from interval_ops.reduction.grid import column_grid, last_bits, row_grid
from interval_ops.reduction.rule import sum_axis
from interval_ops.reduction.scan import cumsum

Array = np.ndarray


def divides(x: float) -> Fraction:
    """The largest power of two that divides x, by integers."""
    n, d = exact(x).numerator, exact(x).denominator
    return Fraction(n & -n, d)


def test_last_bits() -> None:
    x = np.concatenate([rng(1).standard_normal(300), special_values(FP32), special_values(FP16), special_values(FP64)])
    x = x[np.isfinite(x)]
    for value, found in zip(x, last_bits(x), strict=True):
        assert found == np.inf if value == 0 else exact(found) == divides(value)


@pytest.mark.parametrize("dtype", (np.float32, np.float64))
def test_grids_of_rows_and_columns(dtype: type) -> None:
    x = np.abs(rng(2).standard_normal((2, 5, 7))).astype(dtype)
    x[0, 1] = 0
    bits = last_bits(x)
    rows, columns = np.empty((2, 5)), np.empty((2, 7))
    row_grid(x, rows)
    column_grid(x, columns)
    assert np.array_equal(rows, bits.min(axis=2))
    assert np.array_equal(columns, bits.min(axis=1))


def integers(generator: np.random.Generator, shape: tuple[int, ...], bits: int, scale: int) -> Array:
    return np.ldexp(generator.integers(-(2**bits), 2**bits + 1, shape), scale).astype(np.float32)


def bounds(a: Array, b: Array, kind: str, name: str, c: Array | None = None) -> tuple[Array, Array]:
    start = None if c is None else (c, c)
    shape = (a.shape[-2], b.shape[-1])
    return PendingDot.start(start, shape, kind, load_profile(name)).extend((a, a), (b, b)).interval()


def kinds(name: str) -> list[str]:
    dots = load_profile(name).dots
    return [k for k in ("fp16", "bf16", "tf32", "ieee", "fp8", "fp16acc") if k in dots and not dots[k].flush]


@pytest.mark.parametrize("name", profile_names())
def test_integers_have_no_width(name: str) -> None:
    generator = rng(3)
    for kind in kinds(name):
        a, b = integers(generator, (2, 3, 40), 2, -3), integers(generator, (2, 40, 3), 2, 1)
        c = integers(generator, (2, 3, 3), 5, -2)
        lo, hi = bounds(a, b, kind, name, c)
        true = a.astype(np.float64) @ b.astype(np.float64) + c  # integers over 4: exact
        assert np.array_equal(lo, true), kind
        assert np.array_equal(hi, true), kind


@pytest.mark.parametrize("key", UNITS, ids="-".join)
def test_units_agree_where_a_bound_is_a_point(key: tuple[str, str]) -> None:
    """Operands whose grid lies about where the unit begins to cut: the oracle's executions stay inside, and where they
    differ from the exact sum the bound has a width."""
    name, kind = key
    profile = "any" if name == "sm_70" else name
    generator, fmt, unit = rng(4), operand_format(kind), UNITS[key]
    points = cut = 0
    for trial in range(trials(150)):
        k, small = int(generator.integers(1, 3 * unit.block + 1)), int(generator.integers(-12, 1))
        a, b = integers(generator, (1, 1, k), 1, small // 2), integers(generator, (1, k, 1), 1, small - small // 2)
        large = int(generator.integers(small, small + unit.bits + 4))
        a[0, 0, 0], b[0, 0, 0] = np.ldexp(1.0, large // 2), np.ldexp(1.0, large - large // 2)
        c = np.full((1, 1, 1), np.ldexp(1.0, small - trial % 4) if trial % 3 == 0 else 0.0, np.float32)
        lo, hi = (x.item() for x in bounds(a, b, kind, profile, c))
        pairs, start = fractions(a[0, 0], b[0, :, 0]), exact(c.item())
        true = start + sum((x * y for x, y in pairs), Fraction(0))
        values = [run(start, pairs, unit, fmt, generator), in_order(start, pairs, unit, fmt)]
        assert all(exact(lo) <= v <= exact(hi) for v in (true, *values))
        points += lo == hi
        cut += any(v != true for v in values)
    assert points > 10
    assert cut > 0


@pytest.mark.parametrize("key", [key for key in INSTRUCTIONS if key[0] == "gfx942"], ids="-".join)
def test_amd_units_agree_where_a_bound_is_a_point(key: tuple[str, str]) -> None:
    name, kind = key
    generator, points, cut = rng(6), 0, 0
    for trial in range(trials(60)):
        k = int(generator.integers(1, 30))
        a, b = integers(generator, (1, 1, k), 2, -2), integers(generator, (1, k, 1), 2, 0)
        c = np.full((1, 1, 1), 2.0 ** -int(generator.integers(0, 30)) if trial % 2 else 0.0, np.float32)
        lo, hi = (x.item() for x in bounds(a, b, kind, name, c))
        pairs, start = fractions(a[0, 0], b[0, :, 0]), exact(c.item())
        true, value = start + sum((x * y for x, y in pairs), Fraction(0)), amd_run(start, pairs, name, kind, generator)
        assert exact(lo) <= min(value, true) <= max(value, true) <= exact(hi)
        points += lo == hi
        cut += value != true
    assert points > 10
    assert cut > 0


def test_the_last_sum_that_fits_and_the_first_that_does_not() -> None:
    """2^24 units of the grid fit into fp32; one product more than that may be lost."""
    a = np.ones((1, 1, 3), np.float32)
    for top, width in ((2.0**23, False), (2.0**24, True)):
        b = np.array([top, 1.0, 1.0], np.float32).reshape(1, 3, 1)
        lo, hi = (x.item() for x in bounds(a, b, "ieee", "ieee"))
        assert (lo < hi) == width
        assert lo <= chain(Fraction(0), fractions(a[0, 0], b[0, :, 0]), FP32, rng(5)) <= hi
        assert lo <= top + 2 <= hi


@pytest.mark.parametrize("name", ["sm_80", "sm_90", "sm_100"])
def test_units_that_chop_hold_as_many_units_as_their_accumulator(name: str) -> None:
    """Five products of 2^22 less one: more than 2^23 units, less than 2^24, which fp32 holds."""
    a = np.full((1, 1, 3), 2048.0, np.float16)
    b = np.array([2048.0, 2047.0, 1023.0], np.float16).reshape(1, 3, 1)
    lo, hi = (x.item() for x in bounds(a, b, "fp16", name))
    assert lo == hi == 2048.0 * (2048 + 2047 + 1023) > 2.0**23


def test_an_accumulator_off_the_grid_brings_the_width_back() -> None:
    a, b = np.ones((1, 1, 8), np.float32), np.full((1, 8, 1), 4096, np.float32)
    for c, width in ((2.0**-8, False), (2.0**-9 + 2.0**-30, True)):
        lo, hi = (x.item() for x in bounds(a, b, "fp16", "sm_80", np.full((1, 1, 1), c)))
        assert (lo < hi) == width


def test_interval_operands_have_no_grid() -> None:
    a, b = np.ones((1, 2, 8), np.float32), np.ones((1, 8, 2), np.float32)
    pending = PendingDot.start(None, (2, 2), "fp16", load_profile("sm_80"))
    lo, hi = pending.extend((a.astype(np.float64), a + 2.0**-10), (b, b)).interval()
    assert (lo < 8).all() and (hi > 8 + 2.0**-7).all()


@pytest.mark.parametrize(("name", "kind"), [("gfx90a", "fp16"), ("sm_80", "tf32x3"), ("sm_80", "fp64")])
def test_rules_without_the_grid_keep_their_width(name: str, kind: str) -> None:
    """Units that flush, split operands and sums in fp64 do not use it."""
    a, b = np.ones((1, 2, 8), np.float32), np.ones((1, 8, 2), np.float32)
    lo, hi = bounds(a, b, kind, name)
    assert (lo < 8).all() and (hi > 8).all()


def rounded_sum(x: list[Fraction], fmt: Format, generator: np.random.Generator) -> Fraction:
    """Pairs chosen at random until one number is left, every addition rounded."""
    while len(x) > 1:
        i, j = sorted(generator.choice(len(x), 2, replace=False))
        x[i] = round_fraction(x[i] + x.pop(j), fmt)
    return x[0]


@pytest.mark.parametrize("fmt", (FP16, BF16, FP32), ids=lambda f: f.name)
def test_sums_on_a_grid(fmt: Format) -> None:
    """Points of any scale: where the bound is a point, every order gives it; a sum past 2^p units has a width."""
    generator, profile, points, rounded = rng(8), load_profile("any"), 0, 0
    for trial in range(max(200, trials(200))):
        n, bits = int(generator.integers(1, 20)), int(generator.integers(1, fmt.p + 1))
        x = np.ldexp(generator.integers(-(2**bits) + 1, 2**bits, n), -(trial % 9) - 5).astype(np.float64)
        lo, hi = (end.item() for end in sum_axis((x, x), 0, x.shape, fmt, profile))
        true = sum((exact(v) for v in x.tolist()), Fraction(0))
        value = rounded_sum([exact(v) for v in x.tolist()], fmt, generator) if n > 1 else true
        assert exact(lo) <= min(true, value) <= max(true, value) <= exact(hi)
        prefix = [end[-1].item() for end in cumsum((x, x), 0, False, fmt, profile)]
        assert (prefix[0] == prefix[1]) == (lo == hi)
        points += lo == hi
        rounded += true != value
    assert points > 30
    assert rounded > 1


def test_sums_off_the_grid_keep_their_width() -> None:
    profile = load_profile("any")
    for last, width in ((2.0**-14, False), (2.0**-15, True)):
        x = np.array([511.0, 1.0, last])
        lo, hi = (end.item() for end in sum_axis((x, x), 0, x.shape, FP32, profile))
        assert (lo < hi) == width
    x = np.array([1.0, 2.0])
    lo, hi = sum_axis((x, x + np.array([0.0, 1.0])), 0, x.shape, FP32, profile)
    assert lo < 3 < 4 < hi
    infinite = np.array([np.inf, 1.0])
    assert sum_axis((infinite, infinite), 0, (2,), FP32, profile)[0] == np.inf


def test_a_common_grid_does_not_keep_a_sum_from_overflowing() -> None:
    """39296 + 39296 is a multiple of 2^7 with few bits, and no fp16 number."""
    profile = load_profile("any")
    for fmt, x in ((FP16, 39296.0), (FP32, 2.0**127), (BF16, 2.0**127), (FP64, 2.0**1023)):
        for terms in ([x, x], [-x, -x]):
            both = np.array(terms)
            lo, hi = (end.item() for end in sum_axis((both, both), 0, (2,), fmt, profile))
            assert (hi if x in terms else -lo) == np.inf, fmt
        both = np.array([x, x, -x])  # inf - x in one order, inf in another, x in a third
        assert np.isnan(sum_axis((both, both), 0, (3,), fmt, profile)[0])


@pytest.mark.parametrize("terms", (2, 3, 32, 100))
def test_sums_that_float64_itself_rounds_are_not_on_the_grid(terms: int) -> None:
    """1 and multiples of 2^-53: their magnitudes sum to 1 in float64, but in another order to more."""
    x = np.full((1, terms), 2.0**-53)
    x[0, 0] = 1.0
    small_first = np.cumsum(x[:, ::-1], axis=1)[0, -1]
    assert small_first > 1.0 or terms == 2
    for lo, hi in (
        sum_axis((x, x), 1, x.shape, FP64, load_profile("ieee")),
        tuple(end[:, -1] for end in cumsum((x, x), 1, False, FP64, load_profile("ieee"))),
    ):
        exact = Fraction(1) + (terms - 1) * Fraction(2) ** -53
        for legal in (Fraction(1), Fraction(float(small_first)), exact):
            assert Fraction(float(lo.item())) <= legal <= Fraction(float(hi.item()))


def test_whole_numbers_of_float64_stay_exact() -> None:
    x = np.array([[2.0**52, 2.0**52 - 1.0]])
    lo, hi = sum_axis((x, x), 1, x.shape, FP64, load_profile("ieee"))
    assert lo.item() == hi.item() == 2.0**53 - 1
