"""SageAttention: attention whose scores are products of int8, against attention in full precision.

The quantisation is part of the method: the reference quantises as the method says, block by block, and computes the rest
in float32.
"""

import torch
from sageattention.core import sageattn
from sageattention.quant_per_block import per_block_int8

from render.lab.suite.case import SuiteCase


def qkv(heads=2, length=128, d=64, dtype=torch.float16):
    return lambda: tuple(torch.randn(1, heads, length, d).to(dtype) for _ in range(3))


def quantized(x, block, scale=1.0):
    """(codes, one scale per block of rows); rounded half away from zero, as the kernel does."""
    rows = (x.float() * scale).split(block, 2)
    scales = [r.abs().amax((2, 3), keepdim=True) / 127.0 for r in rows]
    codes = [(r / s + 0.5 * torch.where(r >= 0, 1.0, -1.0)).trunc() for r, s in zip(rows, scales, strict=True)]
    return torch.cat(codes, 2), torch.cat([s.expand(*r.shape[:3], 1) for r, s in zip(rows, scales, strict=True)], 2)


def attention(causal):
    def reference(q, k, v):
        a, s = quantized(q, 128, q.shape[-1] ** -0.5 * 1.44269504)
        b, t = quantized(k - k.mean(2, keepdim=True), 64)
        scores = (a @ b.transpose(-1, -2)) * s * t.transpose(-1, -2)
        if causal:
            scores = scores.masked_fill(torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).triu(1), float("-inf"))
        return (torch.softmax(scores * 0.6931471805599453, -1) @ v.float()).to(q.dtype)

    return reference


def cases():
    for causal in (False, True):
        for d in (64, 128):
            name = f"sageattn d={d}{' causal' if causal else ''}"
            yield SuiteCase(
                name, lambda q, k, v, causal=causal: sageattn(q, k, v, is_causal=causal), attention(causal), qkv(d=d)
            )

    def scales(q, k):
        return quantized(q, 128, q.shape[-1] ** -0.5 * 1.44269504)[1][:, :, ::128, 0], quantized(k, 64)[1][
            :, :, ::64, 0
        ]

    yield SuiteCase(
        "per_block_int8 scales",
        lambda q, k: tuple(x.squeeze(-1) if x.dim() == 4 else x for x in per_block_int8(q, k)[1::2]),
        scales,
        lambda: qkv()()[:2],
    )
