"""Low-memory dropout: the mask comes from a counter-based generator and is never stored."""

import torch
import triton
import triton.language as tl


@triton.jit
def seeded_dropout_kernel(x_ptr, out_ptr, n_elements, p, seed, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    random = tl.rand(seed, offsets)
    x_keep = random > p
    out = tl.where(x_keep, x / (1 - p), 0.0)
    tl.store(out_ptr + offsets, out, mask=mask)


def seeded_dropout(x: torch.Tensor, p: float, seed: int) -> torch.Tensor:
    out = torch.empty_like(x)
    assert x.is_contiguous()
    n_elements = x.numel()
    grid = lambda meta: (triton.cdiv(n_elements, meta["BLOCK_SIZE"]),)
    seeded_dropout_kernel[grid](x, out, n_elements, p, seed, BLOCK_SIZE=512)
    return out


def make_inputs(n: int = 1700):
    return torch.randn(n), 0.3, 20251


def philox_uniform(seed: int, n: int, rounds: int = 10) -> torch.Tensor:
    """What tl.rand(seed, arange(n)) draws: the first word of Philox4x32-10, mapped to [0, 1)."""
    low = 0xFFFFFFFF

    def mulhilo(factor: int, word: torch.Tensor):
        # 32 x 32 -> 64 bits by halves, as torch has no unsigned 64-bit product
        upper = factor * (word >> 16)
        lower = factor * (word & 0xFFFF)
        total = ((upper & 0xFFFF) << 16) + lower
        return (upper >> 16) + (total >> 32), total & low

    c0 = torch.arange(n, dtype=torch.int64)
    c1 = c2 = c3 = torch.zeros_like(c0)
    k0, k1 = seed & low, (seed >> 32) & low
    for _ in range(rounds):
        high_b, low_b = mulhilo(0xCD9E8D57, c2)
        high_a, low_a = mulhilo(0xD2511F53, c0)
        c0, c1, c2, c3 = high_b ^ c1 ^ k0, low_b, high_a ^ c3 ^ k1, low_a
        k0, k1 = (k0 + 0x9E3779B9) & low, (k1 + 0xBB67AE85) & low
    signed = torch.where(c0 >= 2**31, c0 - 2**32, c0)
    return torch.where(signed < 0, -signed - 1, signed) * 4.6566127342e-10


def reference(x: torch.Tensor, p: float, seed: int) -> torch.Tensor:
    keep = (philox_uniform(seed, x.numel()) > p).to(x.device)
    return torch.where(keep, x / (1 - p), 0.0)
