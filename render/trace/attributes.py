"""What else than its operands decides the result of a recorded operation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from render.interpreter.builder.dots import dot_kind
from render.interpreter.handle import Handle
from render.interpreter.types import float_format, format_name, format_of
from render.ops.table import CASTS
from render.trace import integers
from render.trace.moves import MOVES


def attributes(op: str, given: Sequence[Any], out: Handle) -> dict[str, Any]:
    """Attributes of an operation by its name in the stream of events; `given`: its arguments, handles or not."""
    handles = [a for a in given if isinstance(a, Handle)]
    if op in CASTS:
        rtz = any("RTZ" in str(g) for g in given[2:])
        return {"src": format_name(handles[0].dtype), "dst": format_name(out.dtype), "mode": "rtz" if rtz else "rtne"}
    if op in ("si_to_fp", "ui_to_fp"):
        return {"dst": format_name(out.dtype)}
    if op == "dot":
        precision, imprecise = (*given[3:], None)[:2]
        if out.dtype.scalar.is_int():
            return {"type": "int32"}
        kind = dot_kind(format_of(handles[0].dtype), out.dtype.scalar, precision)
        operand = format_name(handles[0].dtype)
        return {"kind": kind, "fmt": format_name(out.dtype), "operand": operand, "imprecise": imprecise}
    if op == "fadd" and out.pend is not None:
        return {"fold": _folded(handles, out), "kind": out.pend.kind, "fmt": float_format(out.dtype).name}
    if op in integers.CUTS or (op in integers.OPERATIONS and integers.is_integer(handles[0])):
        return integers.attributes(op, handles, out)
    if op in MOVES:
        return {"given": given}
    if op.startswith("library "):
        return {"fmt": next(filter(None, (format_name(h.dtype) for h in handles)), ""), "dst": format_name(out.dtype)}
    return {"fmt": format_name(handles[0].dtype)} if handles else {}


def _folded(handles: list[Handle], out: Handle) -> int:
    """Which operand of the addition is the dot that takes the other one as its accumulator."""
    for i, (c, dot) in ((1, handles), (0, handles[::-1])):
        if dot.pend is not None and dot.pend.fresh and dot.shape == c.shape:
            return i
    return 1
