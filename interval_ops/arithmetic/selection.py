"""Choosing among values: minimum and maximum, clamp, select, hull, and three-valued comparisons. All exact."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from interval_ops.arithmetic import selection_kernels as kernels
from interval_ops.arithmetic.broadcast import as_bounds, elementwise
from interval_ops.bounds import Array, Pair, is_point

Comparison = Literal["lt", "le", "gt", "ge", "eq", "ne"]
_F64 = (np.float64, np.float64)
_BOOL = (np.bool_, np.bool_)


def maximum(a: Pair, b: Pair, propagate_nan: bool = False) -> Pair:
    """Larger of two values: [max lo, max hi].

    NaN: with `propagate_nan` (tl.PropagateNan.ALL, `max.NaN`) one NaN makes the result NaN. Otherwise a NaN yields to
    the other operand, but only a point is known to be NaN; the other operand's interval is then the result. A top
    element of an interval may be NaN or any number, so the result is top either way.
    A common mistake: keeping the interval of whichever operand wins for one concrete input.
    """
    return _extremum(kernels.maximum, np.fmax, np.maximum, a, b, propagate_nan)


def minimum(a: Pair, b: Pair, propagate_nan: bool = False) -> Pair:
    """Smaller of two values: [min lo, min hi]; NaN as in `maximum`."""
    return _extremum(kernels.minimum, np.fmin, np.minimum, a, b, propagate_nan)


def _extremum(
    kernel: Callable[..., bool], ignoring: np.ufunc, propagating: np.ufunc, a: Pair, b: Pair, propagate: bool
) -> Pair:
    if is_point(a) and is_point(b):
        lo = (propagating if propagate else ignoring)(a[0], b[0], dtype=np.float64)
        return lo, lo
    of_a, of_b = (0.0 if is_point(p) and not propagate else np.nan for p in (a, b))
    lo, hi, _ = elementwise(kernel, (*a, *b), _F64, of_a, of_b)
    return lo, hi


def clamp(x: Pair, low: Pair, high: Pair, propagate_nan: bool = False) -> Pair:
    """min(max(x, low), high), the order that Triton documents; `low > high`, undefined there, gives `high` here."""
    return minimum(maximum(x, low, propagate_nan), high, propagate_nan)


def hull(a: Pair, b: Pair) -> Pair:
    """Smallest interval that holds both; top where either is top."""
    if is_point(a) and is_point(b) and a[0] is b[0]:
        return as_bounds(a)
    lo, hi, _ = elementwise(kernels.hull, (*a, *b), _F64)
    return lo, hi


def select(cond_lo: Array, cond_hi: Array, a: Pair, b: Pair) -> Pair:
    """a where the condition holds, b where it cannot hold, the hull of both where it may go either way.

    `cond_lo`: surely true, `cond_hi`: possibly true (the same array where everything is decided).
    A common mistake: taking the branch of the concrete execution for an undecided condition.
    """
    if is_point((cond_lo, cond_hi)) and is_point(a) and is_point(b):
        lo, _ = elementwise(kernels.pick, (cond_lo, a[0], b[0]), (np.float64,))
        return lo, lo
    lo, hi, same = elementwise(kernels.select, (cond_lo, cond_hi, *a, *b), _F64)
    return (lo, lo) if same else (lo, hi)


def compare(op: Comparison, a: Pair, b: Pair) -> tuple[Array, Array]:
    """(surely true, possibly true) of the IEEE comparison a `op` b.

    Ordered comparisons (lt le gt ge eq) are false on NaN, `ne` is true on NaN (Triton's OLT ... OEQ, UNE). A top
    element may be NaN or any number, so it leaves every comparison open, except that points decide for themselves.
    """
    if op in ("gt", "ge"):
        a, b, op = b, a, "lt" if op == "gt" else "le"
    if is_point(a) and is_point(b):
        ufunc = {"lt": np.less, "le": np.less_equal, "eq": np.equal, "ne": np.not_equal}[op]
        decided = ufunc(a[0], b[0])
        return decided, decided
    sure_a, sure_b = is_point(a), is_point(b)
    if op in ("lt", "le"):
        kernel = kernels.less if op == "lt" else kernels.less_equal
        surely, possibly, _ = elementwise(kernel, (*a, *b), _BOOL, sure_a, sure_b)
        return surely, possibly
    surely, possibly, _ = elementwise(kernels.equal, (*a, *b), _BOOL, sure_a, sure_b)
    return (surely, possibly) if op == "eq" else (~possibly, ~surely)
