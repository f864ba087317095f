"""Read-modify-write lanes one after the other, in the order (program, lane)."""

from __future__ import annotations

import math

import numpy as np

from interval_ops.compiled import compiled, inlined
from interval_ops.formats.rounding import _bits, rn
from render.interpreter.memory.gather import KIND_BITS, NEVER, OUTSIDE, RACE
from render.interpreter.memory.operands import Bounded, Cells, Noted, Since, Sums, Undo, Update, Where, Who
from render.interpreter.memory.registry import ATOMIC, PROGRAM, RECENT, SEVERAL, SHARED, STORED
from render.interpreter.memory.scatter import BOUNDED, ENTRY_BITS, SAVE_SHADOW, SAVE_WRITTEN, TAGGED, joined
from render.interpreter.memory.shadow import log2

ADD, MAX, MIN, AND, OR, XOR, XCHG, CAS = range(8)


@inlined
def others(t: int, me: int, chunk: int) -> bool:
    """Whether a program of this chunk other than `me` left the tag."""
    return t >= chunk and ((t & PROGRAM) != me or (t & SEVERAL) != 0)


@inlined
def order(t: int, r: int, me: int, synced: bool, launch: int, chunk: int) -> int:
    """How an atomic by program `me` stands to earlier accesses: -1 hazard in the chunk, 1 race, 0 fine.

    Other atomics on the address are no race; plain accesses of other programs are, unless `me` synchronised before.
    """
    stranger = t >= launch and ((t & PROGRAM) != me or (t & SHARED) != 0)
    plain = (t & ATOMIC) == 0
    if others(t, me, chunk) and (plain or (t & RECENT) != 0):
        return -1
    if others(r, me, chunk):
        return -1
    return 1 if stranger and not synced and (plain or (t & STORED) != 0) else 0


@inlined
def atomic_tag(t: int, me: int, launch: int, chunk: int, serial: int) -> int:
    tag = serial | ATOMIC | me
    if t < launch:
        return tag
    plain = (t & ATOMIC) == 0
    if (t & PROGRAM) != me or (t & SHARED) != 0:
        tag |= SHARED
    if others(t, me, chunk):
        tag |= SEVERAL
    if plain or (t & STORED) != 0:
        tag |= STORED
    if t >= chunk and (plain or (t & RECENT) != 0):
        tag |= RECENT
    return tag


@inlined
def pack(x: float, p: int, emin: int, bias: int, nan_bits: int) -> int:
    """Bits of `x`, a number of the 16-bit format (p, emin, bias) or an infinity; NaN gives `nan_bits`."""
    if x != x:
        return nan_bits
    wide: int = _bits(x)
    sign = (wide >> 48) & 0x8000
    exponent = ((wide >> 52) & 0x7FF) - 1023
    if exponent > bias:
        return sign | (2 * bias + 1) << (p - 1)
    if exponent < emin:
        return sign | int(math.ldexp(abs(x), p - 1 - emin))
    return sign | (exponent + bias) << (p - 1) | (wide & 0xFFFFFFFFFFFFF) >> (53 - p)


