"""Liger-Kernel: layers and losses of language models, forward and backward, against their definitions in torch."""

import torch
import torch.nn.functional as F
from liger_kernel import ops

from render.lab.suite.case import pair

HALF, BF16 = torch.float16, torch.bfloat16


def randn(*shapes, dtype=torch.float32, scale=1.0):
    return lambda: tuple((scale * torch.randn(shape)).to(dtype) for shape in shapes)


def rms_norm(x, w, eps=1e-6, offset=0.0):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + eps) * (w + offset)


def norms():
    apply = ops.LigerRMSNormFunction.apply
    for name, dtype in (("", torch.float32), (" bf16", BF16), (" fp16", HALF)):
        yield from pair(
            f"rms_norm{name}",
            lambda x, w: apply(x, w, 1e-6, 0.0, "none"),
            rms_norm,
            randn((12, 96), (96,), dtype=dtype),
            (0, 1),
        )
    yield from pair(
        "rms_norm llama", lambda x, w: apply(x, w, 1e-6, 0.0, "llama"), rms_norm, randn((12, 96), (96,)), (0, 1)
    )
    yield from pair(
        "rms_norm gemma",
        lambda x, w: apply(x, w, 1e-6, 1.0, "gemma"),
        lambda x, w: rms_norm(x, w, offset=1.0),
        randn((12, 96), (96,)),
        (0, 1),
    )
    yield from pair(
        "layer_norm",
        lambda x, w, b: ops.LigerLayerNormFunction.apply(x, w, b, 1e-5),
        lambda x, w, b: F.layer_norm(x, w.shape, w, b, 1e-5),
        randn((12, 96), (96,), (96,)),
        (0, 1, 2),
    )
    yield from pair(
        "group_norm",
        lambda x, w, b: ops.LigerGroupNormFunction.apply(x, w, b, 6, 3, 1e-5),
        lambda x, w, b: F.group_norm(x, 3, w, b, 1e-5),
        randn((4, 6, 40), (6,), (6,)),
        (0, 1, 2),
    )

    def add_rms(x, r, w):
        s = x + r
        return rms_norm(s, w), s

    yield from pair(
        "fused_add_rms_norm",
        lambda x, r, w: ops.LigerFusedAddRMSNormFunction.apply(x, r, w, 1e-6),
        add_rms,
        randn((12, 96), (12, 96), (96,)),
        (0, 1, 2),
    )
    yield from pair(
        "modulated_rms_norm",
        lambda x, w, s, t: ops.LigerModulatedRMSNormFunction.apply(x, w, s, t, 1e-6, 0.0, "none"),
        lambda x, w, s, t: rms_norm(x, w) * (1 + s[:, None]) + t[:, None],
        randn((2, 6, 64), (64,), (2, 64), (2, 64)),
        (0, 1, 2, 3),
    )

    def poly(x, w, b):
        def norm(y):
            return y * torch.rsqrt((y * y).mean(-1, keepdim=True) + 1e-6)

        return w[0] * norm(x**3) + w[1] * norm(x**2) + w[2] * norm(x) + b

    yield from pair(
        "poly_norm",
        lambda x, w, b: ops.LigerPolyNormFunction.apply(x, w, b, 1e-6, False),
        poly,
        lambda: (torch.randn(10, 64), torch.randn(3), torch.randn(())),
        (0, 1, 2),
    )
    yield from pair(
        "dyt",
        ops.LigerDyTFunction.apply,
        lambda x, a, g, b: g * torch.tanh(a * x) + b,
        randn((2, 8, 64), (1,), (64,), (64,)),
        (0, 1, 2, 3),
    )


def activations():
    two = randn((10, 128), (10, 128))
    yield from pair(
        "geglu", ops.LigerGELUMulFunction.apply, lambda a, b: F.gelu(a, approximate="tanh") * b, two, (0, 1)
    )
    yield from pair("swiglu", ops.LigerSiLUMulFunction.apply, lambda a, b: F.silu(a) * b, two, (0, 1))
    yield from pair(
        "swiglu bf16",
        ops.LigerSiLUMulFunction.apply,
        lambda a, b: F.silu(a.float()).to(a.dtype) * b,
        randn((10, 128), (10, 128), dtype=BF16),
        (0, 1),
    )

    def fused(y):
        a, b = y.chunk(2, -1)
        return F.silu(a) * b

    yield from pair(
        "swiglu fused gate and up", ops.LigerFusedGateUpSiLUMulFunction.apply, fused, randn((10, 128)), (0,)
    )
    yield from pair(
        "relu_squared", ops.LigerReLUSquaredFunction.apply, lambda x: F.relu(x) ** 2, randn((10, 128)), (0,)
    )
    yield from pair("softmax", ops.LigerSoftmaxFunction.apply, lambda x: torch.softmax(x, -1), randn((10, 100)), (0,))
    yield from pair(
        "softmax in several blocks",
        ops.LigerSoftmaxFunction.apply,
        lambda x: torch.softmax(x, -1),
        randn((2, 40000)),
        (0,),
    )

    def sparsemax(x):
        z, _ = torch.sort(x, -1, descending=True)
        k = torch.arange(1, x.shape[-1] + 1)
        total = z.cumsum(-1)
        support = (1 + k * z > total).sum(-1, keepdim=True)
        tau = (total.gather(-1, support - 1) - 1) / support
        return torch.clamp(x - tau, min=0)

    yield from pair("sparsemax", lambda x: ops.LigerSparsemaxFunction.apply(x, -1), sparsemax, randn((6, 40)), (0,))


