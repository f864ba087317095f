r"""Errors of norms in one pass over the elements: by statistics that are given, and by those of the rows themselves.

y = (x - m) s w + b, s = 1 / sqrt(v + eps), operands off by e:

    s       off by s ((1 - t)^-1.5 t / 2),  t = e_v / (v + eps):  (1 - t)^-1/2 is convex
    m, v    of the row: mean e, and mean (2 |x_i - m| d_i + d_i^2), d_i = e_i + mean e
    y       |x - m| e_f + (e + e_m) (|f| + e_f) + e_b, f = s w
    own     float64's roundings: 8 of every term where statistics are given (torch: x f + (b - m f)); where they are
            sums of n elements n + 16 of the largest |x_i| s, in the mean and beside the variance (Higham, ASNA, 3.1)
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from interval_ops.compiled import compiled
from render.reference import passes
from render.reference.local_error import Unit
from render.reference.running_error import Movable

F64 = torch.float64
Carried = tuple[list[Any], list[torch.Tensor | None]]


def carried(op: Movable, unit: Unit) -> Carried | None:
    """(values, error bounds) of a norm in float64; None for other operations, other units, and numbers not finite."""
    plain = not (unit.native or unit.attainable or unit.least) and unit.scale == 1.0
    rule = _RULES.get(op.name) if plain and len(op.args) == len(op.func._schema.arguments) else None
    return None if rule is None else rule(op, unit.rounding(F64)[0])


def _given(op: Movable, u: float) -> Carried | None:
    """Batch norm by its running statistics."""
    x, _, _, mean, var, training, *_ = op.args
    if training or mean is None or var is None or x.dim() < 2 or not x.numel():
        return None
    e, sides = _error(op, x, x), channel_sides(op, u)
    values = op.run()
    out = torch.empty(x.shape, dtype=F64)
    flat = tuple(t.contiguous().view(-1).numpy() for t in (x, e))
    known = carry_given(flat, *sides, x.shape[0], x.shape[1], OWN * u, passes.flat(out))
    return (values, [out, *[None] * (len(values) - 1)]) if known else None


OWN = 8.0
"""Roundings of every term where statistics are given."""
Off = tuple[np.ndarray, np.ndarray]
"""Numbers and how far they are off."""


def channel_sides(op: Movable, u: float) -> tuple[Off, Off, Off]:
    """Of a batch norm by statistics: mean, factor and bias of each channel."""
    x, weight, bias, mean, var, *_, eps = op.args
    e_w, e_b, e_m, e_v = (_error(op, t, t if t is not None else mean) for t in (weight, bias, mean, var))
    w, b, m, v = (t if t is not None else torch.full((x.shape[1],), float(i == 0), dtype=F64)
                  for i, t in enumerate((weight, bias, mean, var)))  # fmt: skip
    scale, e_scale = _scale(v + eps, e_v, u)
    factor, e_factor = scale * w, scale * e_w + (w.abs() + e_w) * e_scale
    found = [t.contiguous().view(-1).numpy() for t in (m, e_m, factor, e_factor, b, e_b)]
    return (found[0], found[1]), (found[2], found[3]), (found[4], found[5])


def _by_rows(op: Movable, u: float) -> Carried | None:
    """Layer norm."""
    x, shape, weight, bias, eps = op.args
    n = math.prod(shape)
    if not x.numel() or not n:
        return None
    e = _error(op, x, x)
    one = torch.ones(n, dtype=F64)
    sides = [torch.zeros_like(one) if t is None else t for t in (weight, bias)]
    (w, b), (e_w, e_b) = sides, (_error(op, t, side) for t, side in zip((weight, bias), sides, strict=True))
    w = one if weight is None else w
    values = op.run()
    outs = [torch.empty(t.shape, dtype=F64) for t in values]
    flat = tuple(t.contiguous().view(-1).numpy() for t in (x, e, w, e_w, b, e_b))
    known = carry_rows(flat[:2], flat[2:4], flat[4:], float(eps), u, tuple(passes.flat(t) for t in outs))
    return (values, outs) if known else None  # type: ignore[return-value]


def _error(op: Movable, x: torch.Tensor | None, like: torch.Tensor) -> torch.Tensor:
    """Of one operand."""
    place = next((i for i in op.tensors if op.leaves[i] is x), None)
    found = None if place is None else op.errors.get(place)
    return torch.zeros(like.shape, dtype=F64) if found is None else found


def _scale(spread: torch.Tensor, error: torch.Tensor, u: float) -> tuple[torch.Tensor, torch.Tensor]:
    """1 / sqrt(spread), and how far it is off."""
    scale, share = spread.sqrt().reciprocal(), error / spread
    moved = torch.where(share < 1, 0.5 * share * (1 - share) ** -1.5, math.inf)
    return scale, scale * (moved + 4 * u)


@compiled
def carry_given(operand, centre, factors, biases, images, channels, own, out):  # type: ignore[no-untyped-def]
    # Each a number and its error.
    # False: something is not finite.
    (x, e), (mean, e_mean), (factor, e_factor), (bias, e_bias) = operand, centre, factors, biases
    size = x.size // (images * channels)
    sound = True
    for row in range(images * channels):
        c = row % channels
        m, g, f, h, b, q = mean[c], e_mean[c], abs(factor[c]), e_factor[c], abs(bias[c]), e_bias[c]
        away, fixed = own * f, q + own * (abs(m) * f + b)
        total = 0.0
        for i in range(row * size, row * size + size):
            v = x[i]
            off = abs(v - m) * h + (e[i] + g) * (f + h) + away * abs(v) + fixed
            out[i] = off
            total += off
        sound &= total < math.inf
    return sound


@compiled
def carry_rows(operand, weights, biases, eps, u, outs):  # type: ignore[no-untyped-def]
    # Each a number and its error.
    # False: something is not finite.
    (x, e), (weight, e_weight), (bias, e_bias), (out, of_mean, of_scale) = operand, weights, biases, outs
    n = weight.size
    sound = True
    for row in range(x.size // n):
        start = row * n
        total, moved, most = 0.0, 0.0, 0.0
        for i in range(start, start + n):
            total += x[i]
            moved += e[i]
            most = max(most, abs(x[i]))
        mean, shift = total / n, moved / n
        squares, spread = 0.0, 0.0
        for i in range(start, start + n):
            c, d = x[i] - mean, e[i] + shift
            squares += c * c
            spread += (2.0 * abs(c) + d) * d
        var = squares / n + eps
        scale = 1.0 / math.sqrt(var)
        share = (spread / n) / var
        lost = (n + 16) * u  # relative: of sums of n elements, beside the largest of them
        relative = 0.5 * share * (1.0 - share) ** -1.5 if share < 1.0 else math.inf
        own = lost * most * scale
        relative += own + lost  # the mean's error reaches the variance in its square, and with the largest element
        grown = scale * (1.0 + relative)
        for k in range(n):
            c = abs(x[start + k] - mean)
            z = c * scale
            off = (e[start + k] + shift) * grown + z * relative + own * (1.0 + z)
            out[start + k] = (
                off * (abs(weight[k]) + e_weight[k])
                + z * e_weight[k]
                + e_bias[k]
                + 4.0 * u * (z * abs(weight[k]) + abs(bias[k]))
            )
        of_mean[row], of_scale[row] = shift + lost * most, scale * relative
        sound &= (relative < math.inf) & (most < math.inf) & (moved < math.inf)
    return sound


_RULES = {"native_batch_norm": _given, "native_layer_norm": _by_rows}

__all__ = ["OWN", "carried", "carry_given", "carry_rows", "channel_sides"]
