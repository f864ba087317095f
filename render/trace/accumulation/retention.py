r"""The variance retention ratio: is an accumulator of `m_acc` mantissa bits wide enough for sums of n terms?

Source: Sakr et al., Accumulation Bit-Width Scaling For Ultra-Low Precision Training Of Deep Networks, ICLR 2019 (Lemma
1, Theorem 1, Corollary 1, section 4.2). Terms are independent, of zero mean and one variance, with `m_p` mantissa bits
each (2 m + 1 for products of two m-bit mantissas); the accumulator has any exponent. With Q the Gaussian tail,

    q_i  = 2Q(2^m_acc / sqrt i) (1 - 2Q(2^m_acc / sqrt(i-1)))                swamped for good at term i
    q'_r = N 2Q(2^(m_acc-m_p+r-1) / sqrt n) (1 - 2Q(2^(m_acc-m_p+r) / sqrt n)),   N = 2^(m_acc-m_p+r)
    VRR  = [sum_{i>a} (i-a) q_i + sum_r (n-a_r)+ q'_r 1{n>a_r} + n k3] / (k n),   k = sum q_i + sum q'_r + k3

so what is lost is n (1 - VRR) = [sum_{i>a} (n-i+a) q_i + sum_r a_r q'_r 1{n>a_r}] / k without cancellation; it is the
logarithm of the paper's v(n), and the paper's rule is v(n) < 50. Where the print is inconsistent (q'_i for q'_r, the
upper limit of equation 13, the missing sum over j in equation 14) the reading is the one under which its closed forms
follow; m_p > m_acc lies outside the derivation and is taken as m_acc.

**An index, no measurement and no bound.** Against simulated sums it ranks widths, but past the knee it overstates what
rounding to nearest loses by ten, understates truncation by as much, and has the wrong sign for stochastic rounding; for
terms of one sign (softmax sums, norms, losses) it says nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from math import erf, erfc, sqrt

import numba
import numpy as np

LIMIT = 50.0
"""The paper's: an accumulator is wide enough where v(n) is below this."""
_LOG_LIMIT = math.log(LIMIT)
_HEAD = 4096
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
WIDEST = 64
"""Mantissa bits up to which a width is searched."""
_UNDERFLOW = 1490.0
"""2Q(2^m / sqrt i) is below 1e-320 for i < 4^m / this."""


def lost(m_acc: int, m_p: int, n: float, *, chunk: int | None = None, nzr: float = 1.0, partial: bool = True) -> float:
    """n (1 - VRR), the terms' worth of variance that is lost; the logarithm of v(n).

        render.accumulation.lost(10, 5, 4096)  # products of fp8 operands in an fp16 accumulator

    `m_acc`, `m_p`: mantissa bits of the accumulator and of the terms; `n`: how many terms there are. Raises ValueError
    for widths and lengths that there are not.

    `chunk`: terms per chunk (Corollary 1; the sums of chunks are added in a second accumulator of the same width).
    `nzr`: share of the terms that is not zero. `partial` False: full swamping alone (Lemma 1).
    """
    _check(m_acc, m_p, n, chunk, nzr)
    terms = n * nzr
    if chunk is None or n <= chunk:
        return _lost(m_acc, m_p, terms, partial)
    inner = max(chunk * nzr, 1.0)
    second = min(m_acc, m_p + math.floor(math.log2(inner)))
    chunks = float(math.ceil(n / chunk))
    one, two = _lost(m_acc, m_p, inner, partial) / inner, _lost(m_acc, second, chunks, partial) / chunks
    return terms * (one + two - one * two)


def vrr(m_acc: int, m_p: int, n: float, *, chunk: int | None = None, nzr: float = 1.0, partial: bool = True) -> float:
    """Variance of the sum with swamping over that of the exact sum: the variance retention ratio.

        render.accumulation.vrr(10, 5, 4096)

    `m_acc`, `m_p`: mantissa bits of the accumulator and of the terms; `n`, `chunk`, `nzr`, `partial` as
    in `lost`. Raises ValueError as it does.
    """
    return 1.0 - lost(m_acc, m_p, n, chunk=chunk, nzr=nzr, partial=partial) / (n * nzr)


def v(m_acc: int, m_p: int, n: float, *, chunk: int | None = None, nzr: float = 1.0) -> float:
    """exp(n (1 - VRR)), infinite where float64 has no such number.

        render.accumulation.v(10, 5, 4096) < 50

    `m_acc`, `m_p`: mantissa bits of the accumulator and of the terms; `n`, `chunk`, `nzr` as in `lost`.
    Raises ValueError as it does.
    """
    found = lost(m_acc, m_p, n, chunk=chunk, nzr=nzr)
    return math.exp(found) if found < 709.0 else math.inf


