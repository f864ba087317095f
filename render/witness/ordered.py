"""Chains of dots whose order is known: one fused multiply-add per product, k upwards, rounded to fp32 each time.

What Triton's lowering leaves open: `acc += tl.dot(a, b)` either goes on from acc, or starts from zero and is added
afterwards (`tl.dot(a, b, acc)` goes on). fl(s + p) grows with s and p, so the least and the greatest start go through
every step, and after a dot the hull of both ways is taken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from render.exact import intervals as iv
from render.exact.formats import FP32, nearest
from render.exact.intervals import Interval, Maybe
from render.exact.points import down, least, most, up

if TYPE_CHECKING:
    from render.witness.document import Operation
    from render.witness.evaluate import Evaluator

STEPS = 600_000
"""Multiply-adds of a chain that are done one by one: about three seconds."""
_Factors = tuple[np.ndarray, np.ndarray]


def applies(e: Evaluator, model: dict[str, Any]) -> bool:
    """Whether the document says that this unit's order is known."""
    chain = model.get("sequential") and not model["flush"] and model["terms"] == 1
    return bool(e.rules.get("in_order") and chain and model["acc"] == "fp32")


def narrowed(found: Maybe, exact: Maybe, run: Maybe) -> Maybe:
    """The part of `found` that holds the exact sum and what the chain in its order makes."""
    both = iv.hull(exact, run)
    if both is None or found is None:
        return found
    return most((found[0], both[0])), least((found[1], both[1]))


class Ordered:
    """What a chain makes in its order; `result` is None where something else is on the way."""

    def __init__(self, e: Evaluator) -> None:
        self.e = e
        self.made: dict[int, Maybe] = {}
        self.fresh: dict[int, _Factors] = {}
        self.steps = 0

    def result(self, op: Operation, k: int) -> Maybe:
        chain = self._chain(op, k)
        for n in sorted(chain):
            inner = self.e.ops[self.e.owner[n]]
            self.made[n] = self._dot(inner, n) if inner.op == "dot" else self._fold(inner, n)
            if self.made[n] is None or self.steps > STEPS:
                return None
        return self.made[op.start + k]

    def _chain(self, op: Operation, k: int) -> set[int]:
        """The sums inside; operands have smaller numbers."""
        found, todo = set[int](), [(op, k)]
        while todo:
            op, k = todo.pop()
            found.add(op.start + k)
            for place in (0,) if op.op == "dot" else (0, 1):
                n = int(op.operands[place][k])
                if n not in found and bool(self.e.chained(op, place, np.array(n))):
                    inner = self.e.ops[self.e.owner[n]]
                    todo.append((inner, n - inner.start))
        return found

    def _start(self, n: int) -> Maybe:
        if n in self.made:
            return self.made[n]
        found: Maybe = self.e.values[n]
        return found

    def _dot(self, op: Operation, n: int) -> Maybe:
        k = n - op.start
        start = self._start(int(op.operands[0][k]))
        factors = op.operands[1][k], op.operands[2][k]
        if start == iv.NOTHING:
            self.fresh[n] = factors
        return self._run(start, factors)

    def _fold(self, op: Operation, n: int) -> Maybe:
        c, dot = (int(operand[n - op.start]) for operand in op.operands)
        start, factors = self._start(c), self.fresh.get(dot)
        if factors is None:
            return None
        if start == iv.NOTHING:
            self.fresh[n] = factors
        return iv.hull(self._run(start, factors), _plus(start, self._start(dot)))

    def _run(self, start: Maybe, factors: _Factors) -> Maybe:
        self.steps += factors[0].size
        if start is None or self.steps > STEPS:
            return None
        low, high = start
        for x, y in zip(*(side.tolist() for side in factors), strict=True):
            p = iv.mul(self.e.values[x], self.e.values[y])
            if p is None or iv.infinite(p):
                return None
            low, high = _rounded(down(low, p[0])), _rounded(up(high, p[1]))
            if iv.infinite((low, high)):
                return None
        return low, high


def _rounded(x: Any) -> Any:
    return nearest(x, FP32)


def _plus(x: Maybe, y: Maybe) -> Maybe:
    if x is None or y is None:
        return None
    ends: Interval = _rounded(down(x[0], y[0])), _rounded(up(x[1], y[1]))
    return None if iv.infinite(ends) else ends
