"""flash-linear-attention (fla-core): linear attentions in their chunked, recurrent and parallel forms, and its layers.

Layouts are (batch, time, heads, features), as the library has them. Each form is compared with the recurrence that
defines it, step by step.
"""

import torch
import torch.nn.functional as F
from fla.modules.activations import logsigmoid, sigmoid, swiglu, swish
from fla.modules.fused_cross_entropy import cross_entropy_loss
from fla.modules.l2norm import l2norm
from fla.modules.layernorm import group_norm, layer_norm, rms_norm
from fla.modules.token_shift import token_shift
from fla.ops.attn import parallel_attn
from fla.ops.delta_rule import chunk_delta_rule, fused_recurrent_delta_rule
from fla.ops.forgetting_attn import parallel_forgetting_attn
from fla.ops.gated_delta_rule import chunk_gated_delta_rule, fused_recurrent_gated_delta_rule
from fla.ops.gla import chunk_gla, fused_recurrent_gla
from fla.ops.hgrn import chunk_hgrn, fused_recurrent_hgrn
from fla.ops.kda import chunk_kda, fused_recurrent_kda
from fla.ops.linear_attn import chunk_linear_attn, fused_chunk_linear_attn, fused_recurrent_linear_attn
from fla.ops.retention import chunk_retention, fused_chunk_retention, fused_recurrent_retention, parallel_retention
from fla.ops.rwkv6 import chunk_rwkv6, fused_recurrent_rwkv6
from fla.ops.simple_gla import chunk_simple_gla, fused_chunk_simple_gla, fused_recurrent_simple_gla, parallel_simple_gla
from fla.ops.stickbreaking_attn import parallel_stickbreaking_attn
from fla.ops.utils import chunk_global_cumsum, chunk_local_cumsum, mean_pooling
from fla.ops.utils.logsumexp import logsumexp_fwd
from fla.ops.utils.matmul import addmm, matmul
from fla.ops.utils.softmax import softmax_fwd

from render.lab.suite.case import SuiteCase, pair

B, T, H, K, V = 1, 40, 2, 32, 32


def qkv(*more, dtype=torch.float32, time=T):
    """Queries, keys, values, then gates (in log space, below 0) or betas (between 0 and 1) of the shapes in `more`."""

    def make():
        made = [torch.randn(B, time, H, K), F.normalize(torch.randn(B, time, H, K), dim=-1), torch.randn(B, time, H, V)]
        for kind, features in more:
            x = torch.randn(B, time, H, *features)
            made.append(F.logsigmoid(x) if kind == "gate" else torch.sigmoid(x))
        return tuple(x.to(dtype) for x in made)

    return make


def recurrence(q, k, v, decay=None, beta=None, scale=K**-0.5):
    """o_t = scale q_t S_t with S_t = decay_t S_{t-1} + k_t (v_t - [beta] k_t decay_t S_{t-1})^T; decay (B, T, H, K or 1)."""
    state = q.new_zeros(q.shape[0], q.shape[2], k.shape[-1], v.shape[-1])
    out = []
    for t in range(q.shape[1]):
        if decay is not None:
            state = state * decay[:, t, :, :, None]
        value = v[:, t]
        if beta is not None:
            value = beta[:, t, :, None] * (value - (state * k[:, t, :, :, None]).sum(-2))
        state = state + k[:, t, :, :, None] * value[..., None, :]
        out.append((scale * q[:, t, :, :, None] * state).sum(-2))
    return torch.stack(out, 1)


def first(fn, *arguments, **keywords):
    """The output of an operator that also returns a state."""
    return lambda *x: fn(*x, *arguments, **keywords)[0]