@compiled
def atomic_float(
    where: Where, values: tuple[np.ndarray, ...], who: Who, update: Update, cells: Cells,
    bounded: Bounded, sums: Sums, since: Since, undo: Undo, results: Noted,
) -> tuple[int, int, int, int]:  # fmt: skip
    """Float add, max and min. Value lane: one rounding to nearest per lane, in order.

    With `bounds`, adds are collected per element (base, sums, magnitude, count), closed later for any order; max and
    min act on the bounds at once, since [max lo, max hi] is the same in every order. Returns (events, used, first,
    last).
    """
    dims, st, ptr, mask, base, limit, size = where
    val, low, high = values
    programs, synced, _ = who
    op, gate, p_bits, emin, bias, nan_bits = update
    mem, fmem, table, tags, _, written, use_written, reads, use_reads = cells
    slo, shi, stamp, bounds = bounded
    base_lo, base_hi, sum_lo, sum_hi, magnitude, count, stale, acc_old = sums
    launch, chunk, epoch, serial = since
    save, u_index, u_bits, u_tag, u_written, u_lo, u_hi, used = undo
    out, events = results
    noted = 0
    first, last = limit, -1
    start = used
    shift = log2(size)
    n = 0
    for i in range(dims[0]):
        me = programs[i]
        for j in range(dims[1]):
            p = i * st[0, 0] + j * st[0, 1]
            m = i * st[1, 0] + j * st[1, 1]
            b = i * st[2, 0] + j * st[2, 1]
            w = i * st[3, 0] + j * st[3, 1]
            h = i * st[4, 0] + j * st[4, 1]
            for _ in range(dims[2]):
                out[n] = 0
                if mask[m]:
                    off = np.int64(ptr[p] - base)
                    if off < 0 or off >= limit or off & (size - 1):
                        events[noted] = n << KIND_BITS | OUTSIDE
                        noted += 1
                    else:
                        k = int(off >> shift)
                        first = min(first, k)
                        last = max(last, k)
                        t = tags[k]
                        state = order(t, reads[k] if use_reads else 0, me, synced[i], launch, chunk)
                        if state < 0:
                            return -1, used, first, last
                        if state > 0:
                            events[noted] = n << KIND_BITS | RACE
                            noted += 1
                        bits = mem[k]
                        if t < epoch and save != 0:
                            entry = k << ENTRY_BITS | TAGGED
                            u_bits[used] = bits
                            u_tag[used] = t
                            if save & SAVE_WRITTEN:
                                u_written[used] = written[k]
                            if save & SAVE_SHADOW and stamp[k] == bits:
                                entry |= BOUNDED
                                u_lo[used] = slo[k]
                                u_hi[used] = shi[k]
                            u_index[used] = entry
                            if len(acc_old) > 0:
                                row = used - start
                                acc_old[row, 0] = base_lo[k]
                                acc_old[row, 1] = base_hi[k]
                                acc_old[row, 2] = sum_lo[k]
                                acc_old[row, 3] = sum_hi[k]
                                acc_old[row, 4] = magnitude[k]
                                acc_old[row, 5] = count[k]
                            used += 1
                        x: float = np.float64(table[bits]) if size == 2 else np.float64(fmem[k])
                        lo0: float = x
                        hi0: float = x
                        if bounds and stamp[k] == bits:
                            lo0, hi0 = slo[k], shi[k]
                        if use_written and written[k] != -1:
                            events[noted] = n << KIND_BITS | NEVER
                            noted += 1
                            x = 0.0
                            lo0, hi0 = np.nan, np.nan
                        out[n] = x
                        y = np.float64(val[b])
                        if op == ADD:
                            if bounds:
                                a, z = np.float64(low[w]), np.float64(high[h])
                                if count[k] == 0:
                                    base_lo[k] = lo0
                                    base_hi[k] = hi0
                                    sum_lo[k] = 0.0
                                    sum_hi[k] = 0.0
                                    magnitude[k] = 0.0
                                sum_lo[k] += a
                                sum_hi[k] += z
                                least, most = abs(a), abs(z)  # of ends that are finite
                                magnitude[k] += max(least if least < np.inf else 0.0, most if most < np.inf else 0.0)
                                count[k] += 1.0
                                stale[k] = True
                            if size == 2:
                                x = rn(x + y, gate)
                            elif size == 4:
                                x = np.float64(np.float32(np.float32(x) + np.float32(y)))
                            else:
                                x = x + y
                        else:
                            if x != x or y != y:
                                x = np.nan
                            elif op == MAX:
                                x = max(x, y)
                            else:
                                x = min(x, y)
                        if size == 2:
                            mem[k] = pack(x, p_bits, emin, bias, nan_bits)
                        else:
                            fmem[k] = x
                        if bounds and op != ADD:
                            a, z = np.float64(low[w]), np.float64(high[h])
                            if count[k] != 0:
                                # Sums and maxima on one address: the result depends on their order.
                                events[noted] = n << KIND_BITS | RACE
                                noted += 1
                                count[k] = 0
                                stale[k] = False
                                lo0, hi0 = np.nan, np.nan
                            # joined(a, b, True) is a minimum, NaN if either is.
                            slo[k] = joined(lo0, a, op == MIN)
                            shi[k] = joined(hi0, z, op == MIN)
                            stamp[k] = mem[k]
                        tags[k] = atomic_tag(t, me, launch, chunk, serial)
                        if use_written:
                            written[k] = -1
                n += 1
                p += st[0, 2]
                m += st[1, 2]
                b += st[2, 2]
                w += st[3, 2]
                h += st[4, 2]
    return noted, used, first, last


