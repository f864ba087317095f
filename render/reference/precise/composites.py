"""Norms, losses and their gradients on numbers of many bits, composed of elementwise steps and rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from render.exact.numbers import Num, Numbers
from render.ops.aten import ATEN, Aten
from render.ops.formulas import Refused
from render.reference.precise.elementwise import HEAVY, Rule
from render.reference.precise.graph import Ids

if TYPE_CHECKING:
    from render.reference.precise.cells import RecordedCells


def total(n: Numbers, xs: list[Num]) -> Num:
    return n.sum(xs)


def average(n: Numbers, xs: list[Num]) -> Num:
    return n.sum(xs) / len(xs)


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


# losses
def _reduced(r: RecordedCells, x: Ids, reduction: int) -> Ids:
    """0: as it is, 1: mean, 2: sum."""
    return x if reduction == 0 else r.reduce("mean", average if reduction == 1 else total, x, None, False)


def loss(op: Aten) -> Rule:
    """An elementwise formula of two operands, then nothing, the mean or the sum of all."""
    formula = op.formula
    assert formula is not None

    def rule(r: RecordedCells, x: Ids, y: Ids, reduction: int = 1, *more: Any, **named: Any) -> Ids:
        keywords = dict(zip(op.keywords, more, strict=False)) | {k: v for k, v in named.items() if k in op.keywords}
        made = r.map(op.name, lambda n, a, b: formula(n, a, b, **keywords), x, y, weight=4)
        return _reduced(r, made, int(named.get("reduction", reduction)))

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
        raise Refused(f"gelu_backward of the form {approximate!r} has no rule")

    def fn(n: Numbers, g: Num, a: Num) -> Num:
        below = n.call("erfc", -a / n.call("sqrt", n.number(2.0))) / 2
        return g * (below + a * n.call("exp", -a * a / 2) / n.call("sqrt", 2 * n.pi()))

    return r.map("gelu_backward", fn, grad, x, weight=3 * HEAVY)


COMPOSITES: dict[str, Rule] = {
    "native_layer_norm_backward": _layer_norm_backward,
    **{name: loss(op) for name, op in ATEN.items() if op.loss},
    "nll_loss_forward": _nll,
    "silu_backward": lambda r, grad, x: r.map("silu_backward", _silu_backward, grad, x, weight=2 * HEAVY),
    "gelu_backward": _gelu_backward,
}