def linear():
    gate, features, beta = ("gate", ()), ("gate", (K,)), ("beta", ())

    def simple(q, k, v, g):
        return recurrence(q, k, v, g.exp()[..., None])

    for op in (chunk_simple_gla, fused_chunk_simple_gla, fused_recurrent_simple_gla, parallel_simple_gla):
        yield from pair(op.__name__, first(op), simple, qkv(gate), (0, 1, 2, 3))
    yield from pair("chunk_simple_gla bf16", first(chunk_simple_gla), simple, qkv(gate, dtype=torch.bfloat16))
    yield from pair("chunk_simple_gla two chunks", first(chunk_simple_gla), simple, qkv(gate, time=80))

    def retained(q, k, v):
        rate = 1 - 2.0 ** (-5 - torch.arange(H, dtype=q.dtype))
        return recurrence(q, k, v, rate.expand(*q.shape[:3])[..., None])

    for op in (chunk_retention, fused_chunk_retention, fused_recurrent_retention, parallel_retention):
        yield from pair(op.__name__, first(op), retained, qkv(), (0, 1, 2))

    for op in (chunk_linear_attn, fused_chunk_linear_attn, fused_recurrent_linear_attn):
        yield from pair(op.__name__, first(op, normalize=False), recurrence, qkv(), (0, 1, 2))

    def gated(q, k, v, g):
        return recurrence(q, k, v, g.exp())

    yield from pair("chunk_gla", first(chunk_gla), gated, qkv(features), (0, 1, 2, 3))
    yield from pair("fused_recurrent_gla", first(fused_recurrent_gla), gated, qkv(features), (0, 1, 2, 3))

    def delta(q, k, v, b):
        return recurrence(q, k, v, None, b)

    for op in (chunk_delta_rule, fused_recurrent_delta_rule):
        yield from pair(op.__name__, first(op), delta, qkv(beta, dtype=torch.bfloat16), (0, 1, 2, 3))

    def gated_delta(q, k, v, g, b):
        return recurrence(q, k, v, g.exp()[..., None], b)

    yield from pair(
        "chunk_gated_delta_rule", first(chunk_gated_delta_rule), gated_delta, qkv(gate, beta), (0, 1, 2, 3, 4)
    )
    yield from pair(
        "fused_recurrent_gated_delta_rule",
        lambda q, k, v, g, b: fused_recurrent_gated_delta_rule(q, k, v, g=g, beta=b)[0],
        gated_delta,
        qkv(gate, beta),
    )

    def kimi(q, k, v, g, b):
        return recurrence(q, k, v, g.exp(), b)

    yield from pair("chunk_kda", first(chunk_kda), kimi, qkv(features, beta), (0, 1, 2, 3, 4))
    yield from pair("fused_recurrent_kda", first(fused_recurrent_kda), kimi, qkv(features, beta))

    def receptance(r, k, v, w, u):
        state, out = r.new_zeros(B, H, K, V), []
        for t in range(r.shape[1]):
            new = k[:, t, :, :, None] * v[:, t, :, None, :]
            out.append((K**-0.5 * r[:, t, :, :, None] * (state + u[None, :, :, None] * new)).sum(-2))
            state = state * w[:, t].exp()[..., None] + new
        return torch.stack(out, 1)

    def bonus():
        return (*qkv(features)(), torch.randn(H, K))

    for op in (chunk_rwkv6, fused_recurrent_rwkv6):
        yield from pair(op.__name__, first(op), receptance, bonus, (0, 1, 2, 3, 4))

    def hgrn(x, g):
        state, out = torch.zeros_like(x[:, 0]), []
        for t in range(x.shape[1]):
            state = g[:, t].exp() * state + x[:, t]
            out.append(state)
        return torch.stack(out, 1)

    def gates():
        return torch.randn(2, T, 48), F.logsigmoid(torch.randn(2, T, 48))

    for op in (chunk_hgrn, fused_recurrent_hgrn):
        yield from pair(op.__name__, first(op), hgrn, gates, (0, 1))


