"""One host operation as its rule sees it: arguments by name, bounds of operands, and the errors that torch may make."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from copy import copy
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any

import numpy as np
import torch

from interval_ops.bounds import Pair, each, is_point
from interval_ops.formats import casting
from interval_ops.formats.model import FP32, FP64, Format, Overflow
from interval_ops.profiles.profile import FnError, MissingRule, Profile, load_profile
from render.interpreter.memory import Envelope
from render.interpreter.memory.integers import INTEGERS
from render.interpreter.memory.symbols import marked
from render.ops.aten import ATEN, base_name, named, scalar_arguments
from render.ops.dtypes import BEYOND, FORMAT_OF
from render.ops.nested import leaves_of, mapped

Known = Mapping[int, Envelope]
EXACT = 2.0**52
"""Integers up to here pass through float64 unchanged."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds of a result, in its shape or one that broadcasts to it."""

    lo: np.ndarray
    hi: np.ndarray

    @property
    def pair(self) -> Pair:
        return self.lo, self.hi


@dataclass(frozen=True, slots=True)
class Exact:
    """The result is an exact point everywhere."""


@dataclass(frozen=True, slots=True)
class Missing:
    """No rule, and why; the operation's own steps are no way either."""

    why: str


Found = Bounds | Exact | Missing | None
"""Of one result; None: there is no rule for these arguments."""
Result = Found | tuple[Found, ...]
Rule = Callable[["Call"], Result]
"""Runs before the operation, so that one in place still sees its old operand. The caller joins the values that torch
really returned, so a rule needs to enclose the exact result and other legal roundings only."""


