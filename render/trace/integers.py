"""Integers that come from bounded floats: followed like the floats, where every operation on the way is one of these.

Other integers (addresses, indices, packed codes from outside) are exact and taken by value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from interval_ops.bounds import Pair
from render.interpreter.handle import Handle
from render.interpreter.open_integers import ends

if TYPE_CHECKING:
    from render.trace.model import Node

CUT = "to_integer"
"""Node of a float cut towards zero to an integer type."""
DOT = "int dot"
CUTS = frozenset(["fp_to_si", "fp_to_ui"])

_NATIVE: dict[str, Callable[..., np.ndarray]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "minsi": np.minimum, "maxsi": np.maximum,
    "minui": np.minimum, "maxui": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    "shl": np.left_shift, "ashr": np.right_shift, "iabs": np.abs, "int_cast": lambda x: x,
}  # fmt: skip
COMPARED: dict[str, Callable[..., np.ndarray]] = {
    **dict.fromkeys(("SLT", "ULT"), np.less), **dict.fromkeys(("SLE", "ULE"), np.less_equal),
    **dict.fromkeys(("SGT", "UGT"), np.greater), **dict.fromkeys(("SGE", "UGE"), np.greater_equal),
    "EQ": np.equal, "NE": np.not_equal,
}  # fmt: skip
OPERATIONS = frozenset(_NATIVE) | {f"icmp{name}" for name in COMPARED}
"""Operations on integers, by the builder's name; their nodes are called `int ...`."""
KNOWN = frozenset([CUT, DOT, *(f"int {op}" for op in OPERATIONS)])
"""Nodes that make integers, or compare them."""


def followed(op: str, args: Sequence[Handle]) -> bool:
    """Whether an integer that this operation makes of bounded operands is traced to them."""
    whole = all(a.dtype.scalar.is_int() for a in args)
    return op in CUTS or op == "select" or (op in (*OPERATIONS, "dot") and whole)


def is_integer(h: Handle) -> bool:
    scalar = h.dtype.scalar
    return bool(scalar.is_int()) and not scalar.is_int1()


def bounds(h: Handle) -> Pair:
    """The ends of a value, of integers that are open too."""
    return h.pair if h.open is None else ends(h)


def attributes(op: str, args: Sequence[Handle], out: Handle) -> dict[str, Any]:
    """The type of the result, and of the operands where they are compared."""
    of = args[0] if op.startswith("icmp") else out
    return {"type": of.dtype.scalar.name}


def value_of(node: Node, args: list[np.ndarray]) -> np.ndarray:
    """The operation on exact integers (in float64), as the machine does it."""
    if node.op == DOT:
        acc, a, b = args
        total: np.ndarray = acc + (a * b).sum(axis=1)
        return total
    dtype = np.dtype(node.attrs["type"])
    if node.op == CUT:
        info = np.iinfo(dtype)
        result: np.ndarray = np.clip(np.trunc(args[0]), float(info.min), float(info.max))
        return result
    name = node.op.removeprefix("int ")
    whole = [np.nan_to_num(a).astype(np.int64).astype(dtype) for a in args]
    test = COMPARED.get(name.removeprefix("icmp"))
    with np.errstate(over="ignore"):
        found = _NATIVE[name](*whole) if test is None else test(*whole)
    return found.astype(np.float64)
