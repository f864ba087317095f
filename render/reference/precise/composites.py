"""Norms, losses and their gradients on numbers of many bits, composed of elementwise steps and rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from render.exact.numbers import Num, Numbers
from render.reference.precise.elementwise import HEAVY, Rule
from render.reference.precise.graph import Ids, Refused

if TYPE_CHECKING:
    from render.reference.precise.cells import RecordedCells


def total(n: Numbers, xs: list[Num]) -> Num:
    return n.sum(xs)


def average(n: Numbers, xs: list[Num]) -> Num:
    return n.sum(xs) / len(xs)


def variance(n: Numbers, xs: list[Num], less: float = 0.0) -> Num:
    """Two passes: sum (x - mean)^2 / max(0, N - less)."""
    middle = average(n, xs)
    return n.sum([(x - middle) ** 2 for x in xs]) / n.number(max(0.0, len(xs) - less))


def _normed(r: RecordedCells, x: Ids, mean: Ids, spread: Ids, eps: float, weight: Any, bias: Any) -> tuple[Ids, Ids]:
    """((x - mean) / sqrt(spread + eps) weight + bias, 1 / sqrt(spread + eps))."""
    scale = r.map("rsqrt", lambda n, v: 1 / n.call("sqrt", v + n.number(float(eps))), spread, weight=3)
    y = r.map("norm", lambda n, a, m, s: (a - m) * s, x, mean, scale, weight=2)
    y = y if weight is None else r.map("mul", lambda n, a, b: a * b, y, weight)
    return (y if bias is None else r.map("add", lambda n, a, b: a + b, y, bias)), scale


def _layer_norm(r: RecordedCells, x: Ids, shape: Sequence[int], weight: Any, bias: Any, eps: float) -> Any:
    dims = list(range(-len(shape), 0))
    mean = r.reduce("mean", average, x, dims, True)
    y, scale = _normed(r, x, mean, r.reduce("var", variance, x, dims, True, 4), eps, weight, bias)
    return y, mean, scale


def _layer_norm_backward(
    r: RecordedCells, grad: Ids, x: Ids, shape: Sequence[int], mean: Ids, scale: Ids, weight: Any, bias: Any, mask: Any
) -> Any:
    dims, outer = list(range(-len(shape), 0)), list(range(x.ndim - len(shape)))
    y = r.map("norm", lambda n, a, m, s: (a - m) * s, x, mean, scale, weight=2)
    weighted = grad if weight is None else r.map("mul", lambda n, a, b: a * b, grad, weight)
    product = r.map("mul", lambda n, a, b: a * b, weighted, y)
    first, second = (r.reduce("mean", average, v, dims, True) for v in (weighted, product))
    fn = lambda n, g, a, s, p, q: s * (g - p - a * q)  # noqa: E731
    gx = r.map("native_layer_norm_backward", fn, weighted, y, scale, first, second, weight=5)
    if not outer or weight is None:
        return gx, None, None
    over = r.map("mul", lambda n, a, b: a * b, grad, y)
    return gx, r.reduce("sum", total, over, outer, False), r.reduce("sum", total, grad, outer, False)


def _group_norm(
    r: RecordedCells, x: Ids, weight: Any, bias: Any, count: int, channels: int, _: int, groups: int, eps: float
) -> Any:
    rows = x.reshape(count, groups, -1)
    mean, spread = r.reduce("mean", average, rows, -1, True), r.reduce("var", variance, rows, -1, True, 4)
    y, scale = _normed(r, rows, mean, spread, eps, None, None)
    y = y.reshape(x.shape)
    side = (channels, *[1] * (x.ndim - 2))
    y = y if weight is None else r.map("mul", lambda n, a, b: a * b, y, weight.reshape(side))
    y = y if bias is None else r.map("add", lambda n, a, b: a + b, y, bias.reshape(side))
    return y, mean[..., 0], scale[..., 0]


def _batch_norm(
    r: RecordedCells, x: Ids, weight: Any, bias: Any, mean: Any, spread: Any, training: bool, _: float, eps: float
) -> Any:
    """Over all but the channels (dimension 1); statistics that are given are only read."""
    if training and mean is not None:
        raise Refused("batch_norm that updates its statistics has no rule")
    side = (-1, *[1] * (x.ndim - 2))
    if training:
        dims = [0, *range(2, x.ndim)]
        mean, spread = r.reduce("mean", average, x, dims, False), r.reduce("var", variance, x, dims, False, 4)
    weight, bias = (None if v is None else v.reshape(side) for v in (weight, bias))
    y, scale = _normed(r, x, mean.reshape(side), spread.reshape(side), eps, weight, bias)
    return (y, mean, scale.reshape(-1)) if training else (y, None, None)


# losses
def _reduced(r: RecordedCells, x: Ids, reduction: int) -> Ids:
    """0: as it is, 1: mean, 2: sum."""
    return x if reduction == 0 else r.reduce("mean", average if reduction == 1 else total, x, None, False)


def _mse(r: RecordedCells, x: Ids, y: Ids, reduction: int = 1) -> Ids:
    return _reduced(r, r.map("mse_loss", lambda n, a, b: (a - b) ** 2, x, y, weight=2), reduction)


def _huber(name: str) -> Rule:
    """huber_loss, or smooth_l1_loss, which is that divided by its parameter."""

    def rule(r: RecordedCells, x: Ids, y: Ids, reduction: int = 1, delta: float = 1.0) -> Ids:
        def fn(n: Numbers, a: Num, b: Num) -> Num:
            d, off = n.number(float(delta)), abs(a - b)
            near, far = off * off / 2, d * (off - d / 2)
            value = n.choose(off - d, lambda: far, lambda: near)
            return value / d if name == "smooth_l1_loss" else value

        if delta <= 0:
            raise Refused(f"{name} with a parameter of 0 has no rule")
        return _reduced(r, r.map(name, fn, x, y, weight=4), reduction)

    return rule


def _nll(r: RecordedCells, x: Ids, target: torch.Tensor, weight: Any, reduction: int, ignored: int) -> Any:
    """Negative log likelihood of rows x[i] at target[i]; the mean is over the (weighted) targets not ignored."""
    rows, goals = (x[None], target.reshape(1)) if x.ndim == 1 else (x, target)
    kept = (goals != ignored).numpy()
    at = np.where(kept, goals.numpy(), 0)
    chosen = rows[np.arange(len(rows)), at]
    weights = r.constant(1.0, at.shape) if weight is None else weight[at]
    weights = np.where(kept, weights, 0)  # cell 0 is zero
    losses = r.map("nll_loss", lambda n, v, w: -v * w, np.where(kept, chosen, 0), weights, weight=2)
    if reduction == 0:
        return (losses[0] if x.ndim == 1 else losses), None
    whole, mass = r.reduce("sum", total, losses, None, False), r.reduce("sum", total, weights, None, False)
    return (r.map("div", lambda n, a, b: a / b, whole, mass) if reduction == 1 else whole), mass


# gradients of elementwise functions
def _silu_backward(n: Numbers, g: Num, x: Num) -> Num:
    s = 1 / (1 + n.call("exp", -x))
    return g * s * (1 + x * (1 - s))


def _gelu_backward(r: RecordedCells, grad: Ids, x: Ids, approximate: str = "none") -> Ids:
    if approximate != "none":
        raise Refused("gelu_backward of the tanh form has no rule")

    def fn(n: Numbers, g: Num, a: Num) -> Num:
        below = n.call("erfc", -a / n.call("sqrt", n.number(2.0))) / 2
        return g * (below + a * n.call("exp", -a * a / 2) / n.call("sqrt", 2 * n.pi()))

    return r.map("gelu_backward", fn, grad, x, weight=3 * HEAVY)


COMPOSITES: dict[str, Rule] = {
    "native_layer_norm": _layer_norm,
    "native_layer_norm_backward": _layer_norm_backward,
    "native_group_norm": _group_norm,
    "native_batch_norm": _batch_norm,
    "mse_loss": _mse,
    "huber_loss": _huber("huber_loss"),
    "smooth_l1_loss": _huber("smooth_l1_loss"),
    "nll_loss_forward": _nll,
    "silu_backward": lambda r, grad, x: r.map("silu_backward", _silu_backward, grad, x, weight=2 * HEAVY),
    "gelu_backward": _gelu_backward,
}
