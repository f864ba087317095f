"""Kernel arguments: binds a call to the kernel's signature and turns each value into what the kernel body sees."""

from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
import triton.language as tl
from triton.language import core

from interval_ops.formats import casting
from interval_ops.formats.casting import round_value
from interval_ops.formats.model import FP32, FP64
from render.interpreter.context import Context
from render.interpreter.contract import check_arguments, check_options, option_names
from render.interpreter.handle import Handle
from render.interpreter.hosted.numbers import Ends
from render.interpreter.types import INT_DTYPES, float_format, tl_dtype, triton_name

Register = Callable[[Any, str], Any]
_address = torch._C.TensorBase.data_ptr


@dataclass(frozen=True)
class KernelCall:
    """One call of a kernel: its arguments, bound as Python binds them and with defaults, and the launch options."""

    bound: inspect.BoundArguments
    options: dict[str, Any]
    plain: bool = False
    """Whether each parameter may be given by its position."""

    @property
    def arguments(self) -> dict[str, Any]:
        return dict(self.bound.arguments)

    def given(self, values: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """(positional, named) for the kernel's body, with `values` in place of what the host passed."""
        if self.plain:
            return tuple([values[name] for name in self.bound.signature.parameters]), {}
        converted = inspect.BoundArguments(self.bound.signature, OrderedDict(values))
        return converted.args, converted.kwargs


def bind(kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any], target: Any | None = None) -> KernelCall:
    """The call, refused as Triton refuses it; `target` is the one that it is compiled for, if one was named.

    A parameter that is called like an option (`num_warps`) is both.
    """
    names = kernel.signature.parameters.keys()
    bound = _bound(kernel, args, {k: v for k, v in kwargs.items() if k in names})
    options = {k: v for k, v in kwargs.items() if k not in names or k in option_names()}
    check_options(options, names, target)
    constant = constexpr_names(kernel)
    check_arguments([value for name, value in bound.arguments.items() if name not in constant])
    return KernelCall(bound, options, _parameters(kernel).plain)


