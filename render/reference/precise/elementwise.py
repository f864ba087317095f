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
from render.reference.precise.graph import Ids, Refused

if TYPE_CHECKING:
    from render.reference.precise.cells import Cells

Rule = Callable[..., Ids]
HEAVY = 6.0
"""What an elementary function costs, in additions."""


def _unary(name: str, fn: Callable[[Numbers, Num], Num], weight: float = HEAVY) -> Rule:
    return lambda r, x: r.map(name, fn, x, weight=weight)


def _named(name: str) -> Rule:
    return _unary(name, lambda n, x: n.call(name, x))


def _add(r: Cells, x: Any, y: Any, alpha: Any = 1, **_: Any) -> Ids:
    if alpha == 1:
        return r.map("add", lambda n, a, b: a + b, x, y)
    return r.map("add", lambda n, a, b, c: a + c * b, x, y, alpha, weight=2)


def _sub(r: Cells, x: Any, y: Any, alpha: Any = 1) -> Ids:
    return _add(r, x, y, -alpha)


def _rsub(r: Cells, x: Any, y: Any, alpha: Any = 1) -> Ids:
    return _add(r, y, x, -alpha)


def _div(r: Cells, x: Any, y: Any, rounding_mode: str | None = None) -> Ids:
    if rounding_mode is None:
        return r.map("div", lambda n, a, b: a / b, x, y)
    if rounding_mode == "floor":
        return r.map("div", lambda n, a, b: n.call("floor", a / b), x, y)
    return r.map("div", lambda n, a, b: _truncated(n, a / b), x, y)


def _truncated(n: Numbers, x: Num) -> Num:
    return n.choose(x, lambda: n.call("floor", x), lambda: n.call("ceil", x))


def _power(n: Numbers, x: Num, y: Num) -> Num:
    return x**y


def _pow(r: Cells, x: Any, y: Any) -> Ids:
    if isinstance(y, float | int) and y in (0.5, -0.5):
        return r.map("pow", lambda n, a: n.call("sqrt", a) if y > 0 else 1 / n.call("sqrt", a), x, weight=2)
    if isinstance(y, float | int) and float(y).is_integer() and abs(y) < 1024:
        return r.map("pow", lambda n, a: a ** int(y), x, weight=2)
    return r.map("pow", _power, x, y, weight=2 * HEAVY)


def _sigmoid(n: Numbers, x: Num) -> Num:
    return 1 / (1 + n.call("exp", -x))


def _softplus(r: Cells, x: Any, beta: float = 1.0, threshold: float = 20.0) -> Ids:
    def fn(n: Numbers, a: Num) -> Num:
        b = n.number(float(beta))
        smooth = lambda: n.call("log1p", n.call("exp", a * b)) / b  # noqa: E731
        return n.choose(a * b - n.number(float(threshold)), lambda: a, smooth)

    return r.map("softplus", fn, x, weight=2 * HEAVY)


def _gelu(r: Cells, x: Any, approximate: str = "none") -> Ids:
    def exact(n: Numbers, a: Num) -> Num:
        return a / 2 * n.call("erfc", -a / n.call("sqrt", n.number(2.0)))

    def by_tanh(n: Numbers, a: Num) -> Num:
        inner = n.call("sqrt", 2 / n.pi()) * (a + n.number(0.044715) * a * a * a)
        return a / 2 * (1 + n.call("tanh", inner))

    return r.map("gelu", exact if approximate == "none" else by_tanh, x, weight=2 * HEAVY)


