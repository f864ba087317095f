"""Writes: one pass that checks, detects conflicts, saves what undo needs and stores bits, tags and bounds."""

from __future__ import annotations

import numpy as np

from interval_ops.compiled import compiled, inlined
from render.interpreter.memory.gather import CONFLICT, KIND_BITS, OUTSIDE, OVERWRITE
from render.interpreter.memory.operands import Bounded, Cells, Since, Undo, Where, Who
from render.interpreter.memory.registry import ATOMIC, PROGRAM, RECENT, SEVERAL, SHARED, STORED
from render.interpreter.memory.shadow import log2

SAVE_BITS, SAVE_WRITTEN, SAVE_SHADOW = 1, 2, 4
VIRGIN, TAGGED, BOUNDED, ENTRY_BITS = 1, 2, 4, 3
HAZARD, CLASH, JOIN, WAS_READ = 1, 2, 4, 8


@inlined
def joined(a: float, b: float, low: bool) -> float:
    """min (low) or max of two bounds; NaN in either gives NaN."""
    if a != a or b != b:
        return np.nan
    if low:
        return min(a, b)
    return max(a, b)


@compiled
def contest(t: int, me: int, agree: bool, uniform: bool, synced: bool, chunk: int, serial: int) -> tuple[int, int]:
    """(what happens, tag flags to keep) where program `me` stores over the tag `t` of this launch.

    Values that disagree: two lanes of one access, or two programs without synchronisation, CLASH; two programs of one
    chunk are a HAZARD. Values that agree JOIN their bounds, so that any order of the stores is covered.
    """
    stranger = (t & PROGRAM) != me
    foreign = stranger or (t & SHARED) != 0
    if not agree:
        if t >= serial and not stranger:
            return CLASH, 0
        if foreign or uniform:
            if t >= chunk:
                return HAZARD, 0
            return (0 if synced else CLASH), 0
        return 0, 0
    flags = SHARED if foreign else 0
    if t >= chunk and (stranger or (t & SEVERAL) != 0):
        flags |= SEVERAL
    if stranger and (t & ATOMIC) != 0:
        flags |= ATOMIC | STORED | RECENT
    return (JOIN if foreign or t >= serial else 0), flags


@compiled
def overwritten(r: int, me: int, changed: bool, bounded: bool, synced: bool, chunk: int) -> int:
    """What happens where program `me` stores over an element whose last reader left the tag `r` in this launch."""
    if (r & PROGRAM) == me and (r & SHARED) == 0:
        return 0
    if r >= chunk and ((r & PROGRAM) != me or (r & SEVERAL) != 0) and (changed or bounded):
        return HAZARD
    return WAS_READ if changed and not synced else 0


