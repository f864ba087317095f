"""Block pointers (`tl.make_block_ptr`), on every Triton version: a box of a strided tensor that loads and stores move.

Triton 3.9 removed them from the language; kernels in the field still use them, so the tool carries its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import triton.language as tl
from triton.language import core

from render.interpreter.handle import Handle, taint_of
from render.interpreter.types import carrier


class BlockPointer:
    """Base tensor with shape, strides and offsets (scalars, in elements) and the static shape of the box."""

    def __init__(
        self, base: Any, shape: Sequence[Any], strides: Sequence[Any], offsets: Sequence[Any], box: Any
    ) -> None:
        self.base = base
        self.extents = list(shape)
        self.strides = list(strides)
        self.offsets = list(offsets)
        self.box = tuple(box)

    @property
    def element_ty(self) -> Any:
        return self.base.dtype.element_ty

    @property
    def type(self) -> Any:
        return core.pointer_type(core.block_type(self.element_ty, list(self.box)))

    @property
    def dtype(self) -> Any:
        return self.type


class BlockPointers:
    """The language functions on block pointers, bound to one launch's semantic layer."""

    def __init__(self, semantic: Any) -> None:
        self.semantic = semantic
        self.builder = semantic.builder

    def _scalars(self, values: Sequence[Any]) -> list[Handle]:
        return [self.semantic.to_tensor(core._unwrap_if_constexpr(v)).handle for v in values]

    def make(
        self, base: Any, shape: Any, strides: Any, offsets: Any, block_shape: Any, order: Any = None, **_: Any
    ) -> BlockPointer:
        box = [int(core._unwrap_if_constexpr(b)) for b in block_shape]
        return BlockPointer(base, self._scalars(shape), self._scalars(strides), self._scalars(offsets), box)

    def advance(self, base: Any, offsets: Any, **_: Any) -> BlockPointer:
        if not isinstance(base, BlockPointer):
            raise ValueError("advance takes a block pointer")
        moved = [
            self.builder.create_add(*self._aligned(old, step))
            for old, step in zip(base.offsets, self._scalars(offsets), strict=True)
        ]
        return BlockPointer(base.base, base.extents, base.strides, moved, base.box)

    def _aligned(self, x: Handle, y: Handle) -> tuple[Handle, Handle]:
        if x.dtype == y.dtype:
            return x, y
        return self.builder.create_int_cast(x, tl.int64), self.builder.create_int_cast(y, tl.int64)

    def _lanes(self, p: BlockPointer, checked: Sequence[int]) -> tuple[Any, Any]:
        """Pointer block and bounds mask (None if no axis is checked), as tensors."""
        rank = len(p.box)
        width = max(1, p.element_ty.primitive_bitwidth // 8)
        address = p.base.handle.v.reshape(-1, *(1,) * rank)
        inside: Any = None
        for dim in range(rank):
            along = [p.box[d] if d == dim else 1 for d in range(rank)]
            lanes = np.arange(p.box[dim], dtype=np.int64).reshape(1, *along)
            at = p.offsets[dim].v.astype(np.int64).reshape(-1, *(1,) * rank) + lanes
            address = address + at * p.strides[dim].v.astype(np.int64).reshape(-1, *(1,) * rank) * width
            if dim in checked:
                extent = p.extents[dim].v.astype(np.int64).reshape(-1, *(1,) * rank)
                within = (at >= 0) & (at < extent)
                inside = within if inside is None else inside & within
        taint = taint_of(p.base.handle, *p.offsets, *p.strides, *p.extents)
        ptr_ty = core.block_type(p.base.dtype, list(p.box))
        ptr = core.tensor(Handle(address, p.base.dtype, p.box, taint=taint, origin=p.base.handle.origin), ptr_ty)
        if inside is None:
            return ptr, None
        mask = Handle(inside, tl.int1, p.box, taint=taint)
        self.builder.emit("inside", (*p.offsets, *p.extents), (mask,), {})
        return ptr, core.tensor(mask, core.block_type(tl.int1, list(p.box)))

    def load(self, p: BlockPointer, boundary_check: Any = (), padding_option: Any = "") -> Any:
        checked = [int(core._unwrap_if_constexpr(d)) for d in core._unwrap_if_constexpr(boundary_check) or ()]
        ptr, mask = self._lanes(p, checked)
        fill = np.nan if core._unwrap_if_constexpr(padding_option) == "nan" else 0
        other = Handle(np.full((1,) * (len(p.box) + 1), fill, carrier(p.element_ty)), p.element_ty, p.box)
        handle = self.builder._load(ptr.handle, None if mask is None else mask.handle, None if mask is None else other)
        return core.tensor(handle, core.block_type(p.element_ty, list(p.box)))

    def store(self, p: BlockPointer, value: Any, boundary_check: Any = ()) -> None:
        checked = [int(core._unwrap_if_constexpr(d)) for d in core._unwrap_if_constexpr(boundary_check) or ()]
        ptr, mask = self._lanes(p, checked)
        value = self.semantic.to_tensor(value)
        value = self.semantic.cast(self.semantic.broadcast_impl_shape(value, list(p.box)), p.element_ty)
        self.builder._store(ptr.handle, value.handle, None if mask is None else mask.handle)
