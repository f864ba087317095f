"""Bounds of host operations on kernel results: data movements, casts, and plain arithmetic in IEEE rounding.

A rule gets the operation, its arguments and what is known about its tensors (envelope by `id`), and returns the bounds
of the result, or None where it does not apply. Rules run before the operation, so that an in-place one still sees its
old operand. The caller joins the values that the operation really returned, so a rule needs to enclose the exact result
and other legal roundings only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_map

from interval_ops.arithmetic import rule as arithmetic
from interval_ops.formats import casting
from interval_ops.formats.model import FP32, FP64, Format, Overflow
from interval_ops.profiles.profile import Profile, load_profile
from render.interpreter.memory import Envelope
from render.interpreter.memory.integers import INTEGERS
from render.interpreter.memory.strided import FORMAT_OF

Known = Mapping[int, Envelope]
Pair = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds of a result, in its shape or one that broadcasts to it; `written` None: all of it."""

    lo: np.ndarray
    hi: np.ndarray
    written: np.ndarray | None = None


@dataclass(frozen=True, slots=True)
class Exact:
    """The result is an exact point everywhere."""

    written: np.ndarray | None = None


Rule = Callable[[Any, tuple[Any, ...], Mapping[str, Any], Known], "Bounds | Exact | None"]


# --- data movement -----------------------------------------------------------------------------------------------

MOVES = {
    f"aten::{name}"
    for name in (
        "clone", "cat", "stack", "index", "index_select", "gather", "flip", "roll", "rot90", "repeat",
        "constant_pad_nd", "take", "tril", "triu", "where", "masked_fill", "masked_fill_", "masked_select", "index_put",
        "index_put_", "select_scatter", "slice_scatter", "scatter", "scatter_", "_unsafe_view", "repeat_interleave",
        "embedding", "reflection_pad1d", "reflection_pad2d", "replication_pad1d", "replication_pad2d", "pixel_shuffle",
    )
}  # fmt: skip
"""Operations whose result holds elements of their floating-point operands (or constants), each unchanged."""

MONOTONE = {
    f"aten::{name}"
    for name in (
        "relu", "relu_", "clamp", "clamp_", "clamp_min", "clamp_max", "maximum", "minimum", "amax", "amin", "floor",
        "ceil", "trunc", "round",
    )
}  # fmt: skip
"""Exact (no rounding) and nondecreasing in every floating-point operand: applied to both ends."""


def known_pair(t: torch.Tensor, known: Known) -> Pair:
    """Bounds of an operand in its shape; a point is one array twice."""
    envelope = known.get(id(t))
    if envelope is None or envelope.lo.shape != tuple(t.shape):
        v = values(t)
        return v, v
    return envelope.lo, envelope.hi


def values(t: torch.Tensor) -> np.ndarray:
    """Values of a tensor: floats in their carrier (float32, or float64 for float64), integers in float64."""
    t = t.detach()
    if not t.is_floating_point():
        return t.numpy().astype(np.float64)
    return t.numpy() if t.dtype in (torch.float32, torch.float64) else t.float().numpy()


def _is_open(t: torch.Tensor, known: Known) -> bool:
    """Integers that rounding leaves open; exact ones may be indices and stay what they are."""
    if t.dtype not in INTEGERS or id(t) not in known:
        return False
    lo, hi = known_pair(t, known)
    return not np.array_equal(lo, hi)


def _substituted(end: int, known: Known) -> Callable[[Any], Any]:
    def pick(t: Any) -> Any:
        if not isinstance(t, torch.Tensor) or not (t.is_floating_point() or _is_open(t, known)):
            return t
        return torch.from_numpy(known_pair(t, known)[end].astype(np.float64, copy=True))

    return pick


def _flags(known: Known) -> Callable[[Any], Any]:
    def pick(t: Any) -> Any:
        if not isinstance(t, torch.Tensor) or not t.is_floating_point():
            return t
        envelope = known.get(id(t))
        if envelope is None or envelope.written.shape != tuple(t.shape):
            return torch.ones(t.shape, dtype=torch.float64)
        return torch.from_numpy(envelope.written.astype(np.float64))

    return pick


def _run(op: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], pick: Callable[[Any], Any]) -> np.ndarray:
    """The operation on substituted operands."""
    kept = {k: v for k, v in kwargs.items() if k not in ("out", "memory_format")}
    return op._overloadpacket(*tree_map(pick, args), **tree_map(pick, kept)).numpy()


def applied_to_ends(op: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], known: Known) -> Bounds:
    return Bounds(*(_run(op, args, kwargs, _substituted(end, known)) for end in (0, 1)))


def moved(op: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], known: Known) -> Bounds:
    found = applied_to_ends(op, args, kwargs, known)
    return Bounds(found.lo, found.hi, moved_flags(op, args, kwargs, known))


def moved_flags(op: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], known: Known) -> np.ndarray | None:
    """Written flags that a movement carries along; None where all is written."""
    if all(e.written.all() for e in known.values()):
        return None
    return _run(op, args, kwargs, _flags(known)) > 0


