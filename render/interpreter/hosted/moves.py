"""Data movements, order statistics and casts: what rounds nothing, or once."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from interval_ops.bounds import Pair
from interval_ops.formats import casting
from interval_ops.formats.model import FP32, FP64
from render.interpreter.hosted.call import EXACT, Bounds, Call, Exact, Found, Result, same_rank
from render.interpreter.hosted.places import ranks
from render.interpreter.memory.integers import INTEGERS
from render.ops.dtypes import FORMAT_OF


def _arrays(found: Any) -> list[np.ndarray]:
    return [t.numpy() for t in (found if isinstance(found, (tuple, list)) else [found])]


def moved(call: Call) -> Result:
    """Elements of the operands: the same movement of both ends."""
    lo, hi = (_arrays(call.end(end)) for end in (0, 1))
    found = tuple(Bounds(a, b) for a, b in zip(lo, hi, strict=True))
    return found if len(found) > 1 else found[0]


def ends(call: Call) -> Result:
    """Exact and nondecreasing in every operand: the operation on both ends. What may be NaN gives anything."""
    lo, hi = (_arrays(call.end(end)) for end in (0, 1))
    found = tuple(Bounds(a, b) for a, b in zip(lo, hi, strict=True))
    return found if len(found) > 1 else found[0]


# --- choices of an element along a dimension ----------------------------------------------------------------------


def _dim(call: Call, default: int | None = None) -> int | None:
    dim = call.get("dim", default)
    return default if dim is None else int(dim) % max(call.x.dim(), 1)


def _rows(call: Call, dim: int) -> tuple[Pair, np.ndarray, bool]:
    """(bounds with `dim` last, which rows may hold NaN (kept axis), whether every row's order is decided)."""
    lo, hi = (np.moveaxis(np.atleast_1d(end).astype(np.float64, copy=False), dim, -1) for end in call.pair(call.x))
    loose = (np.isnan(lo) | np.isnan(hi)).any(-1, keepdims=True)
    order = np.argsort(lo, axis=-1, kind="stable")
    low, high = (np.take_along_axis(end, order, -1) for end in (lo, hi))
    decided = not bool(loose.any()) and bool((high[..., :-1] < low[..., 1:]).all())
    return (lo, hi), np.asarray(loose), decided


def _index(decided: bool, shape: tuple[int, ...], count: int) -> Found:
    """Places that were chosen: exact, or any of the dimension."""
    return Exact() if decided else Bounds(np.zeros(shape), np.full(shape, float(max(count - 1, 0))))


def ordered(call: Call) -> Result:
    """sort, topk, kthvalue and median along a dimension: order statistics are nondecreasing in every element."""
    dim = _dim(call, -1 if call.x.dim() else 0)
    if dim is None or not (call.x.is_floating_point() or call.is_open(call.x)):
        return None
    if "dim" not in call.named:  # the median of all
        return None if np.isnan(np.concatenate([e.ravel() for e in call.pair(call.x)])).any() else ends(call)
    dim %= max(call.x.dim(), 1)
    rows, loose, decided = _rows(call, dim)
    lo, hi = (call.end(end)[0].numpy() for end in (0, 1))
    spoilt = np.moveaxis(loose, -1, dim) if call.x.dim() else loose.reshape(())
    of_all = lo.ndim == call.x.dim() > 0
    if lo.ndim < spoilt.ndim:
        spoilt = spoilt.squeeze(dim)
    lo, hi = (np.where(spoilt, np.nan, end) for end in (lo, hi))
    if decided or not of_all or call.x.shape[dim] == 0:
        return Bounds(lo, hi), _index(decided, lo.shape, call.x.shape[dim] if call.x.dim() else 1)
    return Bounds(lo, hi), _ranked(call, rows, spoilt, dim, lo.shape[dim])


def _ranked(call: Call, rows: Pair, spoilt: np.ndarray, dim: int, count: int) -> Found:
    """Places of the first ranks of sort and topk; any where NaN may be, or where rows are long."""
    name, n = call.op._schema.name, rows[0].shape[-1]
    descending = bool(call.get("largest", True)) if "topk" in name else bool(call.get("descending", False))
    found = ranks(rows, descending, bool(call.get("stable", False))) if call.get("sorted", True) else None
    if found is None or not ("topk" in name or "sort" in name):
        return _index(False, (*call.x.shape[:dim], count, *call.x.shape[dim + 1 :]), n)
    first, last = (np.moveaxis(end[..., :count], -1, dim).astype(np.float64) for end in found)
    return Bounds(np.where(spoilt, 0.0, first), np.where(spoilt, n - 1.0, last))


def extreme(call: Call) -> Result:
    """max and min: of all, along a dimension with the place, or of two tensors."""
    if len(call.args) > 1 and isinstance(call.args[1], torch.Tensor):
        return ends(call)
    lo, hi = (call.end(end) for end in (0, 1))
    if isinstance(lo, torch.Tensor):
        return Bounds(lo.numpy(), hi.numpy())
    place = _place(call, "max" in call.op._schema.name, _dim(call) or 0, bool(call.get("keepdim", False)))
    return Bounds(lo[0].numpy(), hi[0].numpy()), place


def chosen(call: Call) -> Result:
    """argmax and argmin: the first and the last place that may win."""
    largest, dim, keep = "max" in call.op._schema.name, _dim(call), bool(call.get("keepdim", False))
    if not call.x.is_floating_point() or (dim is None and call.x.dim() != 1 and keep):
        return None
    return _place(call, largest, dim, keep)


def _place(call: Call, largest: bool, dim: int | None, keep: bool) -> Found:
    lo, hi = call.pair(call.x)
    flat = dim is None or not call.x.dim()
    lo, hi = (np.asarray(e, np.float64).reshape(-1) if flat else np.moveaxis(e, dim or 0, -1) for e in (lo, hi))
    if not largest:
        lo, hi = -hi, -lo
    loose = np.isnan(lo) | np.isnan(hi)
    may = loose | (hi >= np.where(loose, -np.inf, lo).max(-1, keepdims=True)) | loose.any(-1, keepdims=True)
    first = np.argmax(may, -1).astype(np.float64)
    last = may.shape[-1] - 1 - np.argmax(may[..., ::-1], -1).astype(np.float64)
    if np.array_equal(first, last):
        return Exact()
    if keep and dim is not None and call.x.dim():
        first, last = np.expand_dims(first, dim), np.expand_dims(last, dim)
    return Bounds(first, last)


def running(call: Call) -> Result:
    """cummax and cummin: from an element that may be NaN on, anything."""
    if not call.x.is_floating_point():
        return None
    lo, hi = (call.end(end) for end in (0, 1))
    dim = _dim(call) or 0
    decided = bool(np.array_equal(lo[1].numpy(), hi[1].numpy())) and _rows(call, dim)[2]
    count = call.x.shape[dim] if call.x.dim() else 1
    return Bounds(lo[0].numpy(), hi[0].numpy()), _index(decided, tuple(lo[0].shape), count)


def both_extremes(call: Call) -> Result:
    lo, hi = (call.end(end) for end in (0, 1))
    return tuple(Bounds(a.numpy(), b.numpy()) for a, b in zip(lo, hi, strict=True))


def of_numbers(call: Call) -> Result:
    """fmax and fmin: NaN yields to the other operand, so what may be NaN leaves both open."""
    found = ends(call)
    assert isinstance(found, Bounds)
    loose: Any = False
    for x in call.args[:2]:
        if isinstance(x, torch.Tensor):
            loose = loose | np.isnan(call.pair(x)[0]) | np.isnan(call.pair(x)[1])
    return Bounds(np.where(loose, np.nan, found.lo), np.where(loose, np.nan, found.hi))


def rounded_to_places(call: Call) -> Result:
    """round; to decimals torch multiplies and divides, which rounds."""
    return None if call.get("decimals", 0) else ends(call)


def without_nan(call: Call) -> Result:
    """nan_to_num: finite numbers stay; an infinite end becomes its replacement, NaN any of the three or anything."""
    lo, hi = (end.astype(np.float64) for end in call.pair(call.x))
    fmt = FORMAT_OF.get(call.x.dtype)
    if fmt is None:
        return None

    def of(name: str, default: float) -> tuple[float, float]:
        x = call.get(name)
        return (default, default) if x is None else (float(call.held(x)[0]), float(call.held(x)[1]))

    nan, top, bottom = of("nan", 0.0), of("posinf", fmt.max), of("neginf", -fmt.max)
    out = [np.where(e == np.inf, top[k], np.where(e == -np.inf, bottom[k], e)) for k, e in enumerate((lo, hi))]
    if np.array_equal(lo, hi, equal_nan=True):  # values as they are: NaN is NaN for certain
        return Bounds(*(np.where(np.isnan(e), nan[k], e) for k, e in enumerate(out)))
    open_ = np.isnan(lo) | np.isnan(hi)
    low, high = np.minimum(*out), np.maximum(*out)
    # An interval with an infinite end holds every finite number up to it as well.
    low = np.where(lo == -np.inf, np.minimum(low, -fmt.max), low)
    high = np.where(hi == np.inf, np.maximum(high, fmt.max), high)
    low = np.where(open_, min(-fmt.max, nan[0], bottom[0], top[0]), low)
    high = np.where(open_, max(fmt.max, nan[1], bottom[1], top[1]), high)
    return Bounds(low, high)


# --- truth values -------------------------------------------------------------------------------------------------


def compared(call: Call) -> Result:
    """gt and the like: 0 and 1 where the bounds leave the answer open, exact where every choice decides alike."""
    from interval_ops.arithmetic.selection import compare

    # a number in the operand's own type, as torch compares it
    pairs = [call.held(x) if isinstance(x, (int, float)) else call.operand(x, FP64) for x in call.args[:2]]
    known = [p for p in pairs if p is not None]
    if len(known) < 2:
        return None
    surely, possibly = compare(call.op._schema.name.removeprefix("aten::").removesuffix("_"), *same_rank(known))
    if np.array_equal(surely, possibly):
        return Exact()
    return Bounds(np.asarray(surely, np.float64), np.asarray(possibly, np.float64))


def selected(call: Call) -> Result:
    """where and masked_fill: the hull of both choices where the condition is open."""
    conditions = [t for t in call.args if isinstance(t, torch.Tensor) and t.dtype == torch.bool and call.is_open(t)]
    if not conditions:
        return moved(call)

    def chosen(end: int, way: int) -> np.ndarray:
        numbered, plain = call.with_numbers(lambda x: call.held(x)[end]), call.at(end)

        def pick(t: Any) -> Any:
            is_one = any(t is c for c in conditions)
            return torch.from_numpy(np.ascontiguousarray(call.pair(t)[way] > 0)) if is_one else plain(t)

        return _arrays(numbered.run(pick))[0]

    lo, hi = (pick(chosen(end, 0), chosen(end, 1)) for end, pick in ((0, np.minimum), (1, np.maximum)))
    return Bounds(lo, hi)


def classified(call: Call) -> Result:
    """isnan and the like of bounds that are finite, or points."""
    lo, hi = call.pair(call.x)
    settled = np.isfinite(lo) & np.isfinite(hi)
    return Exact() if bool((settled | (lo == hi)).all()) else None


# --- casts --------------------------------------------------------------------------------------------------------


def cast(call: Call, pair: Pair, src: torch.dtype, dst: torch.dtype) -> Found:
    """torch's conversion: round to nearest even; float64 reaches narrower formats through float32."""
    a, b = FORMAT_OF.get(src), FORMAT_OF.get(dst)
    if a is None:
        return _of_integers(call, pair, src, dst)
    if b is None:
        return _to_integers(pair, dst)
    lo, hi = pair
    if a == FP64 and b not in (FP64, FP32):
        lo, hi = casting.cast_interval(lo, hi, FP64, FP32, call.profile)
        a = FP32
    return Bounds(*casting.cast_interval(lo, hi, a, b, call.profile))


def _of_integers(call: Call, pair: Pair, src: torch.dtype, dst: torch.dtype) -> Found:
    """Integers that are open, as others or as floats; None for other types and for what float64 may not hold."""
    if src not in INTEGERS or src == dst:
        return Bounds(*pair) if src in INTEGERS else None
    lo, hi = (end.astype(np.float64) for end in pair)
    if not ((lo >= -EXACT) & (hi <= EXACT)).all():
        return None
    fmt = FORMAT_OF.get(dst)
    return (
        _to_integers((lo, hi), dst) if fmt is None else Bounds(*casting.cast_interval(lo, hi, FP64, fmt, call.profile))
    )


def _to_integers(pair: Pair, dst: torch.dtype) -> Found:
    """Floats cut to integers: what both ends become, where the type holds it. A truth value asks for more than 0."""
    if dst == torch.bool:
        zero = (pair[0] == 0) & (pair[1] == 0)
        both = (pair[0] <= 0) & (pair[1] >= 0) & ~zero
        return Bounds(np.where(both | zero, 0.0, 1.0), np.where(zero, 0.0, 1.0)) if both.any() else Exact()
    if not dst.is_complex and bool(casting.float_to_int_decided(pair[0], pair[1]).all()):
        return Exact()
    if dst not in INTEGERS:
        return None
    lo, hi = (np.trunc(end.astype(np.float64)) for end in pair)
    info = torch.iinfo(dst)
    if not ((lo >= max(-EXACT, info.min)) & (hi <= min(EXACT, info.max))).all():
        return None
    return Bounds(lo, hi)


def to_copy(call: Call) -> Result:
    x = call.x
    return cast(call, call.pair(x), x.dtype, call.kwargs.get("dtype") or x.dtype)


def copy_(call: Call) -> Result:
    source = call.args[1]
    return cast(call, call.pair(source), source.dtype, call.x.dtype)


def about(call: Call) -> Result:
    """Elements as they are, or as far off as an implementation may be."""
    lo, hi = call.pair(call.x)
    room = 0.0 if call.profile.muted("arith") else np.abs(call.pair(call.args[1])[1])
    low, high = np.nextafter(lo - room, -np.inf), np.nextafter(hi + room, np.inf)
    return Bounds(np.where(room == 0, lo, low), np.where(room == 0, hi, high))
