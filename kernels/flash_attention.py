"""Causal flash attention, forward pass: online softmax in base 2, fp16 inputs, fp32 accumulators."""

import torch
import triton
import triton.language as tl


@triton.jit
def _attend(
    acc, l_i, m_i, q, K_ptr, V_ptr, stride_kn, stride_vn, offs_m, offs_d, lo, hi, N_CTX, qk_scale,
    BLOCK_N: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    for start_n in range(lo, hi, BLOCK_N):
        start_n = tl.multiple_of(start_n, BLOCK_N)
        offs_n = start_n + tl.arange(0, BLOCK_N)
        k = tl.load(K_ptr + offs_d[:, None] + offs_n[None, :] * stride_kn, mask=offs_n[None, :] < N_CTX, other=0.0)
        qk = tl.dot(q, k)
        if MASKED:
            mask = offs_m[:, None] >= offs_n[None, :]
            qk = qk * qk_scale + tl.where(mask, 0, -1.0e6)
            m_ij = tl.maximum(m_i, tl.max(qk, 1))
            qk -= m_ij[:, None]
        else:
            m_ij = tl.maximum(m_i, tl.max(qk, 1) * qk_scale)
            qk = qk * qk_scale - m_ij[:, None]
        p = tl.math.exp2(qk)
        alpha = tl.math.exp2(m_i - m_ij)
        l_i = l_i * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None]
        v = tl.load(V_ptr + offs_n[:, None] * stride_vn + offs_d[None, :], mask=offs_n[:, None] < N_CTX, other=0.0)
        acc = tl.dot(p.to(tl.float16), v, acc)
        m_i = m_ij
    return acc, l_i, m_i


@triton.autotune(
    configs=[triton.Config({"BLOCK_M": bm, "BLOCK_N": bn}, num_warps=w) for bm, bn, w in [(32, 16, 4), (128, 64, 8)]],
    key=["N_CTX", "HEAD_DIM"],
    prune_configs_by={
        "early_config_prune": lambda configs, args, **kw: [c for c in configs if c.kwargs["BLOCK_M"] < 64]
    },
)
@triton.jit
def attention_kernel(
    Q, K, V, sm_scale, L, Out, stride_z, stride_h, stride_n, H, N_CTX,
    HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    tl.static_assert(BLOCK_N <= HEAD_DIM)
    start_m = tl.program_id(0)
    off_hz = tl.program_id(1)
    off_z = off_hz // H
    off_h = off_hz % H
    base = off_z.to(tl.int64) * stride_z + off_h.to(tl.int64) * stride_h
    offs_m = start_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_d = tl.arange(0, HEAD_DIM)
    q = tl.load(Q + base + offs_m[:, None] * stride_n + offs_d[None, :], mask=offs_m[:, None] < N_CTX, other=0.0)

    m_i = tl.zeros([BLOCK_M], dtype=tl.float32) - float("inf")
    l_i = tl.zeros([BLOCK_M], dtype=tl.float32) + 1.0
    acc = tl.zeros([BLOCK_M, HEAD_DIM], dtype=tl.float32)
    qk_scale = sm_scale * 1.44269504  # 1 / log(2)
    diagonal = start_m * BLOCK_M
    # the blocks left of the diagonal need no causal mask
    acc, l_i, m_i = _attend(
        acc, l_i, m_i, q, K + base, V + base, stride_n, stride_n, offs_m, offs_d, 0, diagonal, N_CTX, qk_scale,
        BLOCK_N, False,
    )  # fmt: skip
    acc, l_i, m_i = _attend(
        acc, l_i, m_i, q, K + base, V + base, stride_n, stride_n, offs_m, offs_d, diagonal, diagonal + BLOCK_M,
        N_CTX, qk_scale, BLOCK_N, True,
    )  # fmt: skip
    acc = acc / l_i[:, None]
    tl.store(L + off_hz * N_CTX + offs_m, m_i + tl.math.log2(l_i), mask=offs_m < N_CTX)
    out_ptrs = Out + base + offs_m[:, None] * stride_n + offs_d[None, :]
    tl.store(out_ptrs, acc.to(Out.type.element_ty), mask=offs_m[:, None] < N_CTX)


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, sm_scale):
        assert q.shape[-1] == k.shape[-1] == v.shape[-1] and q.shape[-1] in {16, 32, 64, 128}
        assert q.stride() == k.stride() == v.stride()
        Z, H, N_CTX, HEAD_DIM = q.shape
        o = torch.empty_like(q)
        lse = torch.empty((Z, H, N_CTX), device=q.device, dtype=torch.float32)
        grid = lambda META: (triton.cdiv(N_CTX, META["BLOCK_M"]), Z * H, 1)
        attention_kernel[grid](
            q, k, v, sm_scale, lse, o, q.stride(0), q.stride(1), q.stride(2), H, N_CTX, HEAD_DIM=HEAD_DIM
        )
        ctx.save_for_backward(q, k, v, o, lse)
        ctx.sm_scale = sm_scale
        return o


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, sm_scale: float = 0.3) -> torch.Tensor:
    return _Attention.apply(q, k, v, sm_scale)


def make_inputs(z: int = 2, h: int = 2, n_ctx: int = 77, head_dim: int = 32):
    shape = (z, h, n_ctx, head_dim)
    q, k, v = (torch.randn(shape, dtype=torch.float16) for _ in range(3))
    return q, k, v


def reference(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, sm_scale: float = 0.3) -> torch.Tensor:
    n_ctx = q.shape[-2]
    causal = torch.tril(torch.ones((n_ctx, n_ctx), dtype=torch.bool, device=q.device))
    scores = torch.matmul(q, k.transpose(2, 3)) * sm_scale
    scores = scores.masked_fill(~causal, float("-inf"))
    return torch.matmul(torch.softmax(scores, dim=-1), v)