def _bound(kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> inspect.BoundArguments:
    """`signature.bind` with defaults, `kwargs` being of its names; it is asked where not each is given just once."""
    signature, known = kernel.signature, _parameters(kernel)
    given = dict(zip(known.names, args, strict=False))
    each = len(given) == len(args) and given.keys().isdisjoint(kwargs) and known.needed <= given.keys() | kwargs.keys()
    if each and known.plain:
        return inspect.BoundArguments(signature, OrderedDict({**known.names, **given, **kwargs}))
    bound: inspect.BoundArguments = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    return bound


@dataclass(frozen=True)
class _Parameters:
    """What a kernel's signature says: its names in order, with defaults, those without one, whether all of them may be
    given by position or by name, and the constexpr ones."""

    signature: inspect.Signature
    names: dict[str, Any]
    needed: frozenset[str]
    plain: bool
    constant: frozenset[str]

    @classmethod
    def of(cls, kernel: Any) -> _Parameters:
        parameters = kernel.signature.parameters
        names = {name: p.default for name, p in parameters.items()}
        needed = frozenset(name for name, default in names.items() if default is inspect.Parameter.empty)
        plain = all(p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters.values())
        return cls(kernel.signature, names, needed, plain, frozenset(_constexpr_names(kernel)))


_known: WeakKeyDictionary[Any, _Parameters] = WeakKeyDictionary()


def _parameters(kernel: Any) -> _Parameters:
    found = _known.get(kernel.fn)
    if found is None or found.signature is not kernel.signature:
        found = _known[kernel.fn] = _Parameters.of(kernel)
    return found


def constant_value(value: Any) -> Any:
    """A constexpr argument as the plain value that it stands for, in tuples too."""
    if isinstance(value, core.constexpr):
        return constant_value(value.value)
    if isinstance(value, list):
        return [constant_value(v) for v in value]
    if isinstance(value, tuple) and type(value).__name__ != "dtype":
        parts = [constant_value(v) for v in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return value


def constexpr_names(kernel: Any) -> frozenset[str]:
    """Parameters annotated constexpr, also by a string or under postponed annotations."""
    return _parameters(kernel).constant


def _constexpr_names(kernel: Any) -> set[str]:
    out = {p.name for p in kernel.params if p.is_constexpr}
    for name, annotation in getattr(kernel.fn, "__annotations__", {}).items():
        if "constexpr" in (annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")):
            out.add(name)
    return out


def grid_of(grid: Any, arguments: dict[str, Any]) -> tuple[int, int, int]:
    """Grid extents as three ints; `grid` may be a tuple, a list, an int or a function of the arguments."""
    shape = grid(arguments) if callable(grid) else grid  # the user's call
    try:
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        extents = [int(n) for n in shape] + [1] * (3 - len(shape))
    except (TypeError, ValueError) as error:
        raise TypeError(f"a grid is an int, 1 to 3 ints, or a function of the arguments: {error}") from None
    if not 1 <= len(shape) <= 3:
        raise ValueError(f"a grid has 1 to 3 dimensions, not {len(shape)}")
    if any(n < 0 for n in extents):
        raise ValueError(f"a grid cannot have a negative extent: {tuple(shape)}")
    return (extents[0], extents[1], extents[2])


def warps_of(options: Mapping[str, Any]) -> int:
    """Warps of a program, 4 unless the launch says so."""
    told = options.get("num_warps", 4) or 4
    try:
        return int(told)
    except (TypeError, ValueError):
        raise TypeError(f"num_warps is an int, not {told!r}") from None


_MEMORY = ("base", "data", "tensor", "_tensor", "_data", "storage", "_base")
"""Where wrappers of tensors keep what they wrap."""


def tensor_behind(value: Any) -> torch.Tensor | None:
    """The torch tensor whose memory `value.data_ptr()` points at, where there is one; numpy-like memory counts."""
    if isinstance(value, torch.Tensor):
        return value
    address = int(value.data_ptr())
    for name in _MEMORY:
        inner = getattr(value, name, None)
        inner = tensor_behind(inner) if type(inner) is type(value) else inner
        if isinstance(inner, torch.Tensor) and _holds(inner, address):
            return inner
    if hasattr(value, "__array_interface__"):
        return torch.from_numpy(np.asarray(value).reshape(-1).view(np.uint8))
    return None


def _holds(tensor: torch.Tensor, address: int) -> bool:
    first = tensor.untyped_storage().data_ptr()
    return first <= address <= first + tensor.untyped_storage().nbytes()


@cache
def _pointer_to(dtype: torch.dtype) -> Any:
    return core.pointer_type(tl_dtype(triton_name(dtype)))


class Converter:
    """Turns host values into tensors of the kernel's language."""

    def __init__(
        self, ctx: Context, register: Register, make_descriptor: Callable[..., Any],
        ends: Callable[[float], Ends | None] = lambda value: None,
    ) -> None:  # fmt: skip
        """`ends`: bounds of a float that the host has from torch."""
        self.ctx, self.ends = ctx, ends
        self.find = ctx.memory.find
        self.register = register
        self.make_descriptor = make_descriptor

    def __call__(self, name: str, value: Any) -> Any:
        if isinstance(value, (core.constexpr, core.dtype, str)) or value is None:
            return value.value if isinstance(value, core.constexpr) else value
        if isinstance(value, (bool, np.bool_)):
            return self._scalar(np.array([bool(value)]), tl.int1)
        if isinstance(value, (int, np.integer)):
            return self._integer(int(value))
        if isinstance(value, (float, np.floating)):
            return self._float(float(value))
        if hasattr(value, "data_ptr"):
            return self._pointer(name, value)
        if isinstance(value, tuple):
            parts = [self(f"{name}[{i}]", v) for i, v in enumerate(value)]
            return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
        if type(value).__name__ == "TensorDescriptor":
            return self._descriptor(name, value)
        return value

    def _scalar(self, v: np.ndarray, ty: Any) -> Any:
        return core.tensor(Handle(v, ty, ()), ty)

    def _integer(self, value: int) -> Any:
        for name, low, high in (("int32", -(2**31), 2**31), ("int64", -(2**63), 2**63), ("uint64", 0, 2**64)):
            if low <= value < high:
                return self._scalar(np.array([value], INT_DTYPES[name]), tl_dtype(name))
        raise ValueError(f"integer argument {value} does not fit 64 bits")

    def _float(self, value: float) -> Any:
        """A Python float is an fp32 scalar; the real number that was passed stays inside its bounds."""
        exact = np.array([value])
        v = round_value(exact, float_format(tl.float32), "rtne", "inf")
        ends = self.ends(value)
        if self.ctx.interval and ends is not None:
            lo, hi = (np.array([end]) for end in (ends.lo, ends.hi))
            lo, hi = casting.cast_interval(lo, hi, FP64, FP32, self.ctx.profile)
            lo, hi = np.minimum(np.minimum(lo, ends.lo), v), np.maximum(np.maximum(hi, ends.hi), v)
            return core.tensor(Handle(v, tl.float32, (), lo, hi, taint=ends.taint), tl.float32)
        if not self.ctx.interval or float(v[0]) == value or not np.isfinite(value):
            return core.tensor(Handle(v, tl.float32, ()), tl.float32)
        wide = v.astype(np.float64)
        bounds = (np.minimum(exact, wide), np.maximum(exact, wide))
        return core.tensor(Handle(v, tl.float32, (), *bounds), tl.float32)

    def _pointer(self, name: str, value: Any) -> Any:
        """Anything with `data_ptr()` and `dtype` is a pointer, with or without a tensor behind it."""
        tensor: torch.Tensor | None
        if type(value) is torch.Tensor:
            ty, tensor, address = (
                _pointer_to(value.dtype),
                value,
                _address(value),
            )  # nobody takes it, as `data_ptr` says
        else:
            ty, tensor, address = None, tensor_behind(value), int(value.data_ptr())
        if tensor is not None and not address and tensor.untyped_storage().nbytes():  # on `meta`, or a fake one
            raise ValueError(f"Pointer argument {name} cannot be accessed from Triton (a tensor on {tensor.device}?)")
        storage = self.find(address) if tensor is None else self.register(tensor, name)
        ty = ty or core.pointer_type(tl_dtype(triton_name(value.dtype)))
        return core.tensor(Handle(np.array([address], np.int64), ty, (), origin=storage), ty)

    def _descriptor(self, name: str, d: Any) -> Any:
        strides = [self._integer(int(s)) for s in d.strides[:-1]] + [1]
        shape = [self._integer(int(s)) for s in d.shape]
        padding = getattr(d, "padding", "zero")
        base = self._pointer(name, d.base)
        return self.make_descriptor(base, shape, strides, [int(b) for b in d.block_shape], padding_option=padding)
