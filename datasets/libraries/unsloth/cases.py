"""unsloth: layers and losses of language models that are fine-tuned, against their definitions in torch.

The package patches transformers when it is imported, so the libraries' folder holds that one and what it imports.
"""

import os
import tempfile

import torch
import torch.nn.functional as F

from render.lab.suite.case import SuiteCase, gradients, pair

os.environ.setdefault("UNSLOTH_COMPILE_LOCATION", os.path.join(tempfile.gettempdir(), "unsloth_compiled_cache"))
import unsloth  # noqa: F401  (first: it patches what the kernels' own modules import)
from unsloth.kernels import fp8, geglu, swiglu
from unsloth.kernels.cross_entropy_loss import fast_cross_entropy_loss
from unsloth.kernels.layernorm import Fast_Layernorm
from unsloth.kernels.rms_layernorm import Fast_RMS_Layernorm
from unsloth.kernels.rope_embedding import Fast_RoPE_Embedding

HALF, BF16 = torch.float16, torch.bfloat16


def randn(*shapes, dtype=torch.float32):
    return lambda: tuple(torch.randn(shape).to(dtype) for shape in shapes)


def norms():
    def rms(x, w, offset=0.0):
        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * (w + offset)

    for name, dtype in (("", torch.float32), (" fp16", HALF), (" bf16", BF16)):
        yield from pair(
            f"rms_layernorm{name}",
            lambda x, w: Fast_RMS_Layernorm.apply(x, w, 1e-6, False, False, False),
            rms,
            randn((2, 6, 96), (96,), dtype=dtype),
            (0,),
        )
    yield from pair(
        "rms_layernorm gemma",
        lambda x, w: Fast_RMS_Layernorm.apply(x, w, 1e-6, True, False, False),
        lambda x, w: rms(x, w, 1.0),
        randn((2, 6, 96), (96,)),
        (0,),
    )
    yield from pair(
        "layernorm",
        lambda x, w, b: Fast_Layernorm.apply(x, w, b, 1e-5),
        lambda x, w, b: F.layer_norm(x, w.shape, w, b, 1e-5),
        randn((2, 6, 96), (96,), (96,)),
        (0,),
    )


def losses():
    def logits():
        return torch.randn(2, 5, 50), torch.randint(0, 50, (2, 5))

    def mean(x, t):
        return F.cross_entropy(x.flatten(0, 1), t.flatten())

    yield from pair("cross_entropy", lambda x, t: fast_cross_entropy_loss(x, t), mean, logits, (0,))
    yield from pair(
        "cross_entropy softcap",
        lambda x, t: fast_cross_entropy_loss(x, t, 30.0),
        lambda x, t: mean(30 * torch.tanh(x / 30), t),
        logits,
        (0,),
    )
    yield from pair(
        "cross_entropy scaled",
        lambda x, t: fast_cross_entropy_loss(x, t, 0, 0.25),
        lambda x, t: mean(0.25 * x, t),
        logits,
        (0,),
    )


def positions():
    def turned(q, cos, sin):
        a, b = q.chunk(2, -1)
        cos, sin = (x.unsqueeze(1) for x in (cos, sin))
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)

    def angles():
        theta = torch.randn(6, 16)
        return torch.randn(2, 6, 4, 32), theta.cos(), theta.sin()

    yield from pair("rope_embedding", Fast_RoPE_Embedding.apply, turned, angles, (0,))


def activations():
    """The backward kernels return h, the gradient of `up` and that of `gate`, in place of the upstream one and both."""

    def gelu_tanh(x):
        return F.gelu(x, approximate="tanh")

    kernels = (
        ("swiglu", swiglu.swiglu_fg_kernel, swiglu.swiglu_DWf_DW_dfg_kernel, F.silu),
        ("geglu exact", geglu.geglu_exact_forward_kernel, geglu.geglu_exact_backward_kernel, F.gelu),
        ("geglu approximate", geglu.geglu_approx_forward_kernel, geglu.geglu_approx_backward_kernel, gelu_tanh),
    )
    for name, forward, backward, act in kernels:

        def product(e, g, act=act):
            return act(e) * g

        def steps(dw, e, g, product=product, act=act):
            return product(e, g), dw * act(e), gradients(product, (0,))((dw,), e, g)[0]

        yield SuiteCase(name, forward, product, randn((2, 6, 48), (2, 6, 48)))
        yield SuiteCase(f"{name} backward", backward, steps, randn((12, 48), (12, 48), (12, 48)))


def quantized():
    def blocks():
        return torch.randn(128, 256).to(torch.float8_e4m3fn), torch.rand(1, 2) + 0.5

    yield SuiteCase(
        "fp8 weight_dequant_block",
        lambda x, s: fp8.weight_dequant_block(x, s, dtype=torch.float32),
        lambda x, s: x.float() * s.repeat_interleave(128, 0).repeat_interleave(128, 1),
        blocks,
    )

    def scales(x):
        return x.abs().unflatten(-1, (-1, 128)).amax(-1) / 448.0

    yield SuiteCase("fp8 act_quant scales", lambda x: fp8.act_quant(x)[1], scales, randn((4, 256)))


def cases():
    for family in (norms, losses, positions, activations, quantized):
        yield from family()
