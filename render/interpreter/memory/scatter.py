"""Writes: one pass that checks, detects conflicts, saves what undo needs and stores bits, tags and bounds."""

from __future__ import annotations

import numpy as np
from numba import njit

from render.interpreter.memory.gather import CONFLICT, KIND_BITS, OUTSIDE, OVERWRITE
from render.interpreter.memory.registry import ATOMIC, PROGRAM, SHARED
from render.interpreter.memory.shadow import JIT

SAVE_BITS, SAVE_WRITTEN, SAVE_SHADOW = 1, 2, 4


@njit(inline="always", error_model="numpy")
def joined(a, b, low):
    """min (low) or max of two bounds; NaN in either gives NaN."""
    if a != a or b != b:
        return np.nan
    if low:
        return min(a, b)
    return max(a, b)


@njit(**JIT)
def scatter(
    dims, st, ptr, mask, bits, low, high, programs, synced, uniform, base, limit, size,
    mem, tags, grain, written, use_written, slo, shi, stamp, use_shadow, reads, use_reads,
    launch, chunk, epoch, serial, save, u_index, u_bits, u_tag, u_written, u_lo, u_hi, u_stamp, used, events,
):  # fmt: skip
    """Store lanes in order; returns (events noted, undo entries used, first and last element stored).

    -1 events: a hazard within the chunk. `save` says which parts an undo entry has; an element that was written since
    the tag `epoch` has its entry already.
    Two lanes of one access, or two programs, that store equal bits get the hull of their bounds.
    A common mistake: tags are compared as serials, so a tag of an earlier launch never needs clearing.
    """
    noted = 0
    first, last = limit, -1
    per = max(1, size // grain)
    n = 0
    for i in range(dims[0]):
        me = programs[i]
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
                        k = off // size
                        g = off // grain
                        t = tags[g]
                        for q in range(1, per):
                            t = max(t, tags[g + q])
                        first = min(first, k)
                        last = max(last, k)
                        new = bits[b]
                        old = mem[k]
                        tag = serial | me
                        if uniform:
                            tag |= SHARED
                        join = False
                        if t >= launch:
                            stranger = (t & PROGRAM) != me
                            if t >= serial and not stranger:
                                join = new == old
                                if not join:
                                    events[noted] = n << KIND_BITS | CONFLICT
                                    noted += 1
                            elif new != old:
                                if stranger or uniform or (t & SHARED) != 0:
                                    if t >= chunk:
                                        return -1, used, first, last
                                    if not synced[i]:
                                        events[noted] = n << KIND_BITS | CONFLICT
                                        noted += 1
                            elif stranger:
                                join = True
                            if new == old and (stranger or (t & SHARED) != 0):
                                tag |= SHARED
                            if (t & ATOMIC) != 0 and stranger and new == old:
                                tag |= ATOMIC
                        if use_reads:
                            r = reads[g]
                            for q in range(1, per):
                                r = max(r, reads[g + q])
                            if r >= launch and ((r & PROGRAM) != me or (r & SHARED) != 0):
                                if r >= chunk and (new != old or use_shadow):
                                    return -1, used, first, last
                                if not synced[i] and new != old:
                                    events[noted] = n << KIND_BITS | OVERWRITE
                                    noted += 1
                        if t < epoch and save != 0:
                            u_index[used] = k
                            u_bits[used] = old
                            u_tag[used] = t
                            if save & SAVE_WRITTEN:
                                u_written[used] = written[k]
                            if save & SAVE_SHADOW:
                                u_stamp[used] = stamp[k]
                                u_lo[used] = slo[k]
                                u_hi[used] = shi[k]
                            used += 1
                        mem[k] = new
                        for q in range(per):
                            tags[g + q] = tag
                        if use_written:
                            written[k] = -1
                        if use_shadow:
                            a, z = np.float64(low[w]), np.float64(high[y])
                            if join and stamp[k] == old:
                                a, z = joined(a, slo[k], True), joined(z, shi[k], False)
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


@njit(**JIT)
def restore(index, bits, tag, written, lo, hi, stamp, mem, tags, out_written, slo, shi, out_stamp, save):
    """Put saved elements back (every element is saved at most once per chunk, so the order does not matter)."""
    for n in range(len(index)):
        k = index[n]
        mem[k] = bits[n]
        tags[k] = tag[n]
        if save & SAVE_WRITTEN:
            out_written[k] = written[n]
        if save & SAVE_SHADOW:
            slo[k] = lo[n]
            shi[k] = hi[n]
            out_stamp[k] = stamp[n]
