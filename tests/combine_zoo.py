"""Kernels that move, count and combine elements: gather, histogram, cat, join, interleave, scans and own combiners."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def move_kernel(x, y, index, out, N: tl.constexpr, WHAT: tl.constexpr):
    i, j = tl.arange(0, N), tl.arange(0, 2 * N)
    a, b = tl.exp(tl.load(x + i)), tl.exp(tl.load(y + i))
    if WHAT == "gather":
        tl.store(out + i, tl.gather(a, tl.load(index + i), 0))
    elif WHAT == "cat":
        tl.store(out + j, tl.cat(a, b, can_reorder=True))
    elif WHAT == "interleave":
        tl.store(out + j, tl.interleave(a, b))
    elif WHAT == "join":
        tl.store(out + i[:, None] * 2 + tl.arange(0, 2)[None, :], tl.join(a, b))
    else:
        c, d = tl.split(tl.join(a, b))
        tl.store(out + i, c)
        tl.store(out + N + i, d)


@triton.jit
def gather_rows_kernel(x, index, out, M: tl.constexpr, N: tl.constexpr, AXIS: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(out + at, tl.gather(tl.load(x + at), tl.load(index + at), AXIS))


@triton.jit
def histogram_kernel(x, keep, out, N: tl.constexpr, BINS: tl.constexpr):
    i = tl.arange(0, N)
    h = tl.histogram(tl.load(x + i), BINS, mask=tl.load(keep + i) != 0)
    tl.store(out + tl.arange(0, BINS), h)


@triton.jit
def scan_kernel(x, out, M: tl.constexpr, N: tl.constexpr, WHAT: tl.constexpr, AXIS: tl.constexpr, BACK: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    v = tl.load(x + at)
    v = tl.cumprod(v, AXIS, reverse=BACK) if WHAT == "cumprod" else tl.cumsum(v, AXIS, reverse=BACK)
    tl.store(out + at, v)


@triton.jit
def welford(mean_a, m2_a, n_a, mean_b, m2_b, n_b):
    delta = mean_b - mean_a
    n = n_a + n_b
    share = tl.where(n == 0.0, 0.0, n_b / n)
    return mean_a + delta * share, m2_a + m2_b + delta * delta * n_a * share, n


@triton.jit
def welford_without_guard(m2_a, n_a, mean_a, m2_b, n_b, mean_b):
    n = n_b + n_a
    delta = mean_b - mean_a
    return (delta * delta) * (n_b / n) * n_a + (m2_b + m2_a), n, delta * (n_b / n) + mean_a


@triton.jit
def raw_squares(mean_x, count_x, m_x, mean_y, count_y, m_y):
    count = count_x + count_y
    least = tl.maximum(count, 1)
    mc_x = mean_x * count_x
    mc_y = mean_y * count_y
    mean = (mc_x + mc_y) / least
    return mean, count, m_x + mc_x * mean_x + m_y + mc_y * mean_y - count * mean * mean


@triton.jit
def not_raw_squares(mean_x, count_x, m_x, mean_y, count_y, m_y):
    count = count_x + count_y
    mean = (mean_x * count_x + mean_y * count_y) / tl.maximum(count, 2)
    return mean, count, m_x + mean_x * count_x * mean_x + m_y + mean_y * count_y * mean_y - count * mean * mean


@triton.jit
def spread_kernel(x, mean, var, n, fn: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i, mask=i < n, other=0.0)
    m, count, m2 = tl.reduce((v, (i < n).to(tl.float32), tl.zeros([N], tl.float32)), 0, fn)
    tl.store(mean, m)
    tl.store(var, m2 / count)


@triton.jit
def not_welford(mean_a, m2_a, n_a, mean_b, m2_b, n_b):
    delta = mean_b - mean_a
    n = n_a + n_b
    return mean_a + delta * (n_b / n), m2_a + m2_b + delta * delta * n_b * (n_b / n), n


@triton.jit
def welford_kernel(x, mean, var, running, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    zero, one = tl.zeros([N], tl.float32), tl.full([N], 1.0, tl.float32)
    m, m2, n = tl.reduce((v, zero, one), 0, welford)
    tl.store(mean, m)
    tl.store(var, m2 / n)
    all_means, _, _ = tl.associative_scan((v, zero, one), 0, welford)
    tl.store(running + i, all_means)


@triton.jit
def linear(a1, b1, a2, b2):
    return a1 * a2, b1 * a2 + b2


@triton.jit
def linear_by_fma(b1, a1, b2, a2):
    """Another order of the components, and names in between."""
    carried = tl.fma(a2, b1, b2)
    return carried, a2 * a1


@triton.jit
def not_linear(a1, b1, a2, b2):
    return a1 * a2, b1 * a1 + b2


@triton.jit
def by_component(s1, m1, p1, s2, m2, p2):
    total = s2 + s1
    return total, tl.maximum(m1, m2), p1 * p2


@triton.jit
def components_kernel(x, out, running, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    s, m, p = tl.reduce((v, v, tl.abs(v)), 0, by_component)
    tl.store(out, s)
    tl.store(out + 1, m)
    tl.store(out + 2, p)
    a, b, c = tl.associative_scan((v, v, tl.abs(v)), 0, by_component)
    tl.store(running + i, a)
    tl.store(running + N + i, b)
    tl.store(running + 2 * N + i, c)


@triton.jit
def recurrence_kernel(a, b, out, N: tl.constexpr, BACK: tl.constexpr):
    i = tl.arange(0, N)
    _, h = tl.associative_scan((tl.load(a + i), tl.load(b + i)), 0, linear, reverse=BACK)
    tl.store(out + i, h)


@triton.jit
def exact_combine(a, b):
    return tl.maximum(a, b)


@triton.jit
def first_of(a, i, b, j):
    left = (a > b) | ((a == b) & (i < j))
    return tl.where(left, a, b), tl.where(left, i, j)


@triton.jit
def own_argmax_kernel(x, best, where, N: tl.constexpr):
    i = tl.arange(0, N)
    v, k = tl.reduce((tl.load(x + i), i), 0, first_of)
    tl.store(best, v)
    tl.store(where, k)
    tl.store(best + 1, tl.reduce(tl.load(x + i), 0, exact_combine))


@triton.jit
def larger(a, b):
    mask = a > b
    mask |= a != a
    return tl.where(mask, a, b)


@triton.jit
def smaller(a, b):
    """Equal ones: either."""
    return tl.where(~(b <= a), a, b)


@triton.jit
def larger_with_index(x, i, y, j):
    equal = x == y
    mask = (x > y) | (equal & (i < j))
    return tl.where(mask, x, y), tl.where(mask, i, j)


@triton.jit
def is_float(x):
    return x.dtype.is_floating()


@triton.jit
def smaller_with_index(x, i, y, j):
    mask = x < y
    equal = x == y
    if is_float(x):
        lost = y != y
        mask |= (x != x) & (not lost)
        equal |= (x != x) & lost
    mask |= equal & (i < j)
    return tl.where(mask, x, y), tl.where(mask, i, j)


@triton.jit
def last_with_index(x, i, y, j):
    mask = x > y
    return tl.where(mask, x, y), tl.where(mask, i, j)


@triton.jit
def mixed_roles(x, i, y, j):
    mask = x > i
    return tl.where(mask, x, y), tl.where(mask, i, j)


@triton.jit
def first(a, b):
    return tl.where(a == a, a, b)


@triton.jit
def against_zero(a, b):
    return tl.where(a > 0, a, b)


@triton.jit
def rounded_larger(a, b):
    return tl.where(a > b, a + 0.1, b)


@triton.jit
def select_kernel(X, Out, At, FN: tl.constexpr, WITH: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(X + i) * 1.1
    if WITH:
        best, at = tl.reduce((x, i), 0, FN)
        tl.store(Out, best)
        tl.store(At, at)
    else:
        tl.store(Out, tl.reduce(x, 0, FN))
