"""The formulas against direct sums in extended precision, from the print and not from the code."""

import sys

import mpmath
import numpy as np
import pytest
from mpmath import mpf

from render.companions.accumulation import curve, lost, min_macc, safe_length, suitable, v, vrr


def q2(x):
    return mpmath.erfc(x / mpmath.sqrt(2))


def ratio(m_acc: int, m_p: int, n: int, partial: bool) -> mpf:
    """VRR by Lemma 1 or Theorem 1, all terms one after the other, in digits enough to subtract it from 1."""
    with mpmath.workdps(40 + int(4**m_acc / n / 4)):
        s = mpf(2) ** m_acc
        q = {i: q2(s / mpmath.sqrt(i)) * (1 - q2(s / mpmath.sqrt(i - 1))) for i in range(2, n)}
        if not partial:
            last = 1 - q2(s / mpmath.sqrt(n))
            return 1 - (sum(i * q[i] for i in q) + n * last) / (sum(q.values()) + last) / n
        step = [mpf(2) ** j * (2**j - 1) * (2 ** (j + 1) - 1) for j in range(1, m_p + 1)]
        a = [mpf(2) ** (m_acc - 3 * m_p) / 3 * sum(step[:j]) for j in range(m_p + 1)]
        many = sum(q[i] for i in q if i > a[m_p])
        total = sum((i - a[m_p]) * q[i] for i in q if i > a[m_p])
        for r in range(2, m_p + 1):
            if n > a[r - 1]:
                weight = mpf(2) ** (m_acc - m_p + r)
                low, high = mpf(2) ** (m_acc - m_p + r - 1), mpf(2) ** (m_acc - m_p + r)
                p = weight * q2(low / mpmath.sqrt(n)) * (1 - q2(high / mpmath.sqrt(n)))
                many, total = many + p, total + (n - a[r - 1]) * p
        kept = 1 - q2(mpf(2) ** (m_acc - m_p + 1) / mpmath.sqrt(n))
        return 1 - (total + n * kept) / (many + kept) / n


@pytest.mark.parametrize("partial", [True, False])
@pytest.mark.parametrize(("m_acc", "n"), [(5, 2), (5, 3), (5, 50), (5, 196), (6, 900), (7, 1487), (8, 3000), (9, 1200)])
def test_what_is_lost_against_direct_sums(m_acc, n, partial):
    expected = ratio(m_acc, 5, n, partial)
    assert lost(m_acc, 5, n, partial=partial) == pytest.approx(float(n * expected), rel=1e-12, abs=1e-300)
    assert vrr(m_acc, 5, n, partial=partial) == pytest.approx(float(1 - expected), rel=1e-12)


@pytest.mark.parametrize("m_acc", [5, 8, 11, 13])
@pytest.mark.parametrize("n", [9_000, 60_000, pytest.param(2_000_000, marks=pytest.mark.slow)])
def test_long_sums_against_compensated_ones(m_acc, n):
    """Lemma 1, term by term in float64 and summed exactly: only the terms' own rounding is left."""
    from math import erf, erfc, fsum, sqrt

    s = 2.0**m_acc
    q = [erfc(s / sqrt(2 * i)) * erf(s / sqrt(2 * (i - 1))) for i in range(2, n)]
    expected = fsum((n - i) * x for i, x in enumerate(q, 2)) / (fsum(q) + erf(s / sqrt(2 * n)))
    assert lost(m_acc, 5, n, partial=False) == pytest.approx(expected, rel=1e-12, abs=1e-300)


@pytest.mark.parametrize("m_acc", [9, 12, 16])
def test_very_long_sums_against_an_integral(m_acc):
    """n = 1e12, full swamping: the sum as an integral, by mpmath's own quadrature."""
    n = 10**12
    with mpmath.workdps(30):
        s = mpf(2) ** m_acc

        def q(x):
            return q2(s / mpmath.sqrt(x)) * (1 - q2(s / mpmath.sqrt(x - 1)))

        panels = [mpf(1.5), *(s**2 / 4**k for k in range(4, -30, -1) if 2 < s**2 / 4**k < n), mpf(n) - mpf(0.5)]
        many, total = mpmath.quad(q, panels), mpmath.quad(lambda x: (n - x) * q(x), panels)
        expected = total / (many + 1 - q2(s / mpmath.sqrt(n)))
    assert lost(m_acc, 5, n, partial=False) == pytest.approx(float(expected), rel=1e-10)


def test_published_knees():
    """The specification's table for m_p = 5 (literal reading). Not monotone: 16 bits carry less far than 15."""
    assert [safe_length(m, 5) for m in range(5, 18)] == [
        196, 534, 1486, 3919, 10160, 26560, 64894, 164163, 422328, 961479, 2245379, 2164319, 4154398]  # fmt: skip
    assert [safe_length(m, 5, chunk=64) for m in range(5, 18)] == [
        397, 1349, 4032, 10793, 38217, 98103, 237151, 610667, 1569088, 3838813, 9894557, 25551936,
        62688863]  # fmt: skip


def test_narrowest_accumulators():
    lengths = (128, 1024, 4096, 16384, 65536, 1048576)
    assert [(min_macc(5, n), min_macc(5, n, chunk=64)) for n in lengths] == [
        (5, 5), (7, 6), (9, 8), (10, 9), (12, 10), (15, 13)]  # fmt: skip


@pytest.mark.parametrize("n", [1 << 16, 1 << 21, 2_200_000])
def test_the_search_never_trusts_one_width(n):
    m = min_macc(5, n)
    assert suitable(m, 5, n) and suitable(m + 1, 5, n)
    assert not all(suitable(k, 5, n) for k in (m - 1, m))


def test_chunks_and_sparsity_compose():
    inner, outer = vrr(7, 5, 64), vrr(7, min(7, 5 + 6), 16)
    assert vrr(7, 5, 1024, chunk=64) == pytest.approx(inner * outer, rel=1e-13)
    assert lost(7, 5, 1024, nzr=0.25) == lost(7, 5, 256)
    assert lost(7, 5, 50, chunk=64) == lost(7, 5, 50)
    assert v(5, 5, 10**6) == np.inf and v(20, 5, 100) == pytest.approx(1, abs=1e-6)
    assert curve(7, 5, np.array([10, 1000])).tolist() == [vrr(7, 5, 10), vrr(7, 5, 1000)]


@pytest.mark.parametrize("bad", [(0, 5, 10), (5, -1, 10), (5, 5, 0), (70, 5, 10)])
def test_nonsense_is_refused(bad):
    with pytest.raises(ValueError, match="positive"):
        vrr(*bad)


def test_no_torch():
    import subprocess

    code = "import sys, render; render.accumulation.vrr(9, 5, 4096.0); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_published_table_by_the_literal_reading():
    """12 and 9 of 45 pairs, as counted for the specification: the paper's Table 1 is not what its formula gives."""
    from benchmarks.companions.vrr_table import matches

    assert matches() == {"normal": (45, 12, 35), "chunk": (45, 9, 16)}
