"""`tl.map_elementwise`: the scalar function runs with every element as a program of its own.

Elements that take the same branches run together; where they part, the group is undone and split, as the grid does with
programs. The branch that an interval leaves open taints the results (RND303), as for any scalar condition.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from triton.language import core

from render.interpreter.control import Diverge
from render.interpreter.handle import Handle
from render.interpreter.statements import unwrap
from render.interpreter.types import carrier

Lanes = np.ndarray
Piece = tuple[Lanes, list[Handle]]


class Mapping:
    """Bound to one launch; `call` runs a jitted function on tensors."""

    def __init__(self, ctx: Any, semantic: Any, call: Callable[..., Any]) -> None:
        self.ctx = ctx
        self.semantic = semantic
        self.call = call

    def map_elementwise(self, scalar_fn: Any, *args: Any, pack: Any = 1, **_: Any) -> Any:
        if int(unwrap(pack)) != 1:
            # Which elements one call gets depends on the layout that the compiler picks.
            self.semantic.builder.unsupported("map_elementwise", "which elements pack > 1 groups is up to the compiler")
        tensors = [self.semantic.to_tensor(a) for a in args]
        tensors = list(self.semantic.broadcast_tensors(*tensors)) if len(tensors) > 1 else tensors
        shape = tensors[0].handle.shape
        batch = max(t.handle.v.shape[0] for t in tensors)
        flat = [self._flat(t.handle, batch) for t in tensors]
        single, pieces = self._run(scalar_fn, flat, [t.dtype for t in tensors], batch, int(np.prod(shape)))
        count = len(pieces[0][1])
        results = [self._tensor([(group, hs[k]) for group, hs in pieces], batch, shape) for k in range(count)]
        return results[0] if single else core.tuple(results)

    def _run(self, fn: Any, flat: list[Handle], types: list[Any], batch: int, size: int) -> tuple[bool, list[Piece]]:
        """Groups of lanes that agree on control flow, each with the results of `fn`; whether `fn` gives one tensor."""
        ctx = self.ctx
        if ctx.active is not None:
            raise Diverge(ctx.active)
        outer = ctx.pids, ctx.linear, ctx.control_taint
        program = np.repeat(np.arange(batch), size) if batch > 1 else np.zeros(size, int)
        todo, pieces, single = [np.arange(batch * size)], [], True
        try:
            while todo:
                group = todo.pop()
                mark, told = ctx.memory.mark(), self.semantic.builder.mark()
                ctx.pids, ctx.linear, ctx.control_taint = outer[0][program[group]], outer[1][program[group]], outer[2]
                ctx.active = None
                try:
                    args = [core.tensor(self._pick(h, group), ty) for h, ty in zip(flat, types, strict=True)]
                    got = self.call(fn, *args)
                except Diverge as split:
                    ctx.memory.undo_to(mark)
                    self.semantic.builder.undo_to(told)
                    todo.extend(group[split.values == value] for value in np.unique(split.values)[::-1])
                    continue
                single = isinstance(got, core.tensor)
                handles = [self.semantic.to_tensor(r).handle for r in ([got] if single else got)]
                for h in handles:
                    if ctx.control_taint:
                        h.taint, h.open = h.taint | ctx.control_taint, None
                pieces.append((group, handles))
        finally:
            ctx.pids, ctx.linear, ctx.control_taint = outer
            ctx.active = None
        return single, pieces

    def _flat(self, h: Handle, batch: int) -> Handle:
        """One lane per element of every program."""
        return self._moved("flat", h, lambda a: np.broadcast_to(a, (batch, *h.shape)).reshape(-1))

    def _pick(self, h: Handle, group: Lanes) -> Handle:
        return self._moved("pick", h, lambda a: a[group])

    def _moved(self, op: str, h: Handle, move: Callable[[np.ndarray], np.ndarray]) -> Handle:
        out = h.map(move, ())
        self.semantic.builder.emit(op, (h,), (out,), {"move": move})
        return out

    def _tensor(self, parts: list[tuple[Lanes, Handle]], batch: int, shape: tuple[int, ...]) -> Any:
        """One result, put together from the groups."""
        h = self._whole(parts, batch, shape)
        return core.tensor(h, core.block_type(h.dtype, list(shape)) if shape else h.dtype)

    def _whole(self, parts: list[tuple[Lanes, Handle]], batch: int, shape: tuple[int, ...]) -> Handle:
        ty = parts[0][1].dtype.scalar
        v = scatter([(group, h.v) for group, h in parts], batch, shape, carrier(ty))
        taint = frozenset().union(*(h.taint for _, h in parts))
        lo = hi = None
        if not all(h.is_point for _, h in parts):
            dtype = np.bool_ if ty.is_int1() else np.float64
            lo, hi = (scatter([(group, h.pair[end]) for group, h in parts], batch, shape, dtype) for end in (0, 1))
        out = Handle(v, ty, shape, lo, hi, taint)

        def move(*arrays: np.ndarray) -> np.ndarray:
            groups = [group for group, _ in parts]
            return scatter(list(zip(groups, arrays, strict=True)), batch, shape, np.int64)

        self.semantic.builder.emit("whole", [h for _, h in parts], (out,), {"move": move})
        return out


def scatter(parts: list[tuple[Lanes, np.ndarray]], batch: int, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """The lanes of every group at their places."""
    out = np.empty(batch * int(np.prod(shape)), dtype)
    for group, a in parts:
        out[group] = a.reshape(-1)
    return out.reshape(batch, *shape)
