"""A slice evaluated in real arithmetic (float64): a check of the cut, since every value must lie in its bound.

The bound of every value holds the exact result of the formula for any choice of the leaves in theirs. A slice that
takes a wrong operand, row or column anywhere does not stay inside. What float64 itself rounds is allowed for.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from interval_ops.formats.model import FORMATS
from interval_ops.functions import bessel_orders
from render.interpreter.values import VALUES
from render.ops.rule import Lane, NoRule, Shape
from render.trace import integers
from render.trace.batch import Batch
from render.trace.joined_values import ranked, scaled, scanned, welford
from render.trace.model import ABSENT, LEAF, Contradiction, Node, NotSliceable, Slice
from render.trace.nodes import NODES

_ROOM = 2.0**-34

Values = np.ndarray


def evaluate(found: Slice | Batch) -> Values:
    """Every value of the slice in real arithmetic, from the leaves as they were."""
    out = np.empty(found.nodes[-1].stop)
    with np.errstate(all="ignore"):
        for node in found.nodes:
            out[node.start : node.stop] = value_of(node, out)
    return out


def value_of(node: Node, known: Values) -> Values:
    """The values of one node from those of its operands. Raises NotSliceable for an operation without a rule."""
    if node.op == LEAF:
        near: Values = np.clip(node.v, node.lo, node.hi)  # without rounding, what an earlier step gave is no value
        return near
    try:
        rule = REAL[node.op]
    except NoRule as missing:
        raise NotSliceable(node.op, str(missing), node.file, node.line) from None
    return rule(node, [known[o] for o in node.operands])


def _elementwise(node: Node, args: list[Values]) -> Values:
    return VALUES[node.op](*args)


def _same(node: Node, args: list[Values]) -> Values:
    """A conversion: the number stays."""
    return args[0]


def _present(node: Node, args: list[Values], neutral: float) -> Values:
    return np.where(node.operands[0] == ABSENT, neutral, args[0])


def _shifted(node: Node, args: list[Values]) -> Values:
    found: Values = np.ldexp(args[0], np.clip(args[1], -5000, 5000).astype(np.int64))
    return found


def _neighbour(node: Node, args: list[Values]) -> Values:
    """In the format of the operands: the exact numbers have no neighbours."""
    x, y = (a.astype(np.float64 if FORMATS[node.attrs["fmt"]].bits == 64 else np.float32) for a in args)
    found: Values = np.nextafter(x, y).astype(np.float64)
    return found


REAL: Lane[Callable[[Node, list[Values]], Values]] = Lane("value in real arithmetic", NODES, {
    **dict.fromkeys(NODES.keys() & VALUES.keys(), _elementwise),
    "select": lambda n, a: np.where(a[0] != 0, a[1], a[2]),
    "and": lambda n, a: (a[0] != 0) & (a[1] != 0),
    "or": lambda n, a: (a[0] != 0) | (a[1] != 0),
    "xor": lambda n, a: (a[0] != 0) != (a[1] != 0),
    "sum": lambda n, a: _present(n, a, 0.0).sum(axis=1),
    "atomic_sum": lambda n, a: _present(n, a, 0.0).sum(axis=1),
    "prod": lambda n, a: _present(n, a, 1.0).prod(axis=1),
    "max": lambda n, a: _present(n, a, -np.inf).max(axis=1),
    "min": lambda n, a: _present(n, a, np.inf).min(axis=1),
    "icmpEQ": lambda n, a: (a[0] != 0) == (a[1] != 0),
    "icmpNE": lambda n, a: (a[0] != 0) != (a[1] != 0),
    "library integer_power": lambda n, a: np.power(a[0], a[1]),
    "library ldexp": _shifted,
    "library scalbn": _shifted,
    "library jn": lambda n, a: bessel_orders.values(False, a[0].astype(np.int64), a[1]),
    "library yn": lambda n, a: bessel_orders.values(True, a[0].astype(np.int64), a[1]),
    "library nextafter": _neighbour,
    "library isnan": lambda n, a: np.isnan(a[0]),
    "library isinf": lambda n, a: np.isinf(a[0]),
    "library finitef": lambda n, a: np.isfinite(a[0]),
    "library isfinited": lambda n, a: np.isfinite(a[0]),
    "ranked": ranked,
    "recurrence": lambda n, a: scanned(a, n),
    "welford": welford,
    "scaled": scaled,
    "any": lambda n, a: (a[0] != 0).any(axis=1),
    "all": lambda n, a: (a[0] != 0).all(axis=1),
    "dot": lambda n, a: a[0] + (a[1] * a[2]).sum(axis=1),
    "fold": lambda n, a: a[0] + a[1],
    **dict.fromkeys(integers.KNOWN, integers.value_of),
}, {Shape.CAST: _same}, {Shape.INTEGER: "it is taken by value"})  # fmt: skip
"""The exact value of every node from those of its operands."""


def _magnitude(node: Node, known: Values) -> Values:
    """Size of what is added up: float64 loses a few 2^-53 of it."""
    if node.op == "dot":
        acc, a, b = (np.abs(known[o]) for o in node.operands)
        found: Values = acc + (a * b).sum(axis=1)
        return found
    if node.op == "welford":  # squares of differences
        means = np.abs(known[node.operands[0]]).max(axis=1)
        weights = np.abs(known[node.operands[2]]).sum(axis=1)
        moved: Values = means + weights * means**2 + np.abs(known[node.operands[1]]).sum(axis=1)
        return moved
    if node.op == "recurrence":
        return scanned([np.abs(known[o]) for o in node.operands], node)
    size = np.zeros(node.size)
    for o in node.operands:
        part = np.abs(np.where(o == ABSENT, 0.0, known[o]))
        size = size + (part.sum(axis=1) if part.ndim == 2 else part)
    return size


def check(found: Slice | Batch) -> None:
    """Raises Contradiction for the first operation with a value outside its bound."""
    values = evaluate(found)
    with np.errstate(all="ignore"):
        for node in found.nodes:
            v = values[node.start : node.stop]
            room = _ROOM * (np.abs(node.lo) + np.abs(node.hi) + _magnitude(node, values)) + 2.0**-1000
            known = np.isfinite(node.lo) & np.isfinite(node.hi) & np.isfinite(v) & np.isfinite(room)
            if (known & ((v < node.lo - room) | (v > node.hi + room))).any():
                why = "evaluated in real arithmetic, a value leaves its bound"
                raise Contradiction(node.op, why, node.file, node.line)
