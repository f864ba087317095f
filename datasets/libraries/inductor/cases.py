"""Kernels that PyTorch's Inductor generates for a GPU, made here without one; each against the eager function.

The wrapper that Inductor writes around its kernels runs as it is; in place of its autotuner each kernel is launched
with one block size per axis, on the grid that its sizes ask for.
"""

import contextlib
import linecache
import math

import torch
import torch.nn.functional as F
import triton
from torch._inductor import config
from torch._inductor.async_compile import AsyncCompile
from torch._inductor.compile_fx import compile_fx_inner
from torch._inductor.decomposition import select_decomp_table
from torch._inductor.graph import GraphLowering
from torch._inductor.runtime import triton_heuristics
from torch.fx.experimental.proxy_tensor import make_fx

from render.lab.suite.case import SuiteCase, gradients

HEURISTICS = ("pointwise", "reduction", "persistent_reduction", "split_scan", "cooperative_reduction", "foreach")


class Generated(Exception):
    """Ends the compilation: there is code."""


@contextlib.contextmanager
def replaced(*patches):
    """(owner, name, value) each, as long as the scope lasts."""
    plain = [(owner, name, getattr(owner, name)) for owner, name, _ in patches]
    for owner, name, value in patches:
        setattr(owner, name, value)
    try:
        yield
    finally:
        for owner, name, value in plain:
            setattr(owner, name, value)


def executed(source):
    """The module of this text, whose functions know their lines."""
    name = f"<inductor {len(linecache.cache)}>"
    linecache.cache[name] = len(source), None, source.splitlines(True), name
    namespace = {"__name__": "generated", "__file__": name}
    exec(compile(source, name, "exec"), namespace)
    return namespace


class Kernel:
    """One generated kernel: `run` is what the wrapper calls."""

    def __init__(self, name, source, **_):
        self.sizes = {}

        def keep(size_hints=None, **meta):
            self.sizes = size_hints
            return lambda kernel: kernel

        with replaced(*((triton_heuristics, h, keep) for h in HEURISTICS if hasattr(triton_heuristics, h))):
            self.jit = executed(source)[name]

    def run(self, *args, stream=None, **more):
        names = self.jit.arg_names
        given = dict(zip(names, args, strict=False)) | more
        blocks = {f"{axis.upper()}BLOCK": min(triton.next_power_of_2(size), 64 if axis.startswith("r") else 32)
                  for axis, size in self.sizes.items() if f"{axis.upper()}BLOCK" in names}  # fmt: skip
        grid = [math.ceil(given[f"{a}numel"] / blocks[f"{a.upper()}BLOCK"])
                for a in "xyz" if f"{a.upper()}BLOCK" in blocks]  # fmt: skip
        self.jit[tuple(grid)](**given, **blocks)


def generated(fn, inputs, several=False):
    """What Inductor makes of `fn` on such inputs, as a function; of `several` outputs, a tuple."""
    texts = []
    plain = GraphLowering.codegen

    def codegen(self):
        code = plain(self)[0]
        texts.append(getattr(code, "value", code))
        raise Generated

    graph = make_fx(lambda *x: tuple(fn(*x)) if several else (fn(*x),), decomposition_table=select_decomp_table())(
        *inputs
    )
    settings = {"fx_graph_cache": False, "compile_threads": 1, "cpu_backend": "triton"}
    with replaced((GraphLowering, "codegen", codegen)), config.patch(settings), contextlib.suppress(Exception):
        compile_fx_inner(graph, inputs)
    with replaced((AsyncCompile, "triton", lambda self, name, text, **_: Kernel(name, text)),
                  (AsyncCompile, "wait", lambda self, scope: None)):  # fmt: skip
        module = executed(texts[0])
    module["empty_strided_cuda"] = module["empty_strided_cpu"] = lambda size, stride, dtype: torch.empty_strided(
        size, stride, dtype=dtype, device="cuda"
    )
    return lambda *x: tuple(module["call"](list(x))) if several else module["call"](list(x))[0]


def randn(*shapes, dtype=torch.float32):
    return lambda: tuple(torch.randn(s).to(dtype) for s in shapes)


GRID = (12, 64)
HALF, BF16 = torch.float16, torch.bfloat16


