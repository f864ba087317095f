"""Formulas of conversions between formats."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from interval_ops.formats.model import FORMATS, Format
from render.exact import intervals as iv
from render.exact.formats import FP32, rounded, to_format, too_large
from render.exact.intervals import Maybe
from render.exact.points import INF, NINF, ZERO, Point, least, most, number
from render.witness.document import Operation
from render.witness.rule import NoFormula, Rule

if TYPE_CHECKING:
    from render.witness.evaluate import Evaluator


def cast(e: Evaluator, op: Operation, k: int) -> Maybe:
    (x,) = e.args(op, k)
    src, dst, mode = FORMATS[op.attrs["src"]], FORMATS[op.attrs["dst"]], op.attrs["mode"]
    if dst.name in ("e8m0", "e2m1"):
        raise NoFormula(f"cast to {dst.name}")
    if "overflow" in op.attrs:  # on the host: one rounding
        return converted(x, dst, mode, op.attrs["overflow"])
    overflow = e.rules["overflow"][dst.name]
    older = e.rules.get("older", {}).get(f"{src.name}->{dst.name}") if mode == "rtne" else None
    if older is not None:
        return _older(x, dst, older)
    via = e.rules["double_rounding"].get(f"{src.name}->{dst.name}")
    if via:
        x = _through(x, via)
    elif src.bits == 64 and dst.name not in ("fp64", "fp32", "fp16"):
        x = converted(x, FP32, "rtne", "inf")
    if dst.name == "fp8e4b15":  # software: adds half and cuts, whatever the mode
        return iv.hull(converted(x, dst, mode, overflow), converted(x, dst, "away", overflow))
    return converted(x, dst, mode, overflow)


def _through(x: Maybe, via: str) -> Maybe:
    """By way of the format that "fp16" or (cut) "fp16rz" names."""
    name = via.removesuffix("rz")
    return converted(x, FORMATS[name], "rtz" if name != via else "rtne", "inf")


def _older(x: Maybe, dst: Format, older: Mapping[str, Any]) -> Maybe:
    """A conversion as earlier versions lowered it."""
    if older["via"]:
        x = _through(x, older["via"])
    out = converted(x, dst, "rtne", older["overflow"])
    if older["ties_away"]:
        out = iv.hull(out, converted(x, dst, "away", older["overflow"]))
    if not older["floor"] or x is None or out is None:
        return out
    until, floor = number(older["until"]), number(older["floor"])
    if not (x[0] < until and (-until) < x[1]):
        return out
    inner = most((x[0], -until)), least((x[1], until))
    return iv.hull(out, iv.spread(inner, floor))


def converted(x: Maybe, dst: Format, mode: str, overflow: str) -> Maybe:
    """Hull of x and its roundings; past the largest number what the target's conversion does there."""
    if x is None:
        return None
    ends = []
    for end in x:
        if iv.infinite((end, end)):
            y, over = end, True
        else:
            y = to_format(end, dst, mode)
            over = too_large(y, dst)
        if over and mode == "rtz" and not iv.infinite((end, end)):
            ends.append(_largest(end, dst))
        elif over:
            made = _overflowed(end, dst, overflow)
            if made is None:
                return None
            ends += made
        else:
            ends.append(y)
    return least([x[0], *ends]), most([x[1], *ends])


def _largest(x: Point, dst: Format) -> Point:
    top = number(dst.max)
    return -top if x < ZERO else top


def _overflowed(x: Point, dst: Format, overflow: str) -> list[Point] | None:
    """What |x| past the largest number may become; None for NaN."""
    endless = NINF if x < ZERO else INF
    if not dst.has_nan and not dst.has_inf:
        return [_largest(x, dst)]
    if overflow == "saturate":
        return [_largest(x, dst)]
    if overflow == "nan" or not dst.has_inf:
        return None
    return [endless] if overflow == "inf" else [endless, _largest(x, dst)]


def directed(x: Point, fmt: Format, way: str) -> Point:
    """x rounded down ("rd"), up ("ru") or towards zero ("rz"); away from zero past the largest number to infinity."""
    if iv.infinite((x, x)):
        return x
    negative = x < ZERO
    outward = way == ("rd" if negative else "ru")
    y = to_format(x, fmt, "up" if outward else "rtz")
    if not too_large(y, fmt):
        return y
    return (NINF if negative else INF) if outward else _largest(x, fmt)


def towards(x: Maybe, fmt: Format, way: str) -> Maybe:
    """Hull of the exact numbers and their rounding in a direction."""
    if x is None:
        return None
    return least((x[0], directed(x[0], fmt, way))), most((x[1], directed(x[1], fmt, way)))


def from_integer(e: Evaluator, op: Operation, k: int) -> Maybe:
    return rounded(e.args(op, k)[0], FORMATS[op.attrs["dst"]])


def in_direction(way: str) -> Rule:
    """A conversion that rounds in a direction (of an integer, or of fp64 numbers)."""
    return lambda e, op, k: towards(e.args(op, k)[0], FORMATS[op.attrs["dst"]], way)