@compiled
def atomic_int(
    where: Where, values: tuple[np.ndarray, ...], who: Who, op: int, cells: Cells, bounded: Bounded,
    since: Since, undo: Undo, results: Noted,
) -> tuple[int, int, int, int, bool]:  # fmt: skip
    """Integer operations in wrap-around arithmetic of `val`'s type, exchange and compare-and-swap on bits of any type.

    `cells.numbers` are the elements in that type. Returns (events, used, first, last, shared): `shared` if an address
    was met by several lanes of this launch, so that what they got back depends on their order. What exchanges leave
    does, so a hazard is any other access of the chunk to their addresses: programs that take different locks run
    together.
    """
    dims, st, ptr, mask, base, limit, size = where
    val, cmp = values
    programs, synced, _ = who
    raw, mem, _, tags, _, written, use_written, reads, use_reads = cells
    slo, shi, stamp, _ = bounded
    launch, chunk, epoch, serial = since
    save, u_index, u_bits, u_tag, u_written, u_lo, u_hi, used = undo
    out, events = results
    noted = 0
    first, last = limit, -1
    shared = False
    shift = log2(size)
    n = 0
    for i in range(dims[0]):
        me = programs[i]
        for j in range(dims[1]):
            p = i * st[0, 0] + j * st[0, 1]
            m = i * st[1, 0] + j * st[1, 1]
            b = i * st[2, 0] + j * st[2, 1]
            c = i * st[3, 0] + j * st[3, 1]
            for _ in range(dims[2]):
                out[n] = 0
                if mask[m]:
                    off = np.int64(ptr[p] - base)
                    if off < 0 or off >= limit or off & (size - 1):
                        events[noted] = n << KIND_BITS | OUTSIDE
                        noted += 1
                    else:
                        k = int(off >> shift)
                        first = min(first, k)
                        last = max(last, k)
                        t = tags[k]
                        state = order(t, reads[k] if use_reads else 0, me, synced[i], launch, chunk)
                        if state < 0 or (op >= XCHG and others(t, me, chunk)):
                            return -1, used, first, last, shared
                        if state > 0:
                            events[noted] = n << KIND_BITS | RACE
                            noted += 1
                        if t >= launch and (t >= serial or (t & PROGRAM) != me or (t & SHARED) != 0):
                            shared = True
                        old = mem[k]
                        if t < epoch and save != 0:
                            entry = k << ENTRY_BITS | TAGGED
                            u_bits[used] = old
                            u_tag[used] = t
                            if save & SAVE_WRITTEN:
                                u_written[used] = written[k]
                            if save & SAVE_SHADOW and stamp[k] == raw[k]:
                                entry |= BOUNDED
                                u_lo[used] = slo[k]
                                u_hi[used] = shi[k]
                            u_index[used] = entry
                            used += 1
                        if use_written and written[k] != -1:
                            events[noted] = n << KIND_BITS | NEVER
                            noted += 1
                            old = old ^ old
                        out[n] = old
                        x = val[b]
                        if op == ADD:
                            mem[k] = old + x
                        elif op == MAX:
                            mem[k] = max(old, x)
                        elif op == MIN:
                            mem[k] = min(old, x)
                        elif op == AND:
                            mem[k] = old & x
                        elif op == OR:
                            mem[k] = old | x
                        elif op == XOR:
                            mem[k] = old ^ x
                        elif op == XCHG or old == cmp[c]:
                            mem[k] = x
                        else:
                            mem[k] = old
                        tags[k] = atomic_tag(t, me, launch, chunk, serial) | (RECENT if op >= XCHG else 0)
                        if use_written:
                            written[k] = -1
                n += 1
                p += st[0, 2]
                m += st[1, 2]
                b += st[2, 2]
                c += st[3, 2]
    return noted, used, first, last, shared
