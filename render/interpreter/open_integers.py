"""Integers that the bounds of floats leave open: a float cut to an integer, an index of a maximum that others may hold.

Such a handle carries both ends beside its value, and the taint that says why. What is written here computes with the
ends and sheds that taint; every other operation sees it and hands it on, as if the integer had no bound at all. So an
operation without a rule is never silently taken for one of exact integers.

Where every lane has few candidates (`choices`) an operation is exact: all combinations are computed, each as the
machine would, and are the candidates of the result. Among more only operations that are monotone in each operand have a
rule, and only where nothing wraps around. An address with few candidates is each of them in turn (`memory.places`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np

from render.interpreter.handle import METER, NO_TAINT, Handle, Open, taint_of
from render.interpreter.types import carrier

Ends = tuple[np.ndarray, np.ndarray]
EXACT = 2.0**52
"""Integers up to here are exact in float64, and so are sums and differences of two of them."""
CANDIDATES = 32
"""As many candidates are told apart in one lane; beyond them only the ends are known."""
ROOM = 1 << 22
"""Lanes times candidates that are written down."""


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
    among = choices(h)
    out.open = (
        None if h.open is None else Open(*between, h.open.soft, None if among is None else tuple(map(how, among)))
    )
    return out


def choices(h: Handle) -> tuple[np.ndarray, ...] | None:
    """In each array a candidate of every lane, all of them together; None where they are too many."""
    if h.open is None:
        return (h.v,)
    lo, hi, _, among = h.open
    if among is not None:
        return among
    return between(lo, hi)


def between(lo: np.ndarray, hi: np.ndarray) -> tuple[np.ndarray, ...] | None:
    """All integers between two ends, as `choices` has them."""
    with np.errstate(over="ignore"):
        span = int((hi.astype(np.int64) - lo.astype(np.int64)).view(np.uint64).max(initial=0))
    if span >= CANDIDATES or (span + 1) * lo.size > ROOM:
        return None
    with np.errstate(over="ignore"):
        return tuple(lo + np.minimum(hi - lo, np.asarray(k).astype(lo.dtype)) for k in range(span + 1))


def told_apart(among: Sequence[np.ndarray]) -> tuple[np.ndarray, ...] | None:
    """These candidates without repetitions; None where they are too many."""
    found: list[np.ndarray] = []
    for one in among:
        if not any(one is other or np.array_equal(one, other) for other in found):
            found.append(one)
    return tuple(found) if len(found) <= CANDIDATES and sum(a.size for a in found) <= ROOM else None


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
    among: Sequence[np.ndarray] | None = None,
) -> Handle:  # fmt: skip
    """An integer with its ends; `soft` are the taints that they account for. Without an open lane it is a point."""
    lo, hi = between
    if not (lo != hi).any() and not (METER.get().muted and (lo != v).any()):
        return Handle(v, ty, shape, taint=hard)
    out = Handle(v, ty, shape, taint=hard | soft)
    if left := soft - hard:
        out.open = Open(lo, hi, left, None if among is None else told_apart(among))
    return out


def holds(dtype: np.dtype | type, *numbers: np.ndarray) -> bool:
    """Whether integers of this dtype hold all these float64 numbers, which are exact themselves."""
    return all(bool(held(dtype, n).all()) for n in numbers)


def held(dtype: np.dtype | type, *numbers: np.ndarray) -> np.ndarray:
    """In which lanes."""
    info = np.iinfo(dtype)
    bottom, top = max(-EXACT, float(info.min)), min(EXACT, float(info.max))
    with np.errstate(invalid="ignore"):
        inside = [(n >= bottom) & (n <= top) for n in numbers]
    return np.asarray(np.logical_and.reduce(np.broadcast_arrays(*inside)))


def lifted(op: Callable[..., np.ndarray], ty: Any, handles: Sequence[Handle], monotone: bool = False) -> Handle:
    """`op`, which computes value lanes, on integers of which one at least is open; the result has type `ty`.

    `monotone`: in each operand while nothing wraps around.
    """
    first = handles[0]
    v = _in_carrier(op(*(h.v for h in handles)), ty)
    every = [choices(h) for h in handles]
    exact = all(c is not None for c in every) and prod(len(c) for c in every if c is not None) <= CANDIDATES
    if not exact and not (monotone and _no_wrap(op, ty, handles)):
        return Handle(v, ty.scalar, first.shape, taint=taint_of(*handles))
    if not exact:
        every = [ends(h) if h.open is not None else (h.v,) for h in handles]
    corners = [_in_carrier(op(*combination), ty) for combination in product(*every)]  # type: ignore[arg-type]
    lo, hi = corners[0], corners[0]
    for corner in corners[1:]:
        lo, hi = np.minimum(lo, corner), np.maximum(hi, corner)
    among = corners if exact else None
    return integer(v, ty.scalar, first.shape, (lo, hi), hard(*handles), soft(*handles), among)


def moved(ptr: Handle, offset: Handle, width: int, v: np.ndarray) -> Handle:
    """The address `v` = `ptr` + `offset` elements of `width` bytes, with those that it may be instead."""
    here, by = choices(ptr), choices(offset)
    if here is None or by is None or len(here) * len(by) > CANDIDATES:
        return Handle(v, ptr.dtype, ptr.shape, taint=taint_of(ptr, offset), origin=ptr.origin)
    among = [a + np.multiply(b, width, dtype=np.int64) for a, b in product(here, by)]
    between = np.minimum.reduce(np.broadcast_arrays(*among)), np.maximum.reduce(np.broadcast_arrays(*among))
    out = integer(v, ptr.dtype, ptr.shape, between, hard(ptr, offset), soft(ptr, offset), among)
    out.origin = ptr.origin
    return out


def _in_carrier(x: np.ndarray, ty: Any) -> np.ndarray:
    return x.astype(carrier(ty), copy=False)


def _no_wrap(op: Callable[..., np.ndarray], ty: Any, handles: Sequence[Handle]) -> bool:
    between = [[end.astype(np.float64) for end in ends(h)] for h in handles]
    if not all(bool((np.abs(end) <= EXACT).all()) for pair in between for end in pair):
        return False
    return holds(carrier(ty), *(op(*combination) for combination in product(*between)))


def compared(name: str, x: Handle, y: Handle) -> Ends:
    """(definitely, possibly) true lanes of a comparison, one of lt, le, gt, ge, eq, ne."""
    if name in ("eq", "ne") and any(h.open is not None and h.open.among is not None for h in (x, y)):
        these, those = choices(x), choices(y)
        if these is not None and those is not None and len(these) * len(those) <= CANDIDATES:
            same = [a == b for a, b in product(these, those)]
            surely, possibly = np.logical_and.reduce(same), np.logical_or.reduce(same)
            return (surely, possibly) if name == "eq" else (~possibly, ~surely)
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


def selected_among(sure: np.ndarray, possible: np.ndarray, x: Handle, y: Handle) -> list[np.ndarray] | None:
    """The candidates of what `selected` gives the ends of; None where they are too many."""
    these, those = choices(x), choices(y)
    if these is None or those is None or len(these) * len(those) > CANDIDATES:
        return None
    conditions = (sure,) if sure is possible or np.array_equal(sure, possible) else (sure, possible)
    return [np.where(c, a, b) for c in conditions for a, b in product(these, those)]


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
