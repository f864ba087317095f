r"""Interpolations at computed places as sums with weights: bicubic, antialiased, and samples at the points of a grid.

What is interpolated is a continuous function of the place, and so are the weights, which the kernels of PyTorch compute
from places in float32 (in float64 for that type): scale (i + 1/2) - 1/2 up to an extent L has 4 roundings and the
scale's own, 5 u L; (g + 1) L / 2 - 1/2 has 4. Per unit of place along one axis a result changes by at most D times the
largest magnitude of the plane: with the cubic kernel of a = -3/4, whose slopes add up to 4.2 in magnitude and its
weights to 1.375, D = 4.2 * 1.375 < 6; with the linear one D = 2. Weights, products and sums have less than 32 roundings
of the operand's type, some kernels keep weights and sums in it.

Sources: aten/src/ATen/native/UpSample.h, GridSampler.h, cpu/UpSampleKernel.cpp; Keys (1981) for the kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from render.ops.rooms import about, unit

F64 = torch.float64
SHARP, SOFT = -0.75, -0.5
"""Parameter of the cubic kernel; antialiased ones take that of PIL."""


def cubic(x: torch.Tensor, a: float = SHARP) -> torch.Tensor:
    """Keys' kernel."""
    x = x.abs()
    near, far = ((a + 2) * x - (a + 3)) * x * x + 1, ((x - 5) * x + 8) * x * a - 4 * a
    return torch.where(x <= 1, near, torch.where(x < 2, far, 0.0))


def tent(x: torch.Tensor) -> torch.Tensor:
    return (1 - x.abs()).clamp(min=0)


SLOPE = 6.0
"""D of every kernel here but the linear one of grids."""


def _most(x: torch.Tensor) -> torch.Tensor:
    return x.detach().to(F64).abs().amax((-2, -1), keepdim=True)


def _of_places(x: torch.Tensor) -> float:
    """Unit roundoff in which places are computed."""
    return unit(x.dtype if x.dtype.itemsize >= 4 else torch.float32)


def _scale(size: int, out: int, corners: bool, given: float | None) -> float:
    if corners:
        return (size - 1) / (out - 1) if out > 1 else 0.0
    return 1 / given if given else size / out


def _weights(size: int, out: int, corners: bool, given: float | None) -> torch.Tensor:
    """(out, size) weights of bicubic interpolation; places beyond the ends are the ends."""
    scale, i = _scale(size, out, corners, given), torch.arange(out, dtype=F64)
    place = i * scale if corners else (i + 0.5) * scale - 0.5
    first = place.floor()
    found = torch.zeros(out, size, dtype=F64)
    for step in range(-1, 3):
        at = (first + step).clamp(0, size - 1).long()
        found.scatter_add_(1, at[:, None], cubic(place - first - step)[:, None])
    return found


def _smoothed(kernel: Callable[[torch.Tensor], torch.Tensor], reach: float) -> Callable[..., torch.Tensor]:
    """Weights of an antialiased kernel: as wide as the scale asks, and normalised."""

    def weights(size: int, out: int, corners: bool, given: float | None) -> torch.Tensor:
        scale = _scale(size, out, corners, given)
        wide = max(scale, 1.0)
        centre, at = (torch.arange(out, dtype=F64) + 0.5) * scale, torch.arange(size, dtype=F64)
        start = (centre - reach * wide + 0.5).clamp(min=0).trunc()[:, None]
        end = (centre + reach * wide + 0.5).clamp(max=size).trunc()[:, None]
        found = kernel((at - centre[:, None] + 0.5) / wide)
        found = torch.where((at >= start) & (at < end), found, 0.0)
        return found / found.sum(1, keepdim=True)

    return weights


