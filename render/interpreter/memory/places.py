"""Accesses at places that rounding leaves open: each lane has a few candidates, and the value lane goes to one.

A load gives the hull of what lies at the candidates. A store may write each of them: what stays there is the old value
or the new one, in the bounds; the bits follow the value lane. Of an atomic addition each candidate gets all or nothing.
What one place had to be held against another program for (order, size, alignment) is a taint here, never a finding: no
lane is certain to be the one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from interval_ops.formats import tables
from interval_ops.formats.model import FORMATS
from render.interpreter.memory import integers
from render.interpreter.memory.events import inside_lanes, spread
from render.interpreter.memory.lanes import plan
from render.interpreter.memory.records import NO_TAINT, LoadResult, Request
from render.interpreter.memory.scattered import parts

if TYPE_CHECKING:
    from render.interpreter.context import Site
    from render.interpreter.memory.core import Memory
    from render.interpreter.memory.registry import Storage
    from render.interpreter.memory.shadow import ElementType

Bounds = tuple[np.ndarray, np.ndarray]
Choices = tuple[np.ndarray, ...] | None
OPEN = "the bounds leave open where a lane is stored, and it may be outside"
READ = "programs read a tensor in which the bounds leave open where another program of the launch stores"


def open_lanes(request: Request) -> np.ndarray:
    """Lanes with more than one place."""
    lanes = np.zeros((1,) * request.ptr.ndim, np.bool_)
    for other in request.among:
        lanes = lanes | (other != request.ptr)
    return lanes


def hull(found: list[LoadResult]) -> tuple[Bounds | None, tuple[np.ndarray, ...]]:
    """(ends of all that was found, None where all is one point; the integers themselves, where those are points)."""
    first = found[0]
    if all(g.lo is None for g in found) and all(np.array_equal(g.v, first.v) for g in found[1:]):
        return None, ()
    lo = np.minimum.reduce([g.pair[0].astype(np.float64) for g in found])
    hi = np.maximum.reduce([g.pair[1].astype(np.float64) for g in found])
    exact = all(g.lo is None for g in found) and first.v.dtype.kind in "iub"
    return (lo, hi), tuple(g.v for g in found) if exact else ()


def each(request: Request, active: np.ndarray, doubtful: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(addresses, lanes) of every candidate that is not the value lane's, each once."""
    seen = [request.ptr]
    for other in request.among:
        mine = active & doubtful & np.logical_and.reduce([other != before for before in seen])
        seen.append(other)
        if mine.any():
            yield np.broadcast_to(other, np.broadcast_shapes(other.shape, mine.shape)), mine


class Maybe(NamedTuple):
    """Elements that a store of this launch may have written, and what."""

    storage: Storage
    kind: ElementType
    at: np.ndarray
    lo: np.ndarray
    hi: np.ndarray
    among: list[tuple[int, ...]]
    site: Site


def store(memory: Memory, request: Request, v: np.ndarray, value: Bounds, choices: Choices) -> frozenset[int]:
    """The candidates that the value lane leaves alone, each of which may have got `v` instead; the taints of what this
    does not cover. `choices`: what an integer may be."""
    active, taint = request.active, NO_TAINT
    for ptr, mine in each(request, active, open_lanes(request)):
        for storage, here in [(request.origin, mine)] if request.origin is not None else parts(memory, ptr, mine):
            taint |= _may_write(memory, replace(request, ptr=ptr), storage, here, v, value, choices)
    return taint


def _may_write(
    memory: Memory, request: Request, storage: Storage, mine: np.ndarray, v: np.ndarray, value: Bounds, choices: Choices
) -> frozenset[int]:  # fmt: skip
    elem, kind = request.elem, request.elem.fmt or integers.type_of(request.elem.name)
    p, flat = plan([request.ptr, mine, *value, *(choices or ())])
    lanes, offsets = inside_lanes(storage, p, flat, elem.itemsize)
    inside = kind is not None and len(lanes) == int(np.count_nonzero(np.broadcast_to(mine, p.shape)))
    taint = NO_TAINT if inside else frozenset((memory.taint("RND303", "store", request.site, OPEN),))
    if storage.written is not None:  # there it may be unwritten still: `written` says so, whatever is stored elsewhere
        known = storage.written_view(elem.itemsize)[offsets // elem.itemsize] == -1
        lanes, offsets = lanes[known], offsets[known]
    if not len(lanes) or kind is None:
        return taint
    index, where = np.unique(offsets // elem.itemsize, return_inverse=True)
    lo, hi = np.full(len(index), np.inf), np.full(len(index), -np.inf)
    ends = [spread(p, flat[row], row)[lanes].astype(np.float64) for row in (2, 3)]
    for end in ends:
        np.minimum.at(lo, where, end)
        np.maximum.at(hi, where, end)
    sets: list[set[int]] = [set() for _ in index]
    for row in range(4, len(flat)):
        for at, x in zip(where.tolist(), spread(p, flat[row], row)[lanes].tolist(), strict=True):
            sets[at].add(x)
    one = Maybe(storage, kind, index, lo, hi, [tuple(sorted(s)) for s in sets], request.site)
    memory.use(storage)
    memory.maybe.append(one)
    memory.log.push(lambda: memory.maybe.remove(one))
    widen(memory, one)
    storage.touched_by_kernel(int(index[0]) * elem.itemsize, (int(index[-1]) + 1) * elem.itemsize)
    storage.stored, storage.stored_in = True, memory.tag_bounds[0]
    return taint


def widen(memory: Memory, one: Maybe) -> None:
    """What lies there now, or what may have been stored."""
    storage, index = one.storage, one.at
    shadow = memory.shadow_of(storage, one.kind)
    bits = storage.view(shadow.stamp.dtype)[index]
    integer = one.kind.name not in FORMATS
    now = (
        bits.view(np.dtype(one.kind.name.replace("bool", "uint8")))
        if integer
        else tables.decode(bits, FORMATS[one.kind.name])
    )
    now = now.astype(np.float64)
    live = shadow.stamp[index] == bits
    old = [array[index] for array in (shadow.lo, shadow.hi, shadow.stamp)]
    before = {int(k): shadow.among.get(int(k)) for k in index}

    def put_back() -> None:
        shadow.lo[index], shadow.hi[index], shadow.stamp[index] = old
        integers.put_choices(shadow, before)

    memory.log.push(put_back)
    if integer:
        sets = {
            k: None if (held := integers.choices_at(shadow, k, live[i], now[i])) is None or not one.among[i]
            else tuple(sorted({*held, *one.among[i]}))
            for i, k in enumerate(index.tolist())
        }  # fmt: skip
        integers.put_choices(shadow, sets)
    shadow.lo[index] = np.minimum(np.where(live, shadow.lo[index], now), one.lo)
    shadow.hi[index] = np.maximum(np.where(live, shadow.hi[index], now), one.hi)
    shadow.stamp[index] = bits


def settle(memory: Memory) -> None:
    """At the end of a launch: whoever stored last, a place that another program may have written holds either value.
    What programs read of such a tensor beside it depends on who came first: nothing that the launch stored is sure."""
    for one in memory.maybe:
        widen(memory, one)
    read = [m for m in memory.maybe if m.storage.read_in == memory.tag_bounds[0]]
    if read and int(np.prod(memory.grid)) > 1:
        taint = frozenset(memory.taint("RND303", "store", m.site, READ) for m in read)
        for storage in memory.stored:
            storage.taint = storage.taint | taint
    memory.maybe.clear()
