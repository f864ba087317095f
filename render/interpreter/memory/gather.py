"""Reads: addresses checked and values gathered in one pass, and the slower pass for memory written in this launch.

All kernels walk the lanes of `lanes.Plan` in order (program, lane) and note what they find in `events` as
lane << 3 | kind; they return how many events they noted. `limit` is the number of bytes that hold whole elements.
"""

from __future__ import annotations

import numpy as np

from interval_ops.compiled import compiled, inlined
from render.interpreter.memory.operands import Cells, Since, Where, Who
from render.interpreter.memory.registry import ATOMIC, PROGRAM, SEVERAL, SHARED
from render.interpreter.memory.shadow import log2

OUTSIDE, NEVER, RACE, CONFLICT, OVERWRITE = 1, 2, 3, 4, 5
KIND_BITS = 3
LANES = 16
"""Neighbouring lanes that are looked at together: rows of blocks are multiples of it."""


@inlined
def run_of(ptr: np.ndarray, mask: np.ndarray, base: int, limit: int, size: int) -> int:
    """Offset of these `LANES` lanes if they are all on, inside and neighbours in memory, as most are; -1 if not.

    To ask so many at once costs a fraction of asking each. `mask` has one entry for all, or each.
    """
    off = ptr[0] - base
    if ptr[1] - ptr[0] != size or off < 0 or off >= limit - (LANES - 1) * size or (off & (size - 1)) != 0:
        return -1
    odd, on = np.int64(0), np.uint8(1)
    for k in range(LANES - 1):
        odd |= (ptr[k + 1] - ptr[k]) ^ size
    for k in range(len(mask)):
        on &= np.uint8(mask[k])
    return off if odd == 0 and on != 0 else -1


@compiled
def gather_table(
    where: Where, other: np.ndarray, mem: np.ndarray, table: np.ndarray, out: np.ndarray, events: np.ndarray
) -> tuple[int, int]:
    """Elements of at most 16 bits, decoded by `table`; lanes outside read 0 and are noted as OUTSIDE."""
    dims, st, ptr, mask, base, limit, size = where
    shift, align = log2(size), size - 1
    masks = st[1, 2]
    plain, spread = st[0, 2] == 1 and masks <= 1, (LANES - 1) * masks
    top = np.uint64(limit)
    noted = 0
    off_lanes = 0
    n = 0
    for i in range(dims[0]):
        for j in range(dims[1]):
            p = i * st[0, 0] + j * st[0, 1]
            m = i * st[1, 0] + j * st[1, 1]
            o = i * st[2, 0] + j * st[2, 1]
            left = dims[2]
            while left > 0:
                lanes = min(left, LANES)
                left -= lanes
                if plain and lanes == LANES:
                    off = run_of(ptr[p : p + LANES], mask[m : m + 1 + spread], base, limit, size)
                    if off >= 0:
                        first, to = off >> shift, out[n : n + LANES]
                        source = mem[first : first + LANES]
                        for k in range(LANES):
                            to[k] = table[source[k]]
                        n += LANES
                        p += LANES
                        m += LANES * masks
                        o += LANES * st[2, 2]
                        continue
                for _ in range(lanes):
                    if mask[m]:
                        off = ptr[p] - base
                        if np.uint64(off) < top and (off & align) == 0:
                            out[n] = table[mem[np.uint64(off >> shift)]]
                        else:
                            out[n] = 0
                            events[noted] = n << KIND_BITS | OUTSIDE
                            noted += 1
                    else:
                        out[n] = other[o]
                        off_lanes += 1
                    n += 1
                    p += st[0, 2]
                    m += masks
                    o += st[2, 2]
    return noted, off_lanes


@compiled
def gather_plain(
    where: Where, other: np.ndarray, mem: np.ndarray, out: np.ndarray, events: np.ndarray
) -> tuple[int, int]:
    """Elements whose bytes are already the value carrier (fp32, fp64, integers)."""
    dims, st, ptr, mask, base, limit, size = where
    shift, align = log2(size), size - 1
    masks = st[1, 2]
    plain, spread = st[0, 2] == 1 and masks <= 1, (LANES - 1) * masks
    top = np.uint64(limit)
    noted = 0
    off_lanes = 0
    n = 0
    for i in range(dims[0]):
        for j in range(dims[1]):
            p = i * st[0, 0] + j * st[0, 1]
            m = i * st[1, 0] + j * st[1, 1]
            o = i * st[2, 0] + j * st[2, 1]
            left = dims[2]
            while left > 0:
                lanes = min(left, LANES)
                left -= lanes
                if plain and lanes == LANES:
                    off = run_of(ptr[p : p + LANES], mask[m : m + 1 + spread], base, limit, size)
                    if off >= 0:
                        first, to = off >> shift, out[n : n + LANES]
                        source = mem[first : first + LANES]
                        for k in range(LANES):
                            to[k] = source[k]
                        n += LANES
                        p += LANES
                        m += LANES * masks
                        o += LANES * st[2, 2]
                        continue
                for _ in range(lanes):
                    if mask[m]:
                        off = ptr[p] - base
                        if np.uint64(off) < top and (off & align) == 0:
                            out[n] = mem[np.uint64(off >> shift)]
                        else:
                            out[n] = 0
                            events[noted] = n << KIND_BITS | OUTSIDE
                            noted += 1
                    else:
                        out[n] = other[o]
                        off_lanes += 1
                    n += 1
                    p += st[0, 2]
                    m += masks
                    o += st[2, 2]
    return noted, off_lanes


@compiled
def check_reads(where: Where, who: Who, cells: Cells, use_tags: bool, since: Since, events: np.ndarray) -> int:
    """Who wrote what the lanes read: notes NEVER and RACE, records readers; -1 on a hazard within the chunk."""
    dims, st, ptr, mask, base, limit, size = where
    programs, synced, uniform = who
    _, _, _, tags, grain, written, use_written, reads, use_reads = cells
    launch, chunk, _, serial = since
    noted = 0
    shift, grain_shift = log2(size), log2(grain)
    n = 0
    for i in range(dims[0]):
        me = programs[i]
        for j in range(dims[1]):
            p = i * st[0, 0] + j * st[0, 1]
            m = i * st[1, 0] + j * st[1, 1]
            for _ in range(dims[2]):
                off = np.int64(ptr[p] - base)
                if mask[m] and off >= 0 and off < limit and off & (size - 1) == 0:
                    if use_written and written[off >> shift] != -1:
                        events[noted] = n << KIND_BITS | NEVER
                        noted += 1
                    first = off >> grain_shift
                    for g in range(first, max(first + 1, (off + size) >> grain_shift)):
                        if use_tags:
                            t = tags[g]
                            foreign, atomic = uniform or (t & PROGRAM) != me, (t & ATOMIC) != 0
                            if t >= launch and (foreign or (atomic and (t & SHARED) != 0)):
                                if t >= chunk and (foreign or (atomic and (t & SEVERAL) != 0)):
                                    return -1
                                if not synced[i]:
                                    events[noted] = n << KIND_BITS | RACE
                                    noted += 1
                                    break
                        if use_reads:
                            r = reads[g]
                            other = r >= launch and ((r & PROGRAM) != me or (r & SHARED) != 0)
                            here = r >= chunk and ((r & PROGRAM) != me or (r & SEVERAL) != 0)
                            reads[g] = (
                                serial | me | (SHARED if other or uniform else 0) | (SEVERAL if here or uniform else 0)
                            )
                n += 1
                p += st[0, 2]
                m += st[1, 2]
    return noted
