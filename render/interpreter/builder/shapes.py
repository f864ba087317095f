"""Operations that only move data: exact for values and bounds alike."""

from __future__ import annotations

from typing import Any

import numpy as np

from render.interpreter import open_integers as opened
from render.interpreter.builder import related
from render.interpreter.builder.base import Base
from render.interpreter.handle import Handle, taint_of
from render.interpreter.memo import shape_of
from render.interpreter.types import format_of


def _ints(shape: Any) -> tuple[int, ...]:
    return tuple(int(getattr(s, "value", s)) for s in shape)


def stack_handles(parts: list[Handle], merge: Any, shape: tuple[int, ...]) -> Handle:
    """Several handles merged into one by `merge(list of arrays)`; all become (B, *block) first."""
    batch = max(p.v.shape[0] for p in parts)

    def whole(p: Handle, a: np.ndarray) -> np.ndarray:
        return np.broadcast_to(a, (batch, *p.shape))

    v = merge([whole(p, p.v) for p in parts])
    taint = taint_of(*parts)
    if any(p.open is not None for p in parts):
        between = tuple(merge([whole(p, opened.ends(p)[side]) for p in parts]) for side in (0, 1))
        every = [opened.choices(p) for p in parts]
        most = 0 if None in every else max(len(c) for c in every if c is not None)
        among = [merge([whole(p, c[min(k, len(c) - 1)]) for p, c in zip(parts, every, strict=True) if c is not None])
                 for k in range(most)] or None  # fmt: skip
        return opened.integer(v, parts[0].dtype, shape, between, opened.hard(*parts), opened.soft(*parts), among)  # type: ignore[arg-type]
    if all(p.is_point for p in parts):
        return Handle(v, parts[0].dtype, shape, taint=taint)
    lo = merge([whole(p, p.pair[0]) for p in parts])
    hi = merge([whole(p, p.pair[1]) for p in parts])
    if lo.dtype != np.bool_:
        lo, hi = lo.astype(np.float64), hi.astype(np.float64)
    return Handle(v, parts[0].dtype, shape, lo, hi, taint)


class Shapes(Base):
    def create_splat(self, ty: Any, x: Handle) -> Handle:
        shape = shape_of(ty)
        self.ctx.expect(shape)
        ones = (1,) * len(shape)
        return x.map(lambda a: a.reshape(a.shape[0], *ones), shape)

    def create_unsplat(self, x: Handle) -> Handle:
        return x.map(lambda a: a.reshape(a.shape[0]), ())

    def create_broadcast(self, x: Handle, shape: Any) -> Handle:
        shape = _ints(shape)
        self.ctx.expect(shape)
        return x.map(lambda a: a, shape) if x.pend is None else self._broadcast_pending(x, shape)

    def _broadcast_pending(self, x: Handle, shape: tuple[int, ...]) -> Handle:
        if x.shape == shape:
            return x
        return x.map(lambda a: a, shape)

    def create_expand_dims(self, x: Handle, axis: int) -> Handle:
        shape = list(x.shape)
        shape.insert(axis, 1)
        return x.map(lambda a: np.expand_dims(a, axis + 1), tuple(shape))

    def create_reshape(self, x: Handle, shape: Any, can_reorder: bool = False) -> Handle:
        new = _ints(shape)
        self.ctx.unordered.exchanged()
        out = x.map(lambda a: x.full(a).reshape(a.shape[0], *new), new)
        if len(new) == 1:
            related.flattened(x, out)
        return out

    def create_trans(self, x: Handle, order: Any) -> Handle:
        axes = _ints(order)
        self.ctx.unordered.exchanged()
        return x.map(lambda a: a.transpose(0, *(o + 1 for o in axes)), tuple(x.shape[o] for o in axes))

    def create_join(self, x: Handle, y: Handle) -> Handle:
        return stack_handles([x, y], lambda arrays: np.stack(arrays, axis=-1), (*x.shape, 2))

    def create_split(self, x: Handle) -> tuple[Handle, Handle]:
        half = x.shape[:-1]
        return (
            x.map(lambda a: a[..., 0], half),
            x.map(lambda a: a[..., -1], half),
        )

    def create_cat(self, x: Handle, y: Handle) -> Handle:
        return stack_handles([x, y], lambda arrays: np.concatenate(arrays, axis=1), (x.shape[0] + y.shape[0],))

    def create_gather(self, src: Handle, index: Handle, axis: int) -> Handle:
        if index.open is not None and (out := self._gather_among(src, index, axis)) is not None:
            return out
        self.ctx.unordered.exchanged()
        at = axis + 1
        batch = max(src.v.shape[0], index.v.shape[0])
        where = np.broadcast_to(index.v, (batch, *index.shape))
        taint = taint_of(src, index)
        extent = src.shape[axis]
        if where.size and (where.min() < 0 or where.max() >= extent):
            taint = taint | self.ctx.taint("RND302", "gather", f"an index lies outside the axis of {extent} elements")
            where = np.clip(where, 0, extent - 1)

        def move(a: np.ndarray) -> np.ndarray:
            return np.take_along_axis(np.broadcast_to(a, (batch, *src.shape)), where.astype(np.int64), at)

        out = src.map(move, index.shape)
        if taint != out.taint:
            out.taint, out.open = taint, None
        return out

    def _gather_among(self, src: Handle, index: Handle, axis: int) -> Handle | None:
        """From each place that the index may be; the hull. None where it has too many."""
        among = opened.choices(index)
        if among is None:
            return None
        found = [self.create_gather(src, Handle(at, index.dtype, index.shape), axis) for at in (index.v, *among)]
        first, rest = found[0], found[1:]
        taint = opened.hard(index).union(*(h.taint if src.open is None else opened.hard(h) for h in found))
        if format_of(src.dtype) is not None:
            if not self.ctx.interval:
                return Handle(first.v, src.dtype, index.shape, taint=taint)
            low, high = ([h.pair[side].astype(np.float64) for h in rest] for side in (0, 1))
            lo, hi = np.minimum.reduce(low), np.maximum.reduce(high)
            return Handle(first.v, src.dtype, index.shape, lo, hi, taint)
        if src.dtype.is_int1() or (every := [opened.choices(h) for h in rest]).count(None):
            return None
        flat = [a for c in every if c is not None for a in c]
        between = np.minimum.reduce(flat), np.maximum.reduce(flat)
        return opened.integer(first.v, src.dtype, index.shape, between, taint, opened.soft(index, *found), flat)
