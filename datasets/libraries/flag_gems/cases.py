"""FlagGems: torch's operators written in Triton, each against the operator of torch that it replaces."""

from importlib import import_module

import torch
import torch.nn.functional as F

from flag_gems import ops

from render.lab.suite.case import SuiteCase

HALF, BF16 = torch.float16, torch.bfloat16


def randn(*shapes, dtype=torch.float32):
    return lambda: tuple(torch.randn(shape).to(dtype) for shape in shapes)


def positive(*shapes):
    return lambda: tuple(torch.rand(shape) + 0.1 for shape in shapes)


def unit(*shapes):
    return lambda: tuple(0.98 * (2 * torch.rand(shape) - 1) for shape in shapes)


def whole(*shapes, high=100):
    return lambda: tuple(torch.randint(-high, high, shape, dtype=torch.int32) for shape in shapes)


def truth(*shapes):
    return lambda: tuple(torch.rand(shape) < 0.5 for shape in shapes)


def written(fn):
    """An operator that writes its first argument, which is then its result."""

    def run(x, *rest):
        fn(x, *rest)
        return x

    return run


def of_name(names, inputs, **more):
    for name in names.split():
        op = getattr(ops, name)
        reference = getattr(torch, name.removesuffix("_"), None) or getattr(F, name.removesuffix("_"))
        fn = written(op) if name.endswith("_") else lambda *x, op=op: op(*x)
        yield SuiteCase(name, fn, lambda *x, ref=reference: ref(*x), inputs)


GRID = (12, 50)


def elementwise():
    yield from of_name(
        "abs absolute angle arcsinh atan ceil celu cos cosh elu erf exp exp2 expm1 gelu hardsigmoid i0 isfinite isinf isnan isneginf "
        "nan_to_num neg reciprocal relu relu6 round selu sigmoid signbit silu sin softplus softshrink square tan tanh "
        "asinh_ floor_ hardswish_ sgn_ sinh_ abs_ cos_ erf_ exp_ gelu_ neg_ relu_ sigmoid_ silu_ sin_ tanh_",
        randn(GRID),
    )
    yield from of_name("log log10 sqrt rsqrt log1p_ digamma_ rsqrt_ sqrt_", positive(GRID))
    yield from of_name("acos arctanh_", unit(GRID))
    yield SuiteCase("logit", lambda x: ops.logit(x), torch.logit, lambda: (0.02 + 0.96 * torch.rand(GRID),))
    yield SuiteCase("log_sigmoid", ops.log_sigmoid, F.logsigmoid, randn(GRID))
    yield SuiteCase("special_i0e", ops.special_i0e, torch.special.i0e, randn(GRID))
    yield SuiteCase("special_i1", ops.special_i1, torch.special.i1, randn(GRID))
    yield SuiteCase(
        "gelu tanh", lambda x: ops.gelu(x, approximate="tanh"), lambda x: F.gelu(x, approximate="tanh"), randn(GRID)
    )
    for name in ("exp", "silu", "gelu", "tanh", "sigmoid"):
        for dtype in (HALF, BF16):
            short = str(dtype).removeprefix("torch.")
            ref = getattr(torch, name, None) or getattr(F, name)
            yield SuiteCase(f"{name} {short}", getattr(ops, name), ref, randn(GRID, dtype=dtype))


