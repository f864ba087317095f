"""tl.dot_scaled: operands of block-scaled formats, summed as the kind of dot that the target makes of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from interval_ops.bounds import Pair
from interval_ops.dot.scaled import scaled_kind, scaled_pair, scaled_values, unpack
from interval_ops.formats.model import E8M0, FP8E4NV, Format
from interval_ops.formats.tables import encode
from interval_ops.profiles.profile import MissingRule
from render.interpreter.builder.dots import Dots, _dense, _pair
from render.interpreter.handle import Handle, taint_of
from render.interpreter.types import carrier, float_format
from render.interpreter.values import in_format


def _format(enum: Any) -> str:
    return str(enum).rsplit(".", 1)[-1].lower()


class ScaledDots(Dots):
    def create_dot_scaled(
        self, a: Handle, a_scale: Handle | None, a_format: Any, b: Handle, b_scale: Handle | None, b_format: Any,
        fast_math: bool, a_k_pack: bool, b_k_pack: bool, acc: Handle,
    ) -> Handle:  # fmt: skip
        names = _format(a_format), _format(b_format)
        kind = scaled_kind(*names, self.ctx.profile, a_scale is not None and b_scale is not None)
        taint = taint_of(a, a_scale, b, b_scale, acc)
        for scale in (a_scale, b_scale):
            if scale is not None and not scale.is_point:
                taint |= self.ctx.taint("RND302", "dot_scaled", "the bounds leave a scale open")
        left, pa = self._numbers(a, a_scale, names[0], kind, -1, -1 if a_k_pack else -2)
        right, pb = self._numbers(b, b_scale, names[1], kind, -2, -2 if b_k_pack else -1)
        out = acc.dtype.scalar
        with np.errstate(all="ignore"):
            v = in_format(np.matmul(left, right, dtype=carrier(out)) + acc.computed, float_format(out))
        if not self.ctx.interval:
            return Handle(v, out, acc.shape, taint=taint)
        if float_format(out).bits == 16:
            self.unsupported("dot_scaled", "no target documents its sums in a 16-bit accumulator")
        return Handle(v, out, acc.shape, taint=taint, pend=self._pending(acc, kind, pa, pb, None))

    def _numbers(
        self, h: Handle, scale: Handle | None, name: str, kind: str, axis: int, pack_axis: int
    ) -> tuple[np.ndarray, Pair]:
        """(values, bounds) of an operand times its scales, as the unit multiplies them."""
        pair, v = self._operand(h, name, pack_axis)
        bits, fmt = self._scale(scale)
        values = scaled_values(v, bits, kind, axis=axis, scale_format=fmt)
        if not self.ctx.interval:
            return values, (values, values)
        try:
            return values, scaled_pair(pair, bits, self._dot_profile(kind), kind, axis=axis, scale_format=fmt)
        except MissingRule as missing:
            raise self.ctx.lacks("tl.dot_scaled", missing) from None

    def _operand(self, h: Handle, name: str, pack_axis: int) -> tuple[Pair, np.ndarray]:
        """(bounds, values) of the numbers; two e2m1 numbers per byte."""
        if name == "e2m1":
            values = unpack(_dense(h, h.v), name, pack_axis)
            return (values, values), values
        return _pair(h), _dense(h, h.v)

    def _scale(self, h: Handle | None) -> tuple[np.ndarray | None, Format]:
        """Bits of the scales and their format: bytes are e8m0, fp8 numbers those of nvfp4."""
        if h is None:
            return None, E8M0
        if h.dtype.scalar.is_int():
            return _dense(h, h.v).view(np.uint8), E8M0
        return encode(_dense(h, h.v), FP8E4NV), FP8E4NV
