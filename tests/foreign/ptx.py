"""Inline PTX, run instruction by instruction on numbers: what its document states, anywhere within.

PTX: "PTX ISA 8", floating-point, half precision and conversion instructions; errors are absolute where named so.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from foreign import numbers
from foreign.numbers import Array

if TYPE_CHECKING:
    from foreign.executor import Draws

APPROXIMATE: dict[str, tuple[Callable[[Array], Array], float]] = {
    "ex2.approx.f32": (np.exp2, 2.5 * 2.0**-23),
    "rcp.approx.f32": (lambda x: 1 / x, 1.5 * 2.0**-23),
    "sqrt.approx.f32": (np.sqrt, 2.0**-23),
    "rsqrt.approx.f32": (lambda x: 1 / np.sqrt(x), 2.0**-22.9),
    "tanh.approx.f32": (np.tanh, 2.0**-11),
    "ex2.approx.f16": (np.exp2, 2.0**-9.9),
    "ex2.approx.bf16": (np.exp2, 2.0**-7),
}
"""Relative errors."""
ABSOLUTE: dict[str, tuple[Callable[[Array], Array], float]] = {
    "sin.approx.f32": (np.sin, 2.0**-20.5),
    "cos.approx.f32": (np.cos, 2.0**-20.5),
    "tanh.approx.f16": (np.tanh, 2.0**-10.987),
    "tanh.approx.bf16": (np.tanh, 2.0**-8),
}
_PLAIN: dict[str, Callable[..., Array]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "max": np.fmax, "min": np.fmin, "abs": np.abs,
    "neg": np.negative,
}  # fmt: skip
_DIRECTED = {"rz": 0.0, "rm": -np.inf, "rp": np.inf}


def run(text: str, operands: list[Array], kinds: list[str], draws: Draws) -> Array:
    """The one result of straight-line text on numbers of the formats `kinds`; halves may be written in pairs."""
    held = {f"${i + 1}": (x, k) for i, (x, k) in enumerate(zip(operands, kinds, strict=True))}
    shape = np.broadcast_shapes(*(x.shape for x in operands))
    for statement in filter(None, (part.strip(" \t\n{}") for part in text.split(";"))):
        if statement.startswith(".reg"):
            continue
        name, rest = statement.split(None, 1)
        to, *given = (x.strip() for x in rest.split(","))
        read = [held[g] if g in held else (np.full(shape, literal(g), np.float32), "fp32") for g in given]
        held[to] = step(re.sub(r"(f16)x2\b", r"\1", name), read, draws)
    return held["$0"][0]


def literal(text: str) -> float:
    bits = re.fullmatch("0[fF]([0-9a-fA-F]{8})", text)
    return float(struct.unpack(">f", bytes.fromhex(bits[1]))[0]) if bits else float(text)


def step(name: str, given: list[tuple[Array, str]], draws: Draws) -> tuple[Array, str]:
    """One instruction; numbers of halves are float32."""
    kind = given[0][1]
    values = [x for x, _ in given]
    flush, bare = ".ftz" in name, name.replace(".ftz", "")
    if flush:
        values = [_flushed(x, kind) for x in values]
    found, kind = _computed(bare, values, kind, draws)
    return (_flushed(found, kind) if flush else found), kind


def _flushed(x: Array, kind: str) -> Array:
    return np.where(np.abs(x) < 2.0 ** numbers.KINDS[kind].least, x * 0, x)


def _computed(name: str, values: list[Array], kind: str, draws: Draws) -> tuple[Array, str]:
    op, *rest = name.split(".")
    wide = [v.astype(np.longdouble) for v in values]
    with np.errstate(all="ignore"):
        if name in APPROXIMATE:
            function, error = APPROXIMATE[name]
            return _within(values[0], function(wide[0]), error, 0.0, kind, draws), kind
        if name in ABSOLUTE:
            function, error = ABSOLUTE[name]
            return _within(values[0], function(wide[0]), 0.0, error, kind, draws), kind
        if name == "div.full.f32":
            return draws.near(wide[0] / values[1], draws.chip.functions["div"][0]), kind
        if op == "lg2":
            near_one = (values[0] > 0.5) & (values[0] < 2)
            exact = np.log2(wide[0])
            reach = np.where(near_one, 2.0**-22, np.abs(exact) * 2.0**-22)
            return _inside(exact, reach, kind, draws), kind
        if op == "cvt":
            to = {"f32": "fp32", "f16": "fp16", "bf16": "bf16"}[rest[-2]]
            how = "zero" if rest[0] == "rz" else "nearest"
            return numbers.read(numbers.stored(wide[0], to, how), to).astype(np.float32), to
        if op == "fma":
            return _rounded(wide[0] * wide[1] + wide[2], rest[0], kind), kind
        return _rounded(_PLAIN[op](*wide), rest[0], kind), kind


def _rounded(x: Array, how: str, kind: str) -> Array:
    """Once: to nearest, or in the direction that the instruction names. Products and sums are exact in long double but
    for what lies far below a double rounding's reach, which `nearest` then meets within its own half unit."""
    found = numbers.read(numbers.stored(x, kind), kind).astype(np.float32)
    if how in _DIRECTED:
        off = found.astype(np.longdouble) > x if how != "rp" else found.astype(np.longdouble) < x
        inward = (np.abs(found.astype(np.longdouble)) > np.abs(x)) if how == "rz" else off
        found = np.where(inward, np.nextafter(found, np.float32(_DIRECTED[how])), found)
    return found


def _within(x: Array, exact: Array, relative: float, absolute: float, kind: str, draws: Draws) -> Array:
    """Within the errors of the value; at zero the value itself, as the tables of special values give it."""
    least = 2.0 ** numbers.KINDS[kind].least if relative and kind != "fp32" else 0.0
    reach = np.maximum(np.abs(exact), least) * relative + absolute
    return np.where(x == 0, exact.astype(np.float32), _inside(exact, reach, kind, draws))


def _inside(exact: Array, reach: Array, kind: str, draws: Draws) -> Array:
    """Numbers of the format within `reach` of the value, or the nearest one where there is none."""
    lean = draws.rng.uniform(draws.low, draws.high, exact.shape)
    nearest, moved = (
        numbers.read(numbers.stored(v, kind), kind).astype(np.float32) for v in (exact, exact + lean * reach)
    )
    good = np.abs(moved.astype(np.longdouble) - exact) <= reach * (1 - 2.0**-20)
    return np.where(good & np.isfinite(exact), moved, nearest)