def binary():
    yield from of_name(
        "add sub mul true_divide maximum minimum atan2 hypot fmin copysign logaddexp eq ge gt le lt ne isclose",
        randn(GRID, GRID),
    )
    yield from of_name(
        "add mul maximum eq lt",
        lambda: tuple(torch.randint(0, 9, GRID, dtype=torch.int32) for _ in range(2)),
    )
    yield SuiteCase(
        "bitwise_left_shift",
        import_module(
            "flag_gems.ops.bitwise_left_shift"
        ).bitwise_left_shift_kernel,  # its wrapper passes `out`, in vain
        torch.bitwise_left_shift,
        lambda: tuple(torch.randint(0, 9, GRID, dtype=torch.int32) for _ in range(2)),
    )
    yield from of_name("floor_divide remainder", lambda: (torch.randint(-90, 90, GRID), torch.randint(1, 9, GRID)))
    yield from of_name("logical_and logical_or logical_xor", truth(GRID, GRID))
    yield SuiteCase("broadcast add", ops.add, torch.add, randn((12, 1), (1, 50)))
    yield SuiteCase("bitwise_and_tensor", ops.bitwise_and_tensor, torch.bitwise_and, whole(GRID, GRID))
    yield SuiteCase("bitwise_or_tensor", ops.bitwise_or_tensor, torch.bitwise_or, whole(GRID, GRID))
    yield SuiteCase("bitwise_not", ops.bitwise_not, torch.bitwise_not, whole(GRID))
    yield SuiteCase(
        "pow_tensor_tensor", ops.pow_tensor_tensor, torch.pow, lambda: (torch.rand(GRID) + 0.1, torch.randn(GRID))
    )
    yield SuiteCase("pow_tensor_scalar", lambda x: ops.pow_tensor_scalar(x, 3), lambda x: x**3, randn(GRID))
    yield SuiteCase("pow_scalar", lambda x: ops.pow_scalar(2.0, x), lambda x: 2.0**x, randn(GRID))
    yield SuiteCase("lerp_tensor", ops.lerp_tensor, torch.lerp, randn(GRID, GRID, GRID))
    yield SuiteCase(
        "lerp_scalar", lambda a, b: ops.lerp_scalar(a, b, 0.3), lambda a, b: torch.lerp(a, b, 0.3), randn(GRID, GRID)
    )
    yield SuiteCase(
        "addcmul",
        lambda a, b, c: ops.addcmul(a, b, c, value=0.5),
        lambda a, b, c: torch.addcmul(a, b, c, value=0.5),
        randn(GRID, GRID, GRID),
    )
    yield SuiteCase(
        "addcdiv",
        lambda a, b, c: ops.addcdiv(a, b, c, value=0.5),
        lambda a, b, c: torch.addcdiv(a, b, c, value=0.5),
        randn(GRID, GRID, GRID),
    )
    yield SuiteCase("clamp", lambda x: ops.clamp(x, -0.5, 0.5), lambda x: torch.clamp(x, -0.5, 0.5), randn(GRID))
    yield SuiteCase(
        "where_self",
        ops.where_self,
        torch.where,
        lambda: (torch.rand(GRID) < 0.5, torch.randn(GRID), torch.randn(GRID)),
    )
    yield SuiteCase(
        "masked_fill",
        lambda x, m: ops.masked_fill(x, m, 2.5),
        lambda x, m: x.masked_fill(m, 2.5),
        lambda: (torch.randn(GRID), torch.rand(GRID) < 0.5),
    )
    yield SuiteCase(
        "threshold", lambda x: ops.threshold(x, 0.2, -1.0), lambda x: F.threshold(x, 0.2, -1.0), randn(GRID)
    )
    yield SuiteCase("polar", ops.polar, torch.polar, randn(GRID, GRID))
    yield SuiteCase(
        "div_mode floor",
        lambda a, b: ops.div_mode(a, b, rounding_mode="floor"),
        lambda a, b: torch.div(a, b, rounding_mode="floor"),
        randn(GRID, GRID),
    )
    yield SuiteCase(
        "div_mode trunc",
        lambda a, b: ops.div_mode(a, b, rounding_mode="trunc"),
        lambda a, b: torch.div(a, b, rounding_mode="trunc"),
        randn(GRID, GRID),
    )


