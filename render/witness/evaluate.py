"""The slow evaluator: every value of a witness as an interval that no legal execution leaves.

One plain formula per operation (`formulas`), and for operations with thousands of operands one for all of them at once
(`bulk`). A truth value is a pair (surely, possibly).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from interval_ops.formats.model import FORMATS, Format
from render.exact import intervals as iv
from render.exact.intervals import Interval, Maybe
from render.exact.points import above, below, precision
from render.witness import affine, bulk, chains, meanvalue, ordered, products
from render.witness.document import Operation, operations
from render.witness.formulas import CHAINED, rule_of
from render.witness.rule import NoFormula, Value
from render.witness.tally import PIECE
from render.witness.values import Ends, Values

BEYOND = 2.0**40


def _sentinels(ops: Sequence[Operation]) -> list[tuple[float, float]]:
    """Ends of the literals beyond any data, of both signs: two values with the same of them are one number."""
    leaves = [op for op in ops if op.op == "leaf" and op.attrs.get("source") == "constant"]
    ends = [(float(low), float(high)) for op in leaves for low, high in zip(op.low, op.high, strict=True)]
    wide = [(low, high) for low, high in ends if low != high and abs(low) >= BEYOND]
    return list(dict.fromkeys([*wide, *((-high, -low) for low, high in wide)]))


class Evaluator:
    """Evaluates one document; `root` is the result."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.rules: Mapping[str, Any] = document["rules"]
        self.ops = operations(document)
        self.root = int(document["root"])
        self.exact = document.get("profile") == "exact"
        total = sum(o.size for o in self.ops)
        self.values = Values(total)
        self.owner = np.repeat(np.arange(len(self.ops)), [o.size for o in self.ops])
        kinds: dict[str, int] = {}
        self.unit = np.array([kinds.setdefault(o.attrs["kind"], len(kinds)) if o.op in CHAINED else -1
                              for o in self.ops], np.int64)  # fmt: skip
        self.used = np.zeros(total, bool)
        self.pending = np.zeros(total, bool)
        self.sentinels = _sentinels(self.ops)

    def result(self, beyond: Interval | None = None) -> Maybe:
        """What the element can become; once more with what values share, where that reaches `beyond`."""
        self._mark()
        with precision():
            found = self._evaluated()
            if found is None or beyond is None or iv.apart(found, beyond):
                return found
            if iv.inside(found, beyond):  # what holds the value cannot be narrowed out of there
                return found
            low, high = self.values.ends(np.flatnonzero(self.used))
            wide = int(np.count_nonzero(low != high))
            if affine.fits(wide):
                return self._evaluated(affine.Forms(self, wide))
            return meanvalue.narrowed(self, found)

    def _evaluated(self, forms: affine.Forms | None = None) -> Maybe:
        for op in self.ops:
            rows = np.flatnonzero(self.used[op.start : op.start + op.size])
            if rows.size and self._together(op):
                self.values.put(op.start + rows, bulk.evaluate(self, op, rows))
            elif (sums := self._products_at_once(op, rows)) is not None:
                self.values.put(op.start + rows, sums)
            else:
                for k in rows.tolist():
                    self.values[op.start + k] = self._value(op, k)
            if forms is not None and rows.size:
                forms.take(op, rows)
        found: Maybe = self.values[self.root]
        return found

    def _together(self, op: Operation) -> bool:
        """Whether all values of the operation are made at once; truth values are not."""
        if not bulk.applies(op.op, op.attrs, sum(o.size for o in op.operands), self.exact):
            return False
        return not any(bool(self.values.truth[np.maximum(o, 0)].any()) for o in op.operands)

    def _products_at_once(self, op: Operation, rows: np.ndarray) -> Ends | None:
        """The values of many dots without rounding, and a sample of them by their formula as well."""
        found = products.evaluate(self, op, rows) if op.op in CHAINED and rows.size else None
        if found is not None:
            bulk.compared(op, rows, found, lambda k: self._value(op, k))
        return found

    def _mark(self) -> None:
        """Which values are needed; sums inside a chain of dots are parts of its last one, never rounded between."""
        self.used[self.root] = True
        for i in range(len(self.ops) - 1, -1, -1):
            op = self.ops[i]
            at = slice(op.start, op.start + op.size)
            needed = self.used[at] | self.pending[at]
            if not needed.any():
                continue
            for place, operand in enumerate(op.operands):
                numbers = operand[needed].reshape(-1)
                numbers = numbers[numbers >= 0]
                chained = self.chained(op, place, numbers)
                self.pending[numbers[chained]] = True
                self.used[numbers[~chained]] = True

    def chained(self, op: Operation, place: int, numbers: np.ndarray) -> np.ndarray:
        """Which of these operands of a dot or fold are themselves such sums on the same unit."""
        if op.op not in CHAINED or (op.op == "dot" and place > 0):
            return np.zeros(np.shape(numbers), bool)
        mine = self.unit[self.owner[op.start]]
        found: np.ndarray = self.unit[self.owner[numbers]] == mine
        return found

    def _value(self, op: Operation, k: int) -> Value:
        if op.op == "leaf":
            return _leaf(op, k)
        if op.op in CHAINED:
            chain = chains.Chain()
            model = dict(self.rules["dots"][op.attrs["kind"]])
            self.collect(op, k, chain, model)
            found = chains.dot(chain, model)
            if found is None or op.attrs.get("any_order") or not ordered.applies(self, model):
                return found
            return ordered.narrowed(found, chains.exact(chain, model), ordered.Ordered(self).result(op, k))
        rule = rule_of(op)
        if rule is None:
            raise NoFormula(op.op)
        return rule(self, op, k)

    def collect(
        self, op: Operation, k: int, chain: chains.Chain, model: dict[str, Any]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """All of the chain that ends there; (left and right factors, addends) by number."""
        todo = [(op, k)]
        addends: list[int] = []
        factors: list[tuple[np.ndarray, np.ndarray]] = []
        while todo:
            op, k = todo.pop()
            places = (0,) if op.op == "dot" else (0, 1)
            if op.op == "dot":
                factors.append((op.operands[1][k], op.operands[2][k]))
                chain.passed(factors[-1][0].size, model, op.attrs.get("imprecise"))
            inside = [bool(self.chained(op, place, op.operands[place][k])) for place in places]
            for place, chained in zip(places, inside, strict=True):
                n = int(op.operands[place][k])
                if chained:
                    inner = self.ops[self.owner[n]]
                    todo.append((inner, n - inner.start))
                    chain.through |= op.op == "dot"
                elif self.values[n] != iv.NOTHING:
                    addends.append(n)
                    chain.add(self.values[n], model, op.op == "fold")
            if op.op == "fold":
                chain.adds += all(inside)
        left, right = (np.concatenate([np.empty(0, np.int64), *(pair[i] for pair in factors)]) for i in (0, 1))
        self._products(left, right, chain, model)
        return left, right, np.array(addends, np.int64)

    def _products(self, left: np.ndarray, right: np.ndarray, chain: chains.Chain, model: dict[str, Any]) -> None:
        for at in range(0, left.size, PIECE):
            xs, ys = (self.values.some(side[at : at + PIECE]) for side in (left, right))
            chain.take(list(zip(xs, ys, strict=True)), model)

    # operands
    def args(self, op: Operation, k: int) -> list[Value]:
        return [self.values[operand.item(k)] for operand in op.operands]

    def terms(self, op: Operation, k: int, place: int = 0) -> list[Maybe]:
        return self.values.some(op.terms(place, k))

    def each(self, op: Operation, k: int) -> Iterator[Maybe]:
        """The terms of a sum, a piece after the other."""
        numbers = op.terms(0, k)
        for at in range(0, numbers.size, PIECE):
            yield from self.values.some(numbers[at : at + PIECE])

    def error_of(self, op: Operation, key: str) -> dict[str, Any]:
        """The error that the operation brings along (host code: another library), or the target's entry `key`."""
        own: dict[str, Any] | None = op.attrs.get("error")
        return self.error(key, FORMATS[op.attrs["fmt"]]) if own is None else own

    def error(self, key: str, fmt: Format) -> dict[str, Any]:
        found: dict[str, Any] = self.rules["functions"][f"{key} {fmt.name}"]
        return found


def _leaf(op: Operation, k: int) -> Value:
    if op.attrs.get("source") == "truth":
        truth = bool(op.low[k] != 0)
        return truth, truth
    return iv.interval(float(op.low[k]), float(op.high[k]))


def hexed(x: Any, direction: str) -> str:
    """A bound as a hexadecimal float64, rounded outward ("f" down, "c" up)."""
    return (below(x) if direction == "f" else above(x)).hex()


__all__ = ["Evaluator", "NoFormula", "hexed"]
