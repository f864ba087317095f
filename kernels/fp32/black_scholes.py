"""Black-Scholes prices of European call options."""

import torch
import triton
import triton.language as tl


@triton.jit
def black_scholes_kernel(S, K, T, C, n, rate, volatility, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    s = tl.load(S + offsets, mask=mask, other=1.0)
    k = tl.load(K + offsets, mask=mask, other=1.0)
    t = tl.load(T + offsets, mask=mask, other=1.0)
    root = tl.sqrt(t)
    d1 = (tl.log(s / k) + (rate + 0.5 * volatility * volatility) * t) / (volatility * root)
    d2 = d1 - volatility * root
    n1 = 0.5 + 0.5 * tl.erf(d1 * 0.7071067811865476)
    n2 = 0.5 + 0.5 * tl.erf(d2 * 0.7071067811865476)
    discount = tl.exp(-rate * t)
    call = s * n1 - k * discount * n2
    tl.store(C + offsets, call, mask=mask)


def black_scholes(s: torch.Tensor, k: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
    c = torch.empty_like(s)
    black_scholes_kernel[(triton.cdiv(s.numel(), 128),)](s, k, t, c, s.numel(), 0.02, 0.30, BLOCK=128)
    return c


def make_inputs(n: int = 200):
    return 5 + 25 * torch.rand(n), 1 + 99 * torch.rand(n), 0.25 + 9.75 * torch.rand(n)


def reference(s: torch.Tensor, k: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
    d1 = (torch.log(s / k) + (0.02 + 0.5 * 0.30**2) * t) / (0.30 * torch.sqrt(t))
    d2 = d1 - 0.30 * torch.sqrt(t)
    return s * torch.special.ndtr(d1) - k * torch.exp(-0.02 * t) * torch.special.ndtr(d2)