class Call:
    """`known`: envelopes by the id of a tensor among the arguments; `device`: the target's profile.

    `evaluated`: numbers within the bounds of the first operand and the operation on them in float64, where somebody has
    them.
    """

    evaluated: tuple[np.ndarray, np.ndarray] | None = None

    def __init__(
        self, op: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], known: Known, device: Profile | None = None
    ) -> None:
        self.op, self.args, self.kwargs, self.known = op, args, kwargs, known
        self.device = device or load_profile("any")
        self._named: dict[str, Any] | None = None

    @property
    def named(self) -> dict[str, Any]:
        """Arguments by the names of the operation's schema, defaults included."""
        if self._named is None:
            self._named = named(self.op._schema, self.args, self.kwargs)
        return self._named

    def get(self, name: str, default: Any = None) -> Any:
        return self.named.get(name, default)

    @property
    def x(self) -> torch.Tensor:
        """The first argument."""
        found: torch.Tensor = self.args[0]
        return found

    @property
    def profile(self) -> Profile:
        if self.device.library:
            return self.device.mute(*_MUTED.get())
        return host_profile(self.device.name.startswith("gfx"))

    def pair(self, x: torch.Tensor) -> Pair:
        return known_pair(x, self.known)

    def format(self, *operands: Any) -> Format | None:
        """Of the result of an elementwise operation; None for other types than floats."""
        dtype: torch.dtype | None = None
        for x in operands:
            if isinstance(x, torch.Tensor):
                dtype = x.dtype if dtype is None else torch.result_type(torch.empty(0, dtype=dtype), x)
        if len(operands) == 2 and all(isinstance(x, (int, float, torch.Tensor)) for x in operands):
            dtype = torch.result_type(*operands)
        if dtype in INTEGERS and self._real:
            dtype = torch.get_default_dtype()
        return None if dtype is None else FORMAT_OF.get(dtype)

    @property
    def _real(self) -> bool:
        """Whether integers come out as floats."""
        from render.interpreter.hosted.table import OF_INTEGERS

        return base_name(self.op._schema.name) in OF_INTEGERS and self.kwargs.get("rounding_mode") is None

    def operand(self, x: Any, fmt: Format) -> Pair | None:
        """Bounds of a tensor or number as an operation in `fmt` reads it; None where its conversion is not simple."""
        if isinstance(x, torch.Tensor):
            if x.is_floating_point():
                if x.dtype == torch.float64 and fmt != FP64 and x.dim():
                    return None
                lo, hi = self.pair(x)
                if x.dtype.itemsize == 8 > fmt.bits // 8:
                    lo, hi = casting.cast_interval(lo, hi, FP64, FP32, self.profile)
                return self._typed((lo, hi)) if not x.dim() and x.dtype.itemsize > 2 else (lo, hi)
            if x.is_complex():
                return None
            lo, hi = (end.astype(np.float64) for end in self.pair(x))
            if lo.size and max(np.abs(lo).max(), np.abs(hi).max()) > 2.0**fmt.p:
                return None
            return (lo, lo) if np.array_equal(lo, hi) else (lo, hi)
        return self._typed(number(x, fmt)) if isinstance(x, (int, float)) else None

    def _typed(self, pair: Pair) -> Pair:
        """A number as float32 holds it, and as the result's own type does where some kernel of torch rounds it so."""
        own = self.format(*self.args[:2])
        if own is None or own.bits >= 32 or base_name(self.op._schema.name) not in TYPED:
            return pair
        lo, hi = casting.cast_interval(*pair, FP32, own, self.profile)
        return np.minimum(lo, pair[0]), np.maximum(hi, pair[1])

    def operands(self, xs: Iterable[Any], fmt: Format) -> list[Pair] | None:
        """The bounds of all, with as many dimensions each."""
        found = [self.operand(x, fmt) for x in xs]
        return None if any(p is None for p in found) else same_rank([p for p in found if p is not None])

    def run(self, pick: Callable[[Any], Any], op: Any = None) -> Any:
        """The operation on operands that `pick` puts in the place of these."""
        kept = {k: v for k, v in self.kwargs.items() if k not in ("out", "memory_format", "dtype", "generator")}
        return (op or self.op._overloadpacket)(*mapped(pick, self.args), **mapped(pick, kept))

    def at(self, end: int) -> Callable[[Any], Any]:
        """For `run`: one end of every float (and of integers that are open) in float64."""

        def pick(t: Any) -> Any:
            if not isinstance(t, torch.Tensor) or not (t.is_floating_point() or self.is_open(t)):
                return t
            return torch.from_numpy(self._among(t)[end].astype(np.float64, copy=True))

        return pick

    def _among(self, t: torch.Tensor) -> Pair:
        """Bounds of an operand; one without dimensions takes the type of those that have some, if it is narrower."""
        pair = self.pair(t)
        if t.dim() or t.dtype not in (torch.float32, torch.float64) or self.profile.muted("cast"):
            return pair
        own = held_in(self.op, self.args, self.kwargs)
        if not narrower(own, t.dtype):
            return pair
        return casting.cast_interval(*pair, FORMAT_OF[t.dtype], FORMAT_OF[own], self.profile)

    def end(self, end: int) -> Any:
        """The operation on one end of every float, numbers among its arguments as the result's type holds them."""
        return self.with_numbers(lambda x: self.held(x)[end]).run(self.at(end))

    def held(self, x: float) -> Pair:
        """A number that the result's type takes in unchanged: as it is written, and as that type holds it."""
        dtype = held_in(self.op, self.args, self.kwargs)
        if dtype not in FORMAT_OF or self.profile.muted("cast"):
            return np.array(float(x)), np.array(float(x))
        x, near = float(x), stored(float(x), dtype)
        if not math.isfinite(near) or near == x:
            ends = x, x
        elif abs(x) >= BEYOND:
            ends = marked(x, near)
        else:
            ends = min(x, near), max(x, near)
        return np.array(ends[0]), np.array(ends[1])

    def with_numbers(self, change: Callable[[float], Any]) -> Call:
        """The same call with other numbers (`scalar_arguments`) in the place of these; whole ones of integers stay."""
        if self.args and isinstance(self.args[0], torch.Tensor) and not self.args[0].is_floating_point():
            return self
        args, kwargs = list(self.args), dict(self.kwargs)
        for place, name in _numbers_of(self.op):
            given = args[place] if place < len(args) else kwargs.get(name)
            if isinstance(given, (int, float)) and not isinstance(given, bool):
                if place < len(args):
                    args[place] = float(change(given))
                else:
                    kwargs[name] = float(change(given))
        found = copy(self)
        found.args, found.kwargs, found._named = tuple(args), kwargs, None
        return found

    def is_open(self, t: torch.Tensor) -> bool:
        """Integers that rounding leaves open; exact ones may be indices and stay what they are."""
        if t.dtype not in INTEGERS or id(t) not in self.known:
            return False
        lo, hi = self.pair(t)
        return not np.array_equal(lo, hi)


