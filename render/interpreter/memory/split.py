"""Accesses of many programs in parts that run at once: each loop over lanes as if it had been one.

Loads only read, so that any parts will do. A store is cut between programs where the parts write to ranges of bytes
that do not meet: then no lane finds what a lane of another part left, and what each part notes and saves, one behind
the other, is what the one loop would have.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from interval_ops import threads
from interval_ops.compiled import compiled
from render.interpreter.memory.gather import KIND_BITS, gather_plain, gather_table
from render.interpreter.memory.operands import Bounded, Cells, Since, Undo, Where, Who
from render.interpreter.memory.scatter import SAVE_BITS, SAVE_SHADOW, SAVE_WRITTEN, scatter
from render.interpreter.memory.shadow import gather_bounds

Parts = list[tuple[int, int]]
_WORD = 8
"""Bytes of the largest element and of the largest grain of tags."""


def _parts(where: Where) -> Parts:
    """Ranges of rows, that is of programs."""
    rows = int(where.dims[0])
    return threads.ranges(rows, int(where.dims[1] * where.dims[2]))


def _rows(where: Where, start: int, stop: int) -> Where:
    dims, strides = where.dims.copy(), where.strides
    dims[0] = stop - start
    ptr, mask = (x[start * strides[k, 0] :] for k, x in enumerate((where.ptr, where.mask)))
    return where._replace(dims=dims, ptr=ptr, mask=mask)


def _joined(events: np.ndarray, room: int, lanes: list[int], noted: list[int]) -> int:
    """Puts the events of the parts one behind the other, each with its lane among all; `room` events for a lane."""
    done = 0
    for lane, count in zip(lanes, noted, strict=True):
        at = room * lane
        events[done : done + count] = events[at : at + count] + (lane << KIND_BITS)
        done += count
    return done


def gathered(
    where: Where, other: np.ndarray, mem: np.ndarray, table: np.ndarray | None, out: np.ndarray, events: np.ndarray
) -> tuple[int, int]:
    """`gather.gather_table`, or without a table `gather.gather_plain`."""
    parts, step = _parts(where), int(where.strides[2, 0])
    lanes = int(where.dims[1] * where.dims[2])

    def run(start: int, stop: int) -> tuple[int, int]:
        mine, given, to = _rows(where, start, stop), other[start * step :], slice(start * lanes, stop * lanes)
        if table is None:
            return gather_plain(mine, given, mem, out[to], events[to])
        return gather_table(mine, given, mem, table, out[to], events[to])

    if len(parts) == 1:
        return (gather_plain(where, other, mem, out, events) if table is None
                else gather_table(where, other, mem, table, out, events))  # fmt: skip
    found = threads.each(run, parts)
    noted = _joined(events, 1, [start * lanes for start, _ in parts], [n for n, _ in found])
    return noted, sum(off for _, off in found)


def gathered_bounds(
    where: Where, rows: tuple[int, int], other: tuple[np.ndarray, np.ndarray], mem: np.ndarray, bounded: Bounded,
    out: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> bool:  # fmt: skip
    """`shadow.gather_bounds`."""
    parts, lanes = _parts(where), int(where.dims[1] * where.dims[2])
    if len(parts) == 1:
        return gather_bounds(where, rows, *other, mem, bounded, *out)

    def run(start: int, stop: int) -> bool:
        low, high = (x[start * where.strides[k, 0] :] for k, x in zip(rows, other, strict=True))
        v, lo, hi = (x[start * lanes : stop * lanes] for x in out)
        return gather_bounds(_rows(where, start, stop), rows, low, high, mem, bounded, v, lo, hi)

    return any(threads.each(run, parts))


@compiled
def _reach(where: Where, least: np.ndarray, most: np.ndarray) -> None:
    """First and last byte offset of each row's lanes that are on; least > most where none is."""
    dims, st, ptr, mask, base, _, size = where
    for i in range(dims[0]):
        low, high = np.int64(1) << 62, np.int64(-1) << 62
        for j in range(dims[1]):
            p = i * st[0, 0] + j * st[0, 1]
            m = i * st[1, 0] + j * st[1, 1]
            for k in range(dims[2]):
                off = np.int64(ptr[p + k * st[0, 2]] - base)
                on = mask[m + k * st[1, 2]]
                low = min(low, off if on else low)
                high = max(high, off if on else high)
        least[i] = low
        most[i] = high + size - 1


def _apart(where: Where) -> Parts:
    """The parts, where they reach ranges of words that do not meet; one part otherwise."""
    parts = _parts(where)
    if len(parts) == 1:
        return parts
    rows = int(where.dims[0])
    least, most = np.empty((2, rows), np.int64)
    threads.each(lambda start, stop: _reach(_rows(where, start, stop), least[start:stop], most[start:stop]), parts)
    reach = sorted((int(least[a:b].min()) // _WORD, int(most[a:b].max()) // _WORD) for a, b in parts)
    meet = any(before[1] >= after[0] for before, after in pairwise(reach))
    return [(0, rows)] if meet else parts


def scattered(
    where: Where, values: tuple[np.ndarray, ...], who: Who, cells: Cells, bounded: Bounded,
    since: Since, undo: Undo, events: np.ndarray,
) -> tuple[int, int, int, int]:  # fmt: skip
    """`scatter.scatter`."""
    parts, lanes = _apart(where), int(where.dims[1] * where.dims[2])
    if len(parts) == 1:
        return scatter(where, values, who, cells, bounded, since, undo, events)

    def run(start: int, stop: int) -> tuple[int, int, int, int]:
        # A dummy of one element stands where nothing is stored.
        mine = tuple(x[start * where.strides[k, 0] :] if len(x) > 1 else x for k, x in enumerate(values, 2))
        programs = Who(who.programs[start:stop], who.synced[start:stop], who.uniform)
        room = undo._replace(used=undo.used + start * lanes)
        return scatter(
            _rows(where, start, stop), mine, programs, cells, bounded, since, room, events[2 * start * lanes :]
        )

    found = threads.each(run, parts)
    used = undo.used
    for (start, _), (_, end, _, _) in zip(parts, found, strict=True):
        used = _moved(undo, undo.used + start * lanes, end, used)
    first, last = min(f[2] for f in found), max(f[3] for f in found)
    if any(f[0] < 0 for f in found):
        return -1, used, first, last
    noted = _joined(events, 2, [start * lanes for start, _ in parts], [f[0] for f in found])
    return noted, used, first, last


def _moved(undo: Undo, start: int, end: int, to: int) -> int:
    """Moves these entries to where those of the parts before end; gives their own end."""
    if start != to:
        kept = SAVE_BITS, SAVE_BITS, SAVE_BITS, SAVE_WRITTEN, SAVE_SHADOW, SAVE_SHADOW
        for column in (c for c, part in zip(undo[1:-1], kept, strict=True) if undo.save & part):
            column[to : to + end - start] = column[start:end]
    return to + end - start
