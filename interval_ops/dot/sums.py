"""Sums of deferred products: packs operands along K and evaluates them with few large matrix products.

`DotSums` holds, per output element, an enclosure of the exact sum of products up to float64 rounding, and an upper
bound of the sum of product magnitudes. Nothing of the rounding of the target is in it; `dot` adds that once, over the
total K.
"""

from __future__ import annotations

import copy
import math
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property, partial
from math import prod
from typing import Any

import numpy as np

from interval_ops import threads
from interval_ops.bounds import Pair, each, is_point
from interval_ops.dot import kernels
from interval_ops.dot.readings import Reader, Readers, round_tf32, truncate_tf32
from interval_ops.reduction.grid import column_grid, row_grid

Array = np.ndarray[Any, Any]
_READ = ("t", "r")
"""Before the names of what is packed, for each reader."""

_BUDGET = 1 << 17
"""Packed elements per operand pair at a time: about 1.5 MiB of scratch, which the caches hold."""

_NEAR = 1 << 16
"""Elements of a result at a time, so that the sums are closed before they leave the cache."""

_SAFE32 = 2.0**126
_scratch = threading.local()


@dataclass(frozen=True)
class Product:
    """One deferred dot: operand pairs (..., M, K) and (..., K, N) and its K. A point passes one array twice.

    `starts`: the products of the queue at which the chain of additions that this one belongs to may have begun.
    """

    a: Pair
    b: Pair
    k: int
    starts: tuple[int, ...] = (0,)

    @property
    def kind(self) -> str:
        return "".join("p" if is_point(pair) else "i" for pair in (self.a, self.b))


@dataclass
class DotSums:
    """Enclosure [lo, hi] of the sums, [tlo, thi] of those of the operands as read, magnitudes and operand peaks.

    `hi is lo` while everything is a point, `tlo is lo` while operands are read as they are. rows (..., M) and
    columns (..., N) hold the largest operand magnitudes, NaN where an operand is infinite or NaN. All operands of a row
    are multiples of `row_grid` (..., M), those of a column of `column_grid` (..., N); 0 where some are intervals.
    """

    lo: Array
    hi: Array
    tlo: Array
    thi: Array
    mag: Array
    rows: Array
    columns: Array
    row_grid: Array
    column_grid: Array

    @staticmethod
    def empty(lead: int, m: int, n: int, points: bool, readers: int) -> DotSums:
        lo = np.empty((lead, m, n))
        hi = lo if points else np.empty_like(lo)
        tlo = np.empty_like(lo) if readers else lo
        thi = hi if not readers else tlo if points and readers == 1 else np.empty_like(lo)
        ends = (np.empty((lead, size)) for size in (m, n, m, n))
        return DotSums(lo, hi, tlo, thi, np.empty_like(lo), *ends)

    def plus(self, other: DotSums) -> DotSums:
        lo = self.lo + other.lo
        hi = lo if is_point((self.lo, self.hi)) and is_point((other.lo, other.hi)) else self.hi + other.hi
        if self.tlo is self.lo and other.tlo is other.lo:
            tlo, thi = lo, hi
        else:
            tlo = self.tlo + other.tlo
            points = is_point((self.tlo, self.thi)) and is_point((other.tlo, other.thi))
            thi = tlo if points else self.thi + other.thi
        rows, columns = np.maximum(self.rows, other.rows), np.maximum(self.columns, other.columns)
        grids = (np.minimum(self.row_grid, other.row_grid), np.minimum(self.column_grid, other.column_grid))
        return DotSums(lo, hi, tlo, thi, self.mag + other.mag, rows, columns, *grids)


@dataclass
class Centred:
    """Sums of some slices as the matrix products leave them, for `dot_kernels.finish` to read while they are near.

    Each end is centre -+ (radius * factor + underflow), the magnitude mag * factor + tiny; underflow and tiny belong to
    a slice. `radius`, `mag` in float32. `centre` and `radius` are pairs: of the sums and of those of the operands as
    read; one array twice where these are the same, and the centre in place of the radius of points. `at` says which
    slices of the result these are. All arrays are scratch: they hold until the next slices are asked for.
    """

    at: slice
    centre: Pair
    radius: Pair
    mag: Array
    factor: float
    tiny: Array
    underflow: Array
    rows: Array
    columns: Array
    row_grid: Array
    column_grid: Array


