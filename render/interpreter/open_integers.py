"""Integers that the bounds of floats leave open: a float cut to an integer, an index of a maximum that others may hold.

Such a handle carries both ends beside its value, and the taint that says why. What is written here computes with the
ends and sheds that taint; every other operation sees it and hands it on, as if the integer had no bound at all. So an
operation without a rule is never silently taken for one of exact integers.

An operation on ends is exact where every operand is one of its two ends: all combinations are computed, each as the
machine would. Between ends that lie further apart only operations that are monotone in each operand have a rule, and
only where nothing wraps around.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np

from render.interpreter.handle import METER, NO_TAINT, Handle, Open, taint_of
from render.interpreter.types import carrier

Ends = tuple[np.ndarray, np.ndarray]
EXACT = 2.0**52
"""Integers up to here are exact in float64, and so are sums and differences of two of them."""


def ends(h: Handle) -> Ends:
    return (h.v, h.v) if h.open is None else (h.open.lo, h.open.hi)


def read(h: Handle, how: Callable[[np.ndarray], np.ndarray]) -> Handle:
    """The handle as an instruction reads its bits, with or without a sign."""
    v = how(h.v)
    if v is h.v:
        return h
    lo, hi = (how(end) for end in ends(h))
    info, torn = np.iinfo(v.dtype), lo > hi
    out = Handle(v, h.dtype, h.shape, taint=h.taint)
    between = np.where(torn, info.min, lo).astype(v.dtype), np.where(torn, info.max, hi).astype(v.dtype)
    out.open = None if h.open is None else Open(*between, h.open.soft)
    return out


def hard(*handles: Handle | None) -> frozenset[int]:
    """The taints of the handles that no ends account for."""
    out = NO_TAINT
    for h in handles:
        if h is not None and h.taint:
            out = out | (h.taint if h.open is None else h.taint - h.open.soft)
    return out


def soft(*handles: Handle) -> frozenset[int]:
    return NO_TAINT.union(*(h.open.soft for h in handles if h.open is not None))


def integer(
    v: np.ndarray, ty: Any, shape: tuple[int, ...], between: Ends, hard: frozenset[int], soft: frozenset[int],
    pair: bool = False,
) -> Handle:  # fmt: skip
    """An integer with its ends; `soft` are the taints that they account for. Without an open lane it is a point."""
    lo, hi = between
    if not (lo != hi).any() and not (METER.get().muted and (lo != v).any()):
        return Handle(v, ty, shape, taint=hard)
    out = Handle(v, ty, shape, taint=hard | soft)
    if left := soft - hard:
        out.open = Open(lo, hi, left, pair)
    return out


def holds(dtype: np.dtype | type, *numbers: np.ndarray) -> bool:
    """Whether integers of this dtype hold all these float64 numbers, which are exact themselves."""
    info = np.iinfo(dtype)
    bottom, top = max(-EXACT, float(info.min)), min(EXACT, float(info.max))
    with np.errstate(invalid="ignore"):
        return all(bool(((n >= bottom) & (n <= top)).all()) for n in numbers)


def two_valued(h: Handle) -> bool:
    """Whether every lane is one of its ends."""
    if h.open is None or h.open.pair:
        return True
    lo, hi, _, _ = h.open
    return bool(((lo == hi) | (lo + 1 == hi)).all())


def lifted(op: Callable[..., np.ndarray], ty: Any, handles: Sequence[Handle], monotone: bool = False) -> Handle:
    """`op`, which computes value lanes, on integers of which one at least is open; the result has type `ty`.

    `monotone`: in each operand while nothing wraps around.
    """
    first = handles[0]
    v = _in_carrier(op(*(h.v for h in handles)), ty)
    exact = all(two_valued(h) for h in handles)
    if not exact and not (monotone and _no_wrap(op, ty, handles)):
        return Handle(v, ty.scalar, first.shape, taint=taint_of(*handles))
    choices = [ends(h) if h.open is not None else (h.v,) for h in handles]
    corners = [_in_carrier(op(*combination), ty) for combination in product(*choices)]
    lo, hi = corners[0], corners[0]
    for corner in corners[1:]:
        lo, hi = np.minimum(lo, corner), np.maximum(hi, corner)
    return integer(v, ty.scalar, first.shape, (lo, hi), hard(*handles), soft(*handles), exact and _alone(handles))


def _in_carrier(x: np.ndarray, ty: Any) -> np.ndarray:
    return x.astype(carrier(ty), copy=False)


def _alone(handles: Sequence[Handle]) -> bool:
    """Whether no lane is open in two operands."""
    flags = [h.open.lo != h.open.hi for h in handles if h.open is not None]
    return len(flags) < 2 or not np.logical_and(*flags).any()


def _no_wrap(op: Callable[..., np.ndarray], ty: Any, handles: Sequence[Handle]) -> bool:
    between = [[end.astype(np.float64) for end in ends(h)] for h in handles]
    if not all(bool((np.abs(end) <= EXACT).all()) for pair in between for end in pair):
        return False
    return holds(carrier(ty), *(op(*combination) for combination in product(*between)))


def compared(name: str, x: Handle, y: Handle) -> Ends:
    """(definitely, possibly) true lanes of a comparison, one of lt, le, gt, ge, eq, ne."""
    (xl, xh), (yl, yh) = ends(x), ends(y)
    if name in ("gt", "ge"):
        return compared("lt" if name == "gt" else "le", y, x)
    if name == "lt":
        return xh < yl, xl < yh
    if name == "le":
        return xh <= yl, xl <= yh
    surely, possibly = (xl == xh) & (yl == yh) & (xl == yl), (xl <= yh) & (yl <= xh)
    return (surely, possibly) if name == "eq" else (~possibly, ~surely)


def selected(sure: np.ndarray, possible: np.ndarray, x: Handle, y: Handle) -> Ends:
    """Ends of `x` where the condition holds, of `y` where it does not, of both where it is open."""
    (xl, xh), (yl, yh) = ends(x), ends(y)
    lo = np.where(sure, xl, np.where(possible, np.minimum(xl, yl), yl))
    return lo, np.where(sure, xh, np.where(possible, np.maximum(xh, yh), yh))


def magnitude(x: Handle) -> Handle:
    """|x|, whose ends are those of x only where it keeps its sign."""
    lo, hi = ends(x)
    v = np.abs(x.v)
    if not holds(np.int64, lo.astype(np.float64), hi.astype(np.float64)) or (lo == np.iinfo(lo.dtype).min).any():
        return Handle(v, x.dtype, x.shape, taint=x.taint)
    one, two = np.abs(lo), np.abs(hi)
    low = np.where((lo <= 0) & (hi >= 0), np.zeros((), lo.dtype), np.minimum(one, two))
    return integer(v, x.dtype, x.shape, (low, np.maximum(one, two)), hard(x), soft(x))


def reduced(x: Handle, v: np.ndarray, shape: tuple[int, ...], total: Callable[[np.ndarray], np.ndarray]) -> Handle:
    """A sum, maximum or minimum: `total` reduces an array, in the carrier or in float64."""
    lo, hi = (total(end.astype(np.float64)) for end in ends(x))
    sizes = (total(np.abs(end.astype(np.float64))) for end in ends(x))
    if not holds(np.int64, *sizes) or not holds(v.dtype, lo, hi):
        return Handle(v, x.dtype, shape, taint=x.taint)
    between = lo.astype(v.dtype), hi.astype(v.dtype)
    return integer(v, x.dtype, shape, between, hard(x), soft(x))


def dot(a: Sequence[np.ndarray], b: Sequence[np.ndarray], acc: Sequence[np.ndarray]) -> Ends | None:
    """Ends of acc + a @ b, from those of each; None where a sum may leave int32.

    With s = lo + hi and d = hi - lo of each operand, 4 a b lies within s_a s_b +- (|s_a| d_b + d_a |s_b| + d_a d_b):
    integers, exact in float64 while no sum of magnitudes leaves int32.
    """
    (al, ah), (bl, bh), (cl, ch) = ([end.astype(np.float64) for end in pair] for pair in (a, b, acc))
    largest = [np.maximum(np.abs(lo), np.abs(hi)) for lo, hi in ((al, ah), (bl, bh), (cl, ch))]
    if not holds(np.int32, largest[0] @ largest[1] + largest[2]):
        return None
    sa, da, sb, db = al + ah, ah - al, bl + bh, bh - bl
    middle, reach = sa @ sb, np.abs(sa) @ db + da @ np.abs(sb) + da @ db
    lo, hi = cl + np.ceil((middle - reach) / 4), ch + np.floor((middle + reach) / 4)
    return lo.astype(np.int32), hi.astype(np.int32)