def suitable(m_acc: int, m_p: int, n: float, *, chunk: int | None = None, nzr: float = 1.0) -> bool:
    """Whether v(n) < 50: the paper's rule for an accumulator that is wide enough.

        render.accumulation.suitable(10, 5, 4096, chunk=64)

    `m_acc`, `m_p`: mantissa bits of the accumulator and of the terms; `n`, `chunk`, `nzr` as in `lost`.
    Raises ValueError as it does.
    """
    return lost(m_acc, m_p, n, chunk=chunk, nzr=nzr) < _LOG_LIMIT


def min_macc(m_p: int, n: float, *, chunk: int | None = None, nzr: float = 1.0) -> int:
    """The narrowest suitable accumulator: m and m + 1 both pass, since the rule is not monotone in m.

        render.accumulation.min_macc(5, 65536)

    `m_p`, `n`, `chunk`, `nzr` as in `lost`. Raises ValueError as it does, and where no width up to `WIDEST` passes.
    """
    passed = False
    for m in range(1, WIDEST + 1):
        before, passed = passed, suitable(m, m_p, n, chunk=chunk, nzr=nzr)
        if before and passed:
            return m - 1
    raise ValueError(f"no accumulator of up to {WIDEST} bits is wide enough for {n:g} terms by this rule")


def safe_length(m_acc: int, m_p: int, *, chunk: int | None = None, longest: int = 10**12) -> int:
    """The knee: the largest n before the first with v(n) >= 50; `longest` where none is found up to there.

        render.accumulation.safe_length(10, 5)

    `m_acc`, `m_p`, `chunk` as in `lost`. Raises ValueError as it does.

    n is walked through in steps of 1 % and at every jump of the formula, so a dip shorter than that may be missed.
    """
    last = 1
    for n in _lengths(m_acc, m_p, chunk, longest):
        if not suitable(m_acc, m_p, n, chunk=chunk):
            return _last_good(m_acc, m_p, chunk, last, n)
        last = n
    return longest


def curve(m_acc: int, m_p: int, lengths: np.ndarray, *, chunk: int | None = None, nzr: float = 1.0) -> np.ndarray:
    """VRR at each length.

        render.accumulation.curve(10, 5, np.arange(100, 5000, 100))

    `lengths`: numbers of terms; `m_acc`, `m_p`, `chunk`, `nzr` as in `lost`. Raises ValueError as it does.
    """
    return np.array([vrr(m_acc, m_p, float(n), chunk=chunk, nzr=nzr) for n in lengths])


def _check(m_acc: int, m_p: int, n: float, chunk: int | None, nzr: float) -> None:
    if not (1 <= m_acc <= WIDEST + 1 and m_p >= 0 and n >= 1 and 0 < nzr <= 1 and (chunk is None or chunk >= 1)):
        raise ValueError(f"m_acc={m_acc}, m_p={m_p}, n={n}, chunk={chunk}, nzr={nzr}: widths and lengths are positive")