def functions():
    """(name, function, inputs)."""
    yield "layer_norm gelu", lambda x, w, b: F.gelu(F.layer_norm(x, (64,), w, b)), randn(GRID, (64,), (64,))
    yield "layer_norm softmax", lambda x, w, b: F.softmax(F.layer_norm(x, (64,), w, b), -1), randn(GRID, (64,), (64,))
    yield "rms_norm", lambda x, w: x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * w, randn(GRID, (64,))
    for dtype in (torch.float32, HALF, BF16):
        short = str(dtype).removeprefix("torch.")
        yield f"silu mul {short}", lambda x, y: F.silu(x) * y, randn(GRID, GRID, dtype=dtype)
        yield f"softmax {short}", lambda x: F.softmax(x, -1), randn(GRID, dtype=dtype)
        yield f"sum {short}", lambda x: x.sum(-1), randn((6, 300), dtype=dtype)
    yield "bias relu square", lambda x, b: F.relu(x + b).square(), randn(GRID, (64,))
    yield "sum of columns", lambda x: x.sum(0), randn((300, 20))
    yield "sum of all", lambda x: (x * x).sum(), randn((40, 300))
    yield "mean and scale", lambda x: (x - x.mean(0)) / (x.std(0) + 1e-5), randn((40, 24))
    yield "log_softmax", lambda x: F.log_softmax(x, -1), randn(GRID)
    yield "cross_entropy", F.cross_entropy, lambda: (torch.randn(GRID), torch.randint(0, 64, (12,)))
    yield "logsumexp", lambda x: torch.logsumexp(x, -1), randn((6, 300))
    yield "var", lambda x: x.var(-1), randn((6, 300))
    yield "argmax", lambda x: x.argmax(-1), randn(GRID)
    yield "cumsum", lambda x: x.cumsum(-1), randn(GRID)
    yield "amax", lambda x: x.amax(-1), randn((6, 300))
    yield "transpose add", lambda x, y: x.t() + y, randn((40, 24), (24, 40))
    yield "embedding", lambda w, i: w[i] * 2, lambda: (torch.randn(50, 16), torch.randint(0, 50, (20,)))
    yield "tanh sigmoid", lambda x, y: torch.tanh(x) * torch.sigmoid(y), randn(GRID, GRID)
    yield "huber", lambda x, y: F.huber_loss(x, y), randn(GRID, GRID)
    yield "pad cat", lambda x, y: torch.cat([F.pad(x, (1, 1)), y], 1), randn((12, 20), (12, 10))
    yield "avg_pool", lambda x: F.avg_pool2d(x, 2), randn((1, 3, 12, 12))
    yield "group_norm", lambda x, w, b: F.group_norm(x, 4, w, b), randn((2, 16, 5, 5), (16,), (16,))


def backwards():
    """(name, function, inputs, the places of those that are differentiated for)."""
    layer = randn(GRID, (64,), (64,))
    yield "layer_norm", lambda x, w, b: F.layer_norm(x, (64,), w, b), layer, (0, 1, 2)
    yield "layer_norm gelu", lambda x, w, b: F.gelu(F.layer_norm(x, (64,), w, b)), layer, (0, 1, 2)
    yield (
        "rms_norm",
        lambda x, w: x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * w,
        randn(GRID, (64,)),
        (0, 1),
    )
    for dtype in (torch.float32, HALF, BF16):
        short = str(dtype).removeprefix("torch.")
        yield f"silu mul {short}", lambda x, y: F.silu(x) * y, randn(GRID, GRID, dtype=dtype), (0, 1)
        yield f"softmax {short}", lambda x: F.softmax(x, -1), randn(GRID, dtype=dtype), (0,)
    yield "log_softmax", lambda x: F.log_softmax(x, -1), randn(GRID), (0,)
    yield "logsumexp", lambda x: torch.logsumexp(x, -1), randn((6, 300)), (0,)
    yield "bias relu square", lambda x, b: F.relu(x + b).square(), randn(GRID, (64,)), (0, 1)
    yield "tanh sigmoid", lambda x, y: torch.tanh(x) * torch.sigmoid(y), randn(GRID, GRID), (0, 1)
    yield "geglu", lambda x, y: F.gelu(x, approximate="tanh") * y, randn(GRID, GRID), (0, 1)
    yield "huber", F.huber_loss, randn(GRID, GRID), (0,)
    yield "smooth_l1", F.smooth_l1_loss, randn(GRID, GRID), (0,)
    yield "var", lambda x: x.var(-1), randn((6, 300)), (0,)
    yield "mean and scale", lambda x: (x - x.mean(0)) / (x.std(0) + 1e-5), randn((40, 24)), (0,)
    yield "group_norm", lambda x, w, b: F.group_norm(x, 4, w, b), randn((2, 16, 5, 5), (16,), (16,)), (0, 1, 2)
    yield "avg_pool", lambda x: F.avg_pool2d(x, 2), randn((1, 3, 12, 12)), (0,)
    yield "normalize", lambda x: F.normalize(x, dim=-1), randn(GRID), (0,)
    yield "softplus", lambda x, y: F.softplus(x) * y.exp(), randn(GRID, GRID), (0, 1)


def cases():
    for name, fn, inputs in functions():
        torch.manual_seed(0)
        yield SuiteCase(name, generated(fn, inputs()), fn, inputs)
    for name, fn, inputs, wrt in backwards():

        def with_cotangent(fn=fn, inputs=inputs):
            given = tuple(inputs())
            out = fn(*given)
            return (torch.randn(out.shape).to(out.dtype), *given)

        def backward(cotangent, *given, differentiated=gradients(fn, wrt)):
            return differentiated((cotangent,), *given)

        torch.manual_seed(0)
        yield SuiteCase(
            f"{name} backward", generated(backward, with_cotangent(), several=True), backward, with_cotangent
        )
