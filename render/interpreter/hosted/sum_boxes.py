"""Sums of two float32 numbers between ends, for loops that have operands of both sides of a comparison at hand."""

from __future__ import annotations

from interval_ops.arithmetic.hull import rounding_gate
from interval_ops.arithmetic.kernels import add_intervals
from interval_ops.formats.model import FP32
from interval_ops.formats.rounding import Gate
from render.interpreter.hosted.call import Call

around_sums = add_intervals
"""(lower and upper ends of a, of b, outputs, sign, gate): a + sign b as `arithmetic.add` bounds it; a difference takes
the ends of b the other way round."""


def sum_gate(call: Call) -> Gate:
    """What the target rounds such a sum to."""
    return rounding_gate(FP32, call.profile.muted("arith"))


__all__ = ["around_sums", "sum_gate"]
