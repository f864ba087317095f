"""Running sums of outer products that leave out the current one, each summed over its rows."""

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
    tl.debug_barrier()
    products = k[:, :, None] * v[:, None, :]
    tl.debug_barrier()
    states = tl.cumsum(products, axis=0) - products
    tl.debug_barrier()
    out = tl.sum(states, axis=1)
    tl.debug_barrier()
    tl.store(O + t[:, None] * E + e[None, :], out)


def scan_then_sum(k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    (T, D), E = k.shape, v.shape[1]
    out = torch.empty((T, E), dtype=k.dtype, device=k.device)
    scan_then_sum_kernel[(1,)](k, v, out, T, D, E, num_warps=1)
    return out


def make_inputs(t: int = 16, d: int = 16, e: int = 16):
    k = torch.randn(t, d)
    v = torch.randn(t, e)
    return k, v


def reference(k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    products = k[:, :, None] * v[:, None, :]
    return torch.cumsum(products, dim=0).sum(1)
