"""Each pass against the array expressions that it stands for, on numbers of every kind."""

from __future__ import annotations

import numpy as np
import pytest

from interval_ops import scans

KINDS = np.array([0.0, -0.0, 1.0, -1.0, 3.0, 1e-320, -1e300, 1e308, np.inf, -np.inf, np.nan, 0.1])
SEEDS = range(60)


def drawn(seed: int, n: int = 5) -> list[np.ndarray]:
    """Arrays of a few elements, close to each other in some cases and of any kind in others."""
    rng = np.random.default_rng(seed)
    size = int(rng.integers(1, 6))
    if seed % 2:
        return [rng.choice(KINDS, size) for _ in range(n)]
    base = rng.normal(size=size)
    return [base + rng.choice([0.0, 1e-7, -1e-7, 1e-3], size) for _ in range(n)]


@pytest.mark.parametrize("seed", SEEDS)
def test_passes_give_what_array_expressions_give(seed: int) -> None:
    value, _, _, ref, exact = drawn(seed)
    with np.errstate(all="ignore"):
        gap = np.abs(value - exact)
        far = np.isfinite(gap) & (gap > 8 * (1e-7 * np.abs(exact) + 1e-30))
        assert scans.off(*scans.flats(value, exact), 8, 1e-7, 1e-30) == bool(far.any())

        size = np.abs(exact)
        large = np.isfinite(size) & (size > 0) & (np.abs(value - ref) >= size / 4)
        found = scans.apart(*scans.flats(value, ref, exact), 1e-7, 1e-30, 0.25)
        assert found == (bool((np.abs(value - ref) > 1e-7 * size + 1e-30).any()), bool(large.any()))

        for atol, rtol in ((0.0, 0.0), (1e-3, 0.5), (0.2, 1.0), (np.inf, 0.0)):
            few = (size > 0) & (size <= atol + rtol * size)
            assert scans.within(*scans.flats(exact), atol, rtol) == np.count_nonzero(few)

        for pick in (far, ~far, np.isnan(ref)):
            further = ~(np.abs(ref - exact) < np.abs(value - exact))[pick]
            assert scans.as_far(pick, *scans.flats(ref, value, exact)) == bool(further.any())

        same = (value == exact) | (np.isnan(value) & np.isnan(exact))
        gap = np.where(same, 0.0, np.nan_to_num(gap, nan=np.inf, posinf=np.inf))
        assert scans.largest_gap(*scans.flats(value, exact)) == (gap.max(), int(np.argmax(gap)))

    bits = [np.where(np.isnan(x), np.nan, x).view(np.int64) for x in (value, np.where(exact > 0, value, exact))]
    assert scans.same_bits(*(scans.flats(*(x.view(np.float64) for x in bits)))) == bool((bits[0] == bits[1]).all())


@pytest.mark.parametrize("seed", SEEDS)
def test_what_lies_beyond_and_how_far(seed: int) -> None:
    value, a, b, ref, exact = drawn(seed)
    lo, hi = np.fmin(a, b), np.fmax(a, b)
    out = np.zeros(ref.size, bool)
    with np.errstate(all="ignore"):
        finite = all(np.isfinite(x).all() for x in (value, lo, hi, ref))
        alone = finite and bool(((lo <= exact) & (exact <= hi)).all())
        assert scans.beyond(*scans.flats(value, lo, hi, ref, exact), out) == alone
        outside = (ref < lo) | (ref > hi)
        assert not alone or np.array_equal(out, outside)
        if finite:
            score = np.where(outside, np.maximum(lo - ref, ref - hi), -np.inf)
            assert scans.furthest(outside, *scans.flats(ref, lo, hi)) == (score.max(), int(np.argmax(score)))
        bounded = all(np.isfinite(x).all() for x in (lo, hi, ref))
        assert scans.extent(*scans.flats(lo, hi, ref)) == (bounded, np.abs(ref).max() if bounded else 0.0)


