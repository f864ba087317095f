"""The kernels that are timed: plain Triton with launcher and inputs, as a user would write them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


def vector_add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    n = x.numel()
    add_kernel[(triton.cdiv(n, 1024),)](x, y, out, n, BLOCK=1024)
    return out


@triton.jit
def softmax_kernel(x_ptr, out_ptr, n_cols, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + cols, mask=cols < n_cols, other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * stride + cols, e / tl.sum(e, axis=0), mask=cols < n_cols)


def softmax(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    softmax_kernel[(x.shape[0],)](x, out, x.shape[1], x.stride(0), BLOCK=triton.next_power_of_2(x.shape[1]))
    return out


@triton.jit
def layer_norm_kernel(x_ptr, w_ptr, b_ptr, out_ptr, stride, n_cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * stride + cols, mask=mask, other=0.0)
    mean = tl.sum(x, axis=0) / n_cols
    centred = tl.where(mask, x - mean, 0.0)
    variance = tl.sum(centred * centred, axis=0) / n_cols
    rstd = 1 / tl.sqrt(variance + eps)
    w = tl.load(w_ptr + cols, mask=mask)
    b = tl.load(b_ptr + cols, mask=mask)
    tl.store(out_ptr + row * stride + cols, centred * rstd * w + b, mask=mask)


def layer_norm(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    rows, cols = x.shape
    layer_norm_kernel[(rows,)](x, w, b, out, x.stride(0), cols, 1e-5, BLOCK=triton.next_power_of_2(cols))
    return out


@triton.jit
def matmul_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + offs_m[:, None] * stride_am + offs_k[None, :] * stride_ak
    b_ptrs = b_ptr + offs_k[:, None] * stride_bk + offs_n[None, :] * stride_bn
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        a = tl.load(a_ptrs, mask=(offs_m[:, None] < M) & (offs_k[None, :] < K - k), other=0.0)
        b = tl.load(b_ptrs, mask=(offs_k[:, None] < K - k) & (offs_n[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc)
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk
    mask = (offs_m[:, None] < M) & (offs_n[None, :] < N)
    tl.store(c_ptr + offs_m[:, None] * stride_cm + offs_n[None, :] * stride_cn, acc.to(tl.float16), mask=mask)


def matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    (m, k), n = a.shape, b.shape[1]
    c = torch.empty((m, n), dtype=torch.float16, device=a.device)
    grid = (triton.cdiv(m, 64), triton.cdiv(n, 64))
    matmul_kernel[grid](a, b, c, m, n, k, *a.stride(), *b.stride(), *c.stride(), BLOCK_M=64, BLOCK_N=64, BLOCK_K=32)
    return c


@triton.jit
def attention_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, scale, stride_head, n_ctx,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    start_m = tl.program_id(0)
    base = tl.program_id(1) * stride_head
    offs_m = start_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_d = tl.arange(0, D)
    q = tl.load(q_ptr + base + offs_m[:, None] * D + offs_d[None, :])
    m_i = tl.full([BLOCK_M], -float("inf"), tl.float32)
    l_i = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, D], tl.float32)
    for start_n in range(0, (start_m + 1) * BLOCK_M if CAUSAL else n_ctx, BLOCK_N):
        offs_n = start_n + tl.arange(0, BLOCK_N)
        k = tl.load(k_ptr + base + offs_n[None, :] * D + offs_d[:, None])
        qk = tl.dot(q, k) * scale
        if CAUSAL:
            qk = tl.where(offs_m[:, None] >= offs_n[None, :], qk, -1.0e6)
        m_new = tl.maximum(m_i, tl.max(qk, 1))
        p = tl.exp(qk - m_new[:, None])
        alpha = tl.exp(m_i - m_new)
        l_i = l_i * alpha + tl.sum(p, 1)
        v = tl.load(v_ptr + base + offs_n[:, None] * D + offs_d[None, :])
        acc = acc * alpha[:, None] + tl.dot(p.to(tl.float16), v)
        m_i = m_new
    out = acc / l_i[:, None]
    tl.store(out_ptr + base + offs_m[:, None] * D + offs_d[None, :], out.to(tl.float16))


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Causal; contiguous (batch, head, context, 64) with a context that is a multiple of 64."""
    out = torch.empty_like(q)
    batch, heads, n_ctx, d = q.shape
    grid = (n_ctx // 64, batch * heads)
    attention_kernel[grid](q, k, v, out, d**-0.5, q.stride(1), n_ctx, D=d, BLOCK_M=64, BLOCK_N=64, CAUSAL=True)
    return out


@triton.jit
def gelu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(out_ptr + offsets, 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476)), mask=offsets < n)


