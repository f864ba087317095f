"""Reductions and scans of the adversary: the language's entry points with the adversary's orders."""

from __future__ import annotations

from typing import Any

import numpy as np

from interval_ops.formats.model import Format
from render.interpreter.handle import Handle
from render.interpreter.reduce import Reductions
from render.interpreter.types import format_of
from render.lab.adversary import numbers, summation
from render.lab.adversary.elementwise import ContractibleProduct
from render.lab.adversary.numbers import Array

_SORTED_LIMIT = 1 << 16
"""Sorting every lane costs more than adding; larger blocks take one order for all lanes."""


class FreeReductions(Reductions):
    """`tl.sum`, `tl.cumsum` and the like in a chosen order; maxima, integers and unknown combines as they are."""

    def _native(self, x: Handle, axis: int, kind: str) -> Handle:
        fmt = format_of(x.dtype)
        if fmt is None or kind not in ("sum", "prod"):
            return super()._native(x, axis, kind)
        builder: Any = self.semantic.builder
        orders = summation.TREES if self.ctx.profile.trees else summation.ORDERS
        order = builder.pick(f"{kind} order", *orders)
        shape = x.shape[:axis] + x.shape[axis + 1 :]
        chained = kind == "sum" and isinstance(x, ContractibleProduct) and order in ("forward", "backward", "shuffled")
        chained = chained and self.ctx.profile.contraction != "off"
        if chained and builder.pick("contract sum", "apart", "fused") == "fused":
            left, right = (_leading(x, f, axis) for f in x.factors)  # type: ignore[attr-defined]
            return Handle(summation.fused(left, right, order, fmt, builder.rng), x.dtype, shape)
        terms = _leading(x, x.v, axis)
        if terms.size > _SORTED_LIMIT and order in (*summation.ORDERS[5:], *summation.TREES[2:]):
            order = "shuffled tree" if order in summation.TREES else "random tree"
        wide = self._step_format(fmt, builder)
        v = summation.reduce(terms, kind, wide, order, builder.rng)
        return Handle(_narrow(v, wide, fmt), x.dtype, shape)

    def _native_scan(self, x: Handle, axis: int, kind: str, reverse: bool) -> Handle:
        fmt = format_of(x.dtype)
        if fmt is None or kind not in ("sum", "prod"):
            return super()._native_scan(x, axis, kind, reverse)
        builder: Any = self.semantic.builder
        terms = _leading(x, x.v, axis)
        orders = summation.SCANS if len(terms) * terms.size < 1 << 20 else summation.SCANS[:3]
        order = builder.pick(f"{kind} scan", *orders)
        wide = self._step_format(fmt, builder)
        v = summation.scan(terms[::-1] if reverse else terms, kind, wide, order, builder.rng)
        v = np.moveaxis(v[::-1] if reverse else v, 0, axis + 1)
        return Handle(_narrow(v, wide, fmt), x.dtype, x.shape)

    def _step_format(self, fmt: Format, builder: Any) -> Format:
        options = {f.name: f for f in summation.formats(fmt)}
        return options[builder.everywhere(f"sum {fmt.name} in", *options)]


def _leading(x: Handle, a: Array, axis: int) -> Array:
    """Every logical extent written out, the reduced axis first."""
    return np.moveaxis(np.broadcast_to(a, (a.shape[0], *x.shape)), axis + 1, 0)


def _narrow(v: Array, wide: Format, fmt: Format) -> Array:
    return v if wide == fmt else numbers.to_format(v, fmt)