def _lengths(m_acc: int, m_p: int, chunk: int | None, longest: int) -> Iterator[int]:
    jumps = {math.floor(a) + 1 for a in _thresholds(m_acc, min(m_p, m_acc))}
    if chunk is not None:
        second = min(m_acc, m_p + math.floor(math.log2(chunk)))
        jumps |= {(math.floor(a) + k) * chunk + 1 for a in _thresholds(m_acc, second) for k in (0, 1)} | {chunk + 1}
    todo, n = sorted(j for j in jumps if 2 < j <= longest), 2
    while n <= longest:
        while todo and todo[0] <= n:
            if todo[0] < n:
                yield todo[0]
            todo.pop(0)
        yield n
        n = max(n + 1, n + n // 100)


def _last_good(m_acc: int, m_p: int, chunk: int | None, good: int, bad: int) -> int:
    while bad - good > 1:
        middle = (good + bad) // 2
        if suitable(m_acc, m_p, middle, chunk=chunk):
            good = middle
        else:
            bad = middle
    return good


@lru_cache(maxsize=1024)
def _thresholds(m_acc: int, m_p: int) -> tuple[float, ...]:
    """A(0) .. A(m_p): A(J) = 2^(m_acc - 3 m_p) / 3 * sum_{j <= J} 2^j (2^j - 1) (2^(j+1) - 1)."""
    sums, total = [0.0], 0
    for j in range(1, m_p + 1):
        total += 2**j * (2**j - 1) * (2 ** (j + 1) - 1)
        sums.append(math.ldexp(total / 3, m_acc - 3 * m_p))
    return tuple(sums)


@lru_cache(maxsize=4096)
def _lost(m_acc: int, m_p: int, n: float, partial: bool) -> float:
    """One accumulator over n terms (n need not be whole: a share of the terms that is not zero)."""
    if n <= 1:
        return 0.0
    m_p = min(m_p, m_acc)
    thresholds = _thresholds(m_acc, m_p) if partial else (0.0,)
    a = thresholds[-1]
    many, weighted = _sums(max(2.0, math.floor(a) + 1.0), math.ceil(n) - 1.0, float(m_acc), n, a)
    second = second_weighted = 0.0
    for r in range(2, m_p + 1) if partial else ():
        if n > thresholds[r - 1]:
            step = math.ldexp(1.0, m_acc - m_p + r)
            q = step * erfc(step / 2 / sqrt(2 * n)) * erf(step / sqrt(2 * n))
            second, second_weighted = second + q, second_weighted + thresholds[r - 1] * q
    kept = erf(math.ldexp(1.0, m_acc - m_p + 1 if partial else m_acc) / sqrt(2 * n))
    return (weighted + second_weighted) / (many + second + kept)


def _sums(low: float, high: float, m: float, n: float, a: float) -> tuple[float, float]:
    """(sum of q_i, sum of (n - i + a) q_i) for low <= i <= high."""
    return _summed(low, high, m, n, a, _NODES, _WEIGHTS) if high >= low else (0.0, 0.0)  # type: ignore[no-any-return]


@numba.njit(cache=True)
def _q(i, m):  # type: ignore[no-untyped-def]
    """q_i for a real i > 1."""
    s = 2.0**m
    return erfc(s / sqrt(2.0 * i)) * erf(s / sqrt(2.0 * (i - 1.0)))


@numba.njit(cache=True)
def _end(x, m, n, a, weighted):  # type: ignore[no-untyped-def]
    """-f'/24 + 7 f'''/5760 - 31 f^(5)/967680 at x, by central differences of step 1/2 (f: the summand)."""
    f = np.empty(7)
    for k in range(7):
        t = x + (k - 3) / 2.0
        f[k] = _q(t, m) * ((n - t + a) if weighted else 1.0)
    one, two, three = f[4] - f[2], f[5] - f[1], f[6] - f[0]
    first = (45.0 * one - 9.0 * two + three) / 30.0
    third = -13.0 * one + 8.0 * two - three
    fifth = (5.0 * one - 4.0 * two + three) * 16.0
    return -first / 24.0 + 7.0 * third / 5760.0 - 31.0 * fifth / 967680.0


@numba.njit(cache=True)
def _summed(low, high, m, n, a, nodes, weights):  # type: ignore[no-untyped-def]
    """Term by term at first, then the integral by 16-point Gauss with midpoint Euler-Maclaurin ends.

    The summand changes by a factor e^(4^m / 2 i^2) from term to term: the head ends where that exponent is below 0.1,
    which leaves 1e-14 relative to the Euler-Maclaurin rest; a panel spans a factor of at most e^8.
    """
    low = max(low, np.floor(4.0**m / _UNDERFLOW))
    head = min(high, max(low + _HEAD, np.ceil(2.24 * 2.0**m)))
    if 4.0**m / 2.0 / max(low, 1.0) ** 2 < 0.1:
        head = min(high, low + _HEAD)
    many, weighted = 0.0, 0.0
    i = head
    while i >= low:
        q = _q(i, m)
        many += q
        weighted += (n - i + a) * q
        i -= 1.0
    if head >= high:
        return many, weighted
    begin, stop = head + 0.5, high + 0.5
    many += _end(stop, m, n, a, False) - _end(begin, m, n, a, False)
    weighted += _end(stop, m, n, a, True) - _end(begin, m, n, a, True)
    left = begin
    while left < stop:
        right = min(stop, left * min(1.5, 1.0 + 16.0 * left / 4.0**m))
        half, middle = (right - left) / 2.0, (right + left) / 2.0
        for k in range(nodes.size):
            t = middle + half * nodes[k]
            q = half * weights[k] * _q(t, m)
            many += q
            weighted += (n - t + a) * q
        left = right
    return many, weighted
