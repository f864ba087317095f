"""flash-linear-attention (fla-core): linear attentions in their chunked, recurrent and parallel forms, and its layers.

Layouts are (batch, time, heads, features), as the library has them. Each form is compared with the recurrence that
defines it, step by step.
"""

import torch
import torch.nn.functional as F
from fla.modules.activations import logsigmoid, powglu, sigmoid, swiglu, swish
from fla.modules.activations.ops import elu_p1
from fla.modules.causal_conv1d import causal_conv1d
from fla.modules.fused_cross_entropy import cross_entropy_loss
from fla.modules.fused_kl_div import fused_kl_div_loss
from fla.modules.fused_linear_cross_entropy import fused_linear_cross_entropy_loss
from fla.modules.l2norm import l2norm
from fla.modules.layernorm import group_norm, layer_norm, rms_norm
from fla.modules.norm.fused_norm_gate import layer_norm_gated, rms_norm_gated
from fla.modules.norm.layernorm_gated import layernorm_fn
from fla.modules.rotary.ops import rotary_embedding
from fla.modules.token_shift import token_shift
from fla.ops.attn import parallel_attn
from fla.ops.attnres import fused_attnres
from fla.ops.based import parallel_based
from fla.ops.delta_rule import chunk_delta_rule, fused_recurrent_delta_rule
from fla.ops.forgetting_attn import parallel_forgetting_attn
from fla.ops.gated_delta_rule import chunk_gated_delta_rule, fused_recurrent_gated_delta_rule
from fla.ops.generalized_delta_rule.dplr import chunk_dplr_delta_rule, fused_recurrent_dplr_delta_rule
from fla.ops.generalized_delta_rule.iplr import chunk_iplr_delta_rule, fused_recurrent_iplr_delta_rule
from fla.ops.gla import chunk_gla, fused_recurrent_gla
from fla.ops.hgrn import chunk_hgrn, fused_recurrent_hgrn
from fla.ops.kda import chunk_kda, fused_recurrent_kda
from fla.ops.lightning_attn import chunk_lightning_attn, fused_recurrent_lightning_attn
from fla.ops.linear_attn import chunk_linear_attn, fused_chunk_linear_attn, fused_recurrent_linear_attn
from fla.ops.rebased import parallel_rebased
from fla.ops.retention import chunk_retention, fused_chunk_retention, fused_recurrent_retention, parallel_retention
from fla.ops.rwkv6 import chunk_rwkv6, fused_recurrent_rwkv6
from fla.ops.rwkv4 import fused_recurrent_rwkv4
from fla.ops.rwkv7 import chunk_rwkv7, fused_recurrent_rwkv7
from fla.ops.rwkv7.fused_addcmul import fused_addcmul_rwkv7
from fla.ops.rwkv7.fused_k_update import fused_k_rwkv7
from fla.ops.rwkv7.gate_output_correction import gate_output_correction
from fla.ops.simple_gla import chunk_simple_gla, fused_chunk_simple_gla, fused_recurrent_simple_gla, parallel_simple_gla
from fla.ops.stickbreaking_attn import parallel_stickbreaking_attn
from fla.ops.utils import chunk_global_cumsum, chunk_local_cumsum, mean_pooling
from fla.ops.utils.logsumexp import logsumexp_fwd
from fla.ops.utils.matmul import addmm, matmul
from fla.ops.utils.sinkhorn import sinkhorn
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


