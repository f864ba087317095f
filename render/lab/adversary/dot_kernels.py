"""Concrete dots, one output at a time: block-FMA units, CDNA units and chains of fused multiply-adds.

Products of operands up to tf32 are exact in float64, so are their aligned and cut sums: everything below is exact
integer arithmetic in float64 until the one rounding that the unit performs. Written from the published descriptions
(MMA-Sim, arXiv 2511.10909; Khattak and Mikaitis, arXiv 2512.07004).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from interval_ops.compiled import compiled

IN_ORDER, SHARED, RANDOM, GROWING, SHRINKING, RISING, FALLING, SPREAD = range(8)
"""How products meet blocks: as numbered, one random order for all outputs, one per output, or sorted per output."""

CHOP, NEAREST, CDNA3, HALVES = range(4)
"""Block units: NVIDIA with truncation or rounding of the sum, CDNA3 fp16 and xf32, CDNA3 fp8."""

_ZERO = -126  # exponent of a zero operand in MMA-Sim


class Dealt(NamedTuple):
    """How products are ordered (IN_ORDER ... SPREAD), one shared permutation of them."""

    mode: int
    shared: np.ndarray[Any, Any]


class BlockUnit(NamedTuple):
    """CHOP ... HALVES, slots of a block; fraction bits of the alignment and of the result, least exponents of operands
    and accumulator, largest number. `zeros`: operands that are zero take part in the alignment."""

    kind: int
    block: int
    fraction: int
    bits: int
    emin: int
    acc_emin: int
    largest: float
    zeros: bool


class ChainUnit(NamedTuple):
    """Fraction bits, least exponent and largest number of the accumulator; `flush`: tiny results become 0."""

    bits: int
    emin: int
    largest: float
    flush: bool


@intrinsic
def fused64(typingctx, x, y, z):  # type: ignore[no-untyped-def]
    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        double = ir.DoubleType()
        function = builder.module.declare_intrinsic("llvm.fma", [double], ir.FunctionType(double, [double] * 3))
        return builder.call(function, args)

    return types.float64(types.float64, types.float64, types.float64), codegen


@compiled
def exponent(x: float, emin: int) -> int:
    """floor(log2 |x|), at least emin: subnormals are aligned at emin with an unnormalised significand."""
    return max(math.frexp(x)[1] - 1, emin)


@compiled
def keep(x: float, bits: int, emin: int, nearest: bool, largest: float) -> float:
    """x with `bits` fraction bits, to nearest even or towards zero."""
    if x == 0.0 or not abs(x) < math.inf:
        return x
    last = exponent(x, emin) - bits
    scaled = math.ldexp(x, -last)
    r = math.ldexp(np.rint(scaled) if nearest else np.trunc(scaled), last)
    return math.copysign(math.inf, r) if abs(r) > largest else r


@compiled
def odd(x: float, y: float) -> float:
    """x + y in float64, brought to odd where inexact."""
    s = x + y
    t = s - x
    e = (x - (s - t)) + (y - t)
    if e == 0.0 or not abs(s) < math.inf:
        return s
    m = math.frexp(s)[0]
    if int(m * 9007199254740992.0) % 2 != 0:
        return s
    found: float = np.nextafter(s, math.inf if e > 0.0 else -math.inf)
    return found


@compiled
def arrange(p, mode, shared, at):  # type: ignore[no-untyped-def]
    """Fills `at`: the products in the order in which they are dealt."""
    n = p.size
    if mode <= SHARED:
        at[:] = shared
    elif mode == RANDOM:
        at[:] = np.random.permutation(n)  # noqa: NPY002 (numba knows the old interface only)
    elif mode == GROWING:
        at[:] = np.argsort(np.abs(p))
    elif mode in (SHRINKING, SPREAD):
        at[:] = np.argsort(-np.abs(p))
    elif mode == RISING:
        at[:] = np.argsort(p)
    else:
        at[:] = np.argsort(-p)


@compiled
def seed(n: int) -> None:
    np.random.seed(n)  # noqa: NPY002


@compiled
def one_block(acc, p, e, used, members, unit, fraction, bits, emin, largest):  # type: ignore[no-untyped-def]
    """acc + the products `members[:used]` through one block."""
    top = -100000
    for i in range(used):
        top = max(top, e[members[i]])
    if unit >= CDNA3:
        return cdna_block(acc, p, used, members, unit, fraction, top)
    if acc != 0.0:
        top = max(top, exponent(acc, emin))
    if top == -100000:
        return 0.0
    last = top - fraction
    total = np.trunc(math.ldexp(acc, -last))
    for i in range(used):
        total += np.trunc(math.ldexp(p[members[i]], -last))
    return keep(math.ldexp(total, last), bits, emin, unit == NEAREST, largest)


@compiled
def cdna_block(acc, p, used, members, unit, fraction, top):  # type: ignore[no-untyped-def]
    """Products cut towards zero, their sum (fp8: two halves) and the accumulator rounded down, then to nearest."""
    even = 0.0
    halves = 0.0
    if top > -100000:
        last = top - fraction
        for i in range(used):
            cut = math.ldexp(np.trunc(math.ldexp(p[members[i]], -last)), last)
            if unit == HALVES and i % 2 == 1:
                halves += cut
            else:
                even += cut
    if acc != 0.0:
        top = max(top, exponent(acc, -126))
    if top == -100000:
        return 0.0
    if unit == HALVES:
        floor = top - 25
        total = math.ldexp(np.floor(math.ldexp(even, -floor)) + np.floor(math.ldexp(halves, -floor)), floor)
        if abs(acc) < math.ldexp(1.0, top - 25):
            acc = 0.0
    else:
        floor = top - 31
        total = math.ldexp(np.floor(math.ldexp(even, -floor)), floor)
    rest = math.ldexp(np.floor(math.ldexp(acc, 24 - top)), top - 24)
    return keep(total + rest, 23, -126, True, 3.4028234663852886e38)


@compiled
def products(a, b, emin, zeros, p, e):  # type: ignore[no-untyped-def]
    """Exact products and the exponents under which a unit aligns them; -100000 for those that take no part."""
    for k in range(p.size):
        x, y = np.float64(a[k]), np.float64(b[k])
        p[k] = x * y
        if zeros or (x != 0.0 and y != 0.0):
            e[k] = (exponent(x, emin) if x != 0.0 else _ZERO) + (exponent(y, emin) if y != 0.0 else _ZERO)
        else:
            e[k] = -100000


@compiled
def blocks(a, b, c, out, dealt, slots, count, unit):  # type: ignore[no-untyped-def]
    """out = c + a b; a (G, M, K), b (G, N, K), c and out (G, M, N). Product i of an order sits in slot slots[i] of
    `count` blocks."""
    mode, shared = dealt
    kind, block, fraction, bits, emin, acc_emin, largest, zeros = unit
    size = a.shape[2]
    p, e, at = np.empty(size), np.empty(size, np.int64), np.empty(size, np.int64)
    members, used = np.empty((count, block), np.int64), np.empty(count, np.int64)
    for g in range(out.shape[0]):
        for m in range(out.shape[1]):
            for n in range(out.shape[2]):
                products(a[g, m], b[g, n], emin, zeros, p, e)
                arrange(p, mode, shared, at)
                used[:] = 0
                for i in range(size):
                    j = i % count if mode == SPREAD else slots[i] // block
                    members[j, used[j]] = at[i]
                    used[j] += 1
                acc = c[g, m, n]
                for j in range(count):
                    acc = one_block(acc, p, e, used[j], members[j], kind, fraction, bits, acc_emin, largest)
                out[g, m, n] = acc


@compiled
def chains(a, b, c, out, dealt, cuts, unit):  # type: ignore[no-untyped-def]
    """Fused multiply-adds to nearest; the chain starts anew from 0 wherever `cuts` says, the pieces are added up."""
    mode, shared = dealt
    bits, emin, largest, flush = unit
    size = a.shape[2]
    p, at = np.empty(size), np.empty(size, np.int64)
    for g in range(out.shape[0]):
        for m in range(out.shape[1]):
            for n in range(out.shape[2]):
                for k in range(size):
                    p[k] = np.float64(a[g, m, k]) * np.float64(b[g, n, k])
                arrange(p, mode, shared, at)
                done, acc = 0.0, c[g, m, n]
                for i in range(size):
                    if cuts[i]:
                        done = keep(odd(done, acc), bits, emin, True, largest)
                        acc = 0.0
                    acc = keep(odd(p[at[i]], acc), bits, emin, True, largest)
                    if flush and abs(acc) < 1.1754943508222875e-38:
                        acc = 0.0
                out[g, m, n] = keep(odd(done, acc), bits, emin, True, largest)


@compiled
def chains64(a, b, c, out, mode, shared, cuts):  # type: ignore[no-untyped-def]
    size = a.shape[2]
    p, at = np.empty(size), np.empty(size, np.int64)
    for g in range(out.shape[0]):
        for m in range(out.shape[1]):
            for n in range(out.shape[2]):
                for k in range(size):
                    p[k] = a[g, m, k] * b[g, n, k]
                arrange(p, mode, shared, at)
                done, acc = 0.0, c[g, m, n]
                for i in range(size):
                    if cuts[i]:
                        done += acc
                        acc = 0.0
                    k = at[i]
                    acc = fused64(a[g, m, k], b[g, n, k], acc)
                out[g, m, n] = done + acc


@compiled
def _flushed(x):  # type: ignore[no-untyped-def]
    return 0.0 if abs(x) < 1.1754943508222875e-38 else x


@compiled
def groups(a, b, c, out, mode, shared, group):  # type: ignore[no-untyped-def]
    """CDNA2: pairwise trees of fp32 additions over groups of products, then the accumulator; tiny results become 0."""
    size, largest = a.shape[2], 3.4028234663852886e38
    p, at, part = np.empty(size), np.empty(size, np.int64), np.zeros(4)
    for g in range(out.shape[0]):
        for m in range(out.shape[1]):
            for n in range(out.shape[2]):
                for k in range(size):
                    p[k] = np.float64(a[g, m, k]) * np.float64(b[g, n, k])
                arrange(p, mode, shared, at)
                acc = c[g, m, n]
                for i in range(0, size, group):
                    part[:] = 0.0
                    for j in range(min(group, size - i)):
                        part[j] = _flushed(keep(p[at[i + j]], 23, -126, True, largest))
                    left = _flushed(keep(odd(part[0], part[1]), 23, -126, True, largest))
                    right = _flushed(keep(odd(part[2], part[3]), 23, -126, True, largest))
                    both = _flushed(keep(odd(left, right), 23, -126, True, largest))
                    acc = _flushed(keep(odd(both, acc), 23, -126, True, largest))
                out[g, m, n] = acc
