"""Running sums of outer products k[t] v[t]^T, taken as the total less what follows: exact algebra, lost digits."""

import torch
import triton
import triton.language as tl


@triton.jit
def scan_then_sum_kernel(K, V, O, T: tl.constexpr, D: tl.constexpr, E: tl.constexpr):
    t = tl.arange(0, T)
    d = tl.arange(0, D)
    e = tl.arange(0, E)
    k = tl.load(K + t[:, None] * D + d[None, :])
    v = tl.load(V + t[:, None] * E + e[None, :])
    products = k[:, :, None] * v[:, None, :]
    rows = tl.sum(products, axis=1)
    following = tl.cumsum(rows, axis=0, reverse=True) - rows
    total = tl.sum(rows, axis=0)
    out = total[None, :] - following
    tl.store(O + t[:, None] * E + e[None, :], out)


def scan_then_sum(k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    (T, D), E = k.shape, v.shape[1]
    out = torch.empty((T, E), dtype=k.dtype, device=k.device)
    scan_then_sum_kernel[(1,)](k, v, out, T, D, E, num_warps=1)
    return out


def make_inputs(t: int = 16, d: int = 16, e: int = 16):
    # states that grow from step to step: the first running sums are tiny beside the total
    k = torch.randn(t, d) * 2.0 ** torch.arange(t)[:, None]
    v = torch.randn(t, e)
    return k, v


def reference(k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    products = k[:, :, None] * v[:, None, :]
    return torch.cumsum(products, dim=0).sum(1)
