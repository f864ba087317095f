"""Operations whose exact value is followed by steps that are written here, for torch's own table has none that serve.

Gradients are what the definition of their forward operation says: linear maps turned around, formulas, or torch's own
steps of the forward operation with autograd through them. Each value is put beside what the operation itself gives
(`render.reference.shadow`), so that a definition that means something else at some kink is noticed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from render.ops import resampled

F64 = torch.float64
Steps = Callable[..., Any]
LARGEST = 1 << 25
"""Differences of all pairs that are written down."""


def _spread(
    x: torch.Tensor, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *, correction: Any = None
) -> list[torch.Tensor]:
    """(variance, mean): two passes, divided by N - correction (1 unless told)."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    dims = list(range(x.dim())) if dim is None or dim == [] else dim
    mean = x.mean(dims, keepdim=True)
    squares = (x - mean).square().sum(dims, keepdim=keepdim)
    less = correction if correction is not None else 1 if unbiased is None else int(unbiased)
    count = x.numel() / max(mean.numel(), 1) - less
    return [squares / max(count, 0.0), mean if keepdim else mean.reshape(squares.shape)]


def _scanned(join: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> Steps:
    """All that is before an element and itself, joined: 2, 4, 8, ... neighbours at a time (Hillis and Steele)."""

    def steps(x: torch.Tensor, dim: int, *, dtype: torch.dtype | None = None) -> torch.Tensor:
        found, reach = x.clone(), 1
        size = x.shape[dim] if x.dim() else 1
        while reach < size:
            head, tail = found.narrow(dim, 0, reach), found.narrow(dim, reach, size - reach)
            found = torch.cat([head, join(tail, found.narrow(dim, 0, size - reach))], dim)
            reach *= 2
        return found

    return steps


def _log_of_both(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """log(e^a + e^b), beside the larger: a mask of -3e38 costs nothing."""
    below = torch.where(a == b, 0.0, -(a - b).abs())
    return torch.maximum(a, b) + below.exp().log1p()


def _shrunk(grad: torch.Tensor, x: torch.Tensor, reach: float) -> torch.Tensor:
    return torch.where(x.abs() <= reach, 0.0, grad)


def _angle(x: torch.Tensor) -> Any:
    return NotImplemented if x.is_complex() else torch.where(x.isnan(), x, torch.where(x < 0, math.pi, 0.0))


def _quantised(
    x: torch.Tensor, scale: Any, zero: Any, low: int, high: int
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """(the nearest of scale (q - zero), whether q lies within its range), as for affine quantisation."""
    q = (x / scale).round() + zero
    return (q.clamp(low, high) - zero) * scale, (q >= low) & (q <= high)


def _quantised_by_channel(
    x: torch.Tensor, scale: torch.Tensor, zero: torch.Tensor, axis: int, low: int, high: int
) -> tuple[torch.Tensor, torch.Tensor]:
    shape = [-1 if i == axis % x.dim() else 1 for i in range(x.dim())]
    return _quantised(x, scale.reshape(shape), zero.reshape(shape), low, high)


def _slopes(difference: torch.Tensor, p: float, distance: torch.Tensor) -> torch.Tensor:
    """d distance / d x1, for the norm p of x1 - x2; 0 where the points are the same."""
    if p == 0:
        return torch.zeros_like(difference)
    if p == 1:
        return difference.sign()
    if p == float("inf"):
        return difference.sign() * (difference.abs() == distance)
    apart = torch.where(distance == 0, 1.0, distance)
    if p == 2:
        return difference / apart
    return difference.sign() * (difference.abs() / apart).pow(p - 1)


def _distances_back(grad: torch.Tensor, x: torch.Tensor, y: torch.Tensor, p: float, distance: torch.Tensor) -> Any:
    if distance.numel() * x.shape[-1] > LARGEST:
        return NotImplemented
    difference = x[..., :, None, :] - y[..., None, :, :]
    return (grad[..., None] * _slopes(difference, p, distance[..., None])).sum(-2)


def _pairs_back(grad: torch.Tensor, x: torch.Tensor, p: float, distance: torch.Tensor) -> Any:
    if distance.numel() * x.shape[-1] > LARGEST:
        return NotImplemented
    i, j = torch.triu_indices(len(x), len(x), 1)
    moved = grad[:, None] * _slopes(x[i] - x[j], p, distance[:, None])
    return torch.zeros_like(x).index_add(0, i, moved).index_add(0, j, -moved)


def _resized_back(
    weights: Callable[..., torch.Tensor], grad: torch.Tensor, size: Sequence[int], given: Sequence[int], corners: bool,
    down: float | None = None, across: float | None = None,
) -> torch.Tensor:  # fmt: skip
    """Each element of the cotangent goes where it came from, by the weights that it came with."""
    sides = zip(given[-2:], size, (down, across), strict=True)
    rows, columns = (weights(n, m, corners, s) for n, m, s in sides)
    return rows.T @ grad @ columns


def _with_autograd() -> Any:
    """A scope in which operations are recorded for gradients, as they are not where a mode handles one."""
    kept, left_out = torch._C._dispatch_tls_local_include_set(), torch._C._dispatch_tls_local_exclude_set()
    for key in (torch._C.DispatchKey.AutogradFunctionality, torch._C.DispatchKey.ADInplaceOrView):
        left_out = left_out.remove(key)
    return torch._C._ForceDispatchKeyGuard(kept, left_out)


def _turned(name: str, inputs: Sequence[int], shapes: Callable[..., list[Any]]) -> Steps:
    """The gradients of torch's steps of `name`: of the arguments `inputs` of the call that `shapes` makes of these."""

    def steps(grad: torch.Tensor, *args: Any) -> Any:
        from torch._decomp import decomposition_table

        given = shapes(*args)
        forward = decomposition_table[getattr(torch.ops.aten, name).default]
        leaves = [given[i].detach().requires_grad_() for i in inputs]
        for i, leaf in zip(inputs, leaves, strict=True):
            given[i] = leaf
        with _with_autograd(), torch.enable_grad():
            made = forward(*given)
            first = made[0] if isinstance(made, (tuple, list)) else made
            found = torch.autograd.grad(first, leaves, grad, allow_unused=True)
        found = tuple(torch.zeros_like(x) if g is None else g for x, g in zip(leaves, found, strict=True))
        return found[0] if len(found) == 1 else found

    return steps


STEPS: dict[str, Steps] = {
    "var": lambda *args, **kwargs: _spread(*args, **kwargs)[0],
    "var_mean": _spread,
    "std": lambda *args, **kwargs: _spread(*args, **kwargs)[0].sqrt(),
    "std_mean": lambda *args, **kwargs: [(found := _spread(*args, **kwargs))[0].sqrt(), found[1]],
    "logcumsumexp": _scanned(_log_of_both),
    "cumprod": _scanned(torch.mul),
    "softshrink_backward": _shrunk,
    "hardshrink_backward": _shrunk,
    "angle": _angle,
    "fake_quantize_per_tensor_affine_cachemask": _quantised,
    "fake_quantize_per_channel_affine_cachemask": _quantised_by_channel,
    "_cdist_backward": _distances_back,
    "_pdist_backward": _pairs_back,
    "grid_sampler_2d_backward": _turned("grid_sampler_2d", (0, 1), lambda *given: list(given[:-1])),
    "_weight_norm_interface_backward": _turned("_weight_norm_interface", (0, 1), lambda v, g, norms, dim: [v, g, dim]),
    "multi_margin_loss_backward": _turned("multi_margin_loss", (0,), lambda *given: list(given)),
    **{f"{name}_backward": partial(_resized_back, weights) for name, weights in resampled.WEIGHTS.items()},
}
"""By base name; NotImplemented where they don't serve for these arguments."""
