"""What the builder hands to Triton's semantic layer in place of an IR value.

Every array has a leading axis over program instances (1 where all programs agree, else B). The other axes are 1 or the
logical extent: a broadcast is never written out before an operation needs it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from interval_ops.bounds import Pair, each, is_point
from interval_ops.dot.rule import PendingDot
from interval_ops.dot.value import within

if TYPE_CHECKING:
    from render.interpreter.memory import Storage

NO_TAINT: frozenset[int] = frozenset()


class Open(NamedTuple):
    """Ends (in the carrier) of integers that the bounds of floats leave open.

    `soft` are the ids of those taints of the handle that these ends account for: an operation with a rule for open
    integers goes on without them, any other hands them on as it does every taint. `among`: in each array a candidate of
    every lane, none missing; None: all integers between the ends are.
    """

    lo: np.ndarray
    hi: np.ndarray
    soft: frozenset[int]
    among: tuple[np.ndarray, ...] | None = None


class Lost(NamedTuple):
    """Lanes in which an instruction gave nothing, and those taints of the handle that concern only them."""

    lanes: np.ndarray
    why: frozenset[int]


class PendingSums:
    """Un-rounded sums of a chain of dots; `fresh`: one dot that started from zero, which compilers fold into an add."""

    __slots__ = ("dot", "fresh", "kind")

    def __init__(self, dot: PendingDot, kind: str, fresh: bool) -> None:
        self.dot = dot
        self.kind = kind
        self.fresh = fresh


class AccessPlace:
    """Addresses and mask of an access, to recognise the store that goes with a load."""

    __slots__ = ("mask", "ptr")

    def __init__(self, ptr: Handle, mask: Handle | None) -> None:
        self.ptr = ptr.v
        self.mask = None if mask is None else mask.v

    def same(self, other: AccessPlace) -> bool:
        if (self.mask is None) != (other.mask is None):
            return False
        masks = self.mask is other.mask or np.array_equal(self.mask, other.mask)  # type: ignore[arg-type]
        return masks and (self.ptr is other.ptr or np.array_equal(self.ptr, other.ptr))


class Meter:
    """What one launch has made so far: `work` counts lanes (a dot counts an eighth of its products) and `made` handles,
    which is what a run costs, without a clock; `largest` is the size of its largest block. `muted`: the launch leaves
    out causes of error, then a bound without width need not hold the value.
    """

    __slots__ = ("largest", "made", "muted", "work")

    def __init__(self, muted: bool = False) -> None:
        self.largest = self.work = self.made = 0
        self.muted = muted


METER: ContextVar[Meter] = ContextVar("meter", default=Meter())  # noqa: B039 (what no launch makes counts nowhere)


@contextmanager
def metered(meter: Meter) -> Iterator[None]:
    """Inside, in this thread, handles count on this meter."""
    token = METER.set(meter)
    try:
        yield
    finally:
        METER.reset(token)


class Handle:
    """A batched value with its bounds.

    `v` is the value lane, `lo`/`hi` the float64 bounds (None: an exact point; for int1 they are bool arrays, None where
    every lane is decided; other integers have `open` instead). `shape` is the logical block shape without the leading
    axis, `taint` the ids of taints that reach this value, `origin` the storage a pointer was derived from (None:
    unknown or several). Under a lock, `place` says where a value was loaded from and `grown` that it is the value of a
    place plus another one. `lost` are lanes without a value. `kin` says what a value was made of, where later
    operations know more by that (`builder.related`).

    Of a pending sum, `computed` is the value lane so far. Asking for `v`, as for `lo` and `hi`, closes the sum: where
    the target's unit cannot have returned what was computed (it cuts, a CPU rounds to nearest), `v` is the nearest
    number of the format that it can.
    """

    __slots__ = (
        "_hi", "_lo", "_v", "dtype", "grown", "kin", "lost", "open", "origin", "pend", "place", "shape", "taint",
    )  # fmt: skip

    def __init__(
        self,
        v: np.ndarray,
        dtype: Any,
        shape: tuple[int, ...],
        lo: np.ndarray | None = None,
        hi: np.ndarray | None = None,
        taint: frozenset[int] = NO_TAINT,
        pend: PendingSums | None = None,
        origin: Storage | None = None,
    ) -> None:
        meter = METER.get()
        if lo is None or hi is None or is_point((lo, hi)):
            if lo is None or lo is v or not meter.muted:
                lo = hi = None
            else:
                hi = lo.view()
        self._v = v
        self.dtype = dtype
        self.shape = shape
        self._lo = lo
        self._hi = hi
        self.taint = taint
        self.pend = pend
        self.origin = origin
        self.place: AccessPlace | None = None
        self.grown: tuple[AccessPlace, Handle] | None = None
        self.open: Open | None = None
        self.lost: Lost | None = None
        self.kin: Any = None
        meter.work += v.size
        meter.made += 1
        per_program = v.size // v.shape[0]
        if per_program > meter.largest:
            meter.largest = per_program

    def _finalise(self) -> None:
        if self.pend is not None:
            dot, self.pend = self.pend.dot, None
            self._lo, self._hi = dot.interval()
            if not dot.profile.off:  # bounds without some cause do not hold every legal value
                self._v = within(self._v, self._lo, self._hi, dot.accumulator)

    @property
    def v(self) -> np.ndarray:
        if self.pend is not None:
            self._finalise()
        return self._v

    @v.setter
    def v(self, value: np.ndarray) -> None:
        self._v = value

    @property
    def computed(self) -> np.ndarray:
        """The value lane without closing a pending sum: as computed so far, not yet held against its bounds."""
        return self._v

    @property
    def lo(self) -> np.ndarray | None:
        if self.pend is not None:
            self._finalise()
        return self._lo

    @property
    def hi(self) -> np.ndarray | None:
        if self.pend is not None:
            self._finalise()
        return self._hi

    @property
    def is_point(self) -> bool:
        """No width at all: bounds were never created."""
        return self._lo is None and self.pend is None

    @property
    def pair(self) -> Pair:
        """(lo, hi); a point gives its value lane twice, as the same object."""
        if self.pend is not None:
            self._finalise()
        lo = self._lo
        return (self._v, self._v) if lo is None else (lo, self._hi)  # type: ignore[return-value]

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def set_attr(self, key: str, value: object) -> None:
        """Alignment and contiguity hints do not change a value."""

    def get_context(self) -> None:
        return None

    def get_element_ty(self) -> Any:
        ty = self.dtype
        while hasattr(ty, "element_ty"):
            ty = ty.element_ty
        return ty

    def full(self, array: np.ndarray) -> np.ndarray:
        """One of this handle's arrays with every block axis at its logical extent (a view, or the array itself)."""
        if array.shape[1:] == self.shape:
            return array
        return np.broadcast_to(array, (array.shape[0], *self.shape))

    def map(self, move: Any, shape: tuple[int, ...], dtype: Any = None) -> Handle:
        """The same data moved by `move`, applied alike to value and bounds (exact)."""
        moved, upper = (None, None) if self.lo is None or self.hi is None else each((self.lo, self.hi), move)
        out = Handle(move(self.v), dtype or self.dtype, shape, moved, upper, self.taint, None, self.origin)
        if self.open is not None:
            lo, hi, soft, among = self.open
            out.open = Open(move(lo), move(hi), soft, None if among is None else tuple(map(move, among)))
        if self.lost is not None:
            out.lost = Lost(move(self.lost.lanes), self.lost.why)
        if self.kin is not None:
            out.kin = self.kin.moved(move)
        return out


def taint_of(*handles: Handle | None) -> frozenset[int]:
    out = NO_TAINT
    for h in handles:
        if h is not None and h.taint:
            out = out | h.taint
    return out