def rotated(x):
    a, b = x.chunk(2, -1)
    return torch.cat((-b, a), -1)


def angles(*shape, half):
    theta = torch.randn(*shape, half)
    return torch.cat((theta.cos(),) * 2, -1), torch.cat((theta.sin(),) * 2, -1)


def positions():
    def reference(q, k, cos, sin):
        c, s = cos.unsqueeze(1), sin.unsqueeze(1)
        return q * c + rotated(q) * s, k * c + rotated(k) * s

    def inputs():
        return (torch.randn(2, 4, 6, 32), torch.randn(2, 2, 6, 32), *angles(1, 6, half=16))

    yield from pair("rope", ops.LigerRopeFunction.apply, reference, inputs, (0, 1))

    def multimodal(q, k, cos, sin):
        parts = [4, 6, 6] * 2
        c, s = (torch.cat([m[i % 3] for i, m in enumerate(x.split(parts, -1))], -1).unsqueeze(1) for x in (cos, sin))
        return q * c + rotated(q) * s, k * c + rotated(k) * s

    def sections():
        return (torch.randn(2, 4, 6, 32), torch.randn(2, 2, 6, 32), *angles(3, 2, 6, half=16))

    yield from pair(
        "qwen2vl_mrope",
        lambda q, k, c, s: ops.LigerQwen2VLMRopeFunction.apply(q, k, c, s, [4, 6, 6]),
        multimodal,
        sections,
        (0, 1),
    )

    def complex_rope(q, k, f):
        def turn(x):
            pairs = x.reshape(*x.shape[:-1], -1, 2)
            re, im, c, s = pairs[..., 0], pairs[..., 1], f[..., 0][:, None], f[..., 1][:, None]
            return torch.stack((re * c - im * s, re * s + im * c), -1).flatten(-2)

        return turn(q), turn(k)

    def phases():
        theta = torch.randn(6, 16)
        return torch.randn(2, 6, 4, 32), torch.randn(2, 6, 2, 32), torch.stack((theta.cos(), theta.sin()), -1)

    yield from pair(
        "llama4_rope",
        lambda q, k, f: ops.LigerLlama4RopeFunction.apply(q, k, torch.view_as_complex(f)),
        complex_rope,
        phases,
        (0, 1),
    )


