"""Products in an algebra against random bracketings: exact rationals, and every step rounded by numpy."""

from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from support import rng, trials

from interval_ops.formats.model import BF16, FP16, FP32
from interval_ops.profiles.profile import CAUSES, load_profile
from interval_ops.reduction.algebra import Algebra, prefixes

SM80 = load_profile("sm_80")
DTYPES = {FP32: np.float32, FP16: np.float16, BF16: ml_dtypes.bfloat16}


def tables(k, terms, roundings, products):
    """`terms`: (component, left, right, factor), 0 for one operand alone."""
    c = np.zeros((k + 1, k + 1, k + 1))
    c[0, 0, 0] = 1
    for o, i, j, factor in terms:
        c[o, i, j] = factor
    return Algebra(c, np.abs(c), roundings, products)


def matrix(n):
    place = lambda i, j: 1 + i * n + j  # noqa: E731
    terms = [(place(i, j), place(i, m), place(m, j), 1) for i in range(n) for j in range(n) for m in range(n)]
    return tables(n * n, terms, n, n)


COMPLEX = tables(2, [(1, 1, 1, 1), (1, 2, 2, -1), (2, 1, 2, 1), (2, 2, 1, 1)], 2, 2)
DUAL = tables(2, [(1, 1, 1, 1), (2, 1, 2, 1), (2, 2, 1, 1)], 2, 2)
LINEAR = tables(2, [(1, 1, 1, 1), (2, 2, 1, 1), (2, 0, 2, 1)], 2, 1)
QUATERNION = tables(4, [(1, 1, 1, 1), (1, 2, 2, -1), (1, 3, 3, -1), (1, 4, 4, -1),
                        (2, 1, 2, 1), (2, 2, 1, 1), (2, 3, 4, 1), (2, 4, 3, -1),
                        (3, 1, 3, 1), (3, 3, 1, 1), (3, 2, 4, -1), (3, 4, 2, 1),
                        (4, 1, 4, 1), (4, 4, 1, 1), (4, 2, 3, 1), (4, 3, 2, -1)], 4, 4)  # fmt: skip
MOMENTS = tables(2, [(1, 1, 0, 1), (1, 0, 1, 1), (2, 2, 0, 1), (2, 0, 2, 1), (2, 1, 1, 1)], 3, 1)
"""Sum, and sum of all products of two."""
NO_UNIT = tables(2, [(1, 1, 1, 1), (2, 1, 2, 1)], 1, 1)
KNOWN = {"complex": COMPLEX, "dual": DUAL, "linear": LINEAR, "quaternion": QUATERNION, "2x2": matrix(2),
         "3x3": matrix(3), "moments": MOMENTS, "no unit": NO_UNIT}  # fmt: skip


def times(a, x, y, rounded):
    """f(x, y), terms in the order of the table; `rounded` after each operation."""
    one = (rounded(1), *x), (rounded(1), *y)
    out = []
    for table in a.c[1:]:
        total = None
        for i, j in np.argwhere(table):
            term = one[0][i] if j == 0 else one[1][j] if i == 0 else rounded(one[0][i] * one[1][j])
            term = term if table[i, j] > 0 else -term
            total = term if total is None else rounded(total + term)
        out.append(total)
    return tuple(out)


def bracketed(a, items, rounded, draw):
    items = list(items)
    while len(items) > 1:
        k = int(draw.integers(0, len(items) - 1))
        items[k : k + 2] = [times(a, items[k], items[k + 1], rounded)]
    return items[0]


def found(a, x, fmt, profile=SM80, reverse=False):
    """(lower, upper) of every prefix, by component; x (n, k)."""
    parts = [(c[None], c[None]) for c in np.asarray(x, np.float64).T]
    return [(lo[0], hi[0]) for lo, hi in prefixes(parts, 1, reverse, a, fmt, profile)]