_KNOWN: dict[Readers, int] = {(): 0, (truncate_tf32,): 1, (truncate_tf32, round_tf32): 2}
"""Ways of reading single precision that `kernels.pack_read` knows, and none, by their number there."""


def evaluate(products: Sequence[Product], readers: Readers, narrow: bool, limit: float, integer: bool) -> DotSums:
    """Sums of all `products`.

    `readers`: also sum the products of the operands as the unit reads them. `narrow`: magnitudes may be summed in
    float32 (not for fp64, whose range float32 lacks). Operands from `limit` on are not finite. `integer`: exact.
    """
    total: DotSums | None = None
    with np.errstate(all="ignore"):
        for kind in ("pp", "ip", "pi", "ii"):
            group = [p for p in products if p.kind == kind]
            if group:
                part = _Group(group, kind, readers, narrow, limit, integer).evaluate()
                total = part if total is None else total.plus(part)
    assert total is not None
    return total


def centred(
    products: Sequence[Product], readers: Readers, narrow: bool, limit: float, integer: bool
) -> tuple[tuple[int, ...], bool, list[Iterator[Centred | None]]] | None:
    """As `evaluate`, a few slices at a time and before centres are spread: shape of the sums, whether radii are not
    zero, the slices, in runs for a thread each. None without such a form, once magnitudes may leave float32 or two
    radii are wide."""
    kinds = {p.kind for p in products}
    if len(kinds) > 1 or not narrow or (len(readers) > 1 and kinds != {"pp"}) or (readers and kinds == {"ii"}):
        return None
    group = _Group(list(products), kinds.pop(), readers, narrow, limit, integer)
    return (*group.lead, group.a.other, group.b.other), group.kind != "pp", group.centred()


def _buffer(name: str, shape: tuple[int, ...], dtype: Any = np.float64) -> Array:
    """Scratch of this thread, reused between calls: fresh pages cost more than the arithmetic on them."""
    size = prod(shape)
    pool = _scratch.__dict__
    if name not in pool or pool[name].size < size:
        pool[name] = np.empty(size, dtype)
    view: Array = pool[name][:size].reshape(shape)
    return view