# --- casts -------------------------------------------------------------------------------------------------------


@cache
def _overflow_of(dtype: torch.dtype) -> Overflow:
    """What this build of torch makes of a value far past the largest: "inf", "nan" or "saturate"."""
    x = torch.tensor([1e30], dtype=torch.float32).to(dtype).float().item()
    return "nan" if x != x else "inf" if x == float("inf") else "saturate"


_MUTED: ContextVar[frozenset[str]] = ContextVar("muted", default=frozenset())


@contextmanager
def muted(causes: Iterable[str]) -> Iterator[None]:
    """A scope in which rules add no error of these causes."""
    token = _MUTED.set(frozenset(causes))
    try:
        yield
    finally:
        _MUTED.reset(token)


def host_profile() -> Profile:
    """IEEE rounding, with torch's own behaviour on overflow of 8-bit floats, less what is muted here."""
    return _profile(_MUTED.get())


@cache
def _profile(without: frozenset[str]) -> Profile:
    ieee = load_profile("ieee")
    modes = {f.name: _overflow_of(t) for t, f in FORMAT_OF.items() if f.bits == 8}
    return replace(ieee, cast_overflow={**ieee.cast_overflow, **modes}).mute(*without)


def cast(pair: Pair, src: torch.dtype, dst: torch.dtype) -> Bounds | Exact | None:
    """torch's conversion: round to nearest even; float64 reaches narrower formats through float32."""
    a, b = FORMAT_OF.get(src), FORMAT_OF.get(dst)
    if a is None:
        return _of_integers(pair, src, b)
    if b is None:
        return _to_integers(pair, dst)
    lo, hi = pair
    if a == FP64 and b not in (FP64, FP32):
        lo, hi = casting.cast_interval(lo, hi, FP64, FP32, host_profile())
        a = FP32
    return Bounds(*casting.cast_interval(lo, hi, a, b, host_profile()))


EXACT = 2.0**52
"""Integers up to here pass through float64 unchanged."""


def _of_integers(pair: Pair, src: torch.dtype, dst: Format | None) -> Bounds | None:
    """Integers that are open, as floats; None for other types and for integers that float64 may not hold."""
    lo, hi = (end.astype(np.float64) for end in pair)
    if src not in INTEGERS or dst is None or not ((lo >= -EXACT) & (hi <= EXACT)).all():
        return None
    return Bounds(*casting.cast_interval(lo, hi, FP64, dst, host_profile()))


def _to_integers(pair: Pair, dst: torch.dtype) -> Bounds | Exact | None:
    """Floats cut to integers: what both ends become, where the type holds it."""
    if not dst.is_complex and bool(casting.float_to_int_decided(pair[0], pair[1]).all()):
        return Exact()
    if dst not in INTEGERS:
        return None
    lo, hi = (np.trunc(end.astype(np.float64)) for end in pair)
    info = torch.iinfo(dst)
    if not ((lo >= max(-EXACT, info.min)) & (hi <= min(EXACT, info.max))).all():
        return None
    return Bounds(lo, hi)


def _to_copy(op: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], known: Known) -> Bounds | Exact | None:
    source = args[0]
    dtype = kwargs.get("dtype") or source.dtype
    return _with_flags(cast(known_pair(source, known), source.dtype, dtype), source, known)


def _copy_(op: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], known: Known) -> Bounds | Exact | None:
    return _with_flags(cast(known_pair(args[1], known), args[1].dtype, args[0].dtype), args[1], known)


def _with_flags(result: Bounds | Exact | None, source: torch.Tensor, known: Known) -> Bounds | Exact | None:
    envelope = known.get(id(source))
    if envelope is None or envelope.written.all() or result is None:
        return result
    if isinstance(result, Exact):
        return Exact(envelope.written)
    return Bounds(result.lo, result.hi, envelope.written)


# --- arithmetic --------------------------------------------------------------------------------------------------


def _operand(x: Any, fmt: Format, known: Known) -> Pair | None:
    """Bounds of a tensor or number as the operation reads it; None where its conversion is not simple."""
    if isinstance(x, torch.Tensor):
        if x.is_floating_point():
            if x.dtype == torch.float64 and fmt != FP64:
                return None
            return known_pair(x, known)
        if x.is_complex():
            return None
        lo, hi = (end.astype(np.float64) for end in known_pair(x, known))
        if lo.size and max(np.abs(lo).max(), np.abs(hi).max()) > 2.0**fmt.p:
            return None
        return (lo, lo) if np.array_equal(lo, hi) else (lo, hi)
    if not isinstance(x, (int, float)):
        return None
    exact = np.array(float(x))
    if fmt == FP64:
        return exact, exact
    near = exact.astype(np.float32).astype(np.float64)
    return (exact, exact) if near == exact else (np.minimum(exact, near), np.maximum(exact, near))


def _same_rank(a: Pair, b: Pair) -> tuple[Pair, Pair]:
    rank = max(a[0].ndim, b[0].ndim)

    def grown(p: Pair) -> Pair:
        lo = p[0].reshape((1,) * (rank - p[0].ndim) + p[0].shape)
        return (lo, lo) if p[0] is p[1] else (lo, p[1].reshape(lo.shape))

    return grown(a), grown(b)


