"""Conversions between number formats: one rounding of values, and enclosures of every legal result for intervals.

Source of the conversion rules: PTX ISA 8 `cvt`, Triton's conversion code, OCP 8-bit Floating Point Specification 1.0.
`rtne` is to nearest with ties to even, `rtz` towards zero. Past the largest finite value M, i.e. where rounding without
a largest exponent gives more than M (a common mistake is to test |x| > M (1 + u)), the overflow mode decides: inf, nan,
saturate (M) or either of them. `rtz` takes finite values to M at most, so there the mode only concerns infinities.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Literal

import numpy as np

from interval_ops.bounds import Pair, each, is_point
from interval_ops.formats import casting_kernels as kernels
from interval_ops.formats.model import E8M0, FORMATS, FP8E4B15, FP16, FP32, FP64, Format, Overflow
from interval_ops.formats.tables import carrier
from interval_ops.profiles.profile import OlderCast, Profile

Mode = Literal["rtne", "rtz"]


def round_value(x: np.ndarray, fmt: Format, mode: Mode = "rtne", overflow: Overflow = "inf") -> np.ndarray:
    """`x` rounded once to `fmt`, in the carrier of `fmt`; same shape.

    Infinities overflow like any large number, so `saturate` makes them M. A format without inf turns `inf` into `nan`,
    one without NaN turns NaN into M (with the sign of the NaN). `either` picks `saturate`. e8m0 rounds ties up, gives
    2**-127 for smaller positive numbers and NaN for the rest; tf32 ties go to even.
    """
    x = _float_array(x)
    if fmt == FP64:
        return _float64(x)
    out = np.empty(x.size, carrier(fmt))
    over = _overflow_value(fmt, overflow)
    kernels.round_values(_flat(x), out, fmt.gate, _truncates(mode), over, fmt.has_neg_zero)
    out = out.reshape(x.shape)
    if fmt == E8M0:
        return np.where(x > 0, np.maximum(out, np.float32(fmt.min_normal)), np.float32(np.nan))
    return out if fmt.has_nan else _without_nan(out, fmt)


def _without_nan(out: np.ndarray, fmt: Format) -> np.ndarray:
    nan = np.isnan(out)
    return np.where(nan, np.copysign(np.float32(fmt.max), out), out) if nan.any() else out


def _overflow_value(fmt: Format, overflow: Overflow) -> float:
    if overflow == "inf" and fmt.has_inf:
        return math.inf
    if overflow in ("inf", "nan") and fmt.has_nan:
        return math.nan
    return fmt.max


def _overflow_ends(fmt: Format, overflow: Overflow) -> tuple[float, float]:
    """Smallest and largest magnitude that an overflow can become; (NaN, NaN) where it can become NaN."""
    if overflow == "either":
        if not fmt.has_inf and fmt.has_nan:
            return math.nan, math.nan
        return fmt.max, math.inf if fmt.has_inf else fmt.max
    value = _overflow_value(fmt, overflow)
    return value, value


def _truncates(mode: str) -> bool:
    if mode not in ("rtne", "rtz"):
        raise ValueError(f"unknown rounding mode {mode!r}; known: rtne, rtz")
    return mode == "rtz"


def _float_array(x: np.ndarray) -> np.ndarray:
    x = np.asarray(x)
    return x if x.dtype in (np.float32, np.float64) else x.astype(np.float64)


def _float64(x: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):  # signalling NaN, which any memory may hold
        return np.asarray(x, np.float64)


def _flat(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x).reshape(-1)


@cache
def holds(wide: Format, narrow: Format) -> bool:
    """Whether every number of `narrow` is one of `wide`, so that conversion is exact."""
    return wide == narrow or (
        wide.p >= narrow.p
        and wide.min_subnormal <= narrow.min_subnormal
        and wide.max >= narrow.max
        and wide.has_inf >= narrow.has_inf
        and wide.has_nan >= narrow.has_nan
        and wide != E8M0
    )


def cast_interval(
    lo: np.ndarray, hi: np.ndarray, src: Format, dst: Format, profile: Profile, mode: Mode = "rtne"
) -> Pair:
    """Enclosure of the exact and of every legally rounded value when numbers of `src` in [lo, hi] become `dst`.

    Rounding is monotone: the hull of both ends and of both ends rounded is the tightest interval that holds both. The
    error |x - fl(x)| <= max(u |x| / (1 + u), half a subnormal) needs no formula, subnormals are right by construction.
    Where the target converts through another format (`profile.cast_double_rounding`, e.g. "fp16rz"; fp64 to bf16 and
    fp8 through fp32), the two conversions are enclosed one after the other, which encloses the direct one as well.
    Where the version of Triton that compiles the kernel converts in another way (`older_cast`), that one is enclosed.
    An exact conversion (to a format that holds `src`) and a muted "cast" return the ends unchanged.

    Shapes: lo and hi alike; pass one array twice for points (float32 or float64). Returns float64.
    A common mistake: v (1 +- u) alone, which misses the rounding of subnormals (3.1e-8 to fp16 is off by 92 %).
    """
    if profile.muted("cast") or holds(dst, src):
        return _widened(lo, hi)
    older = profile.older_cast(src.name, dst.name) if mode == "rtne" else None
    if older is not None:
        return _older_interval(lo, hi, dst, older)
    via = profile.cast_double_rounding.get(f"{src.name}->{dst.name}")
    if via:
        lo, hi = _through(lo, hi, via)
    elif src == FP64 and dst not in (FP32, FP16) and holds(FP32, dst):
        # To nearest whatever the mode: truncating the hull of x and fl(x) encloses truncating x as well.
        lo, hi = _hull(lo, hi, FP32, False, "inf")
        return cast_interval(lo, hi, FP32, dst, profile, mode)
    default: Overflow = "inf" if dst.has_inf else "either"
    overflow = profile.cast_overflow.get(dst.name, default)
    if dst == E8M0:
        return _scale_interval(lo, hi)
    if dst == FP8E4B15:
        return _ties_both_ways(lo, hi, dst, mode, overflow)
    return _hull(lo, hi, dst, _truncates(mode), overflow)


def _widened(lo: np.ndarray, hi: np.ndarray) -> Pair:
    return each((lo, hi), _float64)


def _through(lo: np.ndarray, hi: np.ndarray, via: str) -> Pair:
    """Conversion to the intermediate format named by "fp16rz" (towards zero) or "fp16" (to nearest)."""
    name = via.removesuffix("rz")
    return _hull(lo, hi, FORMATS[name], name != via, "inf")


def _hull(lo: np.ndarray, hi: np.ndarray, fmt: Format, truncate: bool, overflow: Overflow) -> Pair:
    """Hull of both ends and both ends rounded once to `fmt`."""
    ends = _overflow_ends(fmt, overflow)
    shape, size = np.shape(lo), np.size(lo)
    low, high = np.empty(size), np.empty(size)
    if is_point((lo, hi)):
        kernels.hull_point(_flat(_float_array(lo)), low, high, fmt.gate, truncate, *ends)
    else:
        x, y = np.asarray(lo, np.float64), np.asarray(hi, np.float64)
        kernels.hull_pair(_flat(x), _flat(y), low, high, fmt.gate, truncate, *ends)
    return low.reshape(shape), high.reshape(shape)


def _older_interval(lo: np.ndarray, hi: np.ndarray, dst: Format, older: OlderCast) -> Pair:
    """As `cast_interval`, for the software conversions of earlier versions."""
    if older.via:
        lo, hi = _through(lo, hi, older.via)
    rule = _ties_both_ways if older.ties_away else _nearest_hull
    low, high = rule(lo, hi, dst, "rtne", older.overflow)
    if older.floor:
        start, end = _float64(lo), _float64(hi)
        small = (start < older.until) & (end > -older.until)
        low = np.where(small, np.minimum(low, np.maximum(start, -older.until) - older.floor), low)
        high = np.where(small, np.maximum(high, np.minimum(end, older.until) + older.floor), high)
    return low, high


def _nearest_hull(lo: np.ndarray, hi: np.ndarray, fmt: Format, mode: Mode, overflow: Overflow) -> Pair:
    return _hull(lo, hi, fmt, _truncates(mode), overflow)


def _ties_both_ways(lo: np.ndarray, hi: np.ndarray, fmt: Format, mode: Mode, overflow: Overflow) -> Pair:
    """As `_hull`, with ties to either side: Triton's own fp8e4b15 code adds half and cuts, i.e. ties go away from zero.

    One float64 step outward turns a tie at a lower (upper) end into the neighbour below (above) and moves no other
    end to another neighbour, except next to a tie. That code rounds to nearest whatever `mode` asks for.
    """
    low, high = _hull(lo, hi, fmt, _truncates(mode), overflow)
    below = round_value(np.nextafter(_float64(lo), -np.inf), fmt, "rtne", overflow)
    above = round_value(np.nextafter(_float64(hi), np.inf), fmt, "rtne", overflow)
    return np.minimum(low, below), np.maximum(high, above)


def _scale_interval(lo: np.ndarray, hi: np.ndarray) -> Pair:
    """Powers of two around [lo, hi], rounding direction left open; anything where a value can be <= 0 or overflow."""
    low, high = _float64(lo), _float64(hi)
    below = round_value(low, E8M0, "rtz").astype(np.float64)
    above = round_value(high, E8M0, "rtz").astype(np.float64)
    above = np.where(above < high, 2 * above, above)
    top = ~((low > 0) & (above <= E8M0.max))
    return np.where(top, np.nan, np.minimum(low, below)), np.where(top, np.nan, np.maximum(high, above))


def int_to_float_value(x: np.ndarray, fmt: Format, overflow: Overflow = "inf") -> np.ndarray:
    """Integers (or bool) rounded once, to nearest, to `fmt`; in the carrier. PTX: `cvt.rn`."""
    x = _int_array(x)
    if fmt in (FP32, FP64):
        return x.astype(carrier(fmt))
    return round_value(_odd_float64(x), fmt, "rtne", overflow)


def _int_array(x: np.ndarray) -> np.ndarray:
    x = np.asarray(x)
    return x.astype(np.uint8) if x.dtype == np.bool_ else x


def _odd_float64(x: np.ndarray) -> np.ndarray:
    """Integers in float64, rounded to odd: rounding that again to at most 51 bits equals rounding the integer once."""
    low, high = _int_ends(x)
    last = low.view(np.int64) & 1
    return np.where((low == high) | (last == 1), low, high)


def _int_ends(x: np.ndarray) -> Pair:
    """Adjacent float64 numbers around each integer, equal where float64 holds it."""
    near = x.astype(np.float64)
    if x.dtype.itemsize < 8:
        return near, near
    beyond = near >= float(np.iinfo(x.dtype).max)  # rounded up to 2**63 (2**64), which the integer type lacks
    back = np.where(beyond, 0.0, near).astype(x.dtype)
    above, below = beyond | (back > x), ~beyond & (back < x)
    low = np.where(above, np.nextafter(near, -np.inf), near)
    return low, np.where(below, np.nextafter(near, np.inf), near)


def int_to_float_interval(x: np.ndarray, fmt: Format, profile: Profile) -> Pair | None:
    """Enclosure of the exact and the rounded value of integers converted to `fmt`; None where all are exact.

    Integers up to 2**p are exact. Formats narrower than fp32 may be reached through fp32.
    """
    x = _int_array(x)
    limit = min(2**fmt.p, int(fmt.max))
    info = np.iinfo(x.dtype)
    if x.size == 0 or max(-info.min, info.max) <= limit or max(-int(x.min()), int(x.max())) <= limit:
        return None
    low, high = _int_ends(x)
    if (low == int_to_float_value(x, fmt)).all() and (low == high).all():
        return None
    if fmt == FP64:
        return low, high
    return cast_interval(low, high, FP64, fmt, profile)


def float_to_int_value(v: np.ndarray, dtype: np.dtype | type) -> np.ndarray:
    """Numbers cut towards zero to an integer dtype. PTX: `cvt.rzi`, which saturates and turns NaN into 0.

    LLVM leaves out-of-range results undefined; `float_to_int_decided` tells where the result can be relied upon.
    bool means "unequal to zero", NaN included.
    """
    v, dtype = np.asarray(v), np.dtype(dtype)
    if dtype == np.bool_:
        return v != 0
    info = np.iinfo(dtype)
    bottom, top = float(info.min), float(info.max + 1)
    cut = np.trunc(v.astype(np.float64))
    if cut.size and cut.min() >= bottom and cut.max() < top:
        return cut.astype(dtype)
    inside = (cut >= bottom) & (cut < top)
    out = np.where(inside, cut, 0.0).astype(dtype)
    out[cut < bottom] = info.min
    out[cut >= top] = info.max
    return out


def float_to_int_decided(lo: np.ndarray, hi: np.ndarray, dtype: np.dtype | type | None = None) -> np.ndarray:
    """Where every number in [lo, hi] becomes the same integer (and one that `dtype` holds, if given)."""
    if dtype is not None and np.dtype(dtype) == np.bool_:
        return (lo > 0) | (hi < 0) | ((lo == 0) & (hi == 0))
    low, high = np.trunc(lo), np.trunc(hi)
    if dtype is None:
        return np.isfinite(low) & (low == high)
    info = np.iinfo(np.dtype(dtype))
    return (low == high) & (low >= float(info.min)) & (low < float(info.max + 1))
