"""Triton's scalar types as the numpy dtypes and number formats that carry them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache

import numpy as np
import triton.language as tl

from interval_ops.formats.model import FORMATS, FP16, FP32, FP64, Format

INT_DTYPES = {
    "int1": np.bool_,
    "int8": np.int8,
    "int16": np.int16,
    "int32": np.int32,
    "int64": np.int64,
    "uint8": np.uint8,
    "uint16": np.uint16,
    "uint32": np.uint32,
    "uint64": np.uint64,
}

TORCH_TO_TRITON = {
    "torch.float64": "fp64",
    "torch.float32": "fp32",
    "torch.float16": "fp16",
    "torch.bfloat16": "bf16",
    "torch.float8_e5m2": "fp8e5",
    "torch.float8_e4m3fn": "fp8e4nv",
    "torch.float8_e4m3fnuz": "fp8e4b8",
    "torch.float8_e5m2fnuz": "fp8e5b16",
    "torch.bool": "int1",
    **{f"torch.{name}": name for name in INT_DTYPES if name != "int1"},
}


@dataclass(frozen=True, slots=True)
class ElemType:
    """How one element lies in memory: Triton's name, bytes, the numpy dtype of the raw bits, number format or None."""

    name: str
    itemsize: int
    storage: np.dtype
    fmt: Format | None


def _step(fmt: Format) -> Format:
    """The next wider format for arithmetic; scales and 4-bit data stay as they are."""
    if fmt.bits >= 32:
        return FP64
    return {16: FP32, 8: FP16}.get(fmt.bits, fmt) if fmt.p > 1 else fmt


LIFTED: dict[str, Format] = {name: _step(fmt) for name, fmt in FORMATS.items()}
"""Format one step wider, by Triton's name of the type."""

_formats: ContextVar[dict[str, Format]] = ContextVar("formats", default=FORMATS)


@contextmanager
def lifted_formats() -> Iterator[None]:
    """Inside, values are carried and rounded one format wider than their type says; memory keeps its layout."""
    token = _formats.set(LIFTED)
    try:
        yield
    finally:
        _formats.reset(token)


def format_of(ty: tl.dtype) -> Format | None:
    """Number format of a floating-point type, None for integers and pointers."""
    ty = ty.scalar
    return None if ty.is_ptr() else _formats.get().get(ty.name)


def format_name(ty: tl.dtype) -> str:
    """Name of the number format, "" for integers and pointers."""
    fmt = format_of(ty)
    return "" if fmt is None else fmt.name


def float_format(ty: tl.dtype) -> Format:
    """Number format of a type that must be a floating-point one; TypeError otherwise."""
    fmt = format_of(ty)
    if fmt is None:
        raise TypeError(f"{ty} is not a floating-point type")
    return fmt


def carrier(ty: tl.dtype) -> np.dtype:
    """numpy dtype of the value lane: float32 for every format but fp64, int64 for pointers, ints natively."""
    ty = ty.scalar
    if ty.is_ptr():
        return np.dtype(np.int64)
    if ty.name in INT_DTYPES:
        return np.dtype(INT_DTYPES[ty.name])
    fmt = _formats.get().get(ty.name)
    return np.dtype(np.float64 if fmt is not None and fmt.p >= 53 else np.float32)


@cache
def elem_by_name(name: str) -> ElemType:
    if name == "ptr":
        return ElemType("ptr", 8, np.dtype(np.int64), None)
    if name in INT_DTYPES:
        dtype = np.dtype(np.uint8 if name == "int1" else INT_DTYPES[name])
        return ElemType(name, dtype.itemsize, dtype, None)
    fmt = FORMATS[name]
    size = fmt.bits // 8
    return ElemType(name, size, np.dtype(f"u{size}"), fmt)


def elem_of(ty: tl.dtype) -> ElemType:
    """Memory layout of the pointee type `ty`."""
    return elem_by_name("ptr" if ty.is_ptr() else ty.name)


_DTYPES = {ty.name: ty for ty in vars(tl).values() if type(ty) is tl.dtype}


def tl_dtype(name: str) -> tl.dtype:
    """The language's own object of this name: kernels ask `dtype is tl.float32`, and the compiler says yes."""
    return _DTYPES[name]


def triton_name(torch_dtype: object) -> str:
    """Triton's name of a dtype: torch's, Triton's own (`triton.reinterpret`) or a name of either; TypeError if none."""
    if isinstance(torch_dtype, tl.dtype):
        found: str = torch_dtype.name
        return found
    short = str(torch_dtype).rsplit(".", 1)[-1]
    name = short if short in TORCH_TO_TRITON.values() else TORCH_TO_TRITON.get(f"torch.{short}")
    if name is None:
        raise TypeError(f"tensors of {torch_dtype} cannot be passed to a kernel")
    return name
