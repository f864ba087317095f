"""How errors of its operand go through softmax: y e^{e_i} / sum_j y_j e^{-e_j} - y, and its own roundings. Rigorous."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from render.reference import local_error as noise
from render.reference import passes

if TYPE_CHECKING:
    from render.reference.running_error import Movable

F64 = torch.float64
CACHED = 1 << 15
"""Elements of which a dozen arrays stay in the cache."""


def error(op: Movable, value: torch.Tensor, dtype: torch.dtype, unit: noise.Unit) -> torch.Tensor:
    """As `_softmax_rows`; along the last axis in parts that stay in the cache."""
    x, dim = op.leaves[op.tensors[0]], op.args[1]
    moves = op.errors.get(op.tensors[0], torch.zeros_like(value))
    if dim in (-1, value.dim() - 1) and (found := _softmax_pass(op.name, value, x, moves, dtype, unit)) is not None:
        return found
    rows = CACHED // max(value.shape[-1], 1) if value.dim() else 0
    if value.numel() <= CACHED or not rows or dim not in (-1, value.dim() - 1):
        return _softmax_rows(op.name, value, x, moves, dim, dtype, unit)
    parts = zip(*(t.reshape(-1, value.shape[-1]).split(rows) for t in (value, x, moves)), strict=True)
    return torch.cat([_softmax_rows(op.name, y, z, e, -1, dtype, unit) for y, z, e in parts]).view(value.shape)


def _softmax_pass(
    name: str, value: torch.Tensor, x: torch.Tensor, error: torch.Tensor, dtype: torch.dtype, unit: noise.Unit
) -> torch.Tensor | None:
    """The same of small errors along the last axis, in one pass; None of others, and of log_softmax."""
    given = (value, x, error)
    plain = all(t.dtype == F64 and t.is_contiguous() and t.shape == value.shape for t in given)
    if name == "_log_softmax" or not plain or not value.numel() or not value.dim():
        return None
    out, (u, floor), n = torch.empty_like(value), unit.rounding(dtype), value.shape[-1]
    rates = float(unit.terms(n) + 8), unit.inner(dtype), u, floor
    y, given_x, moved, made = (t.detach().view(-1, n).numpy() for t in (*given, out))
    return out if passes.carry_softmax(y, given_x, moved, rates, made) else None


def _softmax_rows(
    name: str, value: torch.Tensor, x: torch.Tensor, error: torch.Tensor, dim: int, dtype: torch.dtype, unit: noise.Unit
) -> torch.Tensor:
    """y_i' <= y_i e^{e_i} / sum_j y_j e^{-e_j}, and for log_softmax the logarithm of that."""
    logs = name == "_log_softmax"
    y = value.exp() if logs else value
    inner, (u, floor) = unit.inner(dtype), unit.rounding(dtype)
    terms = unit.terms(value.shape[dim] if value.dim() else 1)
    own = terms + 8 + (value.abs() if logs else passes.logarithm(y, x, dim))
    error = torch.where(x.isfinite(), error, 0.0)  # a mask moves by nothing
    grown = error - torch.log1p((y * torch.expm1(-error)).sum(dim, keepdim=True))
    if logs:
        found: torch.Tensor = own * inner + grown + u * value.abs() + floor
        return found
    return own * inner * y + y * torch.expm1(grown) + u * y + floor


__all__ = ["error"]