@cache
def _numbers_of(op: Any) -> tuple[tuple[int, str], ...]:
    return scalar_arguments(op._schema)


def held_in(op: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> torch.dtype:
    """The type of a result that takes in numbers: the one that is asked for, or that of operands with dimensions."""
    given: torch.dtype | None = kwargs.get("dtype")
    if given is not None:
        return given
    tensors = [x for x in args if isinstance(x, torch.Tensor)]
    floats = [x for x in tensors if x.is_floating_point()]
    first = next((x for x in (*floats, *tensors) if x.dim()), next(iter(floats or tensors), None))
    return torch.get_default_dtype() if first is None else first.dtype


@lru_cache(4096)
def stored(x: float, dtype: torch.dtype) -> float:
    """What torch makes of a number in a tensor of this type."""
    return float(torch.tensor(x, dtype=dtype).double())


def number(x: float, fmt: Format) -> Pair:
    """A Python number, and the nearest one of float32 where the operation may read that."""
    exact = np.array(float(x))
    if fmt == FP64:
        return exact, exact
    with np.errstate(over="ignore"):
        near = exact.astype(np.float32).astype(np.float64)
    return (exact, exact) if near == exact or near != near else (np.minimum(exact, near), np.maximum(exact, near))


TYPED = frozenset(name for name, op in ATEN.items() if op.typed)
_DTYPES = {fmt: dtype for dtype, fmt in FORMAT_OF.items()}


def typed_number(x: float, fmt: Format) -> Pair:
    """A number that some kernel of torch rounds to the operands' own type before it computes with it."""
    lo, hi = number(x, fmt)
    if fmt.bits >= 32:
        return lo, hi
    near = stored(float(x), _DTYPES[fmt])
    return np.minimum(lo, near), np.maximum(hi, near)


def number_pair(x: float) -> Pair:
    """A Python number as a kernel with arithmetic in float32 or float64 may hold it."""
    return number(x, FP32)


def same_rank(pairs: list[Pair]) -> list[Pair]:
    rank = max(p[0].ndim for p in pairs)

    def grown(p: Pair) -> Pair:
        shape = (1,) * (rank - p[0].ndim) + p[0].shape
        return each(p, lambda end: end.reshape(shape))

    return [grown(p) for p in pairs]


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


def inner_of(fmt: Format) -> Format:
    """What torch computes in: every narrower type in float32."""
    return fmt if fmt.bits >= 32 else FP32


def narrower(dtype: torch.dtype, than: torch.dtype) -> bool:
    """Whether some number of `than` is none of `dtype`; False where one of them holds no floats."""
    dst, src = FORMAT_OF.get(dtype), FORMAT_OF.get(than)
    return dst is not None and src is not None and not casting.holds(dst, src)


def rounding_of(dtype: torch.dtype) -> tuple[float, float]:
    """(u, half the least subnormal) of results of this type, of float32 for wider ones and for what holds no floats."""
    fmt = FORMAT_OF.get(dtype)
    fmt = FP32 if fmt is None or fmt.bits >= 32 else fmt
    return fmt.u, fmt.half_subnormal


def finished(pair: Pair, fmt: Format, profile: Profile) -> Bounds:
    """Bounds computed in `inner_of(fmt)`, rounded once more where `fmt` is narrower."""
    inner = inner_of(fmt)
    return Bounds(*pair) if inner == fmt else Bounds(*casting.cast_interval(*pair, inner, fmt, profile))


# --- the errors of torch ------------------------------------------------------------------------------------------

_MUTED: ContextVar[frozenset[str]] = ContextVar("muted", default=frozenset())


@contextmanager
def muted(causes: Iterable[str]) -> Iterator[None]:
    """A scope in which rules add no error of these causes."""
    token = _MUTED.set(frozenset(causes))
    try:
        yield
    finally:
        _MUTED.reset(token)


def host_profile(amd: bool = False) -> Profile:
    """torch on the host's device, less what is muted here.

    IEEE rounding of + - * / and casts (PyTorch is built without fast-math and without flush-to-zero), sums in any
    order, torch's own overflow of 8-bit floats. Functions: the larger error of PyTorch's CPU kernels (measured, profile
    torch-cpu) and of the device library that its GPU kernels call (documented, profile `any`, or gfx942 for AMD).
    """
    return _profile(_MUTED.get(), amd)


@cache
def _profile(without: frozenset[str], amd: bool) -> Profile:
    ieee, cpu, device = (load_profile(n) for n in ("ieee", "torch-cpu", "gfx942" if amd else "any"))
    functions = dict(ieee.functions)
    for name, error in cpu.functions.items():
        base, _, fmt = name.partition("@")
        # Device code of PyTorch calls the vendor's library, and has correct roots and quotients.
        keys = (f"libdevice_{base}", f"{base}_rn", base) if not fmt else (name,)
        other = next((device.functions[key] for key in keys if key in device.functions), error)
        functions[name] = FnError(
            max(error.r, other.r), max(error.a, 0.0 if other.ftz else other.a), source="torch-cpu and device library",
            huge=min(error.huge, other.huge),
        )  # fmt: skip
    functions["div"] = functions["div_rn"] = ieee.functions["div_rn"]
    functions["div@fp64"] = functions["div_rn@fp64"] = ieee.functions["div_rn@fp64"]
    modes = {f.name: _overflow_of(t) for t, f in FORMAT_OF.items() if f.bits == 8}
    overflow = {**ieee.cast_overflow, **modes}
    return replace(ieee, functions=functions, cast_overflow=overflow).mute(*without)


@cache
def _overflow_of(dtype: torch.dtype) -> Overflow:
    """What this build of torch makes of a value far past the largest: "inf", "nan" or "saturate"."""
    x = torch.tensor([1e30], dtype=torch.float32).to(dtype).float().item()
    return "nan" if x != x else "inf" if x == math.inf else "saturate"


@cache
def exact_profile() -> Profile:
    """No error at all but that of our own float64, which bounds always carry."""
    from interval_ops.profiles.profile import CAUSES

    return load_profile("ieee").mute(*CAUSES)


def each_result(result: Result) -> tuple[Found, ...]:
    return result if isinstance(result, tuple) else (result,)


def one_each(result: Result, shapes: Sequence[tuple[int, ...]]) -> tuple[Found, ...]:
    """What is known of each result; a rule knows the first ones, nothing of the others.

    Steps may end in something of another shape than the operation (weights where a kernel gives log-sums): not it.
    """
    if isinstance(result, (Exact, Missing)):
        return (result,) * len(shapes)
    found = each_result(result)[: len(shapes) + 1]
    found = (*found, *(None,) * (len(shapes) - len(found))) if len(found) <= len(shapes) else (None,) * len(shapes)
    return tuple(None if isinstance(f, Bounds) and not _fits(f.lo.shape, shape) else f
                 for f, shape in zip(found, shapes, strict=True))  # fmt: skip


def _fits(shape: tuple[int, ...], into: tuple[int, ...]) -> bool:
    """Whether an array broadcasts to a shape."""
    return len(shape) <= len(into) and all(a in (1, b) for a, b in zip(shape[::-1], into[::-1], strict=False))


@contextmanager
def quiet() -> Iterator[None]:
    """The target may have no figure for a function: then there is no rule."""
    with np.errstate(all="ignore"), suppress(MissingRule):
        yield


def open_integers(args: tuple[Any, ...], kwargs: dict[str, Any], known: Mapping[int, Envelope]) -> bool:
    """Whether an operand holds integers that rounding leaves open."""
    leaves = [t for t in leaves_of((args, kwargs)) if id(t) in known and t.dtype in INTEGERS]
    return any(is_wide(known[id(t)]) for t in leaves)


def is_wide(e: Envelope) -> bool:
    return not is_point((e.lo, e.hi)) and not np.array_equal(e.lo, e.hi)