def _binary(
    function: Callable[..., Pair], op: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], known: Known
) -> Bounds | None:
    if len(args) < 2 or args[2:] or set(kwargs) - {"out", "alpha"} or kwargs.get("alpha", 1) != 1:
        return None
    fmt = FORMAT_OF.get(torch.result_type(args[0], args[1]))
    if fmt is None:
        return None
    a, b = (_operand(x, fmt, known) for x in args)
    if a is None or b is None:
        return None
    return Bounds(*function(*_same_rank(a, b), fmt, host_profile()))


def _rsub(op: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], known: Known) -> Bounds | None:
    return _binary(arithmetic.sub, op, (args[1], args[0], *args[2:]), kwargs, known)


def _reciprocal(op: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], known: Known) -> Bounds | None:
    return _binary(_division, op, (1.0, args[0]), {}, known)


def _neg(op: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], known: Known) -> Bounds:
    return Bounds(*arithmetic.neg(known_pair(args[0], known)))


def _abs(op: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], known: Known) -> Bounds:
    return Bounds(*arithmetic.abs_(known_pair(args[0], known)))


def _sum(op: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], known: Known, mean: bool = False) -> Bounds | None:
    """Sum or mean over axes, in any order."""
    from interval_ops.reduction.rule import sum_axis

    x = args[0]
    dtype = kwargs.get("dtype") or x.dtype
    fmt, source = FORMAT_OF.get(dtype), FORMAT_OF.get(x.dtype)
    if fmt is None or source is None or not casting.holds(fmt, source):
        return None
    given = args[1] if len(args) > 1 else kwargs.get("dim")
    given = [given] if isinstance(given, int) else given
    axes = [d % x.ndim for d in given] if given else list(range(x.ndim))
    keep = bool(args[2] if len(args) > 2 else kwargs.get("keepdim", False))
    rest = [d for d in range(x.ndim) if d not in axes]
    shape = [x.shape[d] for d in rest]
    lo, hi = known_pair(x, known)
    low = lo.transpose(rest + axes).reshape([*shape, -1])
    high = low if hi is lo else hi.transpose(rest + axes).reshape([*shape, -1])
    # Halves are summed in float32 and rounded once.
    inner = fmt if fmt.bits >= 32 else FP32
    low, high = sum_axis((low, high), len(rest), low.shape, inner, host_profile())
    if mean:
        n = np.full((1,) * low.ndim, float(x.numel() // max(1, int(np.prod(shape)))))
        low, high = arithmetic.div((low, high), (n, n), inner, host_profile(), "div_rn")
    if inner != fmt:
        low, high = casting.cast_interval(low, high, inner, fmt, host_profile())
    if keep:
        full = [1 if d in axes else x.shape[d] for d in range(x.ndim)]
        low, high = low.reshape(full), high.reshape(full)
    return Bounds(low, high)


def _division(a: Pair, b: Pair, fmt: Format, profile: Profile) -> Pair:
    # float16 and bfloat16 divide in float32 and round once more; `div` encloses both.
    return arithmetic.div(a, b, fmt, profile, "div_rn")


def _spellings(*names: str) -> list[str]:
    return [f"aten::{name}{suffix}" for name in names for suffix in ("", "_")]


ROUNDS: dict[str, str] = {
    "aten::_to_copy": "cast",
    "aten::copy_": "cast",
    **dict.fromkeys(_spellings("add", "sub", "mul", "rsub"), "arith"),
    **dict.fromkeys(_spellings("div", "reciprocal"), "function"),
    **dict.fromkeys(_spellings("sum", "mean"), "accumulation"),
}
"""Cause of the rounding of every operation below that rounds."""

ON_INTEGERS = {
    f"aten::{name}"
    for name in (
        "clone", "cat", "stack", "flip", "roll", "rot90", "repeat", "tril", "triu", "_unsafe_view", "_to_copy", "copy_",
        "add", "sub", "mul", "div",
    )
}  # fmt: skip
"""Operations whose rule takes integers that are open; any other has no rule for them. None of these indexes by them."""

RULES: dict[str, Rule] = {
    **dict.fromkeys(MOVES, moved),
    **dict.fromkeys(MONOTONE, applied_to_ends),
    "aten::_to_copy": _to_copy,
    "aten::copy_": _copy_,
    "aten::neg": _neg,
    "aten::neg_": _neg,
    "aten::abs": _abs,
    "aten::abs_": _abs,
    "aten::rsub": _rsub,
    "aten::reciprocal": _reciprocal,
    "aten::sum": _sum,
    "aten::mean": partial(_sum, mean=True),
    **{
        f"aten::{name}{suffix}": partial(_binary, function)
        for name, function in (
            ("add", arithmetic.add), ("sub", arithmetic.sub), ("mul", arithmetic.mul), ("div", _division),
        )
        for suffix in ("", "_")
    },
}  # fmt: skip
"""Rules by operation; an operation that is not here taints its results."""
