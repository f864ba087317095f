"""Chains of dots whose rounding is pending: extended, added, joined, promoted."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from block_fma import STYLES, UNITS, fractions, operand_format, operand_pair, run
from dot_support import accumulators, dot, inside, point
from support import exact, rng, round_fraction, trials

from interval_ops.dot.rule import PendingDot
from interval_ops.formats.model import FP8E4NV, FP16, FP32
from interval_ops.profiles.profile import load_profile

pytestmark = pytest.mark.filterwarnings("error")

ARCHITECTURES = [key for key in UNITS if key[0] in ("sm_80", "sm_90")]


def chunks(x, axis, sizes):
    return np.split(x, np.cumsum(sizes)[:-1], axis=axis)


@pytest.mark.parametrize("key", (("sm_80", "fp16"), ("sm_90", "fp8"), ("sm_80", "tf32"), ("sm_80", "fp16acc")))
def test_chain_of_dots_against_one_after_the_other(key):
    generator, (name, kind) = rng(41), key
    profile, fmt, unit = load_profile(name), operand_format(kind), UNITS[key]
    for trial in range(trials(30)):
        sizes = [16, 40, 8]
        a, b = operand_pair(generator, 1, 2, 2, 64, fmt, STYLES[trial % len(STYLES)])
        pending = PendingDot.start(None, (2, 2), kind, profile)
        for x, y in zip(chunks(a, 2, sizes), chunks(b, 1, sizes), strict=True):
            pending = pending.extend(point(x), point(y))
        lo, hi = pending.interval()
        for i, j in np.ndindex(2, 2):
            value = Fraction(0)
            for x, y in zip(chunks(a, 2, sizes), chunks(b, 1, sizes), strict=True):
                value = run(value, fractions(x[0, i], y[0, :, j]), unit, fmt, generator)
            assert inside(lo[0, i, j], hi[0, i, j], value)


def test_old_sums_stay_valid():
    generator, profile = rng(42), load_profile("sm_80")
    a, b = operand_pair(generator, 1, 2, 2, 48, FP16, "plain")
    parts = [(point(x), point(y)) for x, y in zip(chunks(a, 2, [16] * 3), chunks(b, 1, [16] * 3), strict=True)]
    one = PendingDot.start(None, (2, 2), "fp16", profile).extend(*parts[0])
    two = one.extend(*parts[1])
    other = one.extend(*parts[2])
    for pending, chosen in ((two, (0, 1)), (other, (0, 2)), (one, (0,))):
        fresh = PendingDot.start(None, (2, 2), "fp16", profile)
        for index in chosen:
            fresh = fresh.extend(*parts[index])
        assert all(np.array_equal(x, y) for x, y in zip(pending.interval(), fresh.interval(), strict=True))
    assert one.interval() is one.interval()


def test_addition_folded_or_not():
    """acc + dot: the accumulator inside the unit, or a rounded addition afterwards."""
    generator = rng(43)
    for (name, kind), unit in UNITS.items():
        if (name, kind) not in ARCHITECTURES or kind.endswith("fp16acc"):
            continue
        fmt, profile = operand_format(kind), load_profile(name)
        for style in ("plain", "wide", "subnormal"):
            a, b = operand_pair(generator, 1, 2, 2, 24, fmt, style)
            c = accumulators(generator, (1, 2, 2), kind)
            lo, hi = (
                PendingDot.start(None, (2, 2), kind, profile)
                .extend(point(a), point(b))
                .add(point(c), rounded=True)
                .interval()
            )
            for i, j in np.ndindex(2, 2):
                pairs, start = fractions(a[0, i], b[0, :, j]), exact(c[0, i, j])
                apart = round_fraction(run(Fraction(0), pairs, unit, fmt, generator) + start, FP32)
                assert inside(lo[0, i, j], hi[0, i, j], apart)
                assert inside(lo[0, i, j], hi[0, i, j], run(start, pairs, unit, fmt, generator))


@pytest.mark.parametrize("key", (("sm_80", "fp16"), ("sm_90", "fp8")))
def test_joined_sums(key):
    """acc += dot, many times: promoted partial sums (fp8, Hopper), folded or separate additions elsewhere."""
    generator, (name, kind) = rng(44), key
    profile, fmt, unit = load_profile(name), operand_format(kind), UNITS[key]
    a, b = operand_pair(generator, 1, 2, 2, 40 * 8, fmt, "positive")
    pending = PendingDot.start(None, (2, 2), kind, profile)
    parts = list(zip(chunks(a, 2, [40] * 8), chunks(b, 1, [40] * 8), strict=True))
    for x, y in parts:
        pending = pending.join(PendingDot.start(None, (2, 2), kind, profile).extend(point(x), point(y)))
    lo, hi = pending.interval()
    for i, j in np.ndindex(2, 2):
        apart = folded = Fraction(0)
        for x, y in parts:
            pairs = fractions(x[0, i], y[0, :, j])
            apart = round_fraction(apart + run(Fraction(0), pairs, unit, fmt, generator), FP32)
            folded = run(folded, pairs, unit, fmt, generator)
        assert inside(lo[0, i, j], hi[0, i, j], apart)
        assert profile.dot(kind).promote or inside(lo[0, i, j], hi[0, i, j], folded)
    if profile.dot(kind).promote:
        whole = dot(a, b, kind, profile)
        assert (hi - lo < (whole[1] - whole[0]) / 2).all()


def test_joined_sums_with_different_mutes():
    """A line whose error is switched off joins one whose error is not."""
    generator, profile = rng(46), load_profile("sm_80")
    a, b = operand_pair(generator, 1, 3, 3, 64, FP32, "plain")
    sums = [
        PendingDot.start(None, (3, 3), "tf32", p).extend(point(a), point(b)) for p in (profile, profile.mute("operand"))
    ]
    loud, mixed = sums[0].join(sums[0]).interval(), sums[0].join(sums[1]).interval()
    assert (mixed[1] - mixed[0] < loud[1] - loud[0]).all()
    for i, j in np.ndindex(3, 3):
        true = 2 * sum((x * y for x, y in fractions(a[0, i], b[0, :, j])), Fraction(0))
        assert inside(mixed[0][0, i, j], mixed[1][0, i, j], true)
    with pytest.raises(ValueError, match="cannot join"):
        sums[0].join(PendingDot.start(None, (3, 3), "ieee", profile).extend(point(a), point(b)))


def test_imprecise_accumulation_limit():
    """max_num_imprecise_acc on Hopper: partial sums of so many products are added in fp32."""
    generator, profile = rng(45), load_profile("sm_90")
    a, b = operand_pair(generator, 1, 2, 2, 256, FP8E4NV, "positive")
    lo, hi = PendingDot.start(None, (2, 2), "fp8", profile).extend(point(a), point(b), imprecise=64).interval()
    whole = dot(a, b, "fp8", profile)
    for i, j in np.ndindex(2, 2):
        value = Fraction(0)
        for s in range(0, 256, 64):
            pairs = fractions(a[0, i, s : s + 64], b[0, s : s + 64, j])
            value = round_fraction(value + run(Fraction(0), pairs, UNITS["sm_90", "fp8"], FP8E4NV, generator), FP32)
        assert inside(lo[0, i, j], hi[0, i, j], value)
    assert (hi - lo < (whole[1] - whole[0]) / 2).all()
