"""Formulas of rows on numbers of many bits, and scans, which are none."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from render.exact.numbers import Num, Numbers
from render.ops.aten import Aten, Form
from render.ops.rows import Named
from render.reference.precise.elementwise import HEAVY, Rule
from render.reference.precise.graph import Ids

if TYPE_CHECKING:
    from render.reference.precise.cells import RecordedCells


def array(numbers: Sequence[Num]) -> np.ndarray:
    found = np.empty(len(numbers), object)
    found[:] = numbers
    return found


class RowNumbers:
    """Balls of a row as an array of objects; what is one number per row has one element."""

    def __init__(self, n: Numbers) -> None:
        self.n = n

    def _each(self, fn: Callable[..., Num], *xs: np.ndarray) -> np.ndarray:
        return array([fn(*values) for values in zip(*np.broadcast_arrays(*xs), strict=True)])

    def number(self, x: float) -> np.ndarray:
        return array([self.n.number(x)])

    def call(self, name: str, x: np.ndarray) -> np.ndarray:
        return self._each(lambda v: self.n.call(name, v), x)

    def larger(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return self._each(self.n.larger, a, b)

    def smaller(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return self._each(self.n.smaller, a, b)

    def power(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return self._each(lambda a, b: a**b, x, y)

    def pi(self) -> np.ndarray:
        return array([self.n.pi()])

    def choose(self, x: np.ndarray, above: Callable[[], np.ndarray], below: Callable[[], np.ndarray]) -> np.ndarray:
        return self._each(lambda v, a, b: self.n.choose(v, lambda: a, lambda: b), x, above(), below())

    def sum(self, x: np.ndarray) -> np.ndarray:
        return array([self.n.sum(x.tolist())])

    def product(self, x: np.ndarray) -> np.ndarray:
        return array([math.prod(x.tolist(), start=self.n.number(1.0))])

    def most(self, x: np.ndarray) -> np.ndarray:
        return array([reduce(self.n.larger, x.tolist())])

    def least(self, x: np.ndarray) -> np.ndarray:
        return array([reduce(self.n.smaller, x.tolist())])

    def count(self, x: np.ndarray) -> int:
        return len(x)


def by_rows(r: RecordedCells, op: Aten, named: Named) -> list[Ids]:
    """The results of an operation that is a formula of rows: whole rows at once, then factor and addend of a norm."""
    row = op.row
    assert row is not None
    x = r.ids(next(iter(named.values())))
    joined, kinds = row.layout(named, x.shape), row.kinds(named)
    beside = {name: r.ids(named[name]).reshape(-1, 1) for name in row.beside if named.get(name) is not None}

    def fn(n: Numbers, xs: list[Num], *others: list[Num]) -> Sequence[Num]:
        if op.name == "_safe_softmax" and all(v == n.number(-math.inf) for v in xs):
            return [n.number(0.0)] * len(xs)
        given = dict(zip(beside, map(array, others), strict=True))
        results = row.evaluated(RowNumbers(n), array(xs), [given.get(name) for name in row.beside], named)
        return [v for result in results[: len(kinds)] for v in result]

    rows = joined.rows(x)
    widths = [joined.n if kind == "x" else 1 for kind in kinds]
    weight = 1.0 if op.form in (Form.SUM, Form.ORDER) else HEAVY
    operands = [rows, *beside.values()]
    made = r.rows(op.name, fn, operands, (len(rows), sum(widths)), sum(widths), weight)
    parts = np.split(made, np.cumsum(widths)[:-1], axis=1)
    found = [joined.back(p) if k == "x" else p.reshape(joined.kept) for p, k in zip(parts, kinds, strict=True)]
    for name, fn_ in (("weight", lambda n, a, b: a * b), ("bias", lambda n, a, b: a + b)):
        if named.get(name) is not None:
            found[0] = r.map(op.name, fn_, found[0], r.ids(named[name]).reshape(joined.side))
    return found


def _scanned(name: str, fn: Callable[[Numbers, list[Num]], Sequence[Num]], weight: float = 1.0) -> Rule:
    def rule(r: RecordedCells, x: Ids, dim: int, *_: Any, **__: Any) -> Ids:
        return r.scan(name, fn, x, dim, weight)

    return rule


def _running(largest: bool) -> Rule:
    """cummax: the index is an integer, and integers are not followed."""

    def rule(r: RecordedCells, x: Ids, dim: int) -> Any:
        best = (lambda n: n.larger) if largest else (lambda n: n.smaller)
        return r.scan("cummax", lambda n, xs: list(accumulate(xs, best(n))), x, dim, 1.0), None

    return rule


def _softmax_backward(r: RecordedCells, grad: Ids, y: Ids, dim: int, *_: Any) -> Ids:
    inner = r.reduce("sum", lambda n, xs: n.sum(xs), r.map("mul", lambda n, a, b: a * b, grad, y), dim, True)
    return r.map("_softmax_backward_data", lambda n, g, p, s: p * (g - s), grad, y, inner, weight=2)


def _log_softmax_backward(r: RecordedCells, grad: Ids, y: Ids, dim: int, *_: Any) -> Ids:
    inner = r.reduce("sum", lambda n, xs: n.sum(xs), grad, dim, True)
    fn = lambda n, g, p, s: g - n.call("exp", p) * s  # noqa: E731
    return r.map("_log_softmax_backward_data", fn, grad, y, inner, weight=HEAVY)


ROWS: dict[str, Rule] = {
    "cumsum": _scanned("cumsum", lambda n, xs: list(accumulate(xs))),
    "cumprod": _scanned("cumprod", lambda n, xs: list(accumulate(xs, lambda a, b: a * b))),
    "logcumsumexp": _scanned(
        "logcumsumexp", lambda n, xs: [n.call("log", s) for s in accumulate(n.call("exp", x) for x in xs)], 2 * HEAVY
    ),
    "cummax": _running(True),
    "cummin": _running(False),
    "_softmax_backward_data": _softmax_backward,
    "_log_softmax_backward_data": _log_softmax_backward,
}