def reductions():
    yield from of_name("sum mean max min argmax argmin count_nonzero trace", randn((12, 50)))
    yield from of_name("all any", truth(GRID))
    for name in ("sum", "mean"):
        yield SuiteCase(
            f"{name}_dim",
            lambda x, op=getattr(ops, f"{name}_dim"): op(x, [1]),
            lambda x, ref=getattr(torch, name): ref(x, 1),
            randn(GRID),
        )
        yield SuiteCase(
            f"{name}_dim outer fp16",
            lambda x, op=getattr(ops, f"{name}_dim"): op(x, [0]),
            lambda x, ref=getattr(torch, name): ref(x, 0),
            randn(GRID, dtype=HALF),
        )
    for name in ("max", "min"):
        yield SuiteCase(
            f"{name}_dim",
            lambda x, op=getattr(ops, f"{name}_dim"): tuple(op(x, 1)),
            lambda x, ref=getattr(torch, name): tuple(ref(x, 1)),
            randn(GRID),
        )
    yield SuiteCase("prod_dim", lambda x: ops.prod_dim(x, 1), lambda x: torch.prod(x, 1), randn(GRID))
    yield SuiteCase("amax", lambda x: ops.amax(x, [1]), lambda x: torch.amax(x, 1), randn(GRID))
    yield SuiteCase("aminmax", lambda x: tuple(ops.aminmax(x)), lambda x: tuple(torch.aminmax(x)), randn(GRID))
    yield SuiteCase("argmax dim", lambda x: ops.argmax(x, 1), lambda x: torch.argmax(x, 1), randn(GRID))
    yield SuiteCase("std", lambda x: ops.std(x, 1), lambda x: torch.std(x, 1), randn(GRID))
    yield SuiteCase("var", lambda x: ops.var_correction(x, [1], correction=1), lambda x: torch.var(x, 1), randn(GRID))
    yield SuiteCase(
        "var_mean", lambda x: tuple(ops.var_mean(x, [1])), lambda x: tuple(torch.var_mean(x, 1)), randn(GRID)
    )
    yield SuiteCase(
        "vector_norm", lambda x: ops.vector_norm(x, 2, [1]), lambda x: torch.linalg.vector_norm(x, 2, 1), randn(GRID)
    )
    yield SuiteCase(
        "vector_norm 1", lambda x: ops.vector_norm(x, 1, [1]), lambda x: torch.linalg.vector_norm(x, 1, 1), randn(GRID)
    )
    yield SuiteCase("cumsum", lambda x: ops.cumsum(x, 1), lambda x: torch.cumsum(x, 1), randn(GRID))
    yield SuiteCase("cummax", lambda x: tuple(ops.cummax(x, 1)), lambda x: tuple(torch.cummax(x, 1)), randn(GRID))
    yield SuiteCase("cummin", lambda x: tuple(ops.cummin(x, 1)), lambda x: tuple(torch.cummin(x, 1)), randn(GRID))
    yield SuiteCase("softmax", lambda x: ops.softmax(x, 1), lambda x: torch.softmax(x, 1), randn(GRID))
    yield SuiteCase("softmax outer", lambda x: ops.softmax(x, 0), lambda x: torch.softmax(x, 0), randn(GRID))
    yield SuiteCase("log_softmax", lambda x: ops.log_softmax(x, 1), lambda x: torch.log_softmax(x, 1), randn(GRID))
    yield SuiteCase(
        "quantile", lambda x: ops.quantile(x, torch.tensor(0.3), 1), lambda x: torch.quantile(x, 0.3, 1), randn(GRID)
    )
    yield SuiteCase("topk", lambda x: tuple(ops.topk(x, 5)), lambda x: tuple(torch.topk(x, 5)), randn((6, 64)))
    yield SuiteCase("sort", lambda x: tuple(ops.sort(x)), lambda x: tuple(torch.sort(x)), randn((6, 64)))
    yield SuiteCase("nonzero", ops.nonzero, torch.nonzero, truth(GRID))
    yield SuiteCase(
        "masked_select", ops.masked_select, torch.masked_select, lambda: (torch.randn(GRID), torch.rand(GRID) < 0.5)
    )


