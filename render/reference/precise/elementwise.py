"""Elementwise operations on numbers of many bits, by the base name of PyTorch's operation.

A rule gets the recorder and the operation's arguments, with cells for float tensors, and returns the cells of the
result. Functions follow PyTorch's definitions where these are more than the mathematical name says (softplus is x
beyond its threshold). Constants of a definition (sqrt(2), pi) are the real ones; those that are arguments are float64.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from render.exact.functions import FORMULAS
from render.exact.numbers import Num, Numbers
from render.ops.aten import ATEN, Aten, Form
from render.ops.formulas import HALF_POWERS, Formula, Refused
from render.reference.precise.graph import Ids

if TYPE_CHECKING:
    from render.reference.precise.cells import RecordedCells

Rule = Callable[..., Ids]
HEAVY = 6.0
"""What an elementary function costs, in additions."""


def _div(r: RecordedCells, x: Any, y: Any, rounding_mode: str | None = None) -> Ids:
    if rounding_mode is None:
        return r.map("div", lambda n, a, b: a / b, x, y)
    if rounding_mode == "floor":
        return r.map("div", lambda n, a, b: n.call("floor", a / b), x, y)
    return r.map("div", lambda n, a, b: truncated(n, a / b), x, y)


def truncated(n: Numbers, x: Num) -> Num:
    return n.choose(x, lambda: n.call("floor", x), lambda: n.call("ceil", x))


def _power(n: Numbers, x: Num, y: Num) -> Num:
    return x**y


def _pow(r: RecordedCells, x: Any, y: Any) -> Ids:
    if isinstance(y, float | int) and y in HALF_POWERS:
        return r.map("pow", lambda n, a: n.call(HALF_POWERS[y], a), x, weight=2)
    if isinstance(y, float | int) and float(y).is_integer() and abs(y) < 1024:
        return r.map("pow", lambda n, a: a ** int(y), x, weight=2)
    return r.map("pow", _power, x, y, weight=2 * HEAVY)


def _clamp(r: RecordedCells, x: Any, low: Any = None, high: Any = None, **named: Any) -> Ids:
    low, high = named.get("min", low), named.get("max", high)
    if low is not None:
        x = r.map("clamp", lambda n, a, b: n.larger(a, b), x, low)
    return x if high is None else r.map("clamp", lambda n, a, b: n.smaller(a, b), x, high)


def _atan2(n: Numbers, y: Num, x: Num) -> Num:
    """By the half plane of x; on its edge or where that is not certain, by the sign of y."""
    side, up = n.sign(x), n.sign(y)
    if side == 1:
        return n.call("atan", y / x)
    if up in (1, -1):
        return up * n.pi() / 2 - n.call("atan", x / y)
    raise Refused("atan2 at its cut")


def _round(n: Numbers, x: Num) -> Num:
    """To the nearest integer, to the even one of two."""
    half = n.number(0.5)
    up = n.call("floor", x + half)
    if n.sign(up - x - half) == 0 and n.sign(up / 2 - n.call("floor", up / 2)) != 0:
        return up - 1
    return up


def _rounded(r: RecordedCells, x: Any, decimals: int = 0) -> Ids:
    if decimals:
        raise Refused("round to decimals has no rule")
    return r.map("round", _round, x, weight=4)


def _sign(n: Numbers, x: Num) -> Num:
    found = n.sign(x)
    if found is None:
        raise Refused("sign of a value that many bits do not tell from 0")
    return n.number(float(found))


def _backward(name: str, fn: Callable[[Numbers, Num, Num], Num]) -> Rule:
    return lambda r, grad, y, *_: r.map(name, fn, grad, y, weight=4)


def _threshold_backward(r: RecordedCells, grad: Any, x: Any, at: float) -> Ids:
    fn = lambda n, g, a: n.choose(a - n.number(float(at)), lambda: g, lambda: n.number(0.0))  # noqa: E731
    return r.map("threshold_backward", fn, grad, x)


def _by_table(op: Aten) -> Rule | None:
    """The formula, or the function of that name; arguments beside the operands are its keywords, in order."""
    if op.loss or (op.formula is None and op.function not in FORMULAS):
        return None
    formula: Formula = op.formula or (lambda n, x: n.call(op.function, x))
    weight = 2 * HEAVY if op.form is Form.FUNCTION else float(op.operands)

    def rule(r: RecordedCells, *args: Any, **named: Any) -> Ids:
        keywords = dict(zip(op.keywords, args[op.operands :], strict=False))
        keywords |= {k: v for k, v in named.items() if k in op.keywords}
        operands = args[: op.operands]
        return r.map(op.name, lambda n, *xs: formula(n, *xs, **keywords), *operands, weight=weight)

    return rule


def _unary(name: str, fn: Callable[[Numbers, Num], Num], weight: float = HEAVY) -> Rule:
    return lambda r, x: r.map(name, fn, x, weight=weight)


_OWN: dict[str, Rule] = {
    "floor": _unary("floor", lambda n, x: n.call("floor", x), 1),
    "ceil": _unary("ceil", lambda n, x: n.call("ceil", x), 1),
    "digamma": _unary("digamma", lambda n, x: n.call("digamma", x)),
    "trunc": _unary("trunc", truncated, 1),
    "round": _rounded,
    "sign": _unary("sign", _sign, 1),
    "div": _div,
    "true_divide": _div,
    "pow": _pow,
    "atan2": lambda r, y, x: r.map("atan2", _atan2, y, x, weight=HEAVY),
    "clamp": _clamp,
    "hardtanh": lambda r, x, low=-1.0, high=1.0: _clamp(r, x, low, high),
    "clamp_min": lambda r, x, low: _clamp(r, x, low),
    "clamp_max": lambda r, x, high: _clamp(r, x, None, high),
    "sigmoid_backward": _backward("sigmoid_backward", lambda n, g, y: g * y * (1 - y)),
    "tanh_backward": _backward("tanh_backward", lambda n, g, y: g * (1 - y * y)),
    "threshold_backward": _threshold_backward,
}
ELEMENTWISE = _OWN | {
    name: rule for name, op in ATEN.items() if name not in _OWN and (rule := _by_table(op)) is not None
}