def softmaxed():
    def attention(q, k, v, bias=0.0):
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        scores = q @ k.transpose(-1, -2) * K**-0.5 + bias
        causal = torch.ones(q.shape[2], q.shape[2], dtype=torch.bool).tril()
        return (torch.softmax(scores.masked_fill(~causal, float("-inf")), -1) @ v).transpose(1, 2)

    def forgetting(q, k, v, g):
        total = g.cumsum(1).transpose(1, 2)
        return attention(q, k, v, total[..., :, None] - total[..., None, :])

    def half(make):
        return lambda: tuple(x.half() for x in make())

    yield from pair("parallel_attn", parallel_attn, attention, half(qkv()), (0, 1, 2))
    yield from pair(
        "parallel_forgetting_attn", parallel_forgetting_attn, forgetting, half(qkv(("gate", ()))), (0, 1, 2, 3)
    )

    def sticks(q, k, v):
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        scores = q @ k.transpose(-1, -2) * K**-0.5
        length = q.shape[2]
        before = torch.ones(length, length, dtype=torch.bool).tril(-1)
        left = F.logsigmoid(-scores).masked_fill(~before, 0.0)
        after = left.flip(-1).cumsum(-1).flip(-1) - left
        weights = (F.logsigmoid(scores) + after).exp().masked_fill(~before, 0.0)
        return (weights @ v).transpose(1, 2)

    yield from pair("parallel_stickbreaking_attn", first(parallel_stickbreaking_attn), sticks, half(qkv()))


def layers():
    def matrix(*shapes, dtype=torch.float32):
        return lambda: tuple(torch.randn(s).to(dtype) for s in shapes)

    def rms(x, w, b):
        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5) * w + b

    yield from pair(
        "layer_norm",
        lambda x, w, b: layer_norm(x, w, b),
        lambda x, w, b: F.layer_norm(x, (64,), w, b),
        matrix((12, 64), (64,), (64,)),
        (0, 1, 2),
    )
    yield from pair("rms_norm", lambda x, w, b: rms_norm(x, w, b), rms, matrix((12, 64), (64,), (64,)), (0, 1, 2))
    yield from pair(
        "group_norm",
        lambda x, w, b: group_norm(x, w, b, num_groups=4),
        lambda x, w, b: F.group_norm(x, 4, w, b),
        matrix((12, 64), (64,), (64,)),
        (0, 1, 2),
    )
    yield from pair(
        "l2norm", l2norm, lambda x: x * torch.rsqrt((x * x).sum(-1, keepdim=True) + 1e-6), matrix((12, 64)), (0,)
    )
    yield from pair("swish", swish, F.silu, matrix((12, 64)), (0,))
    yield from pair("sigmoid", sigmoid, torch.sigmoid, matrix((12, 64)), (0,))
    yield from pair("logsigmoid", logsigmoid, F.logsigmoid, matrix((12, 64)), (0,))
    yield from pair("swiglu", swiglu, lambda x, y: F.silu(x) * y, matrix((12, 64), (12, 64)), (0, 1))
    yield from pair("token_shift", token_shift, lambda x: F.pad(x, (0, 0, 1, -1)) - x, matrix((2, 20, 32)), (0,))
    yield from pair(
        "cross_entropy_loss",
        lambda x, t: cross_entropy_loss(x, t)[0],
        lambda x, t: F.cross_entropy(x, t, reduction="none"),
        lambda: (torch.randn(12, 50), torch.randint(0, 50, (12,))),
        (0,),
    )
    yield SuiteCase("matmul", matmul, torch.matmul, matrix((40, 48), (48, 24), dtype=torch.float16))
    yield SuiteCase("addmm", addmm, torch.addmm, matrix((40, 24), (40, 48), (48, 24), dtype=torch.float16))
    yield SuiteCase("softmax", lambda x: softmax_fwd(x), lambda x: torch.softmax(x, -1), matrix((12, 50)))
    yield SuiteCase("logsumexp", lambda x: logsumexp_fwd(x), lambda x: torch.logsumexp(x, -1), matrix((12, 50)))
    yield SuiteCase("chunk_global_cumsum", lambda x: chunk_global_cumsum(x), lambda x: x.cumsum(1), matrix((2, 40, 3)))
    yield SuiteCase(
        "chunk_local_cumsum",
        lambda x: chunk_local_cumsum(x, 16),
        lambda x: torch.cat([c.cumsum(1) for c in x.split(16, 1)], 1),
        matrix((2, 40, 3)),
    )
    yield from pair(
        "mean_pooling",
        lambda x: mean_pooling(x, 16),
        lambda x: torch.stack([c.mean(1) for c in x.split(16, 1)], 1),
        matrix((2, 40, 2, 32)),
        (0,),
    )


def cases():
    for family in (linear, softmaxed, layers):
        yield from family()