def products():
    for dtype in (torch.float32, HALF, BF16):
        short = str(dtype).removeprefix("torch.")
        yield SuiteCase(f"mm {short}", ops.mm, torch.mm, randn((40, 72), (72, 33), dtype=dtype))
        yield SuiteCase(f"bmm {short}", ops.bmm, torch.bmm, randn((3, 20, 40), (3, 40, 24), dtype=dtype))
    yield SuiteCase(
        "addmm",
        lambda c, a, b: ops.addmm(c, a, b, beta=0.5, alpha=2.0),
        lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=2.0),
        randn((33,), (40, 72), (72, 33), dtype=HALF),
    )
    yield SuiteCase("baddbmm", ops.baddbmm, torch.baddbmm, randn((3, 20, 24), (3, 20, 40), (3, 40, 24), dtype=HALF))
    yield SuiteCase("mv", ops.mv, torch.mv, randn((40, 72), (72,)))
    yield SuiteCase("addmv", ops.addmv, torch.addmv, randn((40,), (40, 72), (72,)))
    yield SuiteCase("dot", ops.dot, torch.dot, randn((700,), (700,)))
    yield SuiteCase("vdot", ops.vdot, torch.vdot, randn((700,), (700,)))
    yield SuiteCase("addr", ops.addr, torch.addr, randn((20, 30), (20,), (30,)))
    yield SuiteCase("kron", ops.kron, torch.kron, randn((4, 5), (6, 3)))
    yield SuiteCase("conv1d", lambda x, w: ops.conv1d(x, w), F.conv1d, randn((2, 4, 30), (6, 4, 3)))
    yield SuiteCase(
        "conv2d",
        lambda x, w, b: ops.conv2d(x, w, b, padding=1),
        lambda x, w, b: F.conv2d(x, w, b, padding=1),
        randn((2, 4, 9, 9), (6, 4, 3, 3), (6,)),
    )
    yield SuiteCase(
        "attention",
        lambda q, k, v: ops.scaled_dot_product_attention(q, k, v),
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v),
        randn(*((1, 2, 64, 64),) * 3, dtype=HALF),
    )
    yield SuiteCase(
        "attention causal",
        lambda q, k, v: ops.scaled_dot_product_attention(q, k, v, is_causal=True),
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        randn(*((1, 2, 64, 64),) * 3, dtype=HALF),
    )


