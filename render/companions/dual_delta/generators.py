"""Inputs of many kinds in the shapes and dtypes of an example: each stresses another weakness, none are pooled.

Values are drawn in float64 and rounded once to the tensor's own dtype; integers, truths and scalars stay as they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from render.entry.inputs import Inputs

Draw = Callable[[torch.Tensor, torch.Generator, int], torch.Tensor]
"""(example, stream, number of the tensor) -> float64 values of its shape."""
ZEROS = 0.9
"""Share of zeros in `sparse`."""


def _normal(x: torch.Tensor, g: torch.Generator, i: int) -> torch.Tensor:
    return torch.randn(x.shape, generator=g, dtype=torch.float64)


def _uniform(x: torch.Tensor, g: torch.Generator, i: int) -> torch.Tensor:
    return torch.rand(x.shape, generator=g, dtype=torch.float64)


def _lognormal(x: torch.Tensor, g: torch.Generator, i: int) -> torch.Tensor:
    return _normal(x, g, i).exp()


def _sparse(x: torch.Tensor, g: torch.Generator, i: int) -> torch.Tensor:
    return _normal(x, g, i) * (_uniform(x, g, i) >= ZEROS)


def _wide(x: torch.Tensor, g: torch.Generator, i: int) -> torch.Tensor:
    """Magnitudes over a third of the exponents that the dtype has, so that a product stays in its range."""
    info = torch.finfo(x.dtype)
    reach = min(math.log2(info.max), -math.log2(info.tiny)) / 3
    return _normal(x, g, i) * torch.exp2((2 * _uniform(x, g, i) - 1) * reach)


def _cancelling(x: torch.Tensor, g: torch.Generator, i: int) -> torch.Tensor:
    """Neighbours that cancel but for some roundings: along the last axis of the first tensor, and, in the others of two
    axes and more, equal neighbours along the one before it, so that a product of the two cancels as well."""
    axis = x.dim() - 2 if i and x.dim() > 1 else x.dim() - 1
    if x.dim() == 0 or x.shape[axis] < 2:
        return _normal(x, g, i)
    values = _normal(x, g, i).movedim(axis, -1).contiguous()
    half = values.shape[-1] // 2 * 2
    near = values[..., 0:half:2] * (1 + 4 * torch.finfo(x.dtype).eps * values[..., 1:half:2])
    values[..., 1:half:2] = near if axis != x.dim() - 1 else -near
    return values.movedim(-1, axis)


GENERATORS: dict[str, Draw] = {
    "normal": _normal, "uniform": _uniform, "lognormal": _lognormal, "sparse": _sparse, "wide": _wide,
    "cancelling": _cancelling,
}  # fmt: skip


@dataclass
class _Redrawn:
    draw: Draw
    stream: torch.Generator
    count: int = field(default=0, init=False)
    made: dict[int, torch.Tensor] = field(default_factory=dict, init=False)

    def __call__(self, x: object) -> object:
        if not isinstance(x, torch.Tensor) or not x.is_floating_point():
            return x
        if id(x) not in self.made:
            fresh = torch.empty_like(x.detach())
            fresh.copy_(self.draw(x, self.stream, self.count))
            self.made[id(x)], self.count = fresh, self.count + 1
        return self.made[id(x)]


def redrawn(like: Inputs, name: str, seed: int) -> Inputs:
    """The inputs of the example with float tensors drawn anew; a tensor that is given twice stays one."""
    return like.map(_Redrawn(GENERATORS[name], torch.Generator().manual_seed(seed)))
