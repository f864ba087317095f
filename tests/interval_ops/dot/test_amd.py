from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from amd_dots import INSTRUCTIONS, run
from block_fma import STYLES, chain, fractions, operand_pair, quantise
from support import exact, rng, round_fraction, trials

from interval_ops.dot.rule import PendingDot
from interval_ops.formats.model import BF16, FORMATS, FP16, FP32, TF32
from interval_ops.profiles.profile import load_profile

pytestmark = pytest.mark.filterwarnings("error")


def dot(a, b, kind, name, acc=None):
    pair = None if acc is None else (acc, acc)
    profile = load_profile(name)
    return PendingDot.start(pair, (a.shape[-2], b.shape[-1]), kind, profile).extend((a, a), (b, b)).interval()


def inside(lo, hi, x: Fraction) -> bool:
    return (math.isnan(lo) and math.isnan(hi)) or exact(float(lo)) <= x <= exact(float(hi))


def accumulators(generator, style, shape):
    c = generator.standard_normal(shape) * np.exp2(generator.integers(-30 if style == "wide" else -6, 4, shape) * 1.0)
    return quantise(np.where(generator.random(shape) < 0.6, c, 0.0), FP32)


@pytest.mark.parametrize("key", INSTRUCTIONS, ids="-".join)
def test_instructions_in_any_order(key):
    """Random and sequential executions, and the exact value, lie inside; operands below the normal range included."""
    generator, (name, kind), worst = rng(81), key, 0.0
    fmt, size = FORMATS[kind], INSTRUCTIONS[key][1]
    for trial in range(trials(60)):
        style, k = STYLES[trial % len(STYLES)], int(generator.integers(1, 6 * size))
        a, b = operand_pair(generator, 1, 2, 2, k, fmt, style)
        c = accumulators(generator, style, (1, 2, 2))
        lo, hi = dot(a, b, kind, name, c)
        for i, j in np.ndindex(2, 2):
            pairs, start = fractions(a[0, i], b[0, :, j]), exact(c[0, i, j])
            true = start + sum((x * y for x, y in pairs), Fraction(0))
            for value in (true, run(start, pairs, name, kind, generator), run(start, pairs, name, kind, None)):
                low, high = lo[0, i, j], hi[0, i, j]
                assert inside(low, high, value), (style, k, i, j)
                end = high if value > true else low
                if value != true and math.isfinite(end):
                    worst = max(worst, float((value - true) / (exact(float(end)) - true)))
    print(f"{name} {kind}: worst {worst:.3f} of the bound")
    assert worst > 0.01


def test_flushed_operands_decide_the_width():
    """fp16 numbers below 2^-14 may count or not (CDNA2); normal ones cost nothing extra."""
    a = np.full((1, 1, 64), 2.0**-15, np.float32)
    b = np.full((1, 64, 1), 256.0, np.float32)
    lo, hi = (x.item() for x in dot(a, b, "fp16", "gfx90a"))
    assert lo <= 0 < 0.5 <= hi < 0.51
    lo, hi = (x.item() for x in dot(2 * a, b, "fp16", "gfx90a"))
    assert 1 - 1e-5 < lo <= 1 <= hi < 1 + 1e-5
    assert dot(a, b, "fp16", "gfx942")[0].item() > 0.49
    muted = load_profile("gfx90a").mute("operand")
    pending = PendingDot.start(None, (1, 1), "fp16", muted).extend((a, a), (b, b))
    assert pending.interval()[0].item() > 0.49
    loud = PendingDot.start(None, (1, 1), "fp16", load_profile("gfx90a")).extend((a, a), (b, b))
    assert loud.causes == {"operand", "accumulation"}


def test_flushed_interval_operands():
    generator, name = rng(82), "gfx90a"
    for _ in range(trials(20)):
        a, b = operand_pair(generator, 1, 2, 2, 12, FP16, "subnormal")
        wide = a.astype(np.float64)
        radius = np.abs(wide) * 0.5
        pending = PendingDot.start(None, (2, 2), "fp16", load_profile(name))
        lo, hi = pending.extend((wide - radius, wide + radius), (b, b)).interval()
        for scale in (0.5, 0.75, 1.0, 1.5):
            sample = quantise(wide * scale, FP16)
            ok = np.abs(sample - wide) <= radius
            sample = np.where(ok, sample, a).astype(np.float32)
            for i, j in np.ndindex(2, 2):
                value = run(Fraction(0), fractions(sample[0, i], b[0, :, j]), name, "fp16", generator)
                assert inside(lo[0, i, j], hi[0, i, j], value)


def test_xf32_truncates_operands():
    generator = rng(83)
    for trial in range(trials(30)):
        a, b = operand_pair(generator, 1, 2, 2, 19, FP32, STYLES[trial % len(STYLES)])
        lo, hi = dot(a, b, "tf32", "gfx942")
        for i, j in np.ndindex(2, 2):
            pairs = fractions(a[0, i], b[0, :, j])
            read = [tuple(round_fraction(x, TF32, "rtz") for x in pair) for pair in pairs]
            for value in (sum(x * y for x, y in pairs), run(Fraction(0), read, "gfx942", "tf32", generator)):
                assert inside(lo[0, i, j], hi[0, i, j], value)