def _resized(weights: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """One product with the weights along each axis."""

    def steps(
        x: torch.Tensor, size: Sequence[int], corners: bool, down: float | None = None, across: float | None = None
    ) -> torch.Tensor:
        sides = zip(x.shape[-2:], size, (down, across), strict=True)
        wide = x if x.dtype.itemsize >= 4 else x.float()
        rows, columns = (weights(n, m, corners, s).to(wide.dtype) for n, m, s in sides)
        for side in (columns, rows):  # along the last axis, which comes first
            wide = torch.mm(wide.reshape(-1, side.shape[1]), side.T).reshape(*wide.shape[:-1], -1).transpose(-1, -2)
        found = wide.to(x.dtype)
        return about(found, _most(x) * (SLOPE * 5 * _of_places(x) * sum(x.shape[-2:]) + 32 * unit(x.dtype)))

    return steps


WEIGHTS = {
    "upsample_bicubic2d": _weights,
    "_upsample_bilinear2d_aa": _smoothed(tent, 1.0),
    "_upsample_bicubic2d_aa": _smoothed(lambda x: cubic(x, SOFT), 2.0),
}
"""(size, results, aligned corners, factor) -> the weights of the elements in each result, along one axis."""
bicubic, bilinear_smoothed, bicubic_smoothed = map(_resized, WEIGHTS.values())


def of_planes(x: torch.Tensor, *_: Any, **__: Any) -> bool:
    return x.is_floating_point() and x.numel() > 0 and x.shape[-1] < 4096 and x.shape[-2] < 4096


def is_resized(
    x: torch.Tensor, size: Sequence[int], corners: bool, down: float | None = None, across: float | None = None
) -> bool:
    """Of an axis that keeps its length some kernels copy and others go by the factor, if that is another than 1."""
    sides = zip(x.shape[-2:], size, (down, across), strict=True)
    return of_planes(x) and (corners or all(n != m or not s or s == 1 for n, m, s in sides))


# --- samples at points --------------------------------------------------------------------------------------------

LINEAR, NEAREST, CUBIC = 0, 1, 2
ZEROS, BORDER, REFLECTED = 0, 1, 2


def _inside(place: torch.Tensor, size: int, padding: int, corners: bool) -> torch.Tensor:
    """Where a place beyond the ends is taken from."""
    if padding == REFLECTED:
        low, span = (0.0, float(size - 1)) if corners else (-0.5, float(size))
        if not span:
            return torch.zeros_like(place)
        away = (place - low).abs()
        turns = (away / span).floor()
        left = away - turns * span
        place = torch.where(turns % 2 == 0, left, span - left) + low
    return place if padding == ZEROS else place.clamp(0, size - 1)


def _taken(x: torch.Tensor, down: torch.Tensor, across: torch.Tensor) -> torch.Tensor:
    """Elements at whole places (N, P); zeros outside."""
    n, c, h, w = x.shape
    held = (down >= 0) & (down < h) & (across >= 0) & (across < w)
    at = (down.clamp(0, h - 1) * w + across.clamp(0, w - 1)).long()
    found = x.flatten(2).gather(2, at[:, None].expand(n, c, at.shape[1]))
    return torch.where(held[:, None], found, torch.zeros((), dtype=x.dtype))


def _one_by_one(parts: torch.Tensor) -> torch.Tensor:
    """The sum over the third axis, each step rounded to the type, as kernels do that add to their result in place."""
    total = torch.zeros_like(parts[:, :, 0])
    for part in parts.unbind(2):
        total = total + part
    return total


def is_sampled(x: torch.Tensor, grid: torch.Tensor, *_: Any, **__: Any) -> bool:
    """At places that are numbers: what becomes of others is as a conversion to integers has it."""
    return of_planes(x) and bool(grid.isfinite().all())


def grid_sampled(x: torch.Tensor, grid: torch.Tensor, mode: int, padding: int, corners: bool) -> torch.Tensor:
    """Weighted neighbours of the places (g + 1) L / 2 - 1/2, or (g + 1) (L - 1) / 2 with aligned corners."""
    n, c, *sizes = x.shape
    places = [(g + 1) / 2 * (s - 1) if corners else ((g + 1) * s - 1) / 2
              for g, s in zip(grid.to(F64).flatten(1, 2).unbind(-1)[::-1], sizes, strict=True)]  # fmt: skip
    off = [4 * unit(x.dtype) * (p.abs() + 1) for p in places]  # a CPU computes places of narrow types in the type
    inside = [lambda p, s=s: _inside(p, s, padding, corners) for s in sizes]  # type: ignore[misc]
    shape = (n, c, *grid.shape[1:3])
    if mode == NEAREST:
        near = [[f(p + k * o).round() for p, o, f in zip(places, off, inside, strict=True)] for k in (0, -1, 1)]
        ends = near[1], near[2], (near[1][0], near[2][1]), (near[2][0], near[1][1])
        found, none = _taken(x, *near[0]), torch.zeros((), dtype=F64)
        other = [((a != near[0][0]) | (b != near[0][1]))[:, None] for a, b in ends]  # else the same element: no room
        away = [(_taken(x, *at).to(F64) - found.to(F64)).abs() for at in ends]
        room = torch.stack([torch.where(o, r, none) for o, r in zip(other, away, strict=True)]).amax(0)
        return about(found, room).reshape(shape)
    if mode == LINEAR:
        places = [f(p) for f, p in zip(inside, places, strict=True)]
    steps, kernel = (range(-1, 3), cubic) if mode == CUBIC else (range(2), tent)
    firsts = [p.floor() for p in places]
    sides = [[(first + k, kernel(p - first - k)) for k in steps] for p, first in zip(places, firsts, strict=True)]
    pairs = [(r, q) for r in sides[0] for q in sides[1]]
    at = [torch.cat([pair[i][0] for pair in pairs], 1) for i in (0, 1)]
    if mode == CUBIC:
        at = [f(p) for f, p in zip(inside, at, strict=True)]
    factors = torch.cat([above * beside for (_, above), (_, beside) in pairs], 1).to(x.dtype)
    parts = (_taken(x, *at) * factors[:, None]).unflatten(2, (len(pairs), -1))
    total = parts.sum(2) if x.dtype.itemsize >= 4 else _one_by_one(parts)
    slope = 2.0 if mode == LINEAR else SLOPE
    lost = _most(x).flatten(2) * (slope * sum(off)[:, None] + 32 * unit(x.dtype))  # type: ignore[index]
    return about(total, lost).reshape(shape)
