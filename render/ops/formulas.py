"""PyTorch's functions as formulas, written once for every kind of number that lanes compute with.

A formula gets the numbers' own arithmetic `n` and its operands: intervals of a host operation, balls of a reference in
more bits, nodes of a slice. It may use + - * / and whole powers of numbers, and of `n` what `NumberKind` lists. Where
torch computes a formula in another way than the best one, its own way stands beside it as `..._computed`: bounds need
the errors of that one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

Num = Any


class Refused(Exception):
    """A formula or a lane has no rule for these arguments; the message says why, and names the operation."""


class NumberKind(Protocol):
    """What formulas need of a kind of number."""

    def number(self, x: float) -> Num: ...
    def call(self, name: str, x: Num) -> Num: ...
    def larger(self, a: Num, b: Num) -> Num: ...
    def smaller(self, a: Num, b: Num) -> Num: ...
    def pi(self) -> Num: ...
    def choose(self, x: Num, above: Callable[[], Num], below: Callable[[], Num]) -> Num: ...


Formula = Callable[..., Num]


def sigmoid(n: NumberKind, x: Num) -> Num:
    return 1 / (1 + n.call("exp", -x))


def silu(n: NumberKind, x: Num) -> Num:
    return x / (1 + n.call("exp", -x))


def mish(n: NumberKind, x: Num) -> Num:
    return x * n.call("tanh", n.call("log1p", n.call("exp", x)))


def log_sigmoid(n: NumberKind, x: Num) -> Num:
    return -n.call("log1p", n.call("exp", -x))


def log_sigmoid_computed(n: NumberKind, x: Num) -> Num:
    return n.smaller(x, n.number(0.0)) - n.call("log1p", n.call("exp", -abs(x)))


def logit(n: NumberKind, x: Num, eps: float | None = None) -> Num:
    """The inverse of sigmoid; `eps`: of x cut to [eps, 1 - eps]."""
    if eps is not None and eps >= 0:
        low = n.number(float(eps))
        x = n.smaller(n.larger(x, low), 1 - low)
    return n.call("log", x / (1 - x))


def softplus(n: NumberKind, x: Num, beta: float = 1.0, threshold: float = 20.0) -> Num:
    b = n.number(float(beta))
    smooth = lambda: n.call("log1p", n.call("exp", x * b)) / b  # noqa: E731
    return n.choose(x * b - n.number(float(threshold)), lambda: x, smooth)


def gelu(n: NumberKind, x: Num, approximate: str = "none") -> Num:
    if approximate == "none":
        return x / 2 * n.call("erfc", -x / n.call("sqrt", n.number(2.0)))
    inner = n.call("sqrt", 2 / n.pi()) * (x + n.number(0.044715) * x * x * x)
    return x / 2 * (1 + n.call("tanh", inner))


def gelu_computed(n: NumberKind, x: Num, approximate: str = "none") -> Num:
    if approximate == "none":
        return x * n.number(0.5) * (1 + n.call("erf", x * n.number(math.sqrt(0.5))))
    return gelu(n, x, approximate)


def elu(n: NumberKind, x: Num, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Num:
    s, low, inner = (n.number(float(v)) for v in (scale, alpha, input_scale))
    return n.choose(x, lambda: s * x, lambda: s * low * n.call("expm1", x * inner))


def leaky_relu(n: NumberKind, x: Num, negative_slope: float = 0.01) -> Num:
    return n.choose(x, lambda: x, lambda: n.number(float(negative_slope)) * x)


def threshold(n: NumberKind, x: Num, threshold: float, value: float) -> Num:
    return n.choose(x - n.number(float(threshold)), lambda: x, lambda: n.number(float(value)))


def softshrink(n: NumberKind, x: Num, lambd: float = 0.5) -> Num:
    away = n.number(float(lambd))
    return n.larger(x - away, n.number(0.0)) + n.smaller(x + away, n.number(0.0))


def hardsigmoid(n: NumberKind, x: Num) -> Num:
    return n.smaller(n.larger(x + 3, n.number(0.0)), n.number(6.0)) / 6


def hardswish(n: NumberKind, x: Num) -> Num:
    return x * n.smaller(n.larger(x + 3, n.number(0.0)), n.number(6.0)) / 6


def added(n: NumberKind, x: Num, y: Num, alpha: float = 1) -> Num:
    return x + y if alpha == 1 else x + n.number(float(alpha)) * y


def subtracted(n: NumberKind, x: Num, y: Num, alpha: float = 1) -> Num:
    return x - y if alpha == 1 else x - n.number(float(alpha)) * y


def reversed_difference(n: NumberKind, x: Num, y: Num, alpha: float = 1) -> Num:
    return subtracted(n, y, x, alpha)


def lerp(n: NumberKind, x: Num, y: Num, w: Num) -> Num:
    return x + w * (y - x)


def lerp_computed(n: NumberKind, x: Num, y: Num, w: Num) -> Num:
    """From the second end where |w| >= 1/2 (aten/src/ATen/native/Lerp.h)."""
    return n.choose(abs(w) - n.number(0.5), lambda: y - (y - x) * (1 - w), lambda: x + w * (y - x))


def addcmul(n: NumberKind, x: Num, y: Num, z: Num, value: float = 1) -> Num:
    product = n.number(float(value)) * y * z
    if z is y:  # of one sign, in any order and however rounded
        product = n.larger(product, n.number(0.0)) if value >= 0 else n.smaller(product, n.number(0.0))
    return x + product


def addcdiv(n: NumberKind, x: Num, y: Num, z: Num, value: float = 1) -> Num:
    return x + n.number(float(value)) * y / z


def hypot(n: NumberKind, x: Num, y: Num) -> Num:
    return n.call("sqrt", x * x + y * y)


def radians(n: NumberKind, x: Num) -> Num:
    return x * (n.pi() / 180)


def degrees(n: NumberKind, x: Num) -> Num:
    return x * (180 / n.pi())


def logaddexp(n: NumberKind, x: Num, y: Num) -> Num:
    return n.larger(x, y) + n.call("log1p", n.call("exp", -abs(x - y)))


def logaddexp2(n: NumberKind, x: Num, y: Num) -> Num:
    """Of powers of 2, with torch's natural logarithm of the smaller part."""
    small = n.call("log1p", n.call("exp2", -abs(x - y)))
    return n.larger(x, y) + small / n.call("log", n.number(2.0))


