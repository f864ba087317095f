"""Kernels for the table of second evaluations: one operation each, named by a constant."""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra.cuda import libdevice


@triton.jit
def operation(x, y, out, N: tl.constexpr, WHAT: tl.constexpr):
    i = tl.arange(0, N)
    a, b = tl.load(x + i), tl.load(y + i)
    soft = tl.exp(a) > 1.0
    other = tl.exp(b) > 1.0
    if WHAT == "fadd":
        v = a + b
    elif WHAT == "fsub":
        v = a - b
    elif WHAT == "fmul":
        v = a * b
    elif WHAT == "fma":
        v = tl.fma(a, b, a)
    elif WHAT == "fdiv":
        v = a / b
    elif WHAT == "precise_divf":
        v = tl.div_rn(a, b)
    elif WHAT == "frem":
        v = (a * 9.3) % b
    elif WHAT == "exp":
        v = tl.exp(a)
    elif WHAT == "exp2":
        v = tl.exp2(a)
    elif WHAT == "log":
        v = tl.log(tl.abs(a))
    elif WHAT == "log2":
        v = tl.log2(tl.abs(a))
    elif WHAT == "sin":
        v = tl.sin(a)
    elif WHAT == "cos":
        v = tl.cos(a)
    elif WHAT == "sqrt":
        v = tl.sqrt(tl.abs(a))
    elif WHAT == "precise_sqrt":
        v = tl.sqrt_rn(tl.abs(a))
    elif WHAT == "rsqrt":
        v = tl.rsqrt(tl.abs(a))
    elif WHAT == "erf":
        v = tl.erf(a)
    elif WHAT == "floor":
        v = tl.floor(a * 3.7)
    elif WHAT == "ceil":
        v = tl.ceil(a * 3.7)
    elif WHAT == "fneg":
        v = -(a * b)
    elif WHAT == "fabs":
        v = tl.abs(a * b)
    elif WHAT == "select":
        v = tl.where(a > b, a * b, b * 1.1)
    elif WHAT == "maxnumf":
        v = tl.maximum(a * b, a + b)
    elif WHAT == "minnumf":
        v = tl.minimum(a * b, a + b)
    elif WHAT == "maximumf":
        v = tl.maximum(a * b, a + b, propagate_nan=tl.PropagateNan.ALL)
    elif WHAT == "minimumf":
        v = tl.minimum(a * b, a + b, propagate_nan=tl.PropagateNan.ALL)
    elif WHAT == "clampf":
        v = tl.clamp(a * b, -1.0, 1.0)
    elif WHAT == "fcmpOLT":
        v = tl.where(a * b < a + b, a * b, b * 1.1)
    elif WHAT == "fcmpOLE":
        v = tl.where(a * b <= a + b, a * b, b * 1.1)
    elif WHAT == "fcmpOGT":
        v = tl.where(a * b > a + b, a * b, b * 1.1)
    elif WHAT == "fcmpOGE":
        v = tl.where(a * b >= a + b, a * b, b * 1.1)
    elif WHAT == "fcmpOEQ":
        v = tl.where(a * b == a + b, a * b, b * 1.1)
    elif WHAT == "fcmpUNE":
        v = tl.where(a * b != a + b, a * b, b * 1.1)
    elif WHAT == "and":
        v = tl.where(soft & other, a * b, b * 1.1)
    elif WHAT == "or":
        v = tl.where(soft | other, a * b, b * 1.1)
    elif WHAT == "xor":
        v = tl.where(soft ^ other, a * b, b * 1.1)
    elif WHAT == "icmpEQ":
        v = tl.where(soft == other, a * b, b * 1.1)
    elif WHAT == "icmpNE":
        v = tl.where(soft != other, a * b, b * 1.1)
    elif WHAT == "choice of truths":
        v = tl.where(tl.where(a > b, soft, other), a * b, b * 1.1)
    elif WHAT == "from truth":
        v = soft.to(tl.float32) * b
    elif WHAT == "any truth":
        v = tl.where(tl.reduce(soft, 0, tl.standard._or_combine), a * b, b * 1.1)
    elif WHAT == "all truths":
        v = tl.where(tl.reduce(soft, 0, tl.standard._elementwise_min), a * b, b * 1.1)
    elif WHAT == "fp_trunc":
        v = (a * b).to(tl.bfloat16).to(tl.float32)
    elif WHAT == "fp_to_fp":
        v = (a * b).to(tl.float16, fp_downcast_rounding="rtz").to(tl.float32)
    elif WHAT == "fp8e5":
        v = (a * b).to(tl.float8e5).to(tl.float32)
    elif WHAT == "fp8e4nv":
        v = (a * b).to(tl.float8e4nv).to(tl.float32)
    elif WHAT == "fp8e4b15":
        v = (a * b).to(tl.float8e4b15).to(tl.float32)
    elif WHAT == "fp_ext":
        v = (a.to(tl.float64) * b.to(tl.float64)).to(tl.float32)
    elif WHAT == "si_to_fp":
        v = (i * 123456789).to(tl.float32) * b
    elif WHAT == "si_to_fp wide":
        v = (i.to(tl.int64) * 1234567890123456789).to(tl.float32) * b
    elif WHAT == "ui_to_fp":
        v = (i * 123456789).to(tl.uint32).to(tl.float32) * b
    elif WHAT == "fp_to_si":
        v = (a * 100.0).to(tl.int32).to(tl.float32) * b
    elif WHAT == "fp_to_ui":
        v = (tl.abs(a) * 100.0).to(tl.uint32).to(tl.float32) * b
    elif WHAT == "bitcast":
        v = a.to(tl.int32, bitcast=True).to(tl.float32, bitcast=True) * b
    elif WHAT == "isnan":
        v = tl.where(libdevice.isnan(tl.exp(a)), a * b, b * 1.1)
    elif WHAT == "isinf":
        v = tl.where(libdevice.isinf(tl.exp(a)), a * b, b * 1.1)
    elif WHAT == "finitef":
        v = tl.where(libdevice.finitef(tl.exp(a)), a * b, b * 1.1)
    elif WHAT == "argmax":
        best, k = tl.max(tl.exp(a) * 1.5, 0, return_indices=True)
        v = b * best + k.to(tl.float32)
    elif WHAT == "argmin":
        best, k = tl.min(tl.exp(a) * 1.5, 0, return_indices=True)
        v = b * best + k.to(tl.float32)
    elif WHAT == "sum":
        v = b * tl.sum(a, 0)
    elif WHAT == "prod":
        v = b * tl.reduce(a, 0, tl.standard._prod_combine)
    elif WHAT == "max":
        v = b * tl.max(a * 1.1, 0)
    elif WHAT == "min":
        v = b * tl.min(a * 1.1, 0)
    elif WHAT == "scan sum":
        v = tl.cumsum(a, 0)
    elif WHAT == "scan max":
        v = tl.associative_scan(a * b, 0, tl.standard._elementwise_max)
    elif WHAT == "sort":
        v = tl.sort(tl.exp(a))
    elif WHAT == "topk":
        v = b * tl.sum(tl.topk(tl.exp(a), 4), 0)
    elif WHAT == "bitonic_merge":
        v = tl.bitonic_merge(tl.exp(a), descending=True)
    elif WHAT == "flip":
        v = tl.flip(tl.exp(a))
    elif WHAT == "reload":
        tl.store(out + i, a * b)
        tl.debug_barrier()
        v = tl.load(out + (N - 1 - i), mask=i < N // 2, other=1.1) * 1.1
    tl.store(out + i, v)


@triton.jit
def move(x, y, at, out, N: tl.constexpr, WHAT: tl.constexpr):
    i = tl.arange(0, N)
    a, b = tl.exp(tl.load(x + i)), tl.exp(tl.load(y + i))
    if WHAT == "gather":
        v = tl.gather(a, tl.load(at + i), 0)
    elif WHAT == "cat":
        v = tl.sum(tl.reshape(tl.cat(a, b, can_reorder=True), [N, 2]), 1)
    elif WHAT == "join":
        v = tl.max(tl.join(a, b), 1)
    elif WHAT == "split":
        c, d = tl.split(tl.join(a, b))
        v = c - d
    elif WHAT == "trans":
        v = tl.reshape(tl.trans(tl.reshape(a, [2, N // 2])), [N])
    elif WHAT == "broadcast":
        v = tl.sum(tl.broadcast_to(a[:, None], [N, 4]), 1)
    elif WHAT == "unsplat":
        c, d = tl.split(tl.sum(tl.reshape(tl.join(a, b), [N, 2]), 0))
        v = a * c - d
    elif WHAT == "histogram":
        v = tl.histogram(tl.load(at + i), N).to(tl.float32) * a
    tl.store(out + i, v)


@triton.jit
def atomic(x, slots, out, B: tl.constexpr, WHAT: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + tl.program_id(0) * B + i) * 1.1
    mine = slots + tl.program_id(0) * B + i
    if WHAT == "add":
        tl.atomic_add(slots + i, v)
    elif WHAT == "max":
        tl.atomic_max(slots + i, v)
    elif WHAT == "min":
        tl.atomic_min(slots + i, v)
    elif WHAT == "exchange":
        tl.atomic_xchg(mine, v)
    elif WHAT == "exchange, then add":
        tl.atomic_xchg(mine, v)
        tl.atomic_add(mine, v * 0.3)


@triton.jit
def descriptor(x, rows, out, M, N, WHAT: tl.constexpr):
    row = tl.make_tensor_descriptor(x, [M, N], [N, 1], [1, 16])
    block = tl.make_tensor_descriptor(x, [M, N], [N, 1], [8, 16])
    target = tl.make_tensor_descriptor(out, [M, N], [N, 1], [8, 16])
    if WHAT == "gather":
        target.store([0, 0], row.gather(tl.load(rows + tl.arange(0, 8)), 0) * 1.1)
    elif WHAT == "scatter":
        line = tl.make_tensor_descriptor(out, [M, N], [N, 1], [1, 16])
        line.scatter(block.load([0, 0]) * 1.1, tl.load(rows + tl.arange(0, 8)), 0)
    elif WHAT == "reduce":
        target.atomic_add([0, 0], block.load([0, 0]) * 1.1)
    else:
        target.store([0, 0], block.load([8, 0]) * 1.1)


@triton.jit
def convert(x, y, out, N: tl.constexpr, NAME: tl.constexpr, TWO: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(x + i)
    v = getattr(libdevice, NAME)(a, tl.load(y + i)) if TWO else getattr(libdevice, NAME)(a)
    tl.store(out + i, v.to(tl.float32) * 1.1)


@triton.jit
def dots(x, y, out, N: tl.constexpr, KIND: tl.constexpr):
    i = tl.arange(0, N)
    at = i[:, None] * N + i[None, :]
    acc = tl.dot(tl.load(x + at), tl.load(y + at), input_precision=KIND)
    tl.store(out + at, tl.dot(tl.load(y + at), tl.load(x + at), acc, input_precision=KIND))


@triton.jit
def truths(x, out, N: tl.constexpr, WHAT: tl.constexpr):
    i = tl.arange(0, N)
    c = tl.exp(tl.load(x + i)) > 0.99999999
    if WHAT == "any":
        found = tl.reduce(c, 0, tl.standard._or_combine)
    elif WHAT == "all":
        found = tl.reduce(c, 0, tl.standard._elementwise_min)
    else:
        found = tl.reduce(c, 0, tl.standard._xor_combine)
    tl.store(out + i, tl.where(found, 1.0, 2.0))


@triton.jit
def exchange(x, slots, B: tl.constexpr, SHARED: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i) * 1.1
    tl.atomic_xchg(slots + (tl.arange(0, B) if SHARED else i), v)
