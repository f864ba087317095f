"""Interval operands and accumulators."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from block_fma import UNITS, fractions, operand_pair, run
from dot_support import dot, inside, point, tf32_cut
from support import exact, rng, round_fraction, trials

from interval_ops.dot import PendingDot
from interval_ops.formats import FP16, FP32
from interval_ops.profile import load_profile

pytestmark = pytest.mark.filterwarnings("error")


def ball(generator, x, relative):
    r = np.abs(x) * relative * generator.random(x.shape) + relative * 1e-3 * generator.random(x.shape)
    return x - r, x + r


@pytest.mark.parametrize("relative", (1e-6, 0.1, 3.0))
@pytest.mark.parametrize("sides", ("ip", "pi", "ii"))
@pytest.mark.parametrize("kind", ("fp16", "tf32", "ieee", "fp64"))
def test_interval_operands_contain_samples(kind, sides, relative):
    generator, profile = rng(31), load_profile("sm_80")
    for _ in range(trials(12)):
        a, b = (x.astype(np.float64) for x in operand_pair(generator, 1, 3, 3, 23, FP32, "sparse"))
        pa = ball(generator, a, relative) if sides[0] == "i" else point(a)
        pb = ball(generator, b, relative) if sides[1] == "i" else point(b)
        lo, hi = PendingDot.start(None, (3, 3), kind, profile).extend(pa, pb).interval()
        for sample in range(4):
            x, y = (pick(generator, *p, corner=sample % 2 == 0) for p in (pa, pb))
            for i, j in np.ndindex(3, 3):
                pairs = fractions(x[0, i], y[0, :, j])
                assert inside(lo[0, i, j], hi[0, i, j], sum((p * q for p, q in pairs), Fraction(0)))
                if kind == "tf32":
                    read = [(tf32_cut(p), tf32_cut(q)) for p, q in pairs]
                    assert inside(lo[0, i, j], hi[0, i, j], sum((p * q for p, q in read), Fraction(0)))


def pick(generator, lo, hi, corner):
    t = generator.random(lo.shape)
    t = np.round(t) if corner else t
    return np.clip(lo + t * (hi - lo), lo, hi)


@pytest.mark.parametrize("sides", ("ip", "pi", "ii"))
def test_interval_products_are_exact_hulls(sides):
    """Without the target's error the ends are the sums of the smallest and largest products."""
    generator, profile = rng(32), load_profile("ieee").mute("accumulation")
    a, b = (generator.standard_normal(s) for s in ((2, 3, 9), (2, 9, 4)))
    pa = ball(generator, a, 1.5) if sides[0] == "i" else point(a)
    pb = ball(generator, b, 1.5) if sides[1] == "i" else point(b)
    corners = [x[..., :, :, None] * y[..., None, :, :] for x in pa for y in pb]
    low, high = np.minimum.reduce(corners).sum(-2), np.maximum.reduce(corners).sum(-2)
    lo, hi = PendingDot.start(None, (3, 4), "ieee", profile).extend(pa, pb).interval()
    assert np.allclose(lo, low, rtol=0, atol=1e-4)
    assert np.allclose(hi, high, rtol=0, atol=1e-4)


def test_interval_accumulator():
    generator, profile = rng(33), load_profile("sm_80")
    a, b = operand_pair(generator, 1, 2, 2, 16, FP16, "plain")
    c = ball(generator, generator.standard_normal((1, 2, 2)), 0.1)
    lo, hi = dot(a, b, "fp16", profile, c)
    for end in c:
        for i, j in np.ndindex(2, 2):
            pairs = fractions(a[0, i], b[0, :, j])
            start = round_fraction(exact(end[0, i, j]), FP32, "rtz")
            assert inside(lo[0, i, j], hi[0, i, j], exact(end[0, i, j]) + sum((x * y for x, y in pairs), Fraction(0)))
            assert inside(lo[0, i, j], hi[0, i, j], run(start, pairs, UNITS["sm_80", "fp16"], FP16, generator))
