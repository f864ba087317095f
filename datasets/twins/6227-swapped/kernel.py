"""A fused feed-forward layer in fp32 that gates with the wrong projection."""

import torch
import triton
import triton.language as tl


@triton.jit
def gated_mlp_kernel(
    X, W0, W1, W2, W3, Y, L, rows, eps,
    BLOCK_M: tl.constexpr, D: tl.constexpr, HIDDEN: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    rm = pid * BLOCK_M + tl.arange(0, BLOCK_M)
    rd = tl.arange(0, D)
    rh = tl.arange(0, HIDDEN)
    row_mask = rm[:, None] < rows
    x = tl.load(X + rm[:, None] * D + rd[None, :], mask=row_mask, other=0.0)
    w0 = tl.load(W0 + rd)

    mean_square = tl.sum(x * x, axis=1) / D
    tl.device_assert(mean_square >= 0.0, "mean of squares below zero")
    rstd = tl.math.rsqrt(mean_square + eps)
    normed = x * rstd[:, None] * w0[None, :]
    tl.store(L + rm, rstd, mask=rm < rows)

    w1 = tl.load(W1 + rd[:, None] * HIDDEN + rh[None, :])
    w2 = tl.load(W2 + rd[:, None] * HIDDEN + rh[None, :])
    gate = tl.dot(normed, w1)
    up = tl.dot(normed, w2)
    hidden = up * tl.sigmoid(up) * gate
    w3 = tl.load(W3 + rh[:, None] * D + rd[None, :])
    y = tl.dot(hidden, w3)
    tl.store(Y + rm[:, None] * D + rd[None, :], y, mask=row_mask)


def gated_mlp(x, w0, w1, w2, w3, eps=1e-6):
    rows, D = x.shape
    y = torch.empty_like(x)
    L = torch.empty(rows, device=x.device, dtype=torch.float32)
    grid = (triton.cdiv(rows, 16),)
    gated_mlp_kernel[grid](x, w0, w1, w2, w3, y, L, rows, eps, BLOCK_M=16, D=D, HIDDEN=w1.shape[1])
    return y, L


def make_inputs(rows: int = 10000, d: int = 128, hidden: int = 64):
    w1 = torch.normal(0.0, 0.02, (d, hidden))
    w2 = torch.normal(0.0, 0.02, (d, hidden))
    w3 = torch.normal(0.0, 0.02, (hidden, d))
    x = torch.randn(rows, d)
    return {"x": x, "w0": torch.ones(d), "w1": w1, "w2": w2, "w3": w3, "eps": 1e-6}


def reference(x, w0, w1, w2, w3, eps):
    L = torch.rsqrt(x.pow(2).mean(-1) + eps)
    normed = x * L[:, None] * w0
    gate = normed @ w1
    y = (torch.nn.functional.silu(gate) * (normed @ w2)) @ w3
    return y, L