class _Side:
    """One packed operand of a group: all its pieces side by side along K, for a range of slices."""

    def __init__(self, name: str, pieces: list[Pair], ks: list[int], axis: int, group: _Group) -> None:
        # No reference to the group, which holds its sides: a cycle would keep the operands until the next collection.
        self.name, self.axis, self.limit = name, axis, group.limit
        self.readings = tuple(zip(_READ, group.readers, strict=False))
        self.both = group.kind == "ii"  # is the other operand an interval too?
        self.point = is_point(pieces[0])
        self.single = self.point and all(p[0].dtype == np.float32 for p in pieces)
        self.other = max(p[0].shape[-3 - axis] for p in pieces)  # M for axis -1, N for axis -2
        self.lead = np.broadcast_shapes(*(p[0].shape[:-2] for p in pieces))
        self.pieces, self.ks = pieces, ks

    def prepare(self, lead: tuple[int, ...]) -> None:
        """Fixes the batch: one slice if the operand is shared by all, otherwise one per slice of the result."""
        if prod(self.lead) == 1:
            self.lead = (1,) * len(lead)
        elif self.lead != lead:
            self.lead = lead
        self.slices = prod(self.lead)
        flat = []
        for pair, k in zip(self.pieces, self.ks, strict=True):
            shape = (*self.lead, self.other, k) if self.axis == -1 else (*self.lead, k, self.other)
            flat.append(each(pair, partial(_flatten, shape=shape)))
        self.pieces = flat

    def shape(self, count: int) -> tuple[int, int, int]:
        k = sum(self.ks)
        return (count, self.other, k) if self.axis == -1 else (count, k, self.other)

    def pack(self, start: int, stop: int) -> None:
        """Fills the buffers for slices [start, stop) and takes the statistics."""
        shape = self.shape(stop - start)
        self._narrow: dict[str, Array] = {}
        dtype = np.float32 if self.single else np.float64
        self.mag = _buffer(self.name + ("mag32" if self.single else "mag64"), shape, dtype)
        if self._lies_packed():
            self.lo, self.hi = (x[start:stop] for x in self.pieces[0])
        else:
            self._gather(shape, start, stop)
        self.measure(shape)
        for at, read in self.readings:
            if self.both:
                self.__dict__[at + "lo"], self.__dict__[at + "hi"] = read(self.lo), read(self.hi)
            else:
                self.cut(shape, at, read)

    def _lies_packed(self) -> bool:
        """A single interval operand that the kernels can read where it is."""
        return (
            len(self.pieces) == 1
            and not self.point
            and all(x.dtype == np.float64 and x.flags.c_contiguous for x in self.pieces[0])
        )

    def _gather(self, shape: tuple[int, ...], start: int, stop: int) -> None:
        """The pieces in float64, side by side; of single precision points the magnitudes as well."""
        at = 0
        self.lo = _buffer(self.name + "lo", shape)
        self.hi = self.lo if self.point else _buffer(self.name + "hi", shape)
        packed = _KNOWN.get(tuple(read for _, read in self.readings)) if self.single else None
        if packed is not None:
            self._gather_single(shape, start, stop, packed)
            return
        for (lo, hi), k in zip(self.pieces, self.ks, strict=True):
            place = np.s_[:, :, at : at + k] if self.axis == -1 else np.s_[:, at : at + k, :]
            np.copyto(self.lo[place], lo[start:stop], casting="unsafe")
            if self.single:
                np.abs(lo[start:stop], out=self.mag[place])
            if not self.point:
                np.copyto(self.hi[place], hi[start:stop], casting="unsafe")
            else:
                for prefix, read in self.readings:
                    np.copyto(_buffer(f"{self.name}{prefix}mid", shape)[place], read(lo[start:stop]))
            at += k

    def _gather_single(self, shape: tuple[int, ...], start: int, stop: int, readings: int) -> None:
        """The same of single precision points, in one pass, where the unit reads them in ways that the loop knows."""
        read = [_buffer(f"{self.name}{prefix}mid", shape) for prefix, _ in self.readings]
        at = 0
        for (x, _), k in zip(self.pieces, self.ks, strict=True):
            part = np.ascontiguousarray(x[start:stop])
            row, column = (0, at) if self.axis == -1 else (at, 0)
            if read:
                outs = (self.lo, self.mag, read[0], read[-1])
                kernels.pack_read(part.view(np.uint32), row, column, readings > 1, *outs)
            else:
                kernels.pack_single(part, row, column, self.lo, self.mag)
            at += k

    def measure(self, shape: tuple[int, ...]) -> None:
        """Magnitudes, their peaks, the smallest nonzero one; non-finite numbers mark their lane."""
        dtype, integer = (np.float32, np.uint32) if self.single else (np.float64, np.uint64)
        if self.point:
            if not self.single:
                np.abs(self.lo, out=self.mag)
                np.maximum(self.mag, 2.0**-480, out=self.mag, where=self.mag > 0)  # products must not underflow
            self.mid = self.lo
        else:
            self.mid, self.rad = _buffer(self.name + "mid", shape), _buffer(self.name + "rad", shape)
            kernels.split_interval(*(x.reshape(-1) for x in (self.lo, self.hi, self.mid, self.rad, self.mag)))
        lanes = np.empty((shape[0], self.other), integer)
        low = np.empty(shape[0], integer)
        stats = kernels.row_stats if self.axis == -1 else kernels.column_stats
        stats(self.mag.view(integer), integer(1), lanes, low)
        peak = lanes.view(dtype).astype(np.float64)
        bad = ~(peak < self.limit)
        # Non-finite operands stay in the buffers: matrix products do not carry them out of their row or column.
        peak[bad] = 0.0
        self.most = peak.max(axis=1)
        least = np.add(low, integer(1), dtype=integer).view(dtype).astype(np.float64)
        self.least = np.where(least > 0, least, np.inf)  # a slice of zeros leaves 0
        self.peak = np.where(bad, np.nan, peak)
        self.grid = np.zeros((shape[0], self.other))
        if self.point:
            (row_grid if self.axis == -1 else column_grid)(self.mag, self.grid)

    def cut(self, shape: tuple[int, ...], at: str, read: Reader) -> None:
        """The same operand as the tensor core reads it; of points it is gathered already."""
        self.__dict__[at + "mid"] = middle = _buffer(f"{self.name}{at}mid", shape)
        if not self.point:
            self.__dict__[at + "rad"] = radius = _buffer(f"{self.name}{at}rad", shape)
            mid, rad = middle.reshape(-1), radius.reshape(-1)
            if read is truncate_tf32:
                kernels.split_truncated(self.lo.reshape(-1), self.hi.reshape(-1), mid, rad)
            else:
                unused = _buffer(self.name + "tmag", shape).reshape(-1)
                kernels.split_interval(read(self.lo).reshape(-1), read(self.hi).reshape(-1), mid, rad, unused)

    def part(self, x: Array, cut: slice) -> Array:
        """These slices of something packed; all of it where the operand is shared."""
        return x[cut] if self.slices > 1 else x

    def single_precision(self, what: str) -> Array:
        """`mag`, or a radius (as read, too), as float32, rounded up."""
        x: Array = getattr(self, what)
        if x.dtype == np.float32:
            return x
        if what not in self._narrow:
            self._narrow[what] = _buffer(self.name + what + "32", x.shape, np.float32)
            kernels.narrow_up(x.reshape(-1), self._narrow[what].reshape(-1))
        return self._narrow[what]