def _elu(r: Cells, x: Any, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Ids:
    def fn(n: Numbers, a: Num) -> Num:
        s, low, inner = (n.number(float(v)) for v in (scale, alpha, input_scale))
        return n.choose(a, lambda: s * a, lambda: s * low * n.call("expm1", a * inner))

    return r.map("elu", fn, x, weight=HEAVY)


def _leaky(r: Cells, x: Any, slope: float = 0.01) -> Ids:
    return r.map("leaky_relu", lambda n, a: n.choose(a, lambda: a, lambda: n.number(float(slope)) * a), x)


def _clamp(r: Cells, x: Any, low: Any = None, high: Any = None, **named: Any) -> Ids:
    low, high = named.get("min", low), named.get("max", high)
    if low is not None:
        x = r.map("clamp", lambda n, a, b: n.larger(a, b), x, low)
    return x if high is None else r.map("clamp", lambda n, a, b: n.smaller(a, b), x, high)


def _lerp(r: Cells, x: Any, y: Any, weight: Any) -> Ids:
    return r.map("lerp", lambda n, a, b, w: a + w * (b - a), x, y, weight, weight=3)


def _addcmul(r: Cells, x: Any, y: Any, z: Any, value: Any = 1) -> Ids:
    return r.map("addcmul", lambda n, a, b, c, v: a + v * b * c, x, y, z, value, weight=3)


def _addcdiv(r: Cells, x: Any, y: Any, z: Any, value: Any = 1) -> Ids:
    return r.map("addcdiv", lambda n, a, b, c, v: a + v * b / c, x, y, z, value, weight=3)


def _atan2(n: Numbers, y: Num, x: Num) -> Num:
    """By the half plane of x; on its edge or where that is not certain, by the sign of y."""
    side, up = n.sign(x), n.sign(y)
    if side == 1:
        return n.call("atan", y / x)
    if up in (1, -1):
        return up * n.pi() / 2 - n.call("atan", x / y)
    raise Refused("atan2 at its cut")


def _threshold(r: Cells, x: Any, at: float, value: float) -> Ids:
    fn = lambda n, a: n.choose(a - n.number(float(at)), lambda: a, lambda: n.number(float(value)))  # noqa: E731
    return r.map("threshold", fn, x)


def _round(n: Numbers, x: Num) -> Num:
    """To the nearest integer, to the even one of two."""
    half = n.number(0.5)
    up = n.call("floor", x + half)
    if n.sign(up - x - half) == 0 and n.sign(up / 2 - n.call("floor", up / 2)) != 0:
        return up - 1
    return up


def _rounded(r: Cells, x: Any, decimals: int = 0) -> Ids:
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


def _threshold_backward(r: Cells, grad: Any, x: Any, at: float) -> Ids:
    fn = lambda n, g, a: n.choose(a - n.number(float(at)), lambda: g, lambda: n.number(0.0))  # noqa: E731
    return r.map("threshold_backward", fn, grad, x)


ELEMENTWISE: dict[str, Rule] = {
    **{name: _named(name) for name in FORMULAS},
    "neg": _unary("neg", lambda n, x: -x, 1),
    "abs": _unary("abs", lambda n, x: abs(x), 1),
    "square": _unary("square", lambda n, x: x * x, 1),
    "reciprocal": _unary("reciprocal", lambda n, x: 1 / x, 1),
    "sigmoid": _unary("sigmoid", _sigmoid),
    "silu": _unary("silu", lambda n, x: x * _sigmoid(n, x)),
    "mish": _unary("mish", lambda n, x: x * n.call("tanh", n.call("log1p", n.call("exp", x))), 3 * HEAVY),
    "log_sigmoid_forward": _unary("log_sigmoid", lambda n, x: -n.call("log1p", n.call("exp", -x)), 2 * HEAVY),
    "relu": _unary("relu", lambda n, x: n.larger(x, n.number(0.0)), 1),
    "trunc": _unary("trunc", _truncated, 1),
    "round": _rounded,
    "sign": _unary("sign", _sign, 1),
    "add": _add,
    "sub": _sub,
    "rsub": _rsub,
    "mul": lambda r, x, y: r.map("mul", lambda n, a, b: a * b, x, y),
    "div": _div,
    "true_divide": _div,
    "pow": _pow,
    "maximum": lambda r, x, y: r.map("maximum", lambda n, a, b: n.larger(a, b), x, y),
    "minimum": lambda r, x, y: r.map("minimum", lambda n, a, b: n.smaller(a, b), x, y),
    "atan2": lambda r, y, x: r.map("atan2", _atan2, y, x, weight=HEAVY),
    "hypot": lambda r, x, y: r.map("hypot", lambda n, a, b: n.call("sqrt", a * a + b * b), x, y, weight=4),
    "softplus": _softplus,
    "gelu": _gelu,
    "elu": _elu,
    "leaky_relu": _leaky,
    "clamp": _clamp,
    "hardtanh": lambda r, x, low=-1.0, high=1.0: _clamp(r, x, low, high),
    "clamp_min": lambda r, x, low: _clamp(r, x, low),
    "clamp_max": lambda r, x, high: _clamp(r, x, None, high),
    "threshold": _threshold,
    "lerp": _lerp,
    "addcmul": _addcmul,
    "addcdiv": _addcdiv,
    "sigmoid_backward": _backward("sigmoid_backward", lambda n, g, y: g * y * (1 - y)),
    "tanh_backward": _backward("tanh_backward", lambda n, g, y: g * (1 - y * y)),
    "threshold_backward": _threshold_backward,
}
