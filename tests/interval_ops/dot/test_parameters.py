"""Operands that a unit cuts or splits, and causes that are switched off."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from block_fma import STYLES, UNITS, fractions, operand_pair, quantise, run
from dot_support import accumulators, dot, inside, point, tf32_cut, usage
from support import exact, rng, round_fraction, trials

from interval_ops.dot.rule import PendingDot
from interval_ops.formats.model import BF16, FP8E4NV, FP32, TF32
from interval_ops.profiles.profile import load_profile

pytestmark = pytest.mark.filterwarnings("error")


@pytest.mark.parametrize("name", ("sm_80", "sm_90", "any"))
def test_tf32_truncates_operands(name):
    generator, profile = rng(21), load_profile(name)
    unit = UNITS[("sm_80" if name == "any" else name, "tf32")]
    for trial in range(trials(60)):
        a, b = operand_pair(generator, 1, 2, 2, 37, FP32, STYLES[trial % len(STYLES)])
        lo, hi = dot(a, b, "tf32", profile)
        for i, j in np.ndindex(2, 2):
            pairs = fractions(a[0, i], b[0, :, j])
            assert inside(lo[0, i, j], hi[0, i, j], sum((x * y for x, y in pairs), Fraction(0)))
            read = [(tf32_cut(x), tf32_cut(y)) for x, y in pairs]
            assert inside(lo[0, i, j], hi[0, i, j], run(Fraction(0), read, unit, TF32, generator))


def test_tf32_worst_relative_error():
    x = np.float32(1.00097644)
    a = np.full((1, 1, 1), x)
    lo, hi = (v.item() for v in dot(a, a, "tf32", load_profile("sm_80")))
    true = exact(x) ** 2
    assert abs(1 - true) / true > Fraction(1.99) / 2**10
    assert inside(lo, hi, Fraction(1))
    assert inside(lo, hi, true)
    assert hi - lo < 2.1 * 2**-10


def test_muted_operand_error_leaves_the_accumulation():
    generator = rng(22)
    a, b = operand_pair(generator, 1, 2, 2, 64, FP32, "plain")
    full, quiet = load_profile("sm_80"), load_profile("sm_80").mute("operand")
    wide, narrow = dot(a, b, "tf32", full), dot(a, b, "tf32", quiet)
    assert (wide[0] <= narrow[0]).all()
    assert (wide[1] >= narrow[1]).all()
    assert ((narrow[1] - narrow[0]) < (wide[1] - wide[0]) / 2).any()
    silent = dot(a, b, "tf32", full.mute("operand", "accumulation"))
    assert (silent[1] - silent[0] < 1e-12).all()
    for i, j in np.ndindex(2, 2):
        assert inside(
            silent[0][0, i, j], silent[1][0, i, j], sum((x * y for x, y in fractions(a[0, i], b[0, :, j])), Fraction(0))
        )


def test_muting_is_by_precision_of_the_accumulator():
    a = b = quantise(rng(29).standard_normal((1, 16, 16)), FP8E4NV)
    fp8 = load_profile("sm_90")
    low, other = fp8.mute("lowacc"), fp8.mute("accumulation")
    widths = [np.max(np.subtract(*dot(a, b, "fp8", p)[::-1])) for p in (fp8, low, other)]
    assert widths[1] < 1e-9 < widths[0]
    assert widths[2] == widths[0]
    assert PendingDot.start(None, (1, 1), "fp8", fp8).causes == {"lowacc"}
    assert PendingDot.start(None, (1, 1), "tf32", fp8).causes == {"operand", "accumulation"}
    assert PendingDot.start(None, (1, 1), "tf32", fp8.mute("operand")).causes == {"accumulation"}


def splits(x: Fraction, kind: str) -> list[Fraction]:
    """The parts that a split multiplies, largest first."""
    if kind == "tf32x3":
        big = round_fraction(x, TF32, "rna")
        return [big, tf32_cut(x - big)]
    parts = []
    for _ in range(3 if kind == "bf16x6" else 2):
        parts.append(round_fraction(x, BF16))
        x -= parts[-1]
    return parts


@pytest.mark.parametrize("kind", ("tf32x3", "bf16x3", "bf16x6"))
@pytest.mark.parametrize("style", ("plain", "wide", "cancelling", "tiny"))
def test_split_operands(kind, style):
    """Parts multiplied by the unit, smallest first, and the accumulator added in fp32 afterwards."""
    generator, profile, worst = rng(23), load_profile("sm_80"), 0.0
    unit, fmt = (UNITS["sm_80", "tf32"], TF32) if kind == "tf32x3" else (UNITS["sm_80", "bf16"], BF16)
    for _ in range(trials(12)):
        a, b = operand_pair(generator, 1, 2, 2, 21, FP32, "wide" if style == "tiny" else style)
        if style == "tiny":
            a = a * np.float32(2.0**-110)
        c = accumulators(generator, (1, 2, 2), kind) * np.float32(1 if style != "tiny" else 0)
        lo, hi = dot(a, b, kind, profile, point(c))
        for i, j in np.ndindex(2, 2):
            pairs = fractions(a[0, i], b[0, :, j])
            true = exact(c[0, i, j]) + sum((x * y for x, y in pairs), Fraction(0))
            parts = [(splits(x, kind), splits(y, kind)) for x, y in pairs]
            order = [(p, q) for p in range(3) for q in range(3) if p + q <= (2 if kind == "bf16x6" else 1)]
            small_first = sorted(order, key=lambda pq: -sum(pq))
            value = Fraction(0)
            for p, q in small_first:
                value = run(value, [(x[p], y[q]) for x, y in parts], unit, fmt, generator)
            value = round_fraction(value + exact(c[0, i, j]), FP32)
            for x in (true, value):
                assert inside(lo[0, i, j], hi[0, i, j], x)
                worst = max(worst, usage(lo[0, i, j], hi[0, i, j], true, x))
    print(f"{kind} {style}: worst {worst:.3f} of the bound")


@pytest.mark.parametrize("spread", [False, True])
def test_a_target_that_nobody_named_may_round_tf32_to_nearest(spread):
    """Both operands rounded, ties away (exact rationals): inside for `any`, and for a named unit often not."""
    generator, profile, named = rng(31), load_profile("any"), load_profile("sm_80")
    left = 0
    for _ in range(trials(60)):
        k = int(generator.integers(1, 40))
        a, b = (generator.standard_normal(s).astype(np.float32) for s in ((1, 1, k), (1, k, 1)))
        pa = (a, a) if not spread else (a.astype(float), a.astype(float) + np.abs(a) * 2.0**-20)
        acc = PendingDot.start(None, (1, 1), "tf32", profile).extend(pa, (b, b)).interval()
        narrow = PendingDot.start(None, (1, 1), "tf32", named).extend(pa, (b, b)).interval()
        value = sum((tf32_nearest(exact(x)) * tf32_nearest(exact(y)) for x, y in zip(a[0, 0], b[0, :, 0], strict=True)),
                    Fraction(0))  # fmt: skip
        assert exact(acc[0].item()) <= value <= exact(acc[1].item())
        assert acc[0].item() <= narrow[0].item() and narrow[1].item() <= acc[1].item()
        left += not exact(narrow[0].item()) <= value <= exact(narrow[1].item())
    assert left > 0


def tf32_nearest(x: Fraction) -> Fraction:
    """10 fraction bits, ties away from zero, for normal numbers."""
    if x == 0:
        return x
    step = Fraction(2) ** (math.frexp(float(abs(x)))[1] - 1 - 10)
    return (1 if x > 0 else -1) * math.floor(abs(x) / step + Fraction(1, 2)) * step
