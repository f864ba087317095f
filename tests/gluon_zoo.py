"""Gluon kernels, right and with a planted fault: a layout changes who holds a value, never the value."""

from __future__ import annotations

from dataclasses import dataclass

HEAD = """\
import torch, triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
"""


@dataclass(frozen=True)
class Gluon:
    """A file with `run`, `make_inputs` and `reference`; replacing `right` by `wrong` plants the fault."""

    text: str
    right: str
    wrong: str

    def __str__(self) -> str:
        return HEAD + self.text

    @property
    def planted(self) -> str:
        assert self.right in self.text
        return HEAD + self.text.replace(self.right, self.wrong)


KERNELS: dict[str, Gluon] = {}
KERNELS["softmax"] = Gluon(
    """
@gluon.jit
def softmax_k(x_ptr, y_ptr, sx, n, B: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([4], [32], [gl.num_warps()], [0])
    row = gl.program_id(0)
    c = gl.arange(0, B, layout)
    x = gl.load(x_ptr + row * sx + c, mask=c < n, other=-float("inf"))
    x = x - gl.max(x, axis=0)
    e = gl.exp(x)
    gl.store(y_ptr + row * sx + c, e / gl.sum(e, axis=0), mask=c < n)
def run(x):
    y = torch.empty_like(x)
    softmax_k[(x.shape[0],)](x, y, x.stride(0), x.shape[1], B=triton.next_power_of_2(x.shape[1]))
    return y
def make_inputs(): return (torch.randn(37, 203),)
def reference(x): return torch.softmax(x, 1)
""",
    "gl.sum(e, axis=0)",
    "gl.sum(e, axis=0) * 1.01",
)
KERNELS["copy of two axes"] = Gluon(
    """
@gluon.jit
def k(x_ptr, y_ptr, M, N, sm, sn, tm, tn, BM: gl.constexpr, BN: gl.constexpr, layout: gl.constexpr):
    rows = gl.program_id(0) * BM + gl.arange(0, BM, gl.SliceLayout(1, layout))
    cols = gl.program_id(1) * BN + gl.arange(0, BN, layout=gl.SliceLayout(dim=0, parent=layout))
    off = rows[:, None] * sm + cols[None, :] * sn
    mask = (rows[:, None] < M) & (cols[None, :] < N)
    v = gl.load(x_ptr + off, mask=mask)
    out = rows[:, None] * tm + cols[None, :] * tn
    gl.store(y_ptr + out, v, mask=mask)
def run(x):
    M, N = x.shape
    y = torch.zeros(N, M).t()
    L = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0])
    k[(triton.cdiv(M, 32), triton.cdiv(N, 64))](x, y, M, N, *x.stride(), *y.stride(), BM=32, BN=64, layout=L)
    return y
def make_inputs(): return (torch.randn(70, 100),)
def reference(x): return x.clone()
""",
    "cols[None, :] < N",
    "cols[None, :] < N - 1",
)
KERNELS["transpose convert"] = Gluon(
    """
@gluon.jit
def tr(x_ptr, y_ptr, M, N, BM: gl.constexpr, BN: gl.constexpr):
    L1: gl.constexpr = gl.BlockedLayout([1, 1], [1, 32], [1, 4], [1, 0])
    L2: gl.constexpr = gl.BlockedLayout([1, 1], [32, 1], [4, 1], [0, 1])
    r1 = gl.program_id(0) * BM + gl.arange(0, BM, gl.SliceLayout(1, L1))
    c1 = gl.program_id(1) * BN + gl.arange(0, BN, gl.SliceLayout(0, L1))
    v = gl.load(x_ptr + r1[:, None] * N + c1[None, :], mask=(r1 < M)[:, None] & (c1 < N)[None, :], other=0.0)
    v = gl.convert_layout(v, L2)
    r2 = gl.program_id(0) * BM + gl.arange(0, BM, gl.SliceLayout(1, L2))
    c2 = gl.program_id(1) * BN + gl.arange(0, BN, gl.SliceLayout(0, L2))
    gl.store(y_ptr + c2[None, :] * M + r2[:, None], v, mask=(r2 < M)[:, None] & (c2 < N)[None, :])
def run(x):
    M, N = x.shape
    y = torch.empty(N, M)
    tr[(triton.cdiv(M, 32), triton.cdiv(N, 32))](x, y, M, N, BM=32, BN=32)
    return y
def make_inputs(): return (torch.randn(70, 90),)
def reference(x): return x.t().contiguous()
""",
    "r2 = gl.program_id(0) * BM",
    "r2 = gl.program_id(1) * BM",
)
KERNELS["layernorm"] = Gluon(
    """
@gluon.jit
def mean_of(x, n):
    return gl.sum(x, axis=0) / n
@gluon.jit
def ln(x_ptr, w_ptr, b_ptr, y_ptr, n, eps, B: gl.constexpr, L: gl.constexpr):
    row = gl.program_id(0).to(gl.int64)
    c = gl.arange(0, B, layout=L)
    m = c < n
    x = gl.load(x_ptr + row * n + c, mask=m, other=0.0).to(gl.float32)
    mu = mean_of(x, n)
    d = gl.where(m, x - mu, 0.0)
    var = mean_of(d * d, n)
    y = d * gl.rsqrt(var + eps) * gl.load(w_ptr + c, mask=m) + gl.load(b_ptr + c, mask=m)
    gl.store(y_ptr + row * n + c, y.to(y_ptr.dtype.element_ty), mask=m)
def run(x, w, b):
    y = torch.empty_like(x)
    L = gl.BlockedLayout(size_per_thread=[1], threads_per_warp=[32], warps_per_cta=[4], order=[0])
    ln[(x.shape[0],)](x, w, b, y, x.shape[1], 1e-5, B=256, L=L)
    return y
def make_inputs(): return (torch.randn(20, 200).half(), torch.randn(200), torch.randn(200))
def reference(x, w, b): return torch.nn.functional.layer_norm(x, (200,), w, b, 1e-5)
""",
    "var = mean_of(d * d, n)",
    "var = mean_of(d * d, n - 1)",
)
KERNELS["autotune"] = Gluon(
    """
@triton.autotune([triton.Config({"L": gl.BlockedLayout([s], [32], [w], [0]), "B": 32 * s * w}, num_warps=w)
                  for s in (1, 4) for w in (4, 8)], key=["n"])
@gluon.jit
def add(x_ptr, y_ptr, o_ptr, n, B: gl.constexpr, L: gl.constexpr):
    i = gl.program_id(0) * B + gl.arange(0, B, layout=L)
    a = gl.load(x_ptr + i, mask=i < n)
    b = gl.load(y_ptr + i, mask=i < n)
    gl.store(o_ptr + i, gl.fma(a, b, gl.maximum(a, b)), mask=i < n)
def run(x, y):
    o = torch.empty_like(x)
    add[lambda meta: (triton.cdiv(x.numel(), meta["B"]),)](x, y, o, x.numel())
    return o
def make_inputs(): return (torch.randn(1000), torch.randn(1000))
def reference(x, y): return x * y + torch.maximum(x, y)
""",
    "gl.maximum(a, b)",
    "gl.minimum(a, b)",
)
KERNELS["loop reduce"] = Gluon(
    """
@gluon.jit
def rowsum(x_ptr, y_ptr, n, B: gl.constexpr):
    L: gl.constexpr = gl.BlockedLayout([2], [32], [4], [0])
    row = gl.program_id(0)
    acc = gl.zeros([B], gl.float32, layout=L)
    for start in range(0, n, B):
        c = start + gl.arange(0, B, layout=L)
        acc += gl.load(x_ptr + row * n + c, mask=c < n, other=0.0)
    gl.store(y_ptr + row, gl.sum(acc, 0))
def run(x):
    y = torch.empty(x.shape[0])
    rowsum[(x.shape[0],)](x, y, x.shape[1], B=256)
    return y
def make_inputs(): return (torch.randn(13, 1000),)
def reference(x): return x.sum(1)
""",
    "range(0, n, B)",
    "range(0, n - B, B)",
)
KERNELS["colmax2d"] = Gluon(
    """
@gluon.jit
def comb(a, b):
    return gl.maximum(a, b)
@gluon.jit
def cmax(x_ptr, y_ptr, i_ptr, M, N, BM: gl.constexpr, BN: gl.constexpr):
    L: gl.constexpr = gl.BlockedLayout([1, 2], [4, 8], [2, 2], [1, 0])
    r = gl.arange(0, BM, gl.SliceLayout(1, L))
    c = gl.program_id(0) * BN + gl.arange(0, BN, gl.SliceLayout(0, L))
    x = gl.load(x_ptr + r[:, None] * N + c[None, :], mask=(r[:, None] < M) & (c[None, :] < N), other=float("-inf"))
    m = gl.reduce(x, 0, comb)
    s = gl.max(x, axis=0)
    gl.store(y_ptr + c, m + s, mask=c < N)
def run(x):
    y = torch.empty(x.shape[1])
    cmax[(triton.cdiv(x.shape[1], 32),)](x, y, y, *x.shape, BM=64, BN=32)
    return y
def make_inputs(): return (torch.randn(50, 100),)
def reference(x): return 2 * x.max(0).values
""",
    "gl.max(x, axis=0)",
    "gl.max(x, axis=0) * 1.001",
)
KERNELS["automatic layout"] = Gluon(
    """
@gluon.jit
def gelu(x_ptr, y_ptr, n, B: gl.constexpr):
    L: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    i = gl.set_auto_layout(gl.program_id(0) * B + gl.arange(0, B), L)
    x = gl.load(x_ptr + i, mask=i < n)
    one = gl.full([B], 1.0, gl.float32)
    gl.store(y_ptr + i, 0.5 * x * (one + gl.erf(x * 0.7071067811865476)), mask=i < n)
def run(x):
    y = torch.empty_like(x)
    gelu[(triton.cdiv(x.numel(), 128),)](x, y, x.numel(), B=128)
    return y
def make_inputs(): return (torch.randn(1000),)
def reference(x): return torch.nn.functional.gelu(x)
""",
    "0.7071067811865476",
    "0.7071067811865476 * 1.01",
)
KERNELS["layouts of values"] = Gluon(
    """
@gluon.jit
def helper(x, y):
    L: gl.constexpr = x.type.layout
    gl.static_assert(x.type.layout == y.type.layout)
    return gl.zeros_like(x) + gl.full(x.shape, 2.0, x.dtype, L) * y
@gluon.jit
def k(x_ptr, y_ptr, n, B: gl.constexpr):
    L: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    i = gl.program_id(0) * B + gl.arange(0, B, layout=L)
    m = i < n
    x = gl.load(x_ptr + i, m)
    y = helper(x, gl.sqrt(gl.abs(x)))
    gl.store(y_ptr + i, y, m)
def run(x):
    y = torch.empty_like(x)
    k[(triton.cdiv(x.numel(), 128),)](x, y, x.numel(), B=128)
    return y
def make_inputs(): return (torch.randn(1000),)
def reference(x): return 2 * x.abs().sqrt()
""",
    "2.0, x.dtype",
    "2.5, x.dtype",
)
KERNELS["matmul fma"] = Gluon(
    """
@gluon.jit
def mm(a_ptr, b_ptr, c_ptr, M, N, K, BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr):
    L: gl.constexpr = gl.BlockedLayout([1, 1], [4, 8], [2, 2], [1, 0])
    LA: gl.constexpr = gl.DotOperandLayout(0, L, 0)
    LB: gl.constexpr = gl.DotOperandLayout(1, L, 0)
    rm = gl.program_id(0) * BM + gl.arange(0, BM, gl.SliceLayout(1, L))
    rn = gl.program_id(1) * BN + gl.arange(0, BN, gl.SliceLayout(0, L))
    rk0 = gl.arange(0, BK, gl.SliceLayout(0, L))
    rk1 = gl.arange(0, BK, gl.SliceLayout(1, L))
    acc = gl.zeros([BM, BN], gl.float32, L)
    for k in range(0, K, BK):
        a = gl.load(a_ptr + rm[:, None] * K + (k + rk0)[None, :],
                    mask=(rm[:, None] < M) & ((k + rk0)[None, :] < K), other=0.0)
        b = gl.load(b_ptr + (k + rk1)[:, None] * N + rn[None, :],
                    mask=((k + rk1)[:, None] < K) & (rn[None, :] < N), other=0.0)
        acc = gl.dot_fma(gl.convert_layout(a, LA), gl.convert_layout(b, LB), acc)
    gl.store(c_ptr + rm[:, None] * N + rn[None, :], acc, mask=(rm[:, None] < M) & (rn[None, :] < N))
def run(a, b):
    c = torch.empty(a.shape[0], b.shape[1])
    grid = (triton.cdiv(a.shape[0], 16), triton.cdiv(b.shape[1], 16))
    mm[grid](a, b, c, a.shape[0], b.shape[1], a.shape[1], BM=16, BN=16, BK=16)
    return c
def make_inputs(): return (torch.randn(40, 50), torch.randn(50, 30))
def reference(a, b): return a @ b
""",
    "range(0, K, BK)",
    "range(0, K - BK, BK)",
)
KERNELS["scan"] = Gluon(
    """
@gluon.jit
def addc(a, b):
    return a + b
@gluon.jit
def cs(x_ptr, y_ptr, z_ptr, n, B: gl.constexpr):
    L: gl.constexpr = gl.BlockedLayout([4], [32], [4], [0])
    i = gl.arange(0, B, layout=L)
    x = gl.load(x_ptr + gl.program_id(0) * n + i, mask=i < n, other=0.0)
    gl.store(y_ptr + gl.program_id(0) * n + i, gl.cumsum(x, 0), mask=i < n)
    gl.store(z_ptr + gl.program_id(0) * n + i, gl.associative_scan(x, 0, addc), mask=i < n)
def run(x):
    y = torch.empty_like(x); z = torch.empty_like(x)
    cs[(x.shape[0],)](x, y, z, x.shape[1], B=512)
    return y + z
def make_inputs(): return (torch.randn(5, 300),)
def reference(x): return 2 * x.cumsum(1)
""",
    "gl.cumsum(x, 0)",
    "gl.cumsum(x * x, 0)",
)
KERNELS["reshape permute"] = Gluon(
    """
@gluon.jit
def rp(x_ptr, y_ptr, B: gl.constexpr):
    L: gl.constexpr = gl.BlockedLayout([4], [32], [4], [0])
    i = gl.arange(0, B, layout=L)
    x = gl.load(x_ptr + gl.program_id(0) * B + i)
    y = gl.permute(gl.reshape(x, [B // 16, 16]), [1, 0])
    a, b = gl.split(gl.reshape(gl.convert_layout(gl.reshape(y, [B]), L), [B // 2, 2]))
    z = gl.join(b, a)
    z = gl.reshape(z, [B])
    gl.store(y_ptr + gl.program_id(0) * B + i, gl.convert_layout(z, L))
def run(x):
    y = torch.empty_like(x)
    rp[(x.shape[0],)](x, y, B=x.shape[1])
    return y
def make_inputs(): return (torch.randn(5, 512),)
def reference(x):
    y = x.reshape(5, 32, 16).permute(0, 2, 1).reshape(5, 256, 2)
    return torch.stack([y[..., 1], y[..., 0]], -1).reshape(5, 512)
""",
    "gl.join(b, a)",
    "gl.join(a, b)",
)
KERNELS["atomic hist"] = Gluon(
    """
@gluon.jit
def at(x_ptr, y_ptr, n, B: gl.constexpr, L: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])):
    i = gl.program_id(0) * B + gl.arange(0, B, L)
    x = gl.load(x_ptr + i, mask=i < n, other=0.0)
    gl.atomic_add(y_ptr + i % 8, x, mask=i < n)
def run(x):
    y = torch.zeros(8)
    at[(triton.cdiv(x.numel(), 128),)](x, y, x.numel(), B=128)
    return y
def make_inputs(): return (torch.randn(1000),)
def reference(x): return x.reshape(-1, 8).sum(0)
""",
    "i % 8",
    "i % 4",
)
KERNELS["while persist"] = Gluon(
    """
@gluon.jit
def p(x_ptr, y_ptr, n, alpha, B: gl.constexpr, UNROLL: gl.constexpr):
    L: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    start = gl.program_id(0) * B * UNROLL
    while start < n:
        for u in gl.static_range(UNROLL):
            i = start + u * B + gl.arange(0, B, L)
            x = gl.load(x_ptr + i, mask=i < n, other=0.0)
            if UNROLL > 1:
                x = x / (1 + gl.exp(-x))
            gl.store(y_ptr + i, x * alpha, mask=i < n)
        start += gl.num_programs(0) * B * UNROLL
def run(x):
    y = torch.empty_like(x)
    p[(3,)](x, y, x.numel(), 1.5, B=128, UNROLL=2)
    return y
def make_inputs(): return (torch.randn(2000),)
def reference(x): return 1.5 * torch.nn.functional.silu(x)
""",
    "1 + gl.exp(-x)",
    "2 + gl.exp(-x)",
)
KERNELS["xent"] = Gluon(
    """
@gluon.jit
def ce(x_ptr, t_ptr, l_ptr, N, B: gl.constexpr):
    L: gl.constexpr = gl.BlockedLayout([4], [32], [4], [0])
    row = gl.program_id(0)
    t = gl.load(t_ptr + row)
    c = gl.arange(0, B, L)
    x = gl.load(x_ptr + row * N + c, mask=c < N, other=-float("inf")).to(gl.float32)
    m = gl.max(x, 0)
    lse = gl.log(gl.sum(gl.exp(x - m), 0)) + m
    xt = gl.load(x_ptr + row * N + t).to(gl.float32)
    gl.store(l_ptr + row, lse - xt)
def run(x, t):
    l = torch.empty(x.shape[0])
    ce[(x.shape[0],)](x, t, l, x.shape[1], B=1024)
    return l
def make_inputs(): return (torch.randn(30, 700).bfloat16(), torch.randint(0, 700, (30,)))
def reference(x, t): return torch.nn.functional.cross_entropy(x, t, reduction="none")
""",
    " + m\n",
    " + m * 1.01\n",
)
KERNELS["elu of halves"] = Gluon(
    """
@gluon.jit
def where_k(x_ptr, y_ptr, n, B: gl.constexpr):
    L: gl.constexpr = gl.BlockedLayout([8], [32], [4], [0])
    i = gl.program_id(0) * B + gl.arange(0, B, L)
    i = gl.max_contiguous(gl.multiple_of(i, 8), 8)
    x = gl.load(x_ptr + i, mask=i < n, other=0.0, cache_modifier=".cg")
    x32 = x.to(gl.float32)
    y = gl.where(x32 > 0, x32, 0.01 * (gl.exp2(x32 * 1.4426950408889634) - 1))
    gl.store(y_ptr + i, gl.cast(y, gl.float16), mask=i < n)
def run(x):
    y = torch.empty_like(x)
    where_k[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), B=1024)
    return y
def make_inputs(): return (torch.randn(3000).half(),)
def reference(x): return torch.nn.functional.elu(x, 0.01)
""",
    "x32 > 0",
    "x32 > 0.5",
)
KERNELS["warps of 64 threads"] = Gluon(
    """
@gluon.jit
def sw(x_ptr, y_ptr, n, B: gl.constexpr):
    L: gl.constexpr = gl.BlockedLayout([1], [64], [4], [0])
    i = gl.program_id(0) * B + gl.arange(0, B, L)
    a = gl.load(x_ptr + i, mask=i < n)
    b = gl.load(x_ptr + n + i, mask=i < n)
    gl.store(y_ptr + i, a / (1 + gl.exp(-a)) * b, mask=i < n)
def run(x):
    y = torch.empty(x.numel() // 2)
    sw[(triton.cdiv(y.numel(), 256),)](x, y, y.numel(), B=256)
    return y
def make_inputs(): return (torch.randn(2000),)
def reference(x): return torch.nn.functional.silu(x[:1000]) * x[1000:]
""",
    "* b,",
    "* a,",
)
KERNELS["moments by a helper"] = Gluon(
    """
@gluon.constexpr_function
def pick(B, warps):
    return gl.BlockedLayout([max(1, B // (32 * warps))], [32], [warps], [0])
@gluon.jit
def welford(x, n, m):
    mean = gl.sum(x, 0) / n
    d = gl.where(m, x - mean, 0.)
    return mean, gl.sum(d * d, 0) / n
@gluon.jit
def k(x_ptr, m_ptr, v_ptr, n, B: gl.constexpr, num_warps: gl.constexpr):
    L: gl.constexpr = pick(B, num_warps)
    i = gl.arange(0, B, L)
    ok = i < n
    x = gl.load(x_ptr + gl.program_id(0) * n + i, mask=ok, other=0.)
    mean, var = welford(x, n, ok)
    gl.store(m_ptr + gl.program_id(0), mean)
    gl.store(v_ptr + gl.program_id(0), var)
def run(x):
    m = torch.empty(x.shape[0]); v = torch.empty(x.shape[0])
    k[(x.shape[0],)](x, m, v, x.shape[1], B=512, num_warps=4)
    return m, v
def make_inputs(): return (torch.randn(6, 500),)
def reference(x): return x.mean(1), x.var(1, unbiased=False)
""",
    "gl.sum(d * d, 0) / n",
    "gl.sum(d * d, 0) / (n - 1)",
)
KERNELS["names imported"] = Gluon(
    """
from triton.experimental.gluon import jit
from triton.experimental.gluon.language import load, store, arange, program_id, constexpr, BlockedLayout, exp
@jit
def k(x_ptr, y_ptr, n, B: constexpr):
    L: constexpr = BlockedLayout([1], [32], [4], [0])
    i = program_id(0) * B + arange(0, B, L)
    store(y_ptr + i, exp(load(x_ptr + i, mask=i < n)), mask=i < n)
def run(x):
    y = torch.empty_like(x)
    k[(triton.cdiv(x.numel(), 128),)](x, y, x.numel(), B=128)
    return y
def make_inputs(): return (torch.randn(1000),)
def reference(x): return x.exp()
""",
    "store(y_ptr + i, exp(",
    "store(y_ptr + i, 1.0 + exp(",
)