def _flatten(x: Array, shape: tuple[int, ...]) -> Array:
    return (x if x.shape == shape else np.broadcast_to(x, shape)).reshape(-1, *shape[-2:])


class _Group:
    """Products of one kind (point or interval on either side), evaluated together."""

    def __init__(
        self, group: list[Product], kind: str, readers: Readers, narrow: bool, limit: float, integer: bool
    ) -> None:
        self.kind, self.readers, self.narrow, self.limit, self.integer = kind, readers, narrow, limit, integer
        ks = [p.k for p in group]
        self.k = sum(ks)
        self.a = _Side("a", [p.a for p in group], ks, -1, self)
        self.b = _Side("b", [p.b for p in group], ks, -2, self)
        self.lead = np.broadcast_shapes(self.a.lead, self.b.lead)
        self.a.prepare(self.lead)
        self.b.prepare(self.lead)

    @cached_property
    def inflate(self) -> float:
        """Upper bound of exact / computed for a sum of K non-negative products in float64."""
        return 1.0 if self.integer else 1.0 + (self.k + 2) * 2.0**-52

    @cached_property
    def inflate32(self) -> float:
        """The same in float32: the factor 1 / (1 - gamma), gamma = (K + 2) * 2**-24, with room to spare."""
        return 1.0 + (self.k + 2) * 2.0**-24 * (1.0 + 2.0**-4) if self.k < 1 << 18 else math.inf

    def evaluate(self) -> DotSums:
        m, n, slices = self.a.other, self.b.other, prod(self.lead)
        sums = DotSums.empty(slices, m, n, self.kind == "pp", len(self.readers))
        threads.spread(lambda start, stop: self._alone()._fill(sums, start, stop), slices, self._weight)
        return _unfold(sums, self.lead)

    @property
    def _weight(self) -> int:
        """What a slice costs, in elements of a simple loop."""
        return self.k * (self.a.other + self.b.other) + self.k * self.a.other * self.b.other // 8

    def _alone(self) -> _Group:
        """The same with packed operands of its own."""
        other = copy.copy(self)
        other.a, other.b = copy.copy(self.a), copy.copy(self.b)
        return other

    def _fill(self, sums: DotSums, first: int, last: int) -> None:
        for at in self._parts(first, last):
            sums.rows[at], sums.columns[at] = self.a.peak, self.b.peak
            sums.row_grid[at], sums.column_grid[at] = self.a.grid, self.b.grid
            kernels.scale(sums.mag[at], *self._magnitude("mag", "mag", sums.mag[at].shape), self.tiny)
            (self._intervals if self.kind == "ii" else self._midpoints)(sums, at)

    def _parts(self, first: int, last: int) -> Iterator[slice]:
        """Ranges of these slices, with both operands packed for each."""
        step = max(1, _BUDGET // (self.k * (self.a.other + self.b.other)))
        for start in range(first, last, step):
            stop = min(start + step, last)
            for side in (self.a, self.b):
                if side.slices > 1 or start == first:
                    side.pack(*((start, stop) if side.slices > 1 else (0, 1)))
            self._ranges(stop - start)
            yield slice(start, stop)

    def centred(self) -> list[Iterator[Centred | None]]:
        return [self._alone()._centred(*part) for part in threads.ranges(prod(self.lead), self._weight)]

    def _centred(self, first: int, last: int) -> Iterator[Centred | None]:
        step = max(1, _NEAR // (self.a.other * self.b.other))
        for at in self._parts(first, last):
            if not self.safe.all() or (self.kind == "ii" and not self._are_narrow()):
                yield None
                return
            for start in range(at.start, at.stop, step):
                stop = min(start + step, at.stop)
                yield self._centre(slice(start, stop), slice(start - at.start, stop - at.start))

    def _are_narrow(self) -> bool:
        """Of two intervals; products that underflow are left to the hull, which loses nothing there."""
        return not self.tiny.any() and all(kernels.is_narrow(side.rad, side.mag) for side in (self.a, self.b))

    def _centre(self, at: slice, cut: slice) -> Centred:
        """The slices `at` of the result, `cut` of what is packed."""
        a, b, spread = self.a, self.b, self.kind != "pp"
        shape = (at.stop - at.start, a.other, b.other)

        def product(name: str, x: Array, y: Array) -> Array:
            return np.matmul(a.part(x, cut), b.part(y, cut), out=_buffer(name, shape, x.dtype))

        mag = product("product32", a.single_precision("mag"), b.single_precision("mag"))
        centre, radius = [], []
        for prefix in ("", *_READ[: len(self.readers)]):
            centre.append(product(prefix + "centre", getattr(a, prefix + "mid"), getattr(b, prefix + "mid")))
            if spread:
                names = [(prefix + "rad", "mag"), ("mag", prefix + "rad")]
                names = names if self.kind == "ii" else names[:1] if self.kind == "ip" else names[1:]
                sums = [product(f"{prefix}radius{i}", a.single_precision(left), b.single_precision(right))
                        for i, (left, right) in enumerate(names)]  # fmt: skip
                radius.append(sums[0] if len(sums) == 1 else np.add(sums[0], sums[1], out=sums[0]))
        if len(centre) > 2:  # of points: where the unit reads in either way, the sums have two ends
            least, most = _buffer("least", shape), _buffer("most", shape)
            np.minimum(centre[1], centre[2], out=least)
            np.maximum(centre[1], centre[2], out=most)
            centre, radius = [centre[0], least], [centre[0], most]
        radius = radius or centre
        lines = (x[cut] if side.slices > 1 else np.repeat(x, shape[0], axis=0)
                 for side, x in ((a, a.peak), (b, b.peak), (a, a.grid), (b, b.grid)))  # fmt: skip
        pairs = ((centre[0], centre[-1]), (radius[0], radius[-1]))
        return Centred(at, *pairs, mag, self.inflate32, self.tiny[cut], self.underflow[cut], *lines)

    def _ranges(self, count: int) -> None:
        """Which slices may use float32 for magnitudes, and what underflow may cost them."""
        a, b = self.a, self.b
        largest = np.maximum(a.most * b.most * self.k, np.maximum(a.most, b.most))
        safe = (largest < _SAFE32) & (self.narrow and self.k < 1 << 18)
        self.safe = np.broadcast_to(safe, count)
        # A float32 product below the normal range loses up to half a subnormal.
        self.underflow = np.where(self.safe, self.k * 2.0**-148, 0.0)
        self.tiny = np.where(a.least * b.least >= 2.0**-124, 0.0, self.underflow)

    def _midpoints(self, sums: DotSums, at: slice) -> None:
        """Points, or an interval and a point: m_a b +- r_a |b| is the exact hull of the products."""
        for prefix, lo, hi in self._ends(sums, at):
            mid, rad = prefix + "mid", prefix + "rad"
            np.matmul(getattr(self.a, mid), getattr(self.b, mid), out=lo)
            if self.kind != "pp":
                left, right = (rad, "mag") if self.kind == "ip" else ("mag", rad)
                kernels.spread(lo, hi, *self._magnitude(left, right, lo.shape), self.underflow)

    def _ends(self, sums: DotSums, at: slice) -> Iterator[tuple[str, Array, Array]]:
        """Where the sums of the slices `at` go: what stands before their names, and the ends to be filled.

        Those of a second way of reading are joined with those of the first.
        """
        yield "", sums.lo[at], sums.hi[at]
        if self.readers:
            yield _READ[0], sums.tlo[at], sums.thi[at]
        if len(self.readers) > 1:
            lo = _buffer("second low", sums.lo[at].shape)
            hi = lo if self.kind == "pp" else _buffer("second high", lo.shape)
            yield _READ[1], lo, hi
            np.maximum(sums.tlo[at] if self.kind == "pp" else sums.thi[at], hi, out=sums.thi[at])
            np.minimum(sums.tlo[at], lo, out=sums.tlo[at])

    def _intervals(self, sums: DotSums, at: slice) -> None:
        """Both sides intervals: the smallest and largest products, and those of the operands as read.

        Reading is monotone and a unit reads all operands or the exact sum reads none, so two sums hold every choice.
        """
        a, b, count = self.a, self.b, sums.lo[at].shape[0]
        for prefix, lo, hi in self._ends(sums, at):
            ends = (getattr(side, prefix + end) for side in (a, b) for end in ("lo", "hi"))
            alo, ahi, blo, bhi = (np.broadcast_to(x, (count, *x.shape[1:])) for x in ends)
            kernels.multiply_intervals(alo, ahi, blo, bhi, lo, hi)

    def _magnitude(self, left: str, right: str, shape: tuple[int, ...]) -> tuple[Array, float]:
        """Product of two non-negative packed arrays and the factor that makes it an upper bound.

        float32 for the slices whose range allows it, float64 for the others, slice by slice.
        """
        if self.safe.all():
            return self._single(left, right, shape), self.inflate32
        out = _buffer("magnitude", shape)
        wide = [np.asarray(x, np.float64) for x in (getattr(self.a, left), getattr(self.b, right))]
        if not self.safe.any():
            return np.matmul(wide[0], wide[1], out=out), self.inflate
        np.multiply(self._single(left, right, shape), self.inflate32, out=out, dtype=np.float64)
        for g in np.flatnonzero(~self.safe):
            x, y = (w[g if len(w) > 1 else 0] for w in wide)
            out[g] = (x @ y) * self.inflate
        return out, 1.0

    def _single(self, left: str, right: str, shape: tuple[int, ...]) -> Array:
        x, y = self.a.single_precision(left), self.b.single_precision(right)
        return np.matmul(x, y, out=_buffer("magnitude32", shape, np.float32))


def _unfold(sums: DotSums, lead: tuple[int, ...]) -> DotSums:
    """The same sums with the batch axes unfolded."""
    return DotSums(*_views([getattr(sums, f.name) for f in fields(DotSums)], lead))


def _views(arrays: Sequence[Array], lead: tuple[int, ...]) -> list[Array]:
    """The arrays with the batch axes unfolded; one that stands twice stays one object."""
    views: dict[int, Array] = {}
    return [views.setdefault(id(x), x.reshape((*lead, *x.shape[1:]))) for x in arrays]
