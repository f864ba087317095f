"""The slow evaluator: every value of a witness as an interval that no legal execution leaves.

One plain formula per operation (`formulas`). A truth value is a pair (surely, possibly).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mpmath import libmp

from interval_ops.formats import Format
from render.witness import balls as b
from render.witness import chains
from render.witness.balls import Maybe
from render.witness.document import Operation, operations
from render.witness.formulas import CHAINED, RULES
from render.witness.rule import NoFormula, Value


class Evaluator:
    """Evaluates one document; `root` is the result."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.rules: Mapping[str, Any] = document["rules"]
        self.ops = operations(document)
        self.root = int(document["root"])
        total = sum(o.size for o in self.ops)
        self.values: list[Value] = [None] * total
        self.owner = [i for i, o in enumerate(self.ops) for _ in range(o.size)]
        self.used = bytearray(total)
        self.pending = bytearray(total)

    def result(self) -> Maybe:
        self._mark()
        for op in self.ops:
            for k in range(op.size):
                if self.used[op.start + k]:
                    self.values[op.start + k] = self._value(op, k)
        found: Maybe = self.values[self.root]
        return found

    def _mark(self) -> None:
        """Which values are needed; sums inside a chain of dots are parts of its last one, never rounded between."""
        self.used[self.root] = 1
        for op in reversed(self.ops):
            for k in range(op.size):
                at = op.start + k
                if not (self.used[at] or self.pending[at]):
                    continue
                for place, operand in enumerate(op.operands):
                    for n in operand[k] if isinstance(operand[k], list) else (operand[k],):
                        if n < 0:
                            continue
                        if self._chained(op, place, n):
                            self.pending[n] = 1
                        else:
                            self.used[n] = 1

    def _chained(self, op: Operation, place: int, number: int) -> bool:
        """Whether this operand of a dot or fold is itself such a sum on the same unit."""
        if op.op not in CHAINED or (op.op == "dot" and place > 0):
            return False
        other = self.ops[self.owner[number]]
        return other.op in CHAINED and other.attrs["kind"] == op.attrs["kind"]

    def _value(self, op: Operation, k: int) -> Value:
        if op.op == "leaf":
            return _leaf(op, k)
        if op.op in CHAINED:
            chain = chains.Chain()
            model = self.rules["dots"][op.attrs["kind"]]
            self._collect(op, k, chain, model)
            return chains.dot(chain, model)
        rule = RULES.get(op.op)
        if rule is None:
            raise NoFormula(op.op)
        return rule(self, op, k)

    def _collect(self, op: Operation, k: int, chain: chains.Chain, model: Mapping[str, Any]) -> None:
        todo = [(op, k)]
        while todo:
            op, k = todo.pop()
            places = (0,) if op.op == "dot" else (0, 1)
            if op.op == "dot":
                left, right = ([self.values[n] for n in op.operands[p][k]] for p in (1, 2))
                pairs = list(zip(left, right, strict=True))
                chain.dot(pairs, dict(model), op.attrs.get("imprecise"))
            for place in places:
                n = op.operands[place][k]
                if self._chained(op, place, n):
                    inner = self.ops[self.owner[n]]
                    todo.append((inner, n - inner.start))
                    chain.through |= op.op == "dot"
                elif self.values[n] != b.ZERO:
                    chain.add(self.values[n], dict(model), op.op == "fold")
            if op.op == "fold":
                chain.adds += all(self._chained(op, place, op.operands[place][k]) for place in places)

    # operands
    def args(self, op: Operation, k: int) -> list[Value]:
        return [self.values[operand[k]] for operand in op.operands]

    def terms(self, op: Operation, k: int, place: int = 0) -> list[Maybe]:
        return [self.values[n] for n in op.operands[place][k] if n >= 0]

    def error(self, key: str, fmt: Format) -> dict[str, Any]:
        found: dict[str, Any] = self.rules["functions"][f"{key} {fmt.name}"]
        return found


def _leaf(op: Operation, k: int) -> Value:
    if op.attrs.get("source") == "truth":
        truth = float.fromhex(op.low[k]) != 0
        return truth, truth
    return b.interval(float.fromhex(op.low[k]), float.fromhex(op.high[k]))


def hexed(x: Any, direction: str) -> str:
    """A bound as a hexadecimal float64, rounded outward ("f" down, "c" up)."""
    value = libmp.to_float(libmp.mpf_pos(x, 53, direction), strict=False)
    return value.hex()


__all__ = ["Evaluator", "NoFormula", "hexed"]
