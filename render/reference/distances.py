"""Losses of distances between two tensors: how far their inputs move them, and what they lose themselves.

With d = |x - y| and e the errors of both together, a loss l(d) moves by at most max |l'| e over [d - e, d + e].
Its own steps are a difference, a product or two and a factor: none takes more than six units roundoff of the result
(beyond the threshold d - delta/2 >= d/2, so that nothing cancels by more than that), and where a format is so narrow
that a step underflows, half a subnormal spacing, which the factor behind it may enlarge.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from render.ops.aten import ATEN, named
from render.reference.local_error import Unit

STEPS, UNDERFLOWS = 6.0, 2.0
MEAN = 1


class _Loss(NamedTuple):
    """`value` and largest slope up to d, by the parameter; `gain`: of what a step loses; `parameter`: its name."""

    value: Callable[[torch.Tensor, float], torch.Tensor]
    slope: Callable[[torch.Tensor, float], torch.Tensor]
    gain: Callable[[float], float]
    parameter: str = ""


def _huber(d: torch.Tensor, delta: float) -> torch.Tensor:
    return torch.where(d <= delta, 0.5 * d * d, delta * (d - 0.5 * delta))


def _smooth(d: torch.Tensor, beta: float) -> torch.Tensor:
    return d if beta == 0 else torch.where(d < beta, 0.5 * d * d / beta, d - 0.5 * beta)


DISTANCES: dict[str, _Loss] = {
    "mse_loss": _Loss(lambda d, _: d * d, lambda d, _: 2 * d, lambda _: 1.0),
    "huber_loss": _Loss(_huber, lambda d, delta: d.clamp(max=delta), lambda delta: max(1.0, delta), "delta"),
    "smooth_l1_loss": _Loss(
        _smooth,
        lambda d, beta: torch.ones_like(d) if beta == 0 else (d / beta).clamp(max=1.0),
        lambda beta: max(1.0, 1 / beta) if beta else 1.0,
        "beta",
    ),
}


def error(op: Any, value: torch.Tensor, dtype: torch.dtype, unit: Unit) -> torch.Tensor:
    """Bound of |computed - exact| of the result of `op` (`running_error.Movable`), whose exact value is `value`."""
    loss, given = DISTANCES[op.name], named(op.func._schema, op.args, op.kwargs)
    parameter, reduction = float(given.get(loss.parameter) or 0.0), int(given["reduction"])
    d = (op.args[0] - op.args[1]).abs()
    moved = torch.zeros((), dtype=torch.float64)
    for i in op.errors:
        moved = moved + op.errors[i]
    u, floor = unit.rounding(dtype)
    inner = unit.inner(dtype)
    by_step = ATEN[op.name].stepwise and unit.native and not unit.attainable
    single = STEPS * u if by_step else u + STEPS * inner
    lost = floor * (1 + (UNDERFLOWS * loss.gain(parameter) if by_step else 0.0))
    elements = loss.value(d, parameter).abs()
    own = loss.slope(d + moved, parameter) * moved + single * elements + lost
    if reduction == 0:
        return own
    count = unit.terms(d.numel()) * inner
    total = own.sum() + count * (elements.sum() + own.sum())
    if reduction == MEAN:
        total = total / max(d.numel(), 1)
    return total + u * value.abs() + floor
