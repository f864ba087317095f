"""Numbers of block-scaled formats (OCP Microscaling Formats 1.0), times their scale, as a target widens them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interval_ops.formats.model import FORMATS
from render.exact import intervals as iv
from render.exact.formats import nearest
from render.exact.intervals import Maybe
from render.exact.points import ZERO, Point, integer, number, power
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
        found: Maybe = x
        return found
    scale = _power_of_two(rest[0]) if op.attrs["scale"] == "e8m0" else rest[0]
    exact, widen = iv.mul(x, scale), op.attrs.get("widen")
    if not widen or exact is None or x is None or scale is None:
        return exact
    if widen != "fp16":
        return iv.hull(exact, tuple(nearest(end, FORMATS[widen]) for end in exact))  # type: ignore[arg-type]
    low, high = (nearest(end, FORMATS["fp16"]) for end in scale)  # the scale is rounded first
    inner = iv.mul(x, (low, high))
    return None if inner is None else iv.hull(exact, tuple(nearest(end, FORMATS["fp16"]) for end in inner))  # type: ignore[arg-type]


def _decoded(code: Any) -> Maybe:
    n = integer(code[0])
    value = number(_E2M1[n & 7])
    signed: Point = -value if n & 8 and value != ZERO else value
    return signed, signed


def _power_of_two(bits: Any) -> Maybe:
    n = integer(bits[0]) & 255
    return None if n == _NO_SCALE else (power(n - 127),) * 2
