"""What the recorder calls the operations of a slice: those of the language and the library, and composites of them.

A node of a slice is one operation on floats, on truth values or, named `int ...`, on integers that come from bounded
floats. Movements, loads and stores are no nodes: an element moves with its number.
"""

from __future__ import annotations

from dataclasses import replace

from render.ops.library import CONVERSIONS, LIBRARY
from render.ops.rule import Rule, Shape
from render.ops.table import CASTS as CASTS
from render.ops.table import EXACT, RULES

NODES: dict[str, Rule] = {}
"""Every operation that may stand in a slice, but for its leaves."""
COMPOSITES: dict[str, Rule] = {}
"""Those that the language and the library have no single name for."""


def composite(shape: Shape, cause: str | None, doc: str, *names: str, entry: str = "") -> None:
    COMPOSITES.update({name: Rule(name, shape, doc, None, 1, cause, tight=False, entry=entry) for name in names})


for _op, _rule in RULES.items():
    if _rule.apply is not None:
        NODES[_op] = _rule
for _op, _rule in {**LIBRARY, **CONVERSIONS}.items():
    if _rule.shape not in (Shape.BITS, Shape.INTEGER):
        NODES[f"library {_op}"] = replace(_rule, op=f"library {_op}")
for _op, _rule in EXACT.items():
    if _rule.shape is Shape.INTEGER:
        NODES[f"int {_op}"] = replace(_rule, op=f"int {_op}", cause="cast")

composite(Shape.SPECIAL, "function", "x^n for an integer n.", "library integer_power", entry="pow")
composite(Shape.CAST, "cast", "A conversion between floats, or of an integer.", "cast", "from_integer")
composite(Shape.CAST, None, "A truth value as 0 or 1.", "from_truth")
composite(Shape.INTEGER, "cast", "A float cut towards zero to an integer type.", "to_integer")
composite(Shape.COMPARISON, None, "Logic of truth values.", "and", "or", "xor", "icmpEQ", "icmpNE", "any", "all")
composite(Shape.REDUCTION, "accumulation", "A sum or product in any order.", "sum", "prod")
composite(Shape.REDUCTION, "atomics", "A sum in memory, in any order.", "atomic_sum")
composite(Shape.SELECTION, None, "The largest, smallest or k-th of many.", "max", "min", "ranked")
composite(Shape.DOT, "accumulation", "A dot with its accumulator, or one added to a dot.", "dot", "fold")
composite(Shape.DOT, "cast", "A dot of integers.", "int dot")
composite(Shape.SPECIAL, "accumulation", "h = a h + b along a scan.", "recurrence")
composite(Shape.SPECIAL, "accumulation", "Merged means and squares.", "welford", entry="div")
composite(Shape.SPECIAL, "operand", "A block-scaled number as the unit multiplies it.", "scaled")
NODES |= COMPOSITES

COMPARISONS = frozenset(op for op, rule in NODES.items() if rule.shape is Shape.COMPARISON)
_MANY = (Shape.REDUCTION, Shape.DOT)
JOINED = frozenset(op for op, rule in RULES.items() if rule.shape in _MANY) | {
    op for op, rule in COMPOSITES.items() if rule.shape in (*_MANY, Shape.SPECIAL, Shape.SELECTION) and " " not in op
}
"""Operations of which one result lane comes from several operand lanes."""
ROUNDED = frozenset(
    op for op, rule in NODES.items() if rule.cause == "arith" and rule.shape in (Shape.LINEAR, Shape.BILINEAR)
)
"""Operations whose own error is one rounding to nearest."""
