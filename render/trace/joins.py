"""Operations whose result has many operands: reductions, scans, dots, sorts, merged moments, scaled numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import triton.language as tl

from render.interpreter.handle import Handle
from render.interpreter.reduce import FLOATS, TRUTHS
from render.interpreter.types import format_name
from render.trace.integers import DOT
from render.trace.model import ABSENT, NotSliceable
from render.trace.recorder import Recorded
from render.trace.step import Link, Step, aligned, where

if TYPE_CHECKING:
    from render.trace.walk import Walk


def _shape(h: Handle) -> tuple[int, ...]:
    return (h.computed.shape[0], *h.shape)


def _lanes(h: Handle, at: list[np.ndarray]) -> np.ndarray:
    """Lane numbers at (program, *place); 0 instead of the program where all share the value."""
    found = at[0] if h.computed.shape[0] > 1 else np.zeros_like(at[0])
    for extent, place in zip(h.shape, at[1:], strict=True):
        found = found * extent + place
    return found


def _along(h: Handle, at: tuple[np.ndarray, ...], axis: int, n: int, removed: bool) -> np.ndarray:
    """The lanes of a row of `h` along `axis`, for results at these places: (size, n)."""
    index = [a[:, None] for a in at]
    if removed:
        index.insert(axis + 1, np.arange(n)[None, :])
    else:
        index[axis + 1] = np.arange(n)[None, :]
    return _lanes(h, index)


def rows(entry: Recorded, out: int, wanted: np.ndarray) -> list[Link]:
    """The whole row of every operand, for a result without that axis."""
    axis = entry.attrs["axis"]
    at = np.unravel_index(wanted, _shape(entry.outs[out]))
    return [(x, _along(x, at, axis, x.shape[axis], True)) for x in entry.args]


def reduced(walk: Walk, entry: Recorded, out: int, wanted: np.ndarray) -> Step:
    x, kind = entry.args[0], entry.attrs["kind"]
    if x.dtype.scalar.is_int1() and kind in TRUTHS:
        return Step(rows(entry, out, wanted), TRUTHS[kind])
    if kind not in FLOATS:
        raise NotSliceable(f"reduce {kind}", "only sums, products and extrema of floats are followed", *where(entry))
    return Step(rows(entry, out, wanted), kind, {"fmt": format_name(x.dtype)})


def scanned(walk: Walk, entry: Recorded, out: int, wanted: np.ndarray) -> Step:
    rows = _prefixes(entry, wanted)
    return Step(list(zip(entry.args, rows, strict=True)), entry.attrs["kind"],
                {"fmt": format_name(entry.args[0].dtype), "scan": True})  # fmt: skip


def recurrence(walk: Walk, entry: Recorded, out: int, wanted: np.ndarray) -> Step:
    """Factors and addends up to the place, in the order of the scan."""
    rows = _prefixes(entry, wanted)
    rows = [row[:, ::-1] for row in rows] if entry.attrs["reverse"] else rows
    return Step(list(zip(entry.args, rows, strict=True)), "recurrence", {"fmt": format_name(entry.args[1].dtype)})


def _prefixes(entry: Recorded, wanted: np.ndarray) -> list[np.ndarray]:
    h, axis = entry.outs[0], entry.attrs["axis"]
    at, n = np.unravel_index(wanted, _shape(h)), h.shape[axis]
    place, here = np.arange(n)[None, :], at[axis + 1][:, None]
    inside = place >= here if entry.attrs["reverse"] else place <= here
    return [np.where(inside, _along(x, at, axis, n, False), ABSENT) for x in entry.args]


def welford(walk: Walk, entry: Recorded, out: int, wanted: np.ndarray) -> Step:
    return Step(rows(entry, out, wanted), "welford", {k: entry.attrs[k] for k in ("part", "guarded", "fmt")})


def ranked(walk: Walk, entry: Recorded, out: int, wanted: np.ndarray) -> Step:
    """A rank (of a handle made for it) and the lanes of the row that are compared."""
    (x,), h = entry.args, entry.outs[0]
    at = np.unravel_index(wanted, _shape(h))
    terms = entry.attrs["terms"][at[-1]]
    lanes = _lanes(x, [*(a[:, None] for a in at[:-1]), terms])
    rank = Handle(entry.attrs["ranks"][None].astype(np.int32), tl.int32, entry.attrs["ranks"].shape)
    return Step([(rank, at[-1]), (x, lanes)], "ranked", {"fmt": format_name(x.dtype)}, [(x, lanes)])


def dot(walk: Walk, entry: Recorded, out: int, wanted: np.ndarray) -> Step:
    a, b, acc = entry.args[:3]
    h = entry.outs[0]
    at = np.unravel_index(wanted, _shape(h))
    lead, row, column = [i[:, None] for i in at[:-2]], at[-2][:, None], at[-1][:, None]
    k = np.arange(a.shape[-1])[None, :]
    left, right = _lanes(a, [*lead, row, k]), _lanes(b, [*lead, k, column])
    op = DOT if h.dtype.scalar.is_int() else "dot"
    return Step([(acc, aligned(acc, h, wanted)), (a, left), (b, right)], op, entry.attrs)


def scaled(walk: Walk, entry: Recorded, out: int, wanted: np.ndarray) -> Step:
    """A number (or the 4 bits of one, of two in a byte) and its scale; a right operand's scales lie row by row of N."""
    h, x, scale = entry.outs[0], entry.args[0], entry.args[1] if len(entry.args) > 1 else None
    axis, pack = entry.attrs["axes"]
    at = list(np.unravel_index(wanted, _shape(h)))
    attrs = {k: entry.attrs[k] for k in ("code", "scale", "widen")}
    if entry.attrs["code"]:
        whole = list(at)
        whole[pack] = at[pack] // 2
        reads: list[Any] = [(x, _lanes(x, whole))]
        links: list[Any] = [(_codes(x, reads[0][1], at, pack), np.arange(len(wanted)))]
    else:
        links = [(x, _lanes(x, at))]
        reads = list(links)
    if scale is not None:
        group = h.shape[axis] // scale.shape[-1]
        place = at[-1] if axis == -1 else at[-2]
        other = at[-2] if axis == -1 else at[-1]
        lanes = _lanes(scale, [*at[:-2], other, place // group])
        links.append((_bits(scale), lanes))
        reads.append((scale, lanes))
    return Step(links, "scaled", attrs, reads)


def _codes(x: Handle, lanes: np.ndarray, at: list[np.ndarray], pack: int) -> Handle:
    """The 4 bits behind each number, the low half of a byte first."""
    byte = np.broadcast_to(x.computed, _shape(x)).reshape(-1)[lanes].astype(np.int64) & 255
    return Handle(np.where(at[pack] % 2, byte >> 4, byte & 15).astype(np.int32)[None], tl.int32, at[0].shape)


def _bits(scale: Handle) -> Handle:
    """Scales of e8m0 as bytes without a sign."""
    if not scale.dtype.scalar.is_int():
        return scale
    bits = np.ascontiguousarray(scale.computed).view(np.uint8)
    return Handle(bits.astype(np.int32), scale.dtype, scale.shape)