@pytest.mark.parametrize("seed", SEEDS)
def test_extremes_of_finite_numbers(seed: int) -> None:
    rng = np.random.default_rng(seed)
    ref, got = rng.normal(size=(2, 7))
    half = rng.choice([0.0, 0.5, 2.0], 7)
    lo, hi = ref + rng.choice([0.0, 0.25], 7) * half - half, ref + half
    hi = np.maximum(lo, hi)
    gap, at, far, cover, used = scans.extremes(*scans.flats(ref, got, ref, lo, hi), 0.1, 0.2)
    off = np.abs(got - ref)
    assert (gap, at) == (off.max(), int(np.argmax(off)))
    assert far == np.count_nonzero(off > 0.2 + 0.1 * np.abs(ref))
    assert cover == max((hi - ref).max(), (ref - lo).max())
    from render.judgement.measure import usage

    assert used == usage(ref, lo, hi).max()


@pytest.mark.parametrize("seed", SEEDS)
def test_what_agrees_is_counted_as_before(seed: int) -> None:
    """`compared` answers only where no gap exceeds the slack; then it says what `unrounded._answer` says."""
    from interval_ops.formats.model import FORMATS
    from render.judgement import unrounded
    from render.result.decision import Case

    low, high, lo, hi, exact = drawn(seed)
    low, high, lo, hi = np.fmin(low, high), np.fmax(low, high), np.fmin(lo, hi), np.fmax(lo, hi)
    fmt = FORMATS["fp32"]
    case = Case("y", exact, lo, hi, exact, exact, lambda: (exact, exact), fmt=fmt, ref_fmt=fmt)
    with np.errstate(all="ignore"):
        gap, counts = unrounded._gap(case, (low, high))
        near = unrounded.SLACK * np.abs(exact)
        alike = unrounded._alike(case, (low, high))
        if (np.abs(gap) > near).any():
            assert alike is None
        else:
            wanted = unrounded._answer(case, (low, high), gap, counts, near, False)
            assert alike is not None and repr(alike) == repr(wanted)


@pytest.mark.parametrize("seed", SEEDS)
def test_ranks_and_medians_are_those_of_a_sort(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scans, "SELECTED", 2)  # counted, however few there are
    rng = np.random.default_rng(seed)
    x = rng.normal(size=int(rng.integers(1, 200))) * 10.0 ** rng.integers(-300, 300)
    x[rng.random(x.size) < 0.3] = rng.choice(KINDS[~np.isnan(KINDS)])
    before = x.copy()
    assert [scans.kth(x, k) for k in range(x.size)] == np.sort(x).tolist()
    with np.errstate(invalid="ignore"):
        assert np.array_equal(scans.median(x), np.median(x), equal_nan=True)
    assert np.array_equal(x, before)
    x[rng.integers(x.size)] = np.nan
    assert np.isnan(scans.median(x))


@pytest.mark.parametrize("seed", SEEDS)
def test_widths_and_bins_are_those_of_array_expressions(seed: int) -> None:
    a, b, ref, *_ = (np.clip(np.nan_to_num(x), -1e6, 1e6) for x in drawn(seed))
    lo, hi = np.fmin(a, b), np.fmax(a, b)
    settled = np.random.default_rng(seed).random(lo.size) < 0.2
    with np.errstate(all="ignore"):
        width = hi - lo
        scans.relative_widths(found := np.empty(lo.size), *scans.flats(lo, hi))
        assert np.array_equal(found, np.where(width == 0, 0.0, width / np.abs(lo + width / 2)), equal_nan=True)
    for further in (False, True):
        small, wide = np.full(4, np.inf), np.zeros(4)
        scans.binned(small, wide, 0.7, further, settled, *scans.flats(lo, hi, ref))
        size, cover = np.abs(ref), np.maximum(np.maximum(hi - ref, ref - lo), 0.0)
        cover = np.nextafter(cover, np.inf) if further else cover
        at = np.minimum((size * 0.7).astype(np.int64), 3)
        for k in range(4):
            chosen = (at == k) & ~settled
            assert small[k] == size[chosen].min(initial=np.inf) and wide[k] == cover[chosen].max(initial=0.0)