@pytest.mark.parametrize("fmt", DTYPES, ids=lambda f: f.name)
@pytest.mark.parametrize("name", KNOWN)
def test_no_bracketing_leaves_the_bound(name, fmt):
    a, dtype, draw = KNOWN[name], DTYPES[fmt], rng(71)
    assert a.associative and (a.unit is None) == (name == "no unit")
    for _ in range(trials(6)):
        n = int(draw.integers(1, 24))
        x = (draw.normal(size=(n, len(a.c) - 1)) * draw.choice([0.3, 1.0])).astype(dtype)
        ends = found(a, x, fmt)
        for j in (0, n // 2, n - 1):
            rows = [tuple(r) for r in x[: j + 1]]
            exact = bracketed(a, [tuple(Fraction(float(v)) for v in r) for r in rows], lambda v: v, draw)
            for k, (lo, hi) in enumerate(ends):
                assert np.isnan(lo[j]) == np.isnan(hi[j]) and (np.isfinite(lo[j]) or abs(exact[k]) > 1 or n >= 12)
                assert np.isnan(lo[j]) or Fraction(lo[j]) <= exact[k] <= Fraction(hi[j])
            for _ in range(4):
                got = bracketed(a, rows, dtype, draw)
                assert all(np.isnan(lo[j]) or lo[j] <= float(got[k]) <= hi[j] for k, (lo, hi) in enumerate(ends)), (
                    name,
                    n,
                    j,
                )


def test_rotations_do_not_grow():
    """By components the bound of 1024 turns is beyond any number; in the norm it is a small multiple of n u."""
    angle = rng(72).uniform(0, 6.28, 1024)
    x = np.stack([np.cos(angle), np.sin(angle)], 1).astype(np.float32)
    (lo, hi), _ = found(COMPLEX, x, FP32)
    assert hi[-1] - lo[-1] <= 2 * 1024 * 8.1 * 2.0**-24 * 1.01
    for _ in range(3):
        got = bracketed(COMPLEX, [tuple(r) for r in x], np.float32, rng(73))
        assert lo[-1] <= got[0] <= hi[-1]
    turns = np.stack([x[:, 0], -x[:, 1], x[:, 1], x[:, 0]], 1)
    assert np.ptp([end[-1] for end in found(matrix(2), turns, FP32)[0]]) < 1e-2


@pytest.mark.parametrize("name", ["complex", "2x2", "linear", "moments"])
def test_intervals_hold_products_of_their_members(name):
    a, draw = KNOWN[name], rng(74)
    for _ in range(trials(10)):
        n = int(draw.integers(2, 20))
        mid = draw.normal(size=(n, len(a.c) - 1)) * 0.7
        rad = np.abs(mid) * draw.choice([0.0, 1e-6, 0.05])
        parts = [((mid - rad)[None, :, k], (mid + rad)[None, :, k]) for k in range(mid.shape[1])]
        ends = prefixes(parts, 1, False, a, FP32, SM80)
        for _ in range(20):
            x = mid + rad * draw.uniform(-1, 1, mid.shape)
            exact = bracketed(a, [tuple(map(Fraction, r)) for r in x], lambda v: v, draw)
            assert all(lo[0, -1] <= exact[k] <= hi[0, -1] for k, (lo, hi) in enumerate(ends))


def test_backwards_and_without_rounding():
    draw = rng(75)
    x = draw.normal(size=(9, 2)).astype(np.float32)
    forwards, back = found(COMPLEX, x, FP32), found(COMPLEX, x[::-1], FP32, reverse=True)
    assert all(
        np.array_equal(p, q[::-1]) for a, b in zip(forwards, back, strict=True) for p, q in zip(a, b, strict=True)
    )
    exact = bracketed(COMPLEX, [tuple(Fraction(float(v)) for v in r) for r in x], lambda v: v, draw)
    (lo, hi), _ = found(COMPLEX, x, FP32, SM80.mute(*CAUSES))
    assert Fraction(lo[-1]) <= exact[0] <= Fraction(hi[-1]) and hi[-1] - lo[-1] <= 1e-11 * max(1, abs(float(exact[0])))


def test_overflow_and_underflow():
    big = np.array([[3e30, 1e30]] * 4, np.float32)
    (lo, hi), _ = found(COMPLEX, big, FP32)
    assert np.isnan(lo[-1]) and np.isnan(hi[-1])
    draw = rng(76)
    for name in ("complex", "2x2", "linear", "no unit"):
        a = KNOWN[name]
        x = (draw.normal(size=(12, len(a.c) - 1)) * np.exp2(draw.integers(-60, -20, 12))[:, None]).astype(np.float32)
        x[::3] = (x[::3] * 2.0**60).astype(np.float32)
        ends = found(a, x, FP32)
        for _ in range(20):
            got = bracketed(a, [tuple(r) for r in x], np.float32, draw)
            assert all(not lo[-1] > float(got[k]) and not float(got[k]) > hi[-1] for k, (lo, hi) in enumerate(ends))


def test_what_is_no_algebra():
    assert not tables(1, [(1, 1, 0, 0.5), (1, 0, 1, 0.5)], 2, 0).associative
    assert not matrix(2).commutes and COMPLEX.commutes and DUAL.commutes and not LINEAR.commutes
    assert COMPLEX.by_components and QUATERNION.by_components


@pytest.mark.parametrize("fmt", [FP32, FP16, BF16], ids=lambda f: f.name)
@pytest.mark.parametrize("name", ["complex", "dual", "2x2", "linear"])
def test_roundings_belong_to_products_and_to_sums(name, fmt):
    """Only a profile without either of the two causes has none; without one of them all are there."""
    a, draw = KNOWN[name], rng(76)
    x = draw.normal(size=(5, 4 if name == "2x2" else 2)).astype(np.float16)
    sums = "accumulation" if fmt == FP32 else "lowacc"
    widths = [sum(float((hi - lo).sum()) for lo, hi in found(a, x, fmt, SM80.mute(*causes)))
              for causes in ((), ("arith",), (sums,), ("arith", sums))]  # fmt: skip
    assert widths[0] == widths[1] == widths[2] > 1e3 * widths[3]
