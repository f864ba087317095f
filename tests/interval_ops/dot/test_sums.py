"""Sums of one sign, trees of unfused operations, and the bound of partial sums that grow block by block."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from block_fma import UNITS, fractions, in_order, operand_format, operand_pair, quantise, run
from dot_support import accumulators, dot, inside, point, target, usage
from support import exact, rng, round_fraction, trials

from interval_ops.dot import kernels, sums
from interval_ops.dot.readings import round_tf32, truncate_tf32
from interval_ops.dot.rule import PendingDot
from interval_ops.formats.model import FP16, FP32
from interval_ops.profiles.profile import load_profile
from interval_ops.reduction.running import FEW, ramp, short_ramp

pytestmark = pytest.mark.filterwarnings("error")


SIGNS = ("positive", "negative", "mixed", "cancelling", "few against many", "one large")


def signed_operands(generator, k: int, fmt, style: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A row, a column and an accumulator whose products have the wanted signs."""
    a, b = (np.abs(generator.standard_normal(k)) + 0.05 for _ in range(2))
    c = float(generator.choice([0.0, 0.5, 17.0]))
    signs = np.ones(k)
    if style == "negative":
        signs, c = -signs, -c
    elif style == "mixed":
        signs = generator.choice([-1.0, 1.0], k)
    elif style == "cancelling":
        half = k // 2
        a[half : 2 * half], b[half : 2 * half], c = a[:half], b[:half], 0.0
        signs[half : 2 * half] = -1.0
    elif style == "few against many":
        signs[generator.random(k) < 0.03] = -1.0
    else:
        a[generator.integers(k)] *= 64.0
    return quantise(a, fmt), quantise(b * signs, fmt), np.float32(c)


@pytest.mark.parametrize(
    "key", [key for key in UNITS if key[1] in ("fp8", "fp16", "fp16acc", "fp8_fp16acc")], ids="-".join
)
@pytest.mark.parametrize("style", SIGNS)
def test_signs_of_products(key, style):
    """Long sums in random and adversarial orders, many products of one sign; never past the sums by sign."""
    generator, (name, kind), worst = rng(18), key, 0.0
    fmt, unit, profile = operand_format(kind), UNITS[key], target(*key)
    for trial in range(trials(8)):
        k = int(generator.choice([unit.block, 3 * unit.block + 1, 40 * unit.block]))
        a, b, c = signed_operands(generator, k, fmt, style)
        lo, hi = (x.item() for x in dot(a[None, None], b[None, :, None], kind, profile, point(c.reshape(1, 1, 1))))
        pairs = fractions(a, b)
        products = [x * y for x, y in pairs]
        true, size = exact(c) + sum(products), abs(exact(c)) + sum(map(abs, products))
        ascending = sorted(pairs, key=lambda p: abs(p[0] * p[1]), reverse=bool(trial % 2))
        by_sign = sorted(pairs, key=lambda p: p[0] * p[1], reverse=bool(trial % 2))
        for value in (
            true,
            run(exact(c), pairs, unit, fmt, generator),
            in_order(exact(c), ascending, unit, fmt),
            in_order(exact(c), by_sign, unit, fmt),
        ):
            assert inside(lo, hi, value), (style, k, trial)
            worst = max(worst, usage(lo, hi, true, value))
        if profile.dot(kind).chops:
            slack = size / 1000
            assert exact(lo) >= (true - size) / 2 - slack
            assert exact(hi) <= (true + size) / 2 + slack
    print(f"{name} {kind} {style}: worst {worst:.3f} of the bound")


@pytest.mark.parametrize("sides", ("pp", "ip"))
@pytest.mark.parametrize("name", ("sm_80", "sm_90", "any"))
def test_the_interpreted_value_is_inside(name, sides):
    """Sums of one sign as numpy computes them, rounded to nearest, also exceed the exact value."""
    generator, profile, above = rng(24), load_profile(name), 0
    for _ in range(trials(20)):
        k = int(generator.choice([16, 64, 300]))
        a, b = (quantise(generator.random(s), FP16) for s in ((4, 8, k), (4, k, 8)))
        wide = a.astype(np.float64)
        pa = point(a) if sides == "pp" else (wide, wide.copy())
        lo, hi = PendingDot.start(None, (8, 8), "fp16", profile).extend(pa, point(b)).interval()
        assert ((lo <= a @ b) & (a @ b <= hi)).all()
        above += int((a @ b > wide @ b).sum())
    assert above


def tree(terms: list[Fraction], fmt, generator) -> Fraction:
    """A random tree of rounded additions of rounded products: nothing is fused."""
    parts = [round_fraction(x, fmt) for x in terms]
    while len(parts) > 1:
        i, j = sorted(generator.choice(len(parts), 2, replace=False))
        parts[i] = round_fraction(parts[i] + parts.pop(j), fmt)
    return parts[0]


