"""Reductions, scans and whole-matrix operations on numbers of many bits, by the base name of PyTorch's operation."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from render.exact.numbers import Num, Numbers
from render.reference.precise.composites import average, variance
from render.reference.precise.elementwise import HEAVY, Rule
from render.reference.precise.graph import Ids, Refused

if TYPE_CHECKING:
    from render.reference.precise.cells import RecordedCells

Reducer = Callable[[Numbers, list[Num]], Num]


def _prod(n: Numbers, xs: list[Num]) -> Num:
    return math.prod(xs, start=n.number(1.0))


def _extreme(largest: bool) -> Reducer:
    def fn(n: Numbers, xs: list[Num]) -> Num:
        found = xs[0]
        for x in xs[1:]:
            found = n.larger(found, x) if largest else n.smaller(found, x)
        return found

    return fn


def _logsumexp(n: Numbers, xs: list[Num]) -> Num:
    most = _extreme(True)(n, xs)
    return most + n.call("log", n.sum([n.call("exp", x - most) for x in xs]))


def _norm(n: Numbers, xs: list[Num], order: float) -> Num:
    if order == 2:
        return n.call("sqrt", n.sum([x * x for x in xs]))
    if order == 0:
        raise Refused("a norm of order 0 has no rule")
    if order == 1:
        return n.sum([abs(x) for x in xs])
    if math.isinf(order):
        return _extreme(order > 0)(n, [abs(x) for x in xs])
    p = n.number(float(order))
    return n.sum([abs(x) ** p for x in xs]) ** (1 / p)


def _reduced(name: str, fn: Reducer, weight: float = 1.0) -> Rule:
    def rule(r: RecordedCells, x: Ids, dim: Any = None, keepdim: bool = False, **_: Any) -> Ids:
        return r.reduce(name, fn, x, dim, keepdim, weight)

    return rule


def _with_index(name: str, fn: Reducer) -> Rule:
    """max.dim: the index is an integer, and integers are not followed."""

    def rule(r: RecordedCells, x: Ids, dim: Any = None, keepdim: bool = False) -> Any:
        if isinstance(dim, np.ndarray):
            return r.map(name, lambda n, a, b: fn(n, [a, b]), x, dim)
        found = r.reduce(name, fn, x, dim, keepdim)
        return found if dim is None else (found, None)

    return rule


def _correction(named: dict[str, Any], unbiased: bool) -> float:
    given = named.get("correction", 1 if named.get("unbiased", unbiased) else 0)
    return 1.0 if given is None else float(given)


def _var(name: str, root: bool, mean: bool) -> Rule:
    def rule(
        r: RecordedCells, x: Ids, dim: Any = None, unbiased: Any = True, keepdim: bool = False, **named: Any
    ) -> Any:
        if isinstance(dim, bool):  # var(Tensor, bool unbiased)
            dim, unbiased = None, dim
        less = _correction(named, bool(unbiased))

        def fn(n: Numbers, xs: list[Num]) -> Num:
            found = variance(n, xs, less)
            return n.call("sqrt", found) if root else found

        spread = r.reduce(name, fn, x, dim, keepdim, 4)
        return (spread, r.reduce("mean", average, x, dim, keepdim)) if mean else spread

    return rule


def _vector_norm(r: RecordedCells, x: Ids, order: Any = 2, dim: Any = None, keepdim: bool = False, **_: Any) -> Ids:
    return r.reduce("norm", lambda n, xs: _norm(n, xs, 2.0 if order is None else float(order)), x, dim, keepdim, 2)


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


def _softmax(n: Numbers, xs: list[Num], logs: bool = False, safe: bool = False) -> Sequence[Num]:
    if safe and all(n.sign(x) == -1 and x == n.number(-math.inf) for x in xs):
        return [n.number(0.0)] * len(xs)
    most = _extreme(True)(n, xs)
    powers = [n.call("exp", x - most) for x in xs]
    total = n.sum(powers)
    if logs:
        total = n.call("log", total)
        return [x - most - total for x in xs]
    return [p / total for p in powers]


def _softmax_backward(r: RecordedCells, grad: Ids, y: Ids, dim: int, *_: Any) -> Ids:
    inner = r.reduce("sum", lambda n, xs: n.sum(xs), r.map("mul", lambda n, a, b: a * b, grad, y), dim, True)
    return r.map("_softmax_backward_data", lambda n, g, p, s: p * (g - s), grad, y, inner, weight=2)


def _log_softmax_backward(r: RecordedCells, grad: Ids, y: Ids, dim: int, *_: Any) -> Ids:
    inner = r.reduce("sum", lambda n, xs: n.sum(xs), grad, dim, True)
    fn = lambda n, g, p, s: g - n.call("exp", p) * s  # noqa: E731
    return r.map("_log_softmax_backward_data", fn, grad, y, inner, weight=HEAVY)


ROWS: dict[str, Rule] = {
    "sum": _reduced("sum", lambda n, xs: n.sum(xs)),
    "mean": _reduced("mean", average),
    "prod": _reduced("prod", _prod),
    "amax": _reduced("amax", _extreme(True)),
    "amin": _reduced("amin", _extreme(False)),
    "max": _with_index("max", _extreme(True)),
    "min": _with_index("min", _extreme(False)),
    "logsumexp": _reduced("logsumexp", _logsumexp, HEAVY),
    "var": _var("var", root=False, mean=False),
    "std": _var("std", root=True, mean=False),
    "var_mean": _var("var_mean", root=False, mean=True),
    "std_mean": _var("std_mean", root=True, mean=True),
    "linalg_vector_norm": _vector_norm,
    "norm": _vector_norm,
    "cumsum": _scanned("cumsum", lambda n, xs: list(accumulate(xs))),
    "cumprod": _scanned("cumprod", lambda n, xs: list(accumulate(xs, lambda a, b: a * b))),
    "cummax": _running(True),
    "cummin": _running(False),
    "_softmax": _scanned("softmax", _softmax, HEAVY),
    "_safe_softmax": _scanned("softmax", lambda n, xs: _softmax(n, xs, safe=True), HEAVY),
    "_log_softmax": _scanned("log_softmax", lambda n, xs: _softmax(n, xs, logs=True), HEAVY),
    "_softmax_backward_data": _softmax_backward,
    "_log_softmax_backward_data": _log_softmax_backward,
}
