"""Numbers of block-scaled formats (OCP Microscaling Formats 1.0), times their scale, as a target widens them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mpmath import libmp
from mpmath.libmp import fzero

from interval_ops.formats.model import FORMATS
from render.witness import balls as b
from render.witness.balls import Maybe, Raw
from render.witness.document import Operation

if TYPE_CHECKING:
    from render.witness.evaluate import Evaluator

_E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
_NO_SCALE = 255
"""Bits of e8m0 that stand for NaN."""


def formula(e: Evaluator, op: Operation, k: int) -> Maybe:
    """The exact product of number and scale, and (`widen` fp16 or bf16) what the target makes of it.

    Operands: numbers, or 4-bit codes of e2m1 (`code`), and bits of e8m0 or numbers (`scale`) if there is a scale.
    """
    x, *rest = e.args(op, k)
    if op.attrs.get("code"):
        x = _decoded(x)
    if not rest:
        return x
    scale = _power_of_two(rest[0]) if op.attrs["scale"] == "e8m0" else rest[0]
    exact, widen = b.mul(x, scale), op.attrs.get("widen")
    if not widen or exact is None or x is None or scale is None:
        return exact
    if widen != "fp16":
        return b.hull(exact, tuple(b.nearest(end, FORMATS[widen]) for end in exact))  # type: ignore[arg-type]
    low, high = (b.nearest(end, FORMATS["fp16"]) for end in scale)  # the scale is rounded first
    inner = b.mul(x, (low, high))
    return None if inner is None else b.hull(exact, tuple(b.nearest(end, FORMATS["fp16"]) for end in inner))  # type: ignore[arg-type]


def _decoded(code: Any) -> Maybe:
    n = libmp.to_int(code[0])
    value = b.raw(_E2M1[n & 7])
    signed: Raw = libmp.mpf_neg(value) if n & 8 and value != fzero else value
    return signed, signed


def _power_of_two(bits: Any) -> Maybe:
    n = libmp.to_int(bits[0]) & 255
    return None if n == _NO_SCALE else (b.power(n - 127),) * 2
