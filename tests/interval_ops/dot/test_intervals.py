"""Interval operands and accumulators."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from block_fma import UNITS, fractions, operand_pair, run
from dot_support import dot, inside, point, tf32_cut
from support import exact, rng, round_fraction, trials

from interval_ops.dot import sums
from interval_ops.dot.rule import PendingDot
from interval_ops.formats.model import FP16, FP32
from interval_ops.profiles.profile import load_profile

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


@pytest.mark.parametrize("relative", (1e-9, 1e-6, 1e-4))
def test_products_of_narrow_intervals_hold_both_extremes(relative):
    """Midpoints and radii: in exact arithmetic at every corner, and hardly wider."""
    generator, profile = rng(33), load_profile("ieee").mute("accumulation")
    for scale in (1.0, 1e-12, 1e12):
        a, b = (scale * generator.standard_normal(s) for s in ((2, 3, 9), (2, 9, 4)))
        a[0, 1, ::2], b[1, 3] = 0.0, scale * 1e-6
        pa, pb = ((x - np.abs(r), x + np.abs(r)) for x in (a, b)
                  for r in [scale * relative * generator.standard_normal(x.shape)])  # fmt: skip
        dot = PendingDot.start(None, (3, 4), "ieee", profile).extend(pa, pb)
        assert dot._near() is not None
        lo, hi = dot.interval()
        for g, i, j in np.ndindex(2, 3, 4):
            products = [[exact(x[g, i, k]) * exact(y[g, k, j]) for x in pa for y in pb] for k in range(9)]
            low, high = sum(map(min, products)), sum(map(max, products))
            assert exact(lo[g, i, j]) <= low and high <= exact(hi[g, i, j])
            assert hi[g, i, j] - lo[g, i, j] <= 1.001 * float(high - low) + 1e-12 * scale**2


def test_what_is_packed_together_decides_nothing(monkeypatch):
    """One slice of wide intervals, of some that are wide by themselves alone, or none, in parts of every size."""
    for wide in (0.0, 6e-4, 0.1):
        pa, pb = (ball(rng(35), np.ones(s), 1e-7) for s in ((4, 3, 9), (4, 9, 4)))
        pa[0][2] -= wide
        found = []
        for budget in (1, 150, 1 << 17):
            monkeypatch.setattr(sums, "_BUDGET", budget)
            found.append(PendingDot.start(None, (3, 4), "ieee", load_profile("ieee")).extend(pa, pb).interval())
        assert all(np.array_equal(x, y) for other in found[1:] for x, y in zip(found[0], other, strict=True))


def test_products_of_wide_intervals_are_summed_as_a_whole():
    pa, pb = (ball(rng(34), np.ones(s), 0.1) for s in ((1, 3, 9), (1, 9, 4)))
    assert PendingDot.start(None, (3, 4), "ieee", load_profile("ieee")).extend(pa, pb)._near() is None


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


def just_below(x: np.ndarray) -> np.ndarray:
    """fp32 numbers whose cut to tf32 loses almost all it can."""
    return (x.astype(np.float32).view(np.uint32) | np.uint32(0x1FFF)).view(np.float32).astype(np.float64)


def reach(pa, pb, i, j, want, read):
    """The sum of products that goes furthest, end by end: down (`want` = min) or up (max), exactly."""
    ends = [[[read(exact(float(e))) for e in (p[0][0, i, k], p[1][0, i, k])] for k in range(p[0].shape[2])] for p in pa]
    other = [
        [[read(exact(float(e))) for e in (p[0][0, k, j], p[1][0, k, j])] for k in range(p[0].shape[1])] for p in pb
    ]
    total = Fraction(0)
    for rows, columns in zip(ends, other, strict=True):
        total += sum((want(x * y for x in r for y in c) for r, c in zip(rows, columns, strict=True)), Fraction(0))
    return total


@pytest.mark.parametrize("relative", (0.0, 1e-7, 1e-3, 3.0))
@pytest.mark.parametrize("queue", (("ii",), ("ii", "ii"), ("pp", "ii"), ("ip", "ii", "pi")))
def test_cut_intervals_hold_both_extremes(queue, relative):
    """Operands that lose all their cut bits, of one sign or of both: the furthest sums of uncut and of cut operands."""
    generator, profile = rng(36), load_profile("sm_80")
    for attempt in range(trials(4)):
        pending, pa, pb = PendingDot.start(None, (2, 2), "tf32", profile), [], []
        for sides in queue:
            x, y = (just_below(generator.uniform(1, 2, s)) for s in ((1, 2, 9), (1, 9, 2)))
            if attempt % 2:
                x, y = (v * generator.choice([-1.0, 1.0], v.shape) for v in (x, y))
            pa.append(interval_or_point(generator, x, relative, sides[0]))
            pb.append(interval_or_point(generator, y, relative, sides[1]))
            pending = pending.extend(pa[-1], pb[-1])
        lo, hi = pending.interval()
        for i, j in np.ndindex(2, 2):
            for read in (lambda v: v, tf32_cut):
                assert exact(float(lo[0, i, j])) <= reach(pa, pb, i, j, min, read)
                assert reach(pa, pb, i, j, max, read) <= exact(float(hi[0, i, j]))


def interval_or_point(generator, x, relative, side):
    if side == "p":
        return point(x)
    low, high = ball(generator, x, relative) if relative else (x, x)
    return low, high.copy()


def test_intervals_that_are_points_cost_what_points_cost():
    """The hull of no operand cut and all operands cut, not of any of them cut."""
    generator = rng(37)
    a, b = (just_below(generator.standard_normal(s)) for s in ((1, 8, 64), (1, 64, 8)))
    for name in ("sm_80", "sm_90"):
        profile = load_profile(name).mute("accumulation")
        widths = []
        for pa, pb in ((point(a), point(b)), ((a, a.copy()), (b, b.copy()))):
            lo, hi = PendingDot.start(None, (8, 8), "tf32", profile).extend(pa, pb).interval()
            widths.append(hi - lo)
        assert np.all(widths[1] <= widths[0] * (1 + 1e-6) + 1e-9)


@pytest.mark.parametrize("sides", ("ip", "pi", "ii"))
def test_flushed_intervals_hold_both_extremes(sides):
    """gfx90a reads subnormal fp16 operands as 0; an interval around the threshold may be read either way."""
    generator, profile = rng(38), load_profile("gfx90a")
    for _ in range(trials(20)):
        x, y = (
            generator.choice([-1.0, 1.0], s) * 2.0 ** generator.uniform(-17, -12, s) for s in ((1, 2, 5), (1, 5, 2))
        )
        pa, pb = (interval_or_point(generator, v, 0.3, side) for v, side in zip((x, y), sides, strict=True))
        lo, hi = PendingDot.start(None, (2, 2), "fp16", profile).extend(pa, pb).interval()
        for i, j in np.ndindex(2, 2):
            for read in (lambda v: v, lambda v: v if abs(v) >= Fraction(1, 2**14) else Fraction(0)):
                assert exact(float(lo[0, i, j])) <= reach([pa], [pb], i, j, min, read)
                assert reach([pa], [pb], i, j, max, read) <= exact(float(hi[0, i, j]))