def x_log_y(n: NumberKind, x: Num, y: Num) -> Num:
    """0 where x is, whatever y."""
    return n.choose(abs(x), lambda: x * n.call("log", y), lambda: n.number(0.0))


def x_log1p_y(n: NumberKind, x: Num, y: Num) -> Num:
    return n.choose(abs(x), lambda: x * n.call("log1p", y), lambda: n.number(0.0))


def squared_distance(n: NumberKind, x: Num, y: Num) -> Num:
    return (x - y) ** 2


def huber(n: NumberKind, x: Num, y: Num, delta: float = 1.0) -> Num:
    """Half the square of the distance, beyond delta its tangent."""
    if delta <= 0:
        raise Refused("a loss with a parameter of 0 has no rule")
    d, off = n.number(float(delta)), abs(x - y)
    return n.choose(off - d, lambda: d * (off - d / 2), lambda: off * off / 2)


def smooth_l1(n: NumberKind, x: Num, y: Num, beta: float = 1.0) -> Num:
    return huber(n, x, y, beta) / n.number(float(beta))


HALF_POWERS = {0.5: "sqrt", -0.5: "rsqrt"}
"""Powers that torch takes by a function."""


BY_STEPS: dict[float | str, Formula] = {
    3: lambda n, x: x * x * x,
    -2: lambda n, x: 1 / (x * x),
    -0.5: lambda n, x: 1 / n.call("sqrt", x),
}
BY_STEPS[HALF_POWERS[-0.5]] = BY_STEPS[-0.5]
"""Powers and functions that some kernel of torch computes in these steps, each rounded to a narrow type."""


def glu(n: NumberKind, x: Num, gate: Num) -> Num:
    return x * sigmoid(n, gate)


def special_terms(name: str, factor: float = 1.0) -> Callable[[Any], Any]:
    """The magnitude of `torch.special.<name>`, times `factor`."""

    def terms(x: Any) -> Any:
        from torch import special

        return factor * getattr(special, name)(x).abs()

    return terms


def gelu_terms(g: Any, x: Any, approximate: str = "none") -> Any:
    """Of g (cdf + x pdf): `1 + erf` and `1 - tanh^2` lose in units of 1, exp(-x^2 / 2) in units of x^2 of itself."""
    slope = (-x * x / 2).exp() * 0.4 * (1 + x * x) if approximate == "none" else 0.8 * (1 + 0.135 * x * x)
    return g.abs() * (1 + x.abs() * slope)


def _reduced(terms: Any, reduction: int) -> Any:
    """What a sum or mean of n elements loses in n units, of terms that are counted in sixteen."""
    n = max(terms.numel(), 1)
    return terms if reduction == 0 else terms.sum() * (1 + n / 16) / (n if reduction == 1 else 1)


def entropy_terms(x: Any, t: Any, weight: Any = None, reduction: int = 1) -> Any:
    """Of (t - 1) log(1 - x) - t log x, logarithms from -100 up (Loss.cpp, Loss.cu of PyTorch)."""
    found = t.abs() * x.log().clamp(min=-100).abs() + (1 + t.abs()) * (-x).log1p().clamp(min=-100).abs()
    return _reduced(found if weight is None else found * weight.abs() * 1.5, reduction)  # a multiplication more


def logit_entropy_terms(x: Any, t: Any, weight: Any = None, positive: Any = None, reduction: int = 1) -> Any:
    """Of (1 - t) x - ((p - 1) t + 1) log(sigmoid(x)), p the weight of what is positive (Loss.cpp of PyTorch): for large
    |x| both terms are as large as x, whatever is left of them."""
    logs = -(x.clamp(max=0) - (-x.abs()).exp().log1p())
    logs = logs if positive is None else 2 * logs * (1 + (1 + positive.abs()) * t.abs())
    found = (1 + t.abs()) * x.abs() + logs
    return _reduced(found if weight is None else found * weight.abs() * 1.5, reduction)  # a multiplication more