def shapes():
    yield SuiteCase("cat", lambda a, b: ops.cat([a, b], 1), lambda a, b: torch.cat([a, b], 1), randn((5, 8), (5, 9)))
    yield SuiteCase(
        "stack", lambda a, b: ops.stack([a, b], 1), lambda a, b: torch.stack([a, b], 1), randn((5, 8), (5, 8))
    )
    yield SuiteCase("hstack", lambda a, b: ops.hstack([a, b]), lambda a, b: torch.hstack([a, b]), randn((5, 8), (5, 9)))
    yield SuiteCase("vstack", lambda a, b: ops.vstack([a, b]), lambda a, b: torch.vstack([a, b]), randn((5, 8), (4, 8)))
    yield SuiteCase("flip", lambda x: ops.flip(x, [1]), lambda x: x.flip(1), randn(GRID))
    yield SuiteCase("roll", lambda x: ops.roll(x, [3], [1]), lambda x: x.roll(3, 1), randn(GRID))
    yield SuiteCase("tile", lambda x: ops.tile(x, [2, 3]), lambda x: x.tile(2, 3), randn((5, 8)))
    yield SuiteCase("repeat", lambda x: ops.repeat(x, [2, 3]), lambda x: x.repeat(2, 3), randn((5, 8)))
    yield SuiteCase(
        "pad", lambda x: ops.pad(x, [1, 2], "constant", 0.5), lambda x: F.pad(x, [1, 2], "constant", 0.5), randn((5, 8))
    )
    yield SuiteCase("tril", lambda x: ops.tril(x, 1), lambda x: x.tril(1), randn(GRID))
    yield SuiteCase("triu", lambda x: ops.triu(x, -1), lambda x: x.triu(-1), randn(GRID))
    yield SuiteCase("diag", ops.diag, torch.diag, randn((9,)))
    yield SuiteCase("diag_embed", ops.diag_embed, torch.diag_embed, randn((3, 9)))
    index = lambda: (torch.randn(20, 12), torch.randint(0, 20, (7,)))
    yield SuiteCase("index_select", lambda x, i: ops.index_select(x, 0, i), lambda x, i: x.index_select(0, i), index)
    yield SuiteCase("index", lambda x, i: ops.index(x, [i]), lambda x, i: x[i], index)
    yield SuiteCase("embedding", lambda x, i: ops.embedding(x, i), lambda x, i: F.embedding(i, x), index)
    yield SuiteCase(
        "gather",
        lambda x, i: ops.gather(x, 1, i),
        lambda x, i: x.gather(1, i),
        lambda: (torch.randn(8, 20), torch.randint(0, 20, (8, 5))),
    )
    yield SuiteCase(
        "index_add",
        lambda x, i, s: ops.index_add(x, 0, i, s),
        lambda x, i, s: x.index_add(0, i, s),
        lambda: (torch.randn(20, 12), torch.randint(0, 20, (7,)), torch.randn(7, 12)),
    )
    yield SuiteCase(
        "scatter add",
        lambda x, i, s: ops.scatter(x, 1, i, s, reduce="add"),
        lambda x, i, s: x.scatter(1, i, s, reduce="add"),
        lambda: (torch.randn(8, 20), torch.randint(0, 20, (8, 5)), torch.randn(8, 5)),
    )
    yield SuiteCase(
        "slice_scatter",
        lambda x, s: ops.slice_scatter(x, s, 1, 2, 10),
        lambda x, s: torch.slice_scatter(x, s, 1, 2, 10),
        randn((5, 20), (5, 8)),
    )
    yield SuiteCase(
        "select_scatter",
        lambda x, s: ops.select_scatter(x, s, 1, 3),
        lambda x, s: torch.select_scatter(x, s, 1, 3),
        randn((5, 20), (5,)),
    )
    yield SuiteCase(
        "one_hot", lambda i: ops.one_hot(i, 9), lambda i: F.one_hot(i, 9), lambda: (torch.randint(0, 9, (20,)),)
    )
    yield SuiteCase("arange", lambda n: ops.arange(n), lambda n: torch.arange(n), lambda: (77,))
    yield SuiteCase(
        "linspace", lambda n: ops.linspace(-1.0, 2.0, n), lambda n: torch.linspace(-1.0, 2.0, n), lambda: (77,)
    )
    yield SuiteCase("eye", lambda n: ops.eye(n), lambda n: torch.eye(n), lambda: (13,))
    yield SuiteCase("full", lambda n: ops.full([n, n], 3.5), lambda n: torch.full([n, n], 3.5), lambda: (13,))
    yield SuiteCase(
        "reflection_pad1d",
        lambda x: ops.reflection_pad1d(x, [2, 3]),
        lambda x: F.pad(x, [2, 3], "reflect"),
        randn((2, 3, 9)),
    )
    yield SuiteCase(
        "pixel_unshuffle", lambda x: ops.pixel_unshuffle(x, 2), lambda x: F.pixel_unshuffle(x, 2), randn((2, 3, 8, 8))
    )
    yield SuiteCase("contiguous", ops.contiguous, lambda x: x.contiguous(), lambda: (torch.randn(9, 12).T,))