def transitions():
    """States that a step multiplies from the left by diag(decay) + a b^T."""

    def general(q, k, v, a, b, g, scale=16**-0.5):
        state, out = q.new_zeros(B, H, 16, 16), []
        for t in range(q.shape[1]):
            seen = (a[:, t, :, :, None] * state).sum(-2)
            state = state * g[:, t].exp()[..., None] + b[:, t, :, :, None] * seen[..., None, :]
            state = state + k[:, t, :, :, None] * v[:, t, :, None, :]
            out.append((scale * q[:, t, :, :, None] * state).sum(-2))
        return torch.stack(out, 1)

    def identity(q, k, v, a, b):
        return general(q, k, v, a, b, torch.zeros_like(q))

    def receptance(r, w, k, v, a, b):
        return general(r, k, v, a, b, w, 1.0)

    def vectors(time=20):
        q, k, v = (torch.randn(B, time, H, 16) for _ in range(3))
        a = F.normalize(torch.randn(B, time, H, 16), dim=-1)
        return q, k, v, -a, a * torch.sigmoid(torch.randn(B, time, H, 16))

    def decayed():
        return (*vectors(), F.logsigmoid(torch.randn(B, 20, H, 16)))

    def shuffled():
        q, k, v, a, b, w = decayed()
        return q, w, k, v, a, b

    yield from pair("chunk_dplr_delta_rule", first(chunk_dplr_delta_rule), general, decayed)
    yield from pair("fused_recurrent_dplr_delta_rule", first(fused_recurrent_dplr_delta_rule), general, decayed)
    yield from pair("chunk_iplr_delta_rule", first(chunk_iplr_delta_rule), identity, vectors)
    yield from pair("fused_recurrent_iplr_delta_rule", first(fused_recurrent_iplr_delta_rule), identity, vectors)
    yield from pair("chunk_rwkv7", first(chunk_rwkv7), receptance, shuffled)
    yield from pair("fused_recurrent_rwkv7", first(fused_recurrent_rwkv7, scale=1.0), receptance, shuffled)

    def lightning(q, k, v):
        rate = torch.exp(-8 / H * (1 - 2 / 6) * torch.arange(H, dtype=q.dtype))
        return recurrence(q, k, v, rate.expand(*q.shape[:3])[..., None])

    for op in (chunk_lightning_attn, fused_recurrent_lightning_attn):
        yield from pair(op.__name__, first(op, 2, 6), lightning, qkv(), (0, 1, 2))

    def wkv(w, u, k, v, state):
        """A running softmax over the past with the exponents' maximum (state[:, 2]) taken out."""
        rate, (a, b, top), out = -w.exp(), state[:, :, 0].unbind(1), []
        for t in range(k.shape[1]):
            high = torch.maximum(u + k[:, t], top)
            old, new = (top - high).exp(), (u + k[:, t] - high).exp()
            out.append((old * a + new * v[:, t]) / (old * b + new))
            high = torch.maximum(rate + top, k[:, t])
            old, new = (rate + top - high).exp(), (k[:, t] - high).exp()
            a, b, top = old * a + new * v[:, t], old * b + new, high
        return torch.stack(out, 1)

    def channels():
        start = torch.stack((torch.randn(2, 1, 32), torch.rand(2, 1, 32), torch.randn(2, 1, 32)), 1)
        return torch.randn(32), torch.randn(32), torch.randn(2, 12, 32), torch.randn(2, 12, 32), start

    yield from pair("fused_recurrent_rwkv4", first(fused_recurrent_rwkv4), wkv, channels, (0, 1, 2, 3))

    def polynomial(weigh):
        def attention(q, k, v):
            q, k, v = (x.transpose(1, 2) for x in (q, k, v))
            weights = weigh(q @ k.transpose(-1, -2) * K**-0.5).tril()
            return (weights @ v / (weights.sum(-1, keepdim=True) + 1e-6)).transpose(1, 2)

        return attention

    taylor, squared = polynomial(lambda s: 1 + s + s * s / 2), polynomial(lambda s: s * s)
    yield SuiteCase("parallel_based", parallel_based, taylor, qkv(time=32))
    yield SuiteCase(
        "parallel_rebased",
        lambda q, k, v: parallel_rebased(q, k, v, 1e-6, use_scale=True, use_normalize=True),
        squared,
        qkv(time=32),
    )


