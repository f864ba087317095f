"""Kernel arguments: binds a call to the kernel's signature and turns each value into what the kernel body sees."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl
from triton.language import core

from interval_ops.formats.casting import round_value
from render.interpreter.context import Context
from render.interpreter.handle import Handle
from render.interpreter.types import INT_DTYPES, float_format, tl_dtype, triton_name

Register = Callable[[Any, str], Any]


def bind(kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """(arguments by parameter name, launch options); TypeError as Python's own if the call does not fit."""
    names = set(kernel.arg_names)
    options = {k: v for k, v in kwargs.items() if k not in names}
    named = {k: v for k, v in kwargs.items() if k in names}
    bound = inspect.signature(kernel.fn).bind(*args, **named)
    bound.apply_defaults()
    return dict(bound.arguments), options


def constexpr_names(kernel: Any) -> set[str]:
    """Parameters annotated constexpr, also by a string or under postponed annotations."""
    out = {p.name for p in kernel.params if p.is_constexpr}
    for name, annotation in getattr(kernel.fn, "__annotations__", {}).items():
        if "constexpr" in (annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")):
            out.add(name)
    return out


def grid_of(grid: Any, arguments: dict[str, Any]) -> tuple[int, int, int]:
    """Grid extents as three ints; `grid` may be a tuple, a list, an int or a function of the arguments."""
    shape = grid(arguments) if callable(grid) else grid
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    if not 1 <= len(shape) <= 3:
        raise ValueError(f"a grid has 1 to 3 dimensions, not {len(shape)}")
    extents = [int(n) for n in shape] + [1] * (3 - len(shape))
    if any(n < 0 for n in extents):
        raise ValueError(f"a grid cannot have a negative extent: {tuple(shape)}")
    return (extents[0], extents[1], extents[2])


class Converter:
    """Turns host values into tensors of the kernel's language."""

    def __init__(self, ctx: Context, register: Register, make_descriptor: Callable[..., Any]) -> None:
        self.ctx = ctx
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
        if not self.ctx.interval or float(v[0]) == value or not np.isfinite(value):
            return core.tensor(Handle(v, tl.float32, ()), tl.float32)
        wide = v.astype(np.float64)
        bounds = (np.minimum(exact, wide), np.maximum(exact, wide))
        return core.tensor(Handle(v, tl.float32, (), *bounds), tl.float32)

    def _pointer(self, name: str, value: Any) -> Any:
        base = getattr(value, "base", value) if type(value).__name__ == "TensorWrapper" else value
        storage = self.register(base, name)
        ty = core.pointer_type(tl_dtype(triton_name(value.dtype)))
        return core.tensor(Handle(np.array([value.data_ptr()], np.int64), ty, (), origin=storage), ty)

    def _descriptor(self, name: str, d: Any) -> Any:
        strides = [self._integer(int(s)) for s in d.strides[:-1]] + [1]
        shape = [self._integer(int(s)) for s in d.shape]
        padding = getattr(d, "padding", "zero")
        base = self._pointer(name, d.base)
        return self.make_descriptor(base, shape, strides, [int(b) for b in d.block_shape], padding_option=padding)
