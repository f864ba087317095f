"""mlstm_kernels: the matrix memory of the xLSTM in parallel, chunkwise and recurrent form.

Layouts are (batch, heads, time, features). With f the forget gate before its sigmoid and i the input gate before its
exp (or, in the `siging` form, its sigmoid), the references weigh every pair of steps at once, and the recurrent ones
follow the state by one step. No gradient goes through the normalizer: a norm follows it in the network, and the
library's own torch form leaves it out as well.
"""

import torch
import torch.nn.functional as F
from mlstm_kernels.torch.chunkwise import registry as chunkwise
from mlstm_kernels.torch.parallel import registry as parallel
from mlstm_kernels.torch.recurrent.triton_step import mlstm_recurrent_step__triton as step
from mlstm_kernels.torch.recurrent.triton_step_alternate import mlstm_recurrent_step__triton_alternate as alternate

from render.lab.suite.case import SuiteCase, pair

B, H, T, K, V = 1, 2, 32, 16, 16
SCALE = K**-0.5
HALF, BF16 = torch.float16, torch.bfloat16


def inputs(dtype=torch.float32, features=K):
    """q, k, v, i, f; the forget gates mostly open, as they are initialized."""

    def make():
        q, k, v = (torch.randn(B, H, T, features).to(dtype) for _ in range(3))
        return q, k, v, torch.randn(B, H, T).to(dtype), (3 + torch.randn(B, H, T)).to(dtype)

    return make


def decays(i, f):
    """(..., t, s) log weight of step s in the memory at t: the input gate at s, then forgotten up to t."""
    kept = F.logsigmoid(f).cumsum(-1)
    lower = torch.ones(f.shape[-1], f.shape[-1], dtype=torch.bool).tril()
    return (kept[..., :, None] - kept[..., None, :] + i[..., None, :]).masked_fill(~lower, float("-inf"))


def exponential(q, k, v, i, f):
    """Stabilized by the largest weight m of each row; the normalizer is at least exp(-m)."""
    log = decays(i, f)
    m = log.amax(-1, keepdim=True).detach()
    scores = (q * q.shape[-1] ** -0.5) @ k.transpose(-1, -2) * (log - m).exp()
    return scores @ v / (torch.maximum(scores.sum(-1, keepdim=True).abs(), (-m).exp()) + 1e-6).detach()


def sigmoid(q, k, v, i, f):
    """Input gates through a sigmoid: no weight exceeds 1, so nothing needs to be stabilized."""
    scores = (q * q.shape[-1] ** -0.5) @ k.transpose(-1, -2) * decays(F.logsigmoid(i), f).exp()
    return scores @ v / (torch.maximum(scores.sum(-1, keepdim=True).abs(), torch.ones(())) + 1e-6).detach()


def sequences():
    def form(op, **keywords):
        return lambda *x: op(*x, eps=1e-6, **keywords)

    chunks = {"chunk_size_intra": 16, "chunk_size_inter": 16} | {
        f"siz_b_{axis}_{kind}": 16 for axis in ("L", "DH") for kind in ("parallel", "loop")
    }
    limit, xl, siging = (chunkwise[f"triton_{n}"] for n in ("limit_chunk", "xl_chunk", "xl_chunk_siging"))
    headdim = parallel["triton_limit_headdim"]
    for name, dtype in (("", torch.float32), (" fp16", HALF), (" bf16", BF16)):
        cast = {"autocast_kernel_dtype": dtype}
        made = inputs(dtype)
        yield from pair(f"limit_headdim{name}", form(headdim, **cast), exponential, inputs(dtype, 32), range(5))
        yield from pair(f"limit_chunk{name}", form(limit, chunk_size=16, **cast), exponential, made, range(5))
        yield from pair(f"xl_chunk{name}", form(xl, **chunks, **cast), exponential, made, range(5))
        yield from pair(f"xl_chunk_siging{name}", form(siging, **chunks, **cast), sigmoid, made, range(5))


def states(dtype=torch.float32):
    """q, k, v, i, f of one step and the state C, n, m before it."""

    def make():
        q, k, v = (torch.randn(B, H, K).to(dtype) for _ in range(3))
        gates = torch.randn(B, H, 1).to(dtype), (3 + torch.randn(B, H, 1)).to(dtype)
        return q, k, v, *gates, torch.randn(B, H, K, V), torch.randn(B, H, K), torch.randn(B, H, 1)

    return make


def one_step(q, k, v, i, f, c, n, m):
    kept = F.logsigmoid(f) + m
    new_m = torch.maximum(kept, i)
    keep, add = (kept - new_m).exp(), (i - new_m).exp()
    new_c = keep[..., None] * c + add[..., None] * (k[..., :, None] * v[..., None, :])
    new_n = keep * n + add * k
    q = q * SCALE
    below = torch.maximum((q * new_n).sum(-1, keepdim=True).abs(), (-new_m).exp()) + 1e-6
    return (q[..., None] * new_c).sum(-2) / below, new_c, new_n, new_m


def steps():
    def flat(op):
        def run(*x):
            h, state = op(*x, eps=1e-6)
            return h, *state

        return run

    yield SuiteCase("recurrent step", flat(step), one_step, states())
    yield SuiteCase("recurrent step alternate", flat(alternate), one_step, states())
    yield SuiteCase("recurrent step bf16", flat(step), one_step, states(BF16))


def cases():
    for family in (sequences, steps):
        yield from family()
