"""Small kernels, one or two rules each: what the adversary runs besides the packaged ones."""

import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def unary_kernel(x, out, n, OP: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n, other=1.0)
    if OP == "abs":
        v = -tl.abs(v * v - v)
    elif OP == "floor" or OP == "ceil":
        v = getattr(tl, OP)(v * 1.0009765625)
    else:
        v = getattr(tl, OP)(v)
    tl.store(out + i, v, mask=i < n)


@triton.jit
def library_kernel(x, out, n, OP: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n, other=0.5)
    if OP == "rint":
        v = v * 1.0009765625
    v = getattr(libdevice, OP)(v)
    tl.store(out + i, v, mask=i < n)


@triton.jit
def binary_kernel(x, y, out, n, OP: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    a = tl.load(x + i, mask=i < n, other=1.0)
    b = tl.load(y + i, mask=i < n, other=1.0)
    if OP == "add":
        v = a + b
    elif OP == "sub":
        v = a - b
    elif OP == "mul":
        v = a * b
    elif OP == "div":
        v = a / b
    elif OP == "div_rn":
        v = tl.div_rn(a, b)
    elif OP == "rem":
        v = a % b
    elif OP == "fma":
        v = tl.fma(a, b, a)
    elif OP == "fold":
        v = a * b + a
    elif OP == "cross":
        v = a * a - b * b
    elif OP == "chain":
        v = (a * b + b) * a - (a - b) * (a + b)
    elif OP == "maximum":
        v = tl.maximum(a * b, a + b)
    elif OP == "minimum":
        v = tl.minimum(a * b, a + b, propagate_nan=tl.PropagateNan.ALL)
    elif OP == "clamp":
        v = tl.clamp(a * b, -1.0, 1.0)
    elif OP == "where":
        v = tl.where(a * b > a + b, a - b, b + 1.0)
    elif OP == "mean":
        v = (a + b) / 2.0 + tl.sqrt(a * a + b * b)
    tl.store(out + i, v, mask=i < n)


@triton.jit
def cast_kernel(x, out, n, OP: tl.constexpr, MIDDLE: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n, other=0.0)
    if OP == "rtz":
        v = v.to(MIDDLE, fp_downcast_rounding="rtz")
    elif OP == "after":
        v = (v * 1.0009765625).to(MIDDLE)
    else:
        v = v.to(MIDDLE)
    tl.store(out + i, v.to(out.dtype.element_ty), mask=i < n)


@triton.jit
def integer_kernel(x, out, n, MIDDLE: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n, other=0).to(MIDDLE)
    tl.store(out + i, v.to(out.dtype.element_ty) * 3.0, mask=i < n)


@triton.jit
def row_kernel(x, out, OP: tl.constexpr, N: tl.constexpr):
    r = tl.program_id(0)
    i = tl.arange(0, N)
    v = tl.load(x + r * N + i)
    if OP == "sum":
        s = tl.sum(v, 0)
    elif OP == "square_sum":
        s = tl.sum(v * v, 0)
    elif OP == "max":
        s = tl.max(v * v - v, 0)
    elif OP == "norm":
        s = tl.sqrt(tl.sum(v * v, 0)) + tl.sum(tl.abs(v), 0) / N
    elif OP == "logsumexp":
        m = tl.max(v, 0)
        s = tl.log(tl.sum(tl.exp(v - m), 0)) + m
    elif OP == "variance":
        d = v - tl.sum(v, 0) / N
        s = tl.rsqrt(tl.sum(d * d, 0) / N + 1e-5)
    elif OP == "prod":
        s = tl.reduce(v, 0, product)
    tl.store(out + r, s)


@triton.jit
def product(a, b):
    return a * b


@triton.jit
def scan_kernel(x, out, OP: tl.constexpr, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    v = tl.load(x + at)
    if OP == "cumsum":
        v = tl.cumsum(v, 0)
    elif OP == "reverse":
        v = tl.cumsum(v, 0, reverse=True)
    elif OP == "cumprod":
        v = tl.cumprod(v, 0)
    elif OP == "twice":
        v = tl.cumsum(v * v, 0) - tl.cumsum(v, 0)
    tl.store(out + at, v)


@triton.jit
def softmax_kernel(x, out, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    v = tl.load(x + at)
    e = tl.exp(v - tl.max(v, 0))
    tl.store(out + at, e / tl.sum(e, 0))


@triton.jit
def moves_kernel(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i) * 1.1
    w = tl.gather(tl.reshape(tl.trans(tl.reshape(v, [2, N // 2])), [N]), N - 1 - i, 0)
    a, b = tl.split(tl.join(v, w))
    tl.store(out + i, a * b + tl.gather(v, (i * 7) % N, 0))


@triton.jit
def dot_kernel(
    a, b, out, K, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr, HOW: tl.constexpr, PRECISION: tl.constexpr,
    ACC: tl.constexpr,
):  # fmt: skip
    g = tl.program_id(0)
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BK)
    acc = tl.zeros([M, N], ACC)
    for start in range(0, K, BK):
        x = tl.load(a + g * M * K + m[:, None] * K + (start + k)[None, :])
        y = tl.load(b + g * K * N + (start + k)[:, None] * N + n[None, :])
        if HOW == "chained":
            acc = tl.dot(x, y, acc, input_precision=PRECISION, out_dtype=ACC)
        elif HOW == "added":
            acc += tl.dot(x, y, input_precision=PRECISION, out_dtype=ACC)
        else:
            acc = tl.dot(x, y, acc, input_precision=PRECISION, out_dtype=ACC, max_num_imprecise_acc=32)
    tl.store(out + g * M * N + m[:, None] * N + n[None, :], acc)


@triton.jit
def attend_kernel(a, b, out, K: tl.constexpr, M: tl.constexpr, N: tl.constexpr, PRECISION: tl.constexpr):
    """Interval operands: probabilities times values."""
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    x = tl.exp(tl.load(a + m[:, None] * K + k[None, :]))
    y = tl.load(b + k[:, None] * N + n[None, :])
    p = (x / tl.sum(x, 1)[:, None]).to(y.dtype)
    tl.store(out + m[:, None] * N + n[None, :], tl.dot(p, y * y, input_precision=PRECISION))


@triton.jit
def atomic_kernel(x, out, n, SLOTS: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.atomic_add(out + i % SLOTS, tl.load(x + i, mask=i < n, other=0.0), mask=i < n)


@triton.jit
def atomic_max_kernel(x, out, SLOTS: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i)
    tl.atomic_max(out + i % SLOTS, v * v)


@triton.jit
def partial_sums_kernel(x, out, n, B: tl.constexpr):
    """One float per program, added to one address."""
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n, other=0.0)
    tl.atomic_add(out, tl.sum(v * v, 0))