def layers():
    yield SuiteCase(
        "layer_norm",
        lambda x, w, b: ops.layer_norm(x, (64,), w, b)[0],
        lambda x, w, b: F.layer_norm(x, (64,), w, b),
        randn((10, 64), (64,), (64,)),
    )
    yield SuiteCase(
        "rms_norm",
        lambda x, w: ops.rms_norm(x, (64,), w, 1e-6),
        lambda x, w: F.rms_norm(x, (64,), w, 1e-6),
        randn((10, 64), (64,)),
    )
    yield SuiteCase(
        "group_norm",
        lambda x, w, b: ops.group_norm(x, w, b, 2, 6, 40, 3)[0],
        lambda x, w, b: F.group_norm(x, 3, w, b),
        randn((2, 6, 40), (6,), (6,)),
    )
    yield SuiteCase("glu", lambda x: ops.glu(x, -1), lambda x: F.glu(x, -1), randn(GRID))
    yield SuiteCase("prelu", ops.prelu, torch.prelu, randn((4, 6, 9), (6,)))
    yield SuiteCase("mse_loss", ops.mse_loss, F.mse_loss, randn(GRID, GRID))
    yield SuiteCase(
        "soft_margin_loss", ops.soft_margin_loss, F.soft_margin_loss, lambda: (torch.randn(40), torch.randn(40).sign())
    )
    yield SuiteCase(
        "upsample_nearest2d",
        lambda x: ops.upsample_nearest2d(x, [12, 14]),
        lambda x: F.interpolate(x, (12, 14), mode="nearest"),
        randn((2, 3, 6, 7)),
    )
    yield SuiteCase(
        "upsample_linear1d",
        lambda x: ops.upsample_linear1d(x, [19], False),
        lambda x: F.interpolate(x, 19, mode="linear"),
        randn((2, 3, 7)),
    )
    yield SuiteCase(
        "upsample_bicubic2d",
        lambda x: ops.upsample_bicubic2d(x, [9, 11], False),
        lambda x: F.interpolate(x, (9, 11), mode="bicubic"),
        randn((1, 2, 6, 7)),
    )
    yield SuiteCase(
        "avg_pool2d",
        lambda x: ops.avg_pool2d(x, [2, 2], [2, 2], [0, 0]),
        lambda x: F.avg_pool2d(x, 2),
        randn((2, 3, 8, 8)),
    )
    yield SuiteCase(
        "max_pool2d",
        lambda x: ops.max_pool2d_with_indices(x, [2, 2], [2, 2])[0],
        lambda x: F.max_pool2d(x, 2),
        randn((2, 3, 8, 8)),
    )
    yield SuiteCase(
        "weight_norm",
        lambda v, g: ops.weight_norm_interface(v, g, 0)[0],
        lambda v, g: v * (g / v.norm(dim=1, keepdim=True)),
        randn((12, 50), (12, 1)),
    )

    def nll(x, t):
        return ops.nll_loss_forward(x, t, None, 1, -100)[0]

    yield SuiteCase(
        "nll_loss", nll, F.nll_loss, lambda: (torch.randn(10, 20).log_softmax(1), torch.randint(0, 20, (10,)))
    )


def derivative(fn):
    def run(g, x):
        x = x.detach().requires_grad_()
        return torch.autograd.grad(fn(x), x, g)[0]

    return run


def backwards():
    yield SuiteCase("silu_backward", ops.silu_backward, derivative(F.silu), randn(GRID, GRID))
    yield SuiteCase("gelu_backward", lambda g, x: ops.gelu_backward(g, x), derivative(F.gelu), randn(GRID, GRID))
    yield SuiteCase(
        "elu_backward", lambda g, x: ops.elu_backward(g, 1.0, 1.0, 1.0, False, x), derivative(F.elu), randn(GRID, GRID)
    )
    yield SuiteCase(
        "tanh_backward", lambda g, x: ops.tanh_backward(g, ops.tanh(x)), derivative(torch.tanh), randn(GRID, GRID)
    )
    yield SuiteCase(
        "sigmoid_backward",
        lambda g, x: ops.sigmoid_backward(g, ops.sigmoid(x)),
        derivative(torch.sigmoid),
        randn(GRID, GRID),
    )
    yield SuiteCase(
        "softmax_backward",
        lambda g, x: ops.softmax_backward(g, ops.softmax(x, 1), 1, x.dtype),
        derivative(lambda x: torch.softmax(x, 1)),
        randn(GRID, GRID),
    )
    yield SuiteCase(
        "log_softmax_backward",
        lambda g, x: ops.log_softmax_backward(g, ops.log_softmax(x, 1), 1, x.dtype),
        derivative(lambda x: torch.log_softmax(x, 1)),
        randn(GRID, GRID),
    )
    yield SuiteCase(
        "glu_backward",
        lambda g, x: ops.glu_backward(g, x, -1),
        derivative(lambda x: F.glu(x, -1)),
        randn((12, 25), GRID),
    )
    yield SuiteCase(
        "threshold_backward",
        lambda g, x: ops.threshold_backward(g, x, 0.2),
        derivative(lambda x: F.threshold(x, 0.2, 0.0)),
        randn(GRID, GRID),
    )


