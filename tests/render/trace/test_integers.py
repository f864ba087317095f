"""Integer nodes of a slice against Python's integers, wrapped to their type."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from render.trace.integers import CUT, KNOWN, OPERATIONS, value_of

GIVEN = [0, 1, -1, 5, -7, 127, -128, 100, 3]
PYTHON: dict[str, Any] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "and": lambda a, b: a & b,
    "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b, "minsi": min, "maxsi": max, "minui": min, "maxui": max,
    "icmpEQ": lambda a, b: a == b, "icmpNE": lambda a, b: a != b,
    **{f"icmp{s}LT": lambda a, b: a < b for s in "SU"}, **{f"icmp{s}LE": lambda a, b: a <= b for s in "SU"},
    **{f"icmp{s}GT": lambda a, b: a > b for s in "SU"}, **{f"icmp{s}GE": lambda a, b: a >= b for s in "SU"},
}  # fmt: skip


def of(op: str, dtype: str, *args: list[int] | list[float]) -> list[float]:
    node: Any = SimpleNamespace(op=op, attrs={"type": dtype})
    found: list[float] = value_of(node, [np.array(a, np.float64) for a in args]).tolist()
    return found


def wrapped(x: int, dtype: str) -> int:
    bits = 8 if dtype.endswith("8") else 32
    x &= (1 << bits) - 1
    return x - (x >> bits - 1 << bits) if not dtype.startswith("u") else x


@pytest.mark.parametrize("op", PYTHON)
def test_two_operands(op: str) -> None:
    dtype = "uint8" if op in ("minui", "maxui") or op.startswith("icmpU") else "int8"
    a, b = [[wrapped(x, dtype) for x in side] for side in zip(*[(x, y) for x in GIVEN for y in GIVEN], strict=True)]
    expected = [PYTHON[op](x, y) for x, y in zip(a, b, strict=True)]
    assert of(f"int {op}", dtype, a, b) == [float(wrapped(x, dtype)) if x is not bool(x) else x for x in expected]


def test_shifts_and_magnitudes() -> None:
    assert of("int shl", "int8", [1, 3, 64], [3, 7, 1]) == [8.0, -128.0, -128.0]
    assert of("int ashr", "int8", [-128, 7], [3, 1]) == [-16.0, 3.0]
    assert of("int iabs", "int32", [-5, 4]) == [5.0, 4.0] and of("int int_cast", "int8", [300, -129]) == [44.0, 127.0]


def test_every_operation_is_tried() -> None:
    assert set(PYTHON) | {"shl", "ashr", "iabs", "int_cast"} == OPERATIONS and CUT in KNOWN


def test_floats_are_cut_towards_zero_and_held_by_the_type() -> None:
    assert of(CUT, "int8", [1.9, -1.9, 1000.0, -1000.0]) == [1.0, -1.0, 127.0, -128.0]
