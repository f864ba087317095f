"""Squared distances of points to cluster centres, one feature after the other."""

import torch
import triton
import triton.language as tl


@triton.jit
def kmeans_kernel(X, CENTRES, OUT, n, features, clusters, BLOCK: tl.constexpr):
    point = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    cluster = tl.program_id(1)
    mask = point < n
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for f in range(features):
        x = tl.load(X + point * features + f, mask=mask, other=0.0)
        c = tl.load(CENTRES + cluster * features + f)
        gap = x - c
        square = gap * gap
        total += square
    scaled = total * (1.0 / features)
    tl.store(OUT + point * clusters + cluster, scaled, mask=mask)


def kmeans_distance(x: torch.Tensor, centres: torch.Tensor) -> torch.Tensor:
    n, features = x.shape
    out = torch.empty((n, centres.shape[0]), dtype=torch.float32, device=x.device)
    kmeans_kernel[(triton.cdiv(n, 64), centres.shape[0])](x, centres, out, n, features, centres.shape[0], BLOCK=64)
    return out


def make_inputs(n: int = 60, features: int = 8, clusters: int = 3):
    return torch.rand(n, features), torch.rand(clusters, features)


def reference(x: torch.Tensor, centres: torch.Tensor) -> torch.Tensor:
    return ((x[:, None, :] - centres[None, :, :]) ** 2).mean(dim=2)
