"""The documented errors of a target: what an approximate function may return for an exact value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from interval_ops.formats.model import Format
from render.exact import functions
from render.exact import intervals as iv
from render.exact.formats import FP32, nearest, rounded
from render.exact.intervals import Interval, Maybe
from render.exact.points import INF, NINF, ZERO, Point, down, least, most, number, power, times_up, up

LOG2E = number(float.fromhex("0x1.715476p+0"))
"""log2 e, rounded to fp32."""


def with_zero(x: Maybe, fmt: Format) -> Maybe:
    """x, and 0 where it holds subnormals, which a flushing target may take for 0."""
    if x is None or not holds_subnormals(x, fmt):
        return x
    return least((x[0], ZERO)), most((x[1], ZERO))


def holds_subnormals(x: Interval, fmt: Format) -> bool:
    low, high = iv.magnitudes(x)
    found: bool = low < power(fmt.emin) and high != ZERO
    return found


def within(y: Maybe, error: Mapping[str, Any], fmt: Format, positive: bool) -> Maybe:
    """What a target returns for the exact numbers y, computed in fp32 or fp64: y (1 +- r) +- a, or one rounding.

    A result of at least `huge` (None: no such) may come out infinite.
    """
    if y is None:
        return None
    r, a, flush = number(error["r"]), number(error["a"]), bool(error["ftz"])
    if error["r"] <= fmt.u and error["a"] <= max(fmt.half_subnormal, 2.0**-1074) and not flush:
        return rounded(y, fmt)
    low = down(y[0], -_widening(y[0], r, a))
    high = up(y[1], _widening(y[1], r, a))
    if positive:
        low = most((low, ZERO))
    edge = number(fmt.max if error.get("huge") is None else min(fmt.max, error["huge"]))
    if high >= edge:
        high = INF if number(fmt.max) < high or error.get("huge") is not None else high
    if (-low) >= edge:
        low = NINF if low < number(-fmt.max) or error.get("huge") is not None else low
    out = (low, high)
    return with_zero(out, fmt) if flush else out


def _widening(x: Point, r: Point, a: Point) -> Point:
    if x in (INF, NINF):
        return ZERO
    return up(times_up(abs(x), r), a)


def narrowed(out: Maybe, fmt: Format) -> Maybe:
    """A result of fp32 in a format of fewer bits: rounded once more."""
    if out is None or fmt.bits >= 32:
        return out
    return iv.hull(out, (nearest(out[0], fmt), nearest(out[1], fmt)))


def at(error: Mapping[str, Any], x: Maybe, fmt: Format) -> Mapping[str, Any] | None:
    """The error for arguments x: from `until` on within `beyond` of the rounded value instead of r and a; None where
    nothing is documented."""
    if x is None or "until" not in error:
        return error
    low, high = iv.magnitudes(x)
    until, r, a = number(error["until"]), error["r"], error["a"]
    if "beyond" not in error:
        return error if high < until else None
    return {
        **error,
        "r": r if low < until else fmt.u,
        "a": a if high < until else max(a, error["beyond"]),
    }


def apply(name: str, x: Maybe, error: Mapping[str, Any], fmt: Format, through_exp2: bool = False) -> Maybe:
    """The function as a target computes it for operands in `fmt`: below fp32 in fp32, rounded once more."""
    wide = fmt if fmt.bits == 64 else FP32
    if x is not None and error.get("breaks") and wide is FP32 and holds_subnormals(x, FP32):
        return None
    if x is not None and error["ftz"]:
        x = with_zero(x, wide)
    y = functions.over(name, x)
    found = at(error, x, wide)
    if found is None:
        return None
    error = found
    if (
        x in _SPECIAL and "until" not in error
    ):  # PTX and libdevice state the results for 0 and infinities; cos(0) = exp(0) = 1
        return y if y is None or y[0] == y[1] else rounded(y, wide)
    if name == "exp" and through_exp2 and wide is FP32:
        out = iv.hull(rounded(y, wide), _through_exp2(x, error))
    else:
        out = within(y, error, wide, name in functions.NEVER_NEGATIVE)
    return narrowed(out, fmt)


_SPECIAL = ((ZERO, ZERO), (INF, INF), (NINF, NINF))


def _through_exp2(x: Maybe, error: Mapping[str, Any]) -> Maybe:
    """2^p (1 +- r) +- a, p = x fl(log2 e) rounded to fp32: the sequence that NVIDIA targets run for exp."""
    p = iv.mul(x, (LOG2E, LOG2E))
    if p is None:
        return None
    return within(functions.over("exp2", (nearest(p[0], FP32), nearest(p[1], FP32))), error, FP32, True)
