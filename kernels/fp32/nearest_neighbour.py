"""Distances of places (latitude, longitude) to one place: the kernel of nearest-neighbour search."""

import torch
import triton
import triton.language as tl


@triton.jit
def distance_kernel(LAT, LON, OUT, n, lat0, lon0, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    lat = tl.load(LAT + offsets, mask=mask, other=0.0)
    lon = tl.load(LON + offsets, mask=mask, other=0.0)
    dy = lat - lat0
    dx = lon - lon0
    yy = dy * dy
    xx = dx * dx
    total = yy + xx
    distance = tl.sqrt(total)
    tl.store(OUT + offsets, distance, mask=mask)


def nearest_neighbour(lat: torch.Tensor, lon: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(lat)
    distance_kernel[(triton.cdiv(lat.numel(), 128),)](lat, lon, out, lat.numel(), 30.0, 50.0, BLOCK=128)
    return out


def make_inputs(n: int = 200):
    return 40 + 20 * torch.rand(n), 60 + 30 * torch.rand(n)


def reference(lat: torch.Tensor, lon: torch.Tensor) -> torch.Tensor:
    return torch.sqrt((lat - 30.0) ** 2 + (lon - 50.0) ** 2)