@compiled
def scatter(
    where: Where, values: tuple[np.ndarray, ...], who: Who, cells: Cells, bounded: Bounded,
    since: Since, undo: Undo, events: np.ndarray,
) -> tuple[int, int, int, int]:  # fmt: skip
    """Store lanes in order; returns (events noted, undo entries used, first and last element stored).

    -1 events: a hazard within the chunk. `save` says which parts an undo entry has; an element that was written since
    the tag `epoch` has its entry already. An entry holds no more than the flags in `u_index` say: of an element that
    nothing has written since its allocation, only the number, for its old contents mean nothing.
    Different bits with overlapping bounds agree: the value lane is one legal execution of each, and their hull holds
    either. (Equal rows of a dot need not come out of BLAS with equal bits.)
    A common mistake: tags are compared as serials, so a tag of an earlier launch never needs clearing.
    """
    dims, st, ptr, mask, base, limit, size = where
    bits, low, high = values
    programs, synced, uniform = who
    mem, fmem, table, tags, grain, written, use_written, reads, use_reads = cells
    slo, shi, stamp, use_shadow = bounded
    launch, chunk, epoch, serial = since
    save, u_index, u_bits, u_tag, u_written, u_lo, u_hi, used = undo
    noted = 0
    first, last = limit, -1
    per = max(1, size // grain)
    shift, grain_shift = log2(size), log2(grain)
    n = 0
    for i in range(dims[0]):
        me = programs[i]
        tag0 = serial | me | (SHARED | SEVERAL if uniform else 0)
        for j in range(dims[1]):
            p = i * st[0, 0] + j * st[0, 1]
            m = i * st[1, 0] + j * st[1, 1]
            b = i * st[2, 0] + j * st[2, 1]
            w = i * st[3, 0] + j * st[3, 1]
            y = i * st[4, 0] + j * st[4, 1]
            for _ in range(dims[2]):
                if mask[m]:
                    off = np.int64(ptr[p] - base)
                    if off < 0 or off >= limit or off & (size - 1):
                        events[noted] = n << KIND_BITS | OUTSIDE
                        noted += 1
                    else:
                        k = int(off >> shift)
                        g = off >> grain_shift
                        first = min(first, k)
                        last = max(last, k)
                        t = tags[g]
                        for q in range(1, per):
                            t = max(t, tags[g + q])
                        new = bits[b]
                        old = mem[k]
                        tag = tag0
                        join = False
                        c, e = 0.0, 0.0
                        if t >= launch:
                            agree = new == old
                            if use_shadow:
                                if stamp[k] == old:
                                    c, e = slo[k], shi[k]
                                else:
                                    c = np.float64(table[old] if size <= 2 else fmem[k])
                                    e = c
                                agree = agree or not (np.float64(low[w]) > e or c > np.float64(high[y]))
                            what, flags = contest(t, me, agree, uniform, synced[i], chunk, serial)
                            tag |= flags
                            if what == HAZARD:
                                return -1, used, first, last
                            if what == CLASH:
                                events[noted] = n << KIND_BITS | CONFLICT
                                noted += 1
                            join = what == JOIN
                        if use_reads:
                            what = 0
                            for q in range(per):
                                if reads[g + q] >= launch:
                                    what |= overwritten(reads[g + q], me, new != old, use_shadow, synced[i], chunk)
                            if what & HAZARD:
                                return -1, used, first, last
                            if what & WAS_READ:
                                events[noted] = n << KIND_BITS | OVERWRITE
                                noted += 1
                        if t < epoch and save != 0:
                            entry = k << ENTRY_BITS
                            if use_written and written[k] == 0:
                                entry |= VIRGIN
                            else:
                                u_bits[used] = old
                                if t >= launch:
                                    entry |= TAGGED
                                    u_tag[used] = t
                                if save & SAVE_WRITTEN:
                                    u_written[used] = written[k]
                                if save & SAVE_SHADOW and stamp[k] == old:
                                    entry |= BOUNDED
                                    u_lo[used] = slo[k]
                                    u_hi[used] = shi[k]
                            u_index[used] = entry
                            used += 1
                        mem[k] = new
                        for q in range(per):
                            tags[g + q] = tag
                        if use_written:
                            written[k] = -1
                        if use_shadow:
                            a, z = float(low[w]), float(high[y])
                            if join:
                                a, z = joined(a, c, True), joined(z, e, False)
                            slo[k] = a
                            shi[k] = z
                            stamp[k] = new
                n += 1
                p += st[0, 2]
                m += st[1, 2]
                b += st[2, 2]
                w += st[3, 2]
                y += st[4, 2]
    return noted, used, first, last


@compiled
def restore(
    undo: Undo, mem: np.ndarray, tags: np.ndarray, out_written: np.ndarray, bounded: Bounded, canary: np.uint64
) -> None:
    """Put saved elements back (an element has one entry per epoch, so the order within a segment does not matter)."""
    save, index, bits, tag, written, lo, hi, _ = undo
    slo, shi, stamp, _ = bounded
    for n in range(len(index)):
        k = index[n] >> ENTRY_BITS
        tags[k] = tag[n] if index[n] & TAGGED else 0
        if index[n] & VIRGIN:
            out_written[k] = 0
            # The word that fresh memory was filled with, seen through this element.
            mem[k] = canary >> np.uint64(((k * mem.itemsize) & 7) * 8)
            continue
        mem[k] = bits[n]
        if save & SAVE_WRITTEN:
            out_written[k] = written[n]
        if index[n] & BOUNDED:
            slo[k] = lo[n]
            shi[k] = hi[n]
            stamp[k] = mem[k]
        elif save & SAVE_SHADOW:
            # It was void before: make sure that it is again, whatever bits come.
            slo[k] = np.nan
            shi[k] = np.nan
            stamp[k] = ~mem[k]