def test_a_point_beside_an_exact_zero_is_compared():
    """No slack and no width leave no room, and a point needs none."""
    point, zero = np.array([5.0]), np.zeros(1)
    assert scans.compared(point, point, point, point, zero, 0.1, 2.0**-40, 0.1)[0]
    assert not scans.compared(zero, zero, zero, zero, zero, 0.1, 2.0**-40, 0.1)[0]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_bound_is_near_only_as_a_whole(seed: int) -> None:
    a, b, exact, *_ = drawn(seed)
    lo, hi = np.fmin(a, b), np.fmax(a, b)
    for slack in (0.0, 2.0**-20, 0.01):
        near, told, most, used, largest = scans.settled(*scans.flats(lo, hi, exact), slack)
        finite = np.isfinite(exact)
        low, high, e = lo[finite], hi[finite], exact[finite]
        with np.errstate(all="ignore"):
            reach = np.maximum(high - e, e - low)
            assert near == bool((reach <= slack * np.abs(e)).all())
        if near:
            assert (told, most, largest) == (e.size, reach.max(initial=0.0), np.abs(e).max(initial=0.0))
            with np.errstate(all="ignore"):
                shares = np.where((reach > 0) & (high > low), 2 * reach / (high - low), 0.0)
            assert used == shares.max(initial=0.0)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_a_bound_hides_beside_its_row(seed: int) -> None:
    y, ref, exact, a, b = (np.tile(x, 6)[:6].reshape(2, 3) for x in drawn(seed))
    lo, hi = np.fmin(a, b) - (seed % 3), np.fmax(a, b) + (seed % 5)
    out = np.empty(6, bool)
    with np.errstate(all="ignore"):
        size = np.where(np.isfinite(exact), np.abs(exact), 0.0)
        half = (hi - lo) / 2
        wide = np.isfinite(half) & (half >= 0.1 * size.max(axis=-1, keepdims=True))
        expected = wide & (np.abs(y - ref) >= 1e-4 * size) & (size > 0) & (lo <= 0) & (hi >= 0)
    flat = scans.flats(y, ref, exact, lo, hi)
    scans.hollow(*flat[:3], (flat[3], flat[4]), 3, 1e-4, 0.1, out)
    assert np.array_equal(out.reshape(2, 3), expected)


@pytest.mark.parametrize("seed", SEEDS)
def test_errors_and_differences_are_those_of_array_expressions(seed: int) -> None:
    value, a, b, ref, exact = drawn(seed)
    lo, hi = np.fmin(a, b), np.fmax(a, b)
    with np.errstate(all="ignore"):
        out = np.empty(value.size)
        scans.distances(*scans.flats(value, exact), out)
        counts = np.isfinite(value) & np.isfinite(exact)
        error = np.where(counts, np.nan_to_num(np.abs(value - exact), nan=0.0), 0.0)
        assert np.array_equal(out, error)
        rounded = 8.0 * (1e-7 * np.abs(exact) + 1e-30)
        assert scans.exceeds(*scans.flats(error, exact), 8.0, 1e-7, 1e-30) == bool((error > rounded).any())
        allowed = np.abs(np.where(np.isnan(ref), 0.0, ref))
        above = (error > 0) & (8.0 * error / allowed > 8.0)
        assert scans.further(*scans.flats(error, allowed), 8.0) == bool(above.any())
        differs = np.abs(value - ref) > 1e-7 * np.abs(exact) + 1e-30
        zero = (lo <= 0) & (hi >= 0) & (exact != 0)
        found = scans.differing(*scans.flats(value, ref, exact, lo, hi), 1e-7, 1e-30)
        assert found[1] == bool((differs & ~zero).any())
        assert found[0] == bool(differs.any())