def more_layers():
    def matrix(*shapes):
        return lambda: tuple(torch.randn(s) for s in shapes)

    two = matrix((12, 64), (12, 64))
    yield from pair("elu_p1", elu_p1, lambda x: F.elu(x) + 1, matrix((12, 64)), (0,))
    yield from pair(
        "logsigmoid temperature", lambda x: logsigmoid(x, 4.0), lambda x: F.logsigmoid(x) / 4, matrix((12, 64)), (0,)
    )
    for norm, name in ((layer_norm_gated, "layer_norm_gated"), (rms_norm_gated, "rms_norm_gated")):

        def gated(x, g, w, b, centre=norm is layer_norm_gated):
            x = x - x.mean(-1, keepdim=True) if centre else x
            return (x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * w + b) * F.silu(g)

        yield from pair(name, norm, gated, matrix((12, 64), (12, 64), (64,), (64,)), range(4))

    def grouped(x, w, b, z):
        y = x.unflatten(-1, (2, 32))
        return (F.layer_norm(y, (32,), eps=1e-6).flatten(-2) * w + b) * F.silu(z)

    yield from pair(
        "layernorm_fn in groups",
        lambda x, w, b, z: layernorm_fn(x, w, b, z, group_size=32),
        grouped,
        matrix((12, 64), (64,), (64,), (12, 64)),
        range(4),
    )
    for activation in (None, "silu"):

        def convolved(x, w, b, activation=activation):
            y = F.conv1d(F.pad(x.mT, (w.shape[1] - 1, 0)), w[:, None], b, groups=w.shape[0]).mT
            return y if activation is None else F.silu(y)

        yield from pair(
            f"causal_conv1d {activation}",
            lambda x, w, b, activation=activation: causal_conv1d(x, w, b, activation=activation)[0],
            convolved,
            matrix((2, 20, 32), (32, 4), (32,)),
            (0, 1, 2),
        )
    for interleaved in (False, True):

        def turned(x, cos, sin, interleaved=interleaved):
            a, b = (x[..., ::2], x[..., 1::2]) if interleaved else x.chunk(2, -1)
            cos, sin = cos[:, None], sin[:, None]
            both = a * cos - b * sin, a * sin + b * cos
            return torch.stack(both, -1).flatten(-2) if interleaved else torch.cat(both, -1)

        def angles():
            theta = torch.randn(12, 16)
            return torch.randn(2, 12, 2, 32), theta.cos(), theta.sin()

        yield from pair(
            f"rotary_embedding interleaved={interleaved}",
            lambda x, c, s, interleaved=interleaved: rotary_embedding(x, c, s, interleaved),
            turned,
            angles,
            (0,),
        )

    def linear():
        return torch.randn(12, 32), torch.randint(0, 50, (12,)), 0.2 * torch.randn(50, 32), torch.randn(50)

    yield from pair(
        "fused_linear_cross_entropy_loss",
        fused_linear_cross_entropy_loss,
        lambda x, t, w, b: F.cross_entropy(F.linear(x, w, b), t),
        linear,
        (0, 2, 3),
    )

    def divergence(x, y, w, v):
        return F.kl_div(F.log_softmax(x @ w.T, -1), F.log_softmax(y @ v.T, -1), log_target=True, reduction="batchmean")

    def models():
        return torch.randn(8, 24), torch.randn(8, 24), 0.2 * torch.randn(48, 24), 0.2 * torch.randn(48, 24)

    yield from pair("fused_kl_div_loss", fused_kl_div_loss, divergence, models, (0, 2))
    yield from pair(
        "fused_k_rwkv7", fused_k_rwkv7, lambda k, a, ka: k + k * (a - 1) * ka, matrix(*((2, 6, 64),) * 2, (1, 1, 64)),
        (0, 1, 2),
    )  # fmt: skip
    yield from pair(
        "gate_output_correction",
        gate_output_correction,
        lambda o, r, k, rk, v, g: (o + ((r * k * rk).sum(-1, keepdim=True) * v).flatten(-2)) * g,
        matrix((2, 6, 64), *((2, 6, 2, 32),) * 2, (2, 32), (2, 6, 2, 32), (2, 6, 64)),
        range(6),
    )
    yield from pair(
        "fused_addcmul_rwkv7",
        fused_addcmul_rwkv7,
        lambda x, d, *more: tuple(x + d * m for m in more),
        matrix(*((2, 6, 64),) * 2, *((1, 1, 64),) * 6),
        range(8),
    )

    def powered(x, y):
        above = torch.where(x > 0, x, 1.0)
        return torch.where(x > 0, above ** (3 / (above.sqrt() + 1)), x) * torch.sigmoid(x) * y

    yield from pair("powglu", powglu, powered, two, (0, 1))

    def normalized(x):
        for _ in range(4):
            x = x - torch.logsumexp(x, -2, keepdim=True)
            x = x - torch.logsumexp(x, -1, keepdim=True)
        return x.exp()

    yield from pair("sinkhorn", lambda x: sinkhorn(x, 4), normalized, matrix((6, 4, 4)), (0,))

    def mixed(q, a, b, c, w):
        values = torch.stack((a, b, c))
        keys = values * torch.rsqrt((values * values).mean(-1, keepdim=True) + 1e-6) * w
        return (torch.softmax((keys * q).sum(-1), 0)[..., None] * values).sum(0)

    yield from pair(
        "fused_attnres",
        lambda q, a, b, c, w: fused_attnres(q, [a, b, c], w),
        mixed,
        matrix((64,), *((2, 5, 64),) * 3, (64,)),
        range(5),
    )


def cases():
    for family in (linear, softmaxed, transitions, layers, more_layers):
        yield from family()