def statistics(x):
    """Mean and reciprocal deviation of each row."""
    return x.mean(-1), torch.rsqrt(x.var(-1, correction=0) + 1e-5)


def leaves(*shapes):
    return lambda: tuple(torch.randn(s).requires_grad_(i > 0) for i, s in enumerate(shapes))


def further():
    """(name, operator of the library or its own call, reference, inputs)."""
    table = lambda: (torch.randn(20, 12), torch.randint(0, 20, (7,)), torch.randn(7, 12))
    index = lambda: (torch.randn(8, 20), torch.randint(0, 20, (8, 5)), torch.randn(8, 5))
    yield "conv3d", ops.conv3d, F.conv3d, randn((1, 2, 5, 6, 7), (3, 2, 3, 3, 3))
    yield "isin", ops.isin, torch.isin, lambda: (torch.randint(0, 30, GRID), torch.randint(0, 30, (9,)))
    yield "index_put", lambda x, i, s: ops.index_put(x, [i], s), lambda x, i, s: x.index_put((i.unique(),), s[:1]), (
        lambda: (torch.randn(20, 12), torch.randint(0, 20, (7,)), torch.randn(1, 12)))  # fmt: skip
    yield (
        "index_put accumulated",
        lambda x, i, s: ops.index_put(x, [i], s, True),
        lambda x, i, s: x.index_add(0, i, s),
        table,
    )
    yield "scatter_add_", lambda x, i, s: ops.scatter_add_(x, 1, i, s), lambda x, i, s: x.scatter_add(1, i, s), index
    yield "masked_scatter", ops.masked_scatter, torch.masked_scatter, (
        lambda: (torch.randn(GRID), torch.rand(GRID) < 0.5, torch.randn(600)))  # fmt: skip
    yield (
        "repeat_interleave",
        lambda x: ops.repeat_interleave_self_int(x, 3, 1),
        lambda x: x.repeat_interleave(3, 1),
        randn((5, 8)),
    )
    yield (
        "batch_norm",
        lambda x, w, b: ops.batch_norm(x, w, b, training=True)[0],
        lambda x, w, b: F.batch_norm(x, None, None, w, b, True),
        randn((6, 4, 10), (4,), (4,)),
    )
    yield (
        "margin_ranking_loss",
        ops.margin_ranking_loss,
        F.margin_ranking_loss,
        lambda: (torch.randn(40), torch.randn(40), torch.randn(40).sign()),
    )
    yield "layer_norm_backward", lambda g, x, w, b: ops.layer_norm_backward(g, x, (64,), *statistics(x), w, b, [True] * 3), (
        lambda g, x, w, b: torch.autograd.grad(F.layer_norm(x, (64,), w, b), (x, w, b), g)), leaves((10, 64), (10, 64), (64,), (64,))  # fmt: skip
    yield "embedding_dense_backward", lambda g, i: ops.embedding_dense_backward(g, i, 20, -1, False), (
        lambda g, i: g.new_zeros(20, 12).index_add(0, i, g)), lambda: (torch.randn(7, 12), torch.randint(0, 20, (7,)))  # fmt: skip
    yield "nll_loss_backward", lambda g, x, t: ops.nll_loss_backward(g, x, t, None, 1, -100, torch.tensor(10.0)), (
        lambda g, x, t: -g * F.one_hot(t, 20) / 10), lambda: (torch.randn(()), torch.randn(10, 20), torch.randint(0, 20, (10,)))  # fmt: skip


def cases():
    yield from (SuiteCase(*row) for row in further())
    for family in (elementwise, binary, reductions, products, shapes, layers, backwards):
        yield from family()