@pytest.mark.parametrize("name", ("gfx90a", "gfx942", "torch-cpu"))
def test_fp16_accumulators_are_converted_once_per_dot(name):
    """fp32 inside the dot, one rounding to fp16 behind it: far tighter than an fp16 chain."""
    generator = rng(84)
    for trial in range(trials(20)):
        a, b = operand_pair(generator, 1, 2, 2, 96, FP16, STYLES[trial % len(STYLES)])
        a = quantise(a / 16, FP16)
        pending = PendingDot.start(None, (2, 2), "fp16acc", load_profile(name))
        for s in range(0, 96, 32):
            x, y = a[..., s : s + 32], b[:, s : s + 32]
            pending = pending.extend((x, x), (y, y))
        lo, hi = pending.interval()
        chained = dot(a, b, "fp16acc", "sm_70")
        for i, j in np.ndindex(2, 2):
            value = Fraction(0)
            for s in range(0, 96, 32):
                pairs = fractions(a[0, i, s : s + 32], b[0, s : s + 32, j])
                inner = chain(value, pairs, FP32, generator) if name == "torch-cpu" else None
                value = run(value, pairs, name, "fp16", generator) if inner is None else inner
                value = round_fraction(value, FP16)
            assert inside(lo[0, i, j], hi[0, i, j], value)
            if np.abs(a[0, i] * b[0, :, j]).sum() > 0.1:
                assert hi[0, i, j] - lo[0, i, j] < (chained[1] - chained[0])[0, i, j] / 4


@pytest.mark.parametrize("kind", ("bf16x3", "bf16x6"))
@pytest.mark.parametrize("name", ("gfx90a", "gfx942", "sm_75"))
def test_split_operands(kind, name):
    generator, count = rng(85), 3 if kind == "bf16x6" else 2
    for trial in range(trials(12)):
        a, b = operand_pair(generator, 1, 1, 1, 9, FP32, STYLES[trial % len(STYLES)])
        lo, hi = (x.item() for x in dot(a, b, kind, name))
        pairs = fractions(a[0, 0], b[0, :, 0])
        parts = [(split(x, count), split(y, count)) for x, y in pairs]
        value = Fraction(0)
        for p, q in sorted(
            ((p, q) for p in range(count) for q in range(count) if p + q < count), key=lambda t: -sum(t)
        ):
            products = [(x[p], y[q]) for x, y in parts]
            value = (
                chain(value, products, FP32, generator)
                if name == "sm_75"
                else run(value, products, name, "bf16", generator)
            )
        assert inside(lo, hi, value)
        assert inside(lo, hi, sum(x * y for x, y in pairs))


def split(x: Fraction, count: int) -> list[Fraction]:
    parts = []
    for _ in range(count):
        parts.append(round_fraction(x, BF16))
        x -= parts[-1]
    return parts


@pytest.mark.parametrize(("kind", "fmt"), (("fp16", FP32), ("bf16", FP32), ("tf32", FP32), ("fp16acc", FP16)))
def test_fma_targets_before_tensor_cores(kind, fmt):
    """sm_70 and sm_75 under Triton 3.5 and later: chains of fused multiply-adds, fp16 ones for fp16 results."""
    generator, operand = rng(86), {"bf16": BF16, "tf32": FP32}.get(kind, FP16)
    for trial in range(trials(30)):
        a, b = operand_pair(generator, 1, 2, 2, 40, operand, STYLES[trial % len(STYLES)])
        lo, hi = dot(a, b, kind, "sm_75")
        for i, j in np.ndindex(2, 2):
            assert inside(lo[0, i, j], hi[0, i, j], chain(Fraction(0), fractions(a[0, i], b[0, :, j]), fmt, generator))
    if kind == "tf32":
        assert load_profile("sm_75").dot("tf32").truncate == ""


@pytest.mark.parametrize(("kind", "least"), [("fp16", 0.15), ("fp8e4b8", 0.3)])
def test_products_are_aligned_among_themselves(kind, least):
    """One large product cuts the others of its block, not those of all blocks: executions reach a good part."""
    generator, size, worst = rng(91), INSTRUCTIONS["gfx942", kind][1], 0.0
    k = 8 * size
    for _ in range(trials(20)):
        a = quantise(2.0**-5 * (1 + generator.random((1, 1, k))), FORMATS[kind])
        b = quantise(2.0**-6 * (1 + generator.random((1, k, 1))), FORMATS[kind])
        a[0, 0, 0] = b[0, 0, 0] = 2.0**7
        lo, hi = (x.item() for x in dot(a, b, kind, "gfx942"))
        pairs = fractions(a[0, 0], b[0, :, 0])
        true = sum((x * y for x, y in pairs), Fraction(0))
        for value in (
            run(Fraction(0), pairs, "gfx942", kind, generator),
            run(Fraction(0), pairs, "gfx942", kind, None),
        ):
            assert inside(lo, hi, value)
            end = hi if value > true else lo
            worst = max(worst, float((value - true) / (exact(end) - true)) if value != true else 0.0)
    assert worst > least


def test_long_sums_charge_the_products_of_a_block_only():
    generator = rng(92)
    a, b = (quantise(generator.standard_normal(s), FP16) for s in ((1, 4, 1024), (1, 1024, 4)))
    lo, hi = dot(a, b, "fp16", "gfx942")
    reach = 0.5 * (np.abs(a).astype(float) @ np.abs(b) + np.abs(a.astype(float) @ b))
    together = 128 * 10 * 2.0**-24 * 2.0 ** np.floor(np.log2(reach))  # ten units of the largest sum for each block
    assert ((hi - lo) / 2 < 0.4 * together).all()