@pytest.mark.parametrize("style", ("plain", "wide", "subnormal", "positive", "cancelling"))
def test_trees_of_unfused_operations(style):
    generator, profile = rng(19), load_profile("ieee")
    for _ in range(trials(20)):
        k = int(generator.integers(1, 60))
        a, b = operand_pair(generator, 1, 1, 1, k, FP32, style)
        c = accumulators(generator, (1, 1, 1), "ieee")
        lo, hi = (x.item() for x in dot(a, b, "ieee", profile, point(c)))
        terms = [x * y for x, y in fractions(a[0, 0], b[0, :, 0])] + [exact(c.item())]
        for value in (sum(terms), tree(terms, FP32, generator)):
            assert inside(lo, hi, value)


@pytest.mark.parametrize("ramp", [ramp, short_ramp])
def test_ramp_is_an_upper_bound(ramp):
    """The sum over blocks in closed form against the sum itself."""
    generator = rng(20)
    for _ in range(trials(300)):
        n = int(generator.integers(1, FEW + 1))
        start, step, top = np.exp2(generator.uniform(-6, 6, 3)) * (generator.random(3) < 0.9)
        top, step, least = max(top, 2.0**-8), max(step, 2.0**-12), float(np.exp2(generator.integers(-12, 8)))
        values = [min(top, start + b * step) for b in range(1, n + 1)]
        floors = [2.0 ** math.floor(math.log2(v)) for v in values]
        plain, raised = ramp(float(n), start, step, top, least)
        assert sum(floors) <= plain <= 2 * sum(floors)
        assert sum(max(f, least) for f in floors) <= raised <= 2 * sum(max(f, least) for f in floors)


def test_both_ramps_give_the_same_bits():
    """But where the last power lies within float64's error of the largest sum: the short one begins below it."""
    generator = rng(21)
    for _ in range(trials(300)):
        n, (start, step, top) = int(generator.integers(1, FEW + 1)), generator.uniform(0.01, 60, 3)
        start = start if generator.random() < 0.5 else 0.0
        assert short_ramp(float(n), start, step, top, 0.25) == ramp(float(n), start, step, top, 0.25)


@pytest.mark.parametrize("readings", [0, 1, 2])
@pytest.mark.parametrize("axis", [-1, -2])
def test_single_precision_is_packed_as_the_unit_reads_it(readings, axis):
    """Random bit patterns, infinities, NaN and subnormals among them; pieces that are views; the rest is untouched."""
    shape = (2, 5, 7)
    bits = rng(readings).integers(0, 1 << 32, (shape[0], shape[1], 2 * shape[2]), dtype=np.uint64).astype(np.uint32)
    bits[0, 0, ::2] = [0, 0x80000000, 0x7F800000, 0xFF800001, 0x7F7FFFFF, 1, 0x807FFFFF]
    x = np.ascontiguousarray(bits[..., ::2]).view(np.float32)
    row, column = (0, 3) if axis == -1 else (3, 0)
    whole = (shape[0], shape[1] + 2 * row, shape[2] + 2 * column)
    value, cut, near = (np.full(whole, 0.5) for _ in range(3))
    mag = np.full(whole, 0.5, np.float32)
    if readings:
        kernels.pack_read(x.view(np.uint32), row, column, readings > 1, value, mag, cut, near)
    else:
        kernels.pack_single(x, row, column, value, mag)
    place = np.s_[:, row : row + shape[1], column : column + shape[2]]
    none = np.full(shape, 0.5)
    with np.errstate(invalid="ignore"):
        wanted = (
            x.astype(np.float64),
            np.abs(x),
            truncate_tf32(x).astype(np.float64),
            round_tf32(x).astype(np.float64),
        )
    for k, (out, expected) in enumerate(zip((value, mag, cut, near), wanted, strict=True)):
        np.testing.assert_array_equal(out[place], expected if k < 2 + readings else none)
        assert np.count_nonzero(out != 0.5) <= x.size


@pytest.mark.parametrize("k", [1, 2, 3, 16, 1000, 1 << 15])
def test_what_sums_of_magnitudes_may_have_lost(k: int) -> None:
    """K products and sums of non-negative numbers lose at most gamma = K u / (1 - K u) of the result's exact value, in
    any order (Higham, sec. 3.1): the factors make up for it, and for hardly more."""
    group = object.__new__(sums._Group)
    group.k, group.integer = k, False
    for factor, u in ((group.inflate, 2.0**-53), (group.inflate32, 2.0**-24)):
        gamma = Fraction(k) * Fraction(u) / (1 - Fraction(k) * Fraction(u))
        assert Fraction(factor) * (1 - gamma) >= 1
        assert Fraction(factor) - 1 <= 2 * (k + 4) * Fraction(u)
    whole = object.__new__(sums._Group)
    whole.k, whole.integer = k, True
    assert whole.inflate == 1.0
