"""References of many kinds with inputs, and the oracle of one."""

from __future__ import annotations

import torch

from render.entry.inputs import of_call
from render.entry.outputs import of_reference
from render.entry.resolve import plans, resolve
from render.reference.oracle import Oracle

F = torch.nn.functional


def oracle(fn, *args, tf32=False):
    reference, inputs = resolve(fn), of_call(fn, args, {})
    plan = plans(reference.fn, list(inputs.values), inputs.values, set())[0]
    values = inputs.clone().values

    def collect(result, values):
        return of_reference(result, values, [])

    native = collect(plan.call(reference.fn, values), values)
    return Oracle(reference, plan, inputs, collect, native, tf32=tf32)


def randn(*shape, seed=0, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def asserts_half(a):
    assert a.dtype == torch.float16
    return torch.softmax(a.float(), -1).half()


def half_inside(a, b):
    return (a.half() @ b.half()).float()


def fp8_inside(a, b):
    return a.to(torch.float8_e5m2).to(torch.float16) @ b.to(torch.float16)


def dtype_argument(a):
    return torch.sum(a, 0, dtype=torch.float16)


def in_place(x):
    y = torch.empty_like(x)
    y.copy_(x)
    y += 1
    y[:, :4] *= 3
    y.view(-1)[5] = 0.1
    return y


def attention(q, k, v):
    scores = q @ k.transpose(-1, -2) * 0.3
    return torch.softmax(scores, -1) @ v, torch.logsumexp(scores, -1)


def gradient(x):
    x = x.detach().requires_grad_(True)
    (torch.sin(x) ** 2).sum().backward()
    return x.grad


def norm_gradients(norm):
    def run(x, weight, bias, dy):
        x, weight, bias = (t.detach().requires_grad_(True) for t in (x, weight, bias))
        norm(x, weight, bias).backward(dy)
        return x.grad, weight.grad, bias.grad

    return run


class Halved(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return torch.exp(x.half()).float()

    @staticmethod
    def backward(ctx, g):
        return g


SQUARE = (randn(24, 24), randn(24, 24, seed=1))
ROWS = tuple(t.half() for t in (randn(300, 32), 1 + randn(32, seed=1) / 4, randn(32, seed=2), randn(300, 32, seed=3)))
HEADS = tuple(randn(2, 3, 16, 8, seed=s) for s in range(3))
CASES = {
    "matmul fp32": (torch.matmul, SQUARE),
    "matmul fp16": (torch.matmul, tuple(x.half() for x in SQUARE)),
    "matmul bf16": (torch.matmul, tuple(x.bfloat16() for x in SQUARE)),
    "half inside": (half_inside, SQUARE),
    "fp8 inside": (fp8_inside, SQUARE),
    "dtype assert": (asserts_half, (SQUARE[0].half(),)),
    "dtype argument": (dtype_argument, SQUARE[:1]),
    "in place": (in_place, (randn(8, 8),)),
    "in place fp16": (in_place, (randn(8, 8).half(),)),
    "attention": (attention, HEADS),
    "attention fp16": (attention, tuple(x.half() for x in HEADS)),
    "fused attention": (F.scaled_dot_product_attention, HEADS),
    "gradient": (gradient, SQUARE[:1]),
    "autograd function": (lambda x: Halved.apply(x.requires_grad_(True)), SQUARE[:1]),
    "layer norm": (lambda x: F.layer_norm(x, (24,)), SQUARE[:1]),
    "layer norm gradients fp16": (norm_gradients(lambda x, w, b: F.layer_norm(x, (32,), w, b)), ROWS),
    "layer norm gradients bf16": (
        norm_gradients(lambda x, w, b: F.layer_norm(x, (32,), w, b)),
        tuple(t.bfloat16() for t in ROWS),
    ),
    "log softmax": (lambda x: torch.log_softmax(5 * x, -1), SQUARE[:1]),
    "gelu": (lambda x: F.gelu(x) * 0.1, SQUARE[:1]),
    "silu gate": (lambda x, y: F.silu(x) * y, SQUARE),
    "column sum fp16": (lambda x: x.sum(0), (SQUARE[0].half(),)),
    "cumsum": (lambda x: torch.cumsum(x, 0), SQUARE[:1]),
    "convolution": (lambda x: F.conv2d(x, torch.ones(4, 3, 3, 3)), (randn(1, 3, 8, 8),)),
    "quantised": (lambda x: x.to(torch.float8_e4m3fn), SQUARE[:1]),
    "linear": (F.linear, (*SQUARE, randn(24, seed=5))),
    "strided": (lambda x, y: torch.cat([x.t(), y[:, ::2].repeat(1, 2)]).contiguous(), SQUARE),
}
FLOAT64_ONLY = {
    "group norm gradients fp16": (
        norm_gradients(lambda x, w, b: F.group_norm(x.reshape(-1, 32, 4), 8, w, b).reshape(-1, 32)),
        (randn(75 * 4, 32).half(), *ROWS[1:]),
    ),
}
"""References with an operation that has no rule in more bits."""
