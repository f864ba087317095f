"""Tensor descriptors: bounds-checked boxes of memory, turned into masked pointer blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import triton.language as tl

from render.interpreter.builder.base import Base
from render.interpreter.handle import Handle, taint_of
from render.interpreter.types import carrier


class DescriptorHandle:
    """Base pointer, extents and strides (in elements) of a tensor, and the box that one access moves."""

    def __init__(self, base: Handle, shape: list[Handle], strides: list[Handle], box: list[int], nan: bool) -> None:
        self.base = base
        self.shape = shape
        self.strides = strides
        self.box = box
        self.nan = nan

    def set_attr(self, key: str, value: object) -> None:
        """Hints do not change a value."""


def _column(h: Handle, rank: int) -> np.ndarray:
    """A scalar handle as an int64 array that broadcasts against (B, *box)."""
    return h.v.astype(np.int64).reshape(h.v.shape[0], *(1,) * rank)


class Descriptors(Base):
    def create_make_tensor_descriptor(
        self, base: Handle, shape: list[Handle], strides: list[Handle], box: list[int], *rest: Any
    ) -> DescriptorHandle:
        nan = any("NAN" in str(r) for r in rest)
        return DescriptorHandle(base, shape, strides, [int(getattr(b, "value", b)) for b in box], nan)

    def _pointers(
        self, desc: DescriptorHandle, offsets: list[np.ndarray], box: tuple[int, ...]
    ) -> tuple[Handle, Handle]:
        """Addresses and bounds mask of a box; `offsets` are int64 arrays that broadcast to (B, *box)."""
        rank = len(box)
        pointee = desc.base.dtype.scalar.element_ty
        width = max(1, pointee.primitive_bitwidth // 8)
        address = desc.base.v.reshape(-1, *(1,) * rank)
        inside: Any = np.ones((1,) * (rank + 1), bool)
        for offset, extent, stride in zip(offsets, desc.shape, desc.strides, strict=True):
            address = address + offset * _column(stride, rank) * width
            inside = inside & (offset >= 0) & (offset < _column(extent, rank))
        taint = taint_of(desc.base, *desc.shape, *desc.strides)
        ptr = Handle(address, desc.base.dtype, box, taint=taint, origin=desc.base.origin)
        return ptr, Handle(inside, tl.int1, box, taint=taint)

    def _box(self, desc: DescriptorHandle, offsets: list[Handle]) -> tuple[Handle, Handle]:
        rank = len(desc.box)
        at = []
        for dim, (offset, extent) in enumerate(zip(offsets, desc.box, strict=True)):
            lanes = np.arange(extent, dtype=np.int64).reshape(1, *(extent if d == dim else 1 for d in range(rank)))
            at.append(_column(offset, rank) + lanes)
        ptr, mask = self._pointers(desc, at, tuple(desc.box))
        ptr.taint = ptr.taint | taint_of(*offsets)
        self.emit("inside", (*offsets, *desc.shape), (mask,), {})
        return ptr, mask

    def _padding(self, desc: DescriptorHandle, box: tuple[int, ...]) -> Handle:
        pointee = desc.base.dtype.scalar.element_ty
        fill = np.nan if desc.nan else 0
        return Handle(np.full((1,) * (len(box) + 1), fill, carrier(pointee)), pointee, box)

    def create_descriptor_load(self, desc: DescriptorHandle, offsets: list[Handle], *policy: Any) -> Handle:
        ptr, mask = self._box(desc, offsets)
        found: Handle = self._load(ptr, mask, self._padding(desc, ptr.shape))  # type: ignore[attr-defined]
        return found

    def create_descriptor_store(
        self, desc: DescriptorHandle, value: Handle, offsets: list[Handle], *policy: Any
    ) -> None:
        ptr, mask = self._box(desc, offsets)
        self._store(ptr, value, mask)  # type: ignore[attr-defined]

    def create_descriptor_reduce(self, kind: Any, desc: DescriptorHandle, value: Handle, offsets: list[Handle]) -> None:
        name = str(kind).rsplit(".", 1)[-1].lower()
        ptr, mask = self._box(desc, offsets)
        self._atomic(name, ptr, value, None, mask)  # type: ignore[attr-defined]

    def _rows(self, desc: DescriptorHandle, rows: Handle, column: Handle) -> tuple[Handle, Handle]:
        count, width = rows.shape[0], desc.box[1]
        at = [
            np.broadcast_to(rows.v, (rows.v.shape[0], count)).astype(np.int64)[:, :, None],
            _column(column, 2) + np.arange(width, dtype=np.int64)[None, None, :],
        ]
        ptr, mask = self._pointers(desc, at, (count, width))
        ptr.taint = ptr.taint | taint_of(rows, column)
        self.emit("inside", (rows, column, *desc.shape), (mask,), {})
        return ptr, mask

    def create_descriptor_gather(self, desc: DescriptorHandle, rows: Handle, column: Handle, ty: Any) -> Handle:
        ptr, mask = self._rows(desc, rows, column)
        found: Handle = self._load(ptr, mask, self._padding(desc, ptr.shape))  # type: ignore[attr-defined]
        return found

    def create_descriptor_scatter(self, desc: DescriptorHandle, value: Handle, rows: Handle, column: Handle) -> None:
        ptr, mask = self._rows(desc, rows, column)
        self._store(ptr, value, mask)  # type: ignore[attr-defined]
