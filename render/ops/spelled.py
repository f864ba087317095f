"""Operations of PyTorch that are few plain ones, spelled out: every lane follows those."""

from __future__ import annotations

from typing import Any

import torch

SUM, MEAN, MOST = 0, 1, 2
LARGEST = 1 << 22
"""Elements of what steps may hold."""


# --- bags of embeddings -------------------------------------------------------------------------------------------


def is_bag(weight: torch.Tensor, indices: torch.Tensor, *_: Any, **__: Any) -> bool:
    return weight.is_floating_point() and indices.numel() > 0 and indices.numel() * weight.shape[1] < LARGEST


def embedding_bag(
    weight: torch.Tensor, indices: torch.Tensor, offsets: torch.Tensor, by_frequency: bool = False, mode: int = SUM,
    sparse: bool = False, factors: torch.Tensor | None = None, last: bool = False, padding: int = -1,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    """Sums, means or extremes of the rows of each bag; kernels multiply by the reciprocal of a count, or divide by it.

    Source: aten/src/ATen/native/EmbeddingBag.cpp and cuda/EmbeddingBag.cu.
    """
    bags = offsets.numel() - int(last)
    bag = (
        torch.searchsorted(offsets[:bags].contiguous(), torch.arange(indices.numel()).to(offsets.dtype), right=True) - 1
    )
    kept = indices != padding
    if last:
        kept = kept & (torch.arange(indices.numel()) < offsets[-1])
    places, count = bag[kept], torch.zeros(bags, dtype=torch.long).index_add(0, bag[kept], kept[kept].long())
    rows = weight.index_select(0, indices[kept])
    if mode == MOST:
        found, chosen = _most(rows, indices[kept], places, bags)
        return found, bag, count.to(offsets.dtype), chosen.to(indices.dtype)
    if factors is not None:
        rows = rows * factors[kept][:, None]
    found = torch.zeros(bags, weight.shape[1], dtype=weight.dtype).index_add(0, places, rows)
    if mode == MEAN:
        found = found * count.clamp(min=1).to(weight.dtype).reciprocal()[:, None]
    return found, bag, count.to(offsets.dtype), offsets.clone()


def _most(
    rows: torch.Tensor, indices: torch.Tensor, places: torch.Tensor, bags: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """The largest element of each bag, zeros for an empty one, and where it lies."""
    found, chosen = [], []
    for k in range(bags):
        mine = rows[places == k]
        if len(mine):
            value, at = mine.max(0)
            found.append(value)
            chosen.append(indices[places == k][at])
        else:
            found.append(torch.zeros(rows.shape[1], dtype=rows.dtype))
            chosen.append(torch.zeros(rows.shape[1], dtype=indices.dtype))
    return torch.stack(found), torch.stack(chosen)


# --- distances ----------------------------------------------------------------------------------------------------


def is_distance(x: torch.Tensor, y: torch.Tensor, p: float, *_: Any) -> bool:
    return p > 0 and 0 < x.numel() * y.shape[-2] < LARGEST and y.numel() > 0


def distances(x: torch.Tensor, y: torch.Tensor, p: float, *_: Any) -> torch.Tensor:
    """Norms of the differences of all pairs of rows."""
    found: torch.Tensor = torch.linalg.vector_norm(x.unsqueeze(-2) - y.unsqueeze(-3), p, -1)
    return found


def is_self_distance(x: torch.Tensor, p: float = 2.0) -> bool:
    return p > 0 and len(x) > 1 and x.shape[1] > 0 and x.numel() * len(x) < LARGEST


def self_distances(x: torch.Tensor, p: float = 2.0) -> torch.Tensor:
    first, second = torch.triu_indices(len(x), len(x), 1).unbind(0)
    found: torch.Tensor = torch.linalg.vector_norm(x.index_select(0, first) - x.index_select(0, second), p, -1)
    return found


def is_renorm(x: torch.Tensor, p: float, *_: Any) -> bool:
    return p > 0 and x.is_floating_point() and x.numel() > 0


def renorm(x: torch.Tensor, p: float, dim: int, most: float) -> torch.Tensor:
    """Slices whose norm is too large times most / (norm + 1e-7); the norm in float32 or wider, the factor in the type.

    Source: renorm_out in aten/src/ATen/native/Normalization.cpp.
    """
    wide = x.dtype if x.dtype.itemsize >= 4 else torch.float32
    dims = [d for d in range(x.dim()) if d != dim % x.dim()]
    size = torch.linalg.vector_norm(x, p, dims, keepdim=True, dtype=wide)
    factor = torch.where(size > most, most / (size + 1e-7), torch.ones((), dtype=wide))
    return x * factor.to(x.dtype)


# --- reductions at places -----------------------------------------------------------------------------------------


def is_scattered(x: torch.Tensor, dim: int, index: torch.Tensor, src: torch.Tensor, reduce: str, **named: Any) -> bool:
    return reduce in ("mean", "prod", "amax", "amin") and x.is_floating_point() and 0 < index.numel() < LARGEST


def scatter_reduce(
    x: torch.Tensor, dim: int, index: torch.Tensor, src: torch.Tensor, reduce: str, *, include_self: bool = True
) -> torch.Tensor:
    """All that meets in a place, with what was there if `include_self`; a place that nothing meets stays as it is."""
    if not x.dim():
        return scatter_reduce(x[None], 0, index.reshape(-1), src.reshape(-1), reduce, include_self=include_self)[0]
    src = src[tuple(slice(0, n) for n in index.shape)]
    met = torch.zeros(x.shape, dtype=torch.long).scatter_add(dim, index, torch.ones_like(index))
    if reduce == "mean":
        start = x if include_self else torch.where(met > 0, torch.zeros((), dtype=x.dtype), x)
        count = (met + int(include_self)).clamp(min=1)
        return torch.where(met > 0, start.scatter_add(dim, index, src) / count.to(x.dtype), x)
    neutral = {"prod": 1.0, "amax": -torch.inf, "amin": torch.inf}[reduce]
    rows = torch.cat([src.reshape(-1), x.reshape(-1), torch.full((1,), neutral, dtype=x.dtype)])
    found = rows[_meeting(x, dim, index, met, include_self)]
    made = found.prod(-1) if reduce == "prod" else found.amax(-1) if reduce == "amax" else found.amin(-1)
    return made.reshape(x.shape)


def _meeting(x: torch.Tensor, dim: int, index: torch.Tensor, met: torch.Tensor, include_self: bool) -> torch.Tensor:
    """(places, most that meet in one): numbers of the elements of source, then of x, then the neutral one."""
    axes = list(torch.meshgrid(*(torch.arange(n) for n in index.shape), indexing="ij"))
    axes[dim] = index
    target = torch.zeros_like(index)
    for at, n in zip(axes, x.shape, strict=True):
        target = target * n + at
    target, order = target.reshape(-1).sort(stable=True)
    starts = met.reshape(-1).cumsum(0) - met.reshape(-1)
    found = torch.full((x.numel(), int(met.max()) + 1), index.numel() + x.numel())
    found[target, torch.arange(target.numel()) - starts[target]] = order
    own = torch.arange(x.numel()) + index.numel()
    return torch.cat([found[:, :-1], torch.where((met.reshape(-1) == 0) | include_self, own, found[:, -1])[:, None]], 1)


def is_indexed(x: torch.Tensor, dim: int, index: torch.Tensor, src: torch.Tensor, reduce: str, **named: Any) -> bool:
    return is_scattered(x, dim, index, src, reduce) and 0 < src.numel() < LARGEST


def index_reduce(
    x: torch.Tensor, dim: int, index: torch.Tensor, src: torch.Tensor, reduce: str, *, include_self: bool = True
) -> torch.Tensor:
    """As `scatter_reduce`, of whole slices."""
    side = [-1 if d == dim % x.dim() else 1 for d in range(x.dim())]
    return scatter_reduce(x, dim, index.reshape(side).expand(src.shape), src, reduce, include_self=include_self)