def gelu(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    gelu_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
    return out


@triton.jit
def cross_entropy_kernel(x_ptr, out_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols, other=-float("inf"))
    top = tl.max(x, axis=0)
    total = tl.log(tl.sum(tl.exp(x - top), axis=0)) + top
    tl.store(out_ptr + row, total - tl.load(x_ptr + row * n_cols + row % n_cols))


def cross_entropy(x: torch.Tensor) -> torch.Tensor:
    """Row i has class i."""
    rows, cols = x.shape
    out = torch.empty(rows, dtype=x.dtype)
    cross_entropy_kernel[(rows,)](x, out, cols, BLOCK=triton.next_power_of_2(cols))
    return out


@triton.jit
def dropout_kernel(x_ptr, out_ptr, n, p, seed, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(out_ptr + offsets, tl.where(tl.rand(seed, offsets) > p, x / (1 - p), 0.0), mask=offsets < n)


def dropout(x: torch.Tensor, p: float = 0.5) -> torch.Tensor:
    out = torch.empty_like(x)
    dropout_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), p, 7, BLOCK=1024)
    return out


@dataclass(frozen=True)
class Case:
    """One timed launch; `target` is the aimed-at CPU time of the interval run over that of the stock run."""

    name: str
    run: Callable[..., torch.Tensor]
    shapes: tuple[tuple[int, ...], ...]
    dtype: torch.dtype
    target: float
    reference: Callable[..., torch.Tensor]

    def inputs(self) -> tuple[torch.Tensor, ...]:
        generator = torch.Generator().manual_seed(0)
        return tuple(torch.randn(shape, generator=generator).to(self.dtype) for shape in self.shapes)


def _layer_norm_reference(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.layer_norm(x, (x.shape[1],), w, b, 1e-5)


def _attention_reference(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def _cross_entropy_reference(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.cross_entropy(x, torch.arange(len(x)) % x.shape[1], reduction="none")


def _dropout_reference(x: torch.Tensor) -> torch.Tensor:
    """The elements that were kept, without a rounding."""
    from measure import interval_run

    kept = interval_run(dropout, (x.float(),))[0] != 0
    return torch.where(kept, 2 * x, 0.0)


_HEADS = (2, 4, 1024, 64)
CASES = {
    case.name: case
    for case in (
        Case("vector add 1M", vector_add, ((1 << 20,),) * 2, torch.float32, 0.1, torch.add),
        Case("softmax 4096x1024", softmax, ((4096, 1024),), torch.float32, 0.1, lambda x: torch.softmax(x, 1)),
        Case("layer norm 2048x2048", layer_norm, ((2048, 2048), (2048,), (2048,)), torch.float32, 0.1,
             _layer_norm_reference),
        Case("gelu 1M", gelu, ((1 << 20,),), torch.float32, 0.15, torch.nn.functional.gelu),
        Case("cross entropy 2048x2048", cross_entropy, ((2048, 2048),), torch.float32, 0.15, _cross_entropy_reference),
        Case("dropout 1M", dropout, ((1 << 20,),), torch.float32, 0.15, _dropout_reference),
        Case("matmul 512", matmul, ((512, 512),) * 2, torch.float16, 0.1, torch.matmul),
        Case("matmul 1024", matmul, ((1024, 1024),) * 2, torch.float16, 0.1, torch.matmul),
        Case("attention 2x4x1024x64", attention, (_HEADS,) * 3, torch.float16, 0.3, _attention_reference),
    )
}  # fmt: skip