def losses():
    def logits(rows=10, classes=50):
        return torch.randn(rows, classes), torch.randint(0, classes, (rows,))

    def cross_entropy(*arguments):
        return lambda x, t: ops.LigerCrossEntropyFunction.apply(x, t, *arguments)[0]

    yield from pair("cross_entropy", cross_entropy(None), F.cross_entropy, logits, (0,))
    yield from pair(
        "cross_entropy smoothed",
        cross_entropy(None, -100, 0.0, 0.1),
        lambda x, t: F.cross_entropy(x, t, label_smoothing=0.1),
        logits,
        (0,),
    )
    yield from pair(
        "cross_entropy sum",
        cross_entropy(None, -100, 0.0, 0.0, "sum"),
        lambda x, t: F.cross_entropy(x, t, reduction="sum"),
        logits,
        (0,),
    )
    yield from pair(
        "cross_entropy none",
        cross_entropy(None, -100, 0.0, 0.0, "none"),
        lambda x, t: F.cross_entropy(x, t, reduction="none"),
        logits,
    )
    yield from pair(
        "cross_entropy softcap",
        cross_entropy(None, -100, 0.0, 0.0, "mean", 30.0),
        lambda x, t: F.cross_entropy(30 * torch.tanh(x / 30), t),
        logits,
        (0,),
    )

    def z_loss(x, t):
        return F.cross_entropy(x, t) + 1e-2 * (torch.logsumexp(x, -1) ** 2).mean()

    yield from pair("cross_entropy z-loss", cross_entropy(None, -100, 1e-2), z_loss, logits, (0,))

    def distributions():
        return torch.log_softmax(torch.randn(8, 48), -1), torch.softmax(torch.randn(8, 48), -1)

    yield from pair(
        "kl_div",
        lambda x, y: ops.LigerKLDivLossFunction.apply(x, y, "batchmean"),
        lambda x, y: F.kl_div(x, y, reduction="batchmean"),
        distributions,
        (0,),
    )
    yield from pair(
        "kl_div of logarithms",
        lambda x, y: ops.LigerKLDivLossFunction.apply(x, y, "sum", True),
        lambda x, y: F.kl_div(x, y, reduction="sum", log_target=True),
        lambda: tuple(torch.log_softmax(torch.randn(8, 48), -1) for _ in range(2)),
        (0,),
    )

    def jsd(x, y, beta):
        m = torch.log(beta * y.exp() + (1 - beta) * x.exp())
        loss = beta * F.kl_div(m, y, reduction="none", log_target=True) + (1 - beta) * F.kl_div(
            m, x, reduction="none", log_target=True
        )
        return loss.sum() / x.shape[0]

    def logs():
        return tuple(torch.log_softmax(torch.randn(8, 48), -1) for _ in range(2))

    for beta in (0.5, 0.1):
        yield from pair(
            f"jsd {beta}",
            lambda x, y, beta=beta: ops.LigerJSDFunction.apply(x, y, None, beta),
            lambda x, y, beta=beta: jsd(x, y, beta),
            logs,
            (0,),
        )
    yield from pair(
        "tvd",
        lambda p, q: ops.LigerTVDLossFunction.apply(p, q, None, "batchmean"),
        lambda p, q: 0.5 * (p - q).abs().sum() / p.shape[0],
        lambda: tuple(torch.softmax(torch.randn(8, 48), -1) for _ in range(2)),
        (0,),
    )

    def linear():
        return torch.randn(12, 32), 0.2 * torch.randn(64, 32), torch.randint(0, 64, (12,))

    yield from pair(
        "fused_linear_cross_entropy",
        lambda x, w, t: ops.LigerFusedLinearCrossEntropyFunction.apply(x, w, t)[0],
        lambda x, w, t: F.cross_entropy(x @ w.T, t),
        linear,
        (0, 1),
    )

    def students():
        return torch.randn(8, 24), 0.2 * torch.randn(48, 24), torch.randn(8, 40), 0.2 * torch.randn(48, 40)

    yield from pair(
        "fused_linear_jsd",
        lambda x, w, y, v: ops.LigerFusedLinearJSDFunction.apply(x, w, y, v, None, 0.5),
        lambda x, w, y, v: jsd(torch.log_softmax(x @ w.T, -1), torch.log_softmax(y @ v.T, -1), 0.5),
        students,
        (0, 1),
    )
    yield from pair(
        "embedding",
        lambda t, e: ops.LigerEmbeddingFunction.apply(e, t),
        lambda t, e: F.embedding(t, e),
        lambda: (torch.randint(0, 40, (3, 7)), torch.randn(40, 24)),
        (1,),
    )


def attentions():
    def residual(v, q, w):
        keys = rms_norm(v, w, 1e-6)
        weights = torch.softmax((keys * q).sum(-1), 0)
        return (weights[..., None] * v).sum(0)

    yield from pair(
        "attn_res",
        lambda v, q, w: ops.LigerAttnResFunction.apply(v, q, w, 1e-6),
        residual,
        randn((4, 2, 5, 64), (64,), (64,)),
        (0, 1, 2),
    )
    n = 4

    def pre(x, h):
        return (x * h[..., None]).sum(-2)

    def post(x, f, post, res):
        return torch.einsum("boi,bic->boc", res, x) + post[..., None] * f[:, None]

    yield from pair("mhc_pre", ops.LigerMHCPreFunction.apply, pre, randn((6, n, 64), (6, n)), (0, 1))
    yield from pair(
        "mhc_post_res",
        ops.LigerMHCPostResFunction.apply,
        post,
        randn((6, n, 64), (6, 64), (6, n), (6, n, n)),
        (0, 1, 2, 3),
    )

    def masked(scores, weight, bias):
        causal = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
        probability = torch.softmax(scores.masked_fill(~causal, float("-inf")), -1)
        return F.conv2d(probability, weight, bias, padding=1).masked_fill(~causal, 0.0)

    yield from pair(
        "multi_token_attention",
        lambda s, w, b: ops.LigerMultiTokenAttentionFunction.apply(s, w, b, 1, 1),
        masked,
        lambda: (torch.randn(1, 2, 16, 16), 0.3 * torch.randn(2, 2, 3, 3), torch.randn(2)),
        (0, 1, 2),
    )

    def neighbourhood(q, k, v, width=7):
        length, half = q.shape[-2], width // 2
        place = torch.arange(length)
        near = (place[:, None] - place[None]).abs() <= half
        scores = (q @ k.transpose(-1, -2)) * q.shape[-1] ** -0.5
        return torch.softmax(scores.masked_fill(~near, float("-inf")), -1) @ v

    yield from pair(
        "fused_neighborhood_attention",
        lambda q, k, v: ops.LigerFusedNeighborhoodAttentionFunction.apply(q, k, v, 7, 1),
        neighbourhood,
        randn((1, 2, 24, 32), (1, 2, 24, 32), (1, 2, 24, 32)),
        (0, 1, 2),
    )


def cases():
    for family in (norms, activations, positions, losses, attentions):
        yield from family()
