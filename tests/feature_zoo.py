"""Programs over the features of Triton's language, right ones and wrong ones, one body each.

What Triton's own front end says of each is asked when the test runs: nothing of it stands here. Not among them: what
the verifier of the intermediate code refuses, without a line; what older releases have and 3.9 has not; what this
interpreter refuses by name (clocks, which elements `pack` groups).
"""

from __future__ import annotations

import linecache
from itertools import count
from typing import Any

HEAD = """import math
import triton
import triton.language as tl
from typing import NamedTuple
from triton.language.extra import libdevice
W = tl.constexpr(5)
class Pair(NamedTuple):
    a: tl.tensor
    b: tl.tensor
class Cfg(NamedTuple):
    m: tl.constexpr
    n: tl.constexpr
@tl.core._aggregate
class Acc:
    s: tl.tensor
    c: tl.tensor
    def __init__(self, s, c):
        self.s = s
        self.c = c
    @triton.jit
    def add(self, x):
        return Acc(self.s + x, self.c + 1)
    @triton.jit
    def total(self):
        return self.s * 2
@tl.core._aggregate
class Meta:
    n: tl.constexpr
    t: tl.tensor
    def __init__(self, n, t):
        self.n = tl.constexpr(n)
        self.t = t
@triton.jit
def twice(x):
    return x * 2
@triton.jit(noinline=True)
def heavy(x, y):
    return x * y + 1
@triton.jit
def pair(x):
    return x, x + 1
@triton.jit
def named(x):
    return Pair(x, x * 3)
@triton.jit
def early(x, n):
    if n > 3:
        return x + 1
    return x - 1
@triton.jit
def apply(f: tl.constexpr, x):
    return f(x)
@triton.jit
def default(x, k: tl.constexpr = 3, s=2.0):
    return x * k + s
@triton.jit
def addf(a, b):
    return a + b
@triton.jit
def maxf(a, b):
    return tl.maximum(a, b)
@triton.jit
def welford(m1, s1, w1, m2, s2, w2):
    d = m2 - m1
    w = w1 + w2
    r = tl.where(w == 0, 0.0, w2 / w)
    return m1 + d * r, s1 + s2 + d * d * w1 * r, w
@triton.jit
def argbest(v1, i1, v2, i2):
    t = (v1 > v2) | ((v1 == v2) & (i1 < i2))
    return tl.where(t, v1, v2), tl.where(t, i1, i2)
@triton.jit
def lin(a1, b1, a2, b2):
    return a1 * a2, b1 * a2 + b2
@triton.jit
def sumall(*args):
    t = args[0]
    for k in tl.static_range(1, len(args)):
        t = t + args[k]
    return t
@triton.jit
def rec(x, n: tl.constexpr):
    if n == 0:
        return x
    else:
        return rec(x + 1, n - 1)
@triton.jit
def cond(x):
    if x > 2:
        y = x * 2
    else:
        y = x * 3
    return y
@triton.jit
def polar(x, y):
    return tl.sqrt(x * x + y * y), x - y
@triton.constexpr_function
def npow2(n):
    return 1 << (n - 1).bit_length()
@triton.constexpr_function
def table(n):
    return (n, n + 1)
@triton.jit
def r_type(x, n):
    if n > 2:
        return x
    else:
        return n
@triton.jit
def r_none(x, n):
    if n > 2:
        return x
    else:
        return
@triton.jit
def r_fall(x, n):
    if n > 2:
        return x
@triton.jit
def r_tuple(x, n):
    if n > 2:
        return x, x
    else:
        return x
@triton.jit
def r_shape(x, n):
    if n > 2:
        return x
    return tl.zeros((16,), tl.float32)
@triton.jit
def r_const(x, n):
    if n > 2:
        return 1
    return 2.5
@triton.jit
def r_loop(x, n):
    for k in range(n):
        return x
    return x
@triton.jit
def r_while(x, n):
    while n > 2:
        return x
    return x
@triton.jit
def r_nested(x, n):
    if n > 2:
        if n > 3:
            return x
        else:
            return i
    return x
@triton.jit
def kernel(p, out, n, C: tl.constexpr):
    i = tl.arange(0, 8)
    x = tl.load(p + i)
    s = tl.load(p)
"""

FEATURES = {
    "tuple index neg": "t = (x, s, x + 1)\nx = t[-1] + t[0]",
    "tuple slice": "t = (x, s, x + 1)\nu = t[1:]\nx = u[0] + u[1]",
    "tuple slice step": "t = (x, s, x + 1)\nu = t[::2]\nx = u[0] + u[1]",
    "tuple concat": "t = (x, s) + (x + 1,)\nx = t[2] + len(t)",
    "tuple len": "t = (x, s)\nx = x + len(t)",
    "tuple nested": "t = (x, (s, i))\nx = t[0] + t[1][0] + t[1][1]",
    "tuple unpack nested": "a, (b, c) = x, (s, i)\nx = a + b + c",
    "tuple for static": "for k in tl.static_range(3):\n    t = (x, x + 1, x + 2)\n    x = t[k]",
    "tuple carried": "t = (x, s)\nfor k in range(n):\n    t = (t[0] + 1, t[1] * 2)\nx = t[0] + t[1]",
    "tuple carried while": "t = (x, n)\nwhile t[1] > 0:\n    t = (t[0] + 1, t[1] - 1)\nx = t[0]",
    "tuple if": "if n > 2:\n    t = (x, s)\nelse:\n    t = (x + 1, s + 1)\nx = t[0] + t[1]",
    "tuple return": "a, b = pair(x)\nx = a * b",
    "tuple star call": "x = sumall(*pair(x))",
    "tuple star mixed": "x = sumall(x, *pair(x), s)",
    "varargs": "x = sumall(x, s, x)",
    "namedtuple": "t = named(x)\nx = t.a + t.b",
    "namedtuple build": "t = Pair(x, s)\nx = t.a + t.b",
    "namedtuple kw": "t = Pair(a=x, b=s)\nx = t.a + t[1]",
    "namedtuple carried": "t = Pair(x, s)\nfor k in range(n):\n    t = Pair(t.a + 1, t.b + 1)\nx = t.a + t.b",
    "namedtuple cfg": "c = Cfg(4, 2)\nx = x + tl.zeros((8,), tl.float32) + c.m + c.n",
    "namedtuple unpack": "a, b = named(x)\nx = a + b",
    "aggregate": "a = Acc(x, s)\na = a.add(x)\nx = a.total() + a.c",
    "aggregate carried": "a = Acc(x, s)\nfor k in range(n):\n    a = a.add(x)\nx = a.s + a.c",
    "aggregate if": "a = Acc(x, s)\nif n > 2:\n    a = a.add(x)\nx = a.s",
    "noinline": "x = heavy(x, s)",
    "noinline scalar": "x = x + heavy(s, s)",
    "early": "x = early(x, n)",
    "early const": "x = early(x, C)",
    "function argument": "x = apply(twice, x)",
    "default": "x = default(x) + default(x, 4) + default(x, s=1.0) + default(x, k=C)",
    "recursion": "x = rec(x, C)",
    "cond scalar": "s = cond(s)\nx = x + s",
    "constexpr function shape": "x = x + tl.sum(tl.zeros((npow2(5),), tl.float32), 0)",
    "constexpr function tuple": "a, b = table(C)\nx = x + a + b",
    "constexpr arith": "k: tl.constexpr = C * 2 + 1\nx = x + tl.sum(tl.full((k - 1,), k, tl.float32), 0)",
    "constexpr global": "x = x + W.value",
    "constexpr min max": "k: tl.constexpr = min(C, 7)\nj: tl.constexpr = max(C, 7)\nx = x + k + j",
    "constexpr str": "k: tl.constexpr = 'ab' if C > 1 else 'cd'\nif k == 'ab':\n    x = x + 1",
    "constexpr none": "k: tl.constexpr = None\nif k is None:\n    x = x + 1",
    "constexpr dtype": "d: tl.constexpr = tl.float16\nx = x.to(d).to(tl.float32)",
    "constexpr dtype cond": "d = tl.float16 if C == 2 else tl.bfloat16\nx = x.to(d).to(tl.float32)",
    "dtype of": "x = (x.to(tl.float16) * 2).to(x.dtype)",
    "element_ty": "x = x.to(out.dtype.element_ty)",
    "element_ty is": "if p.dtype.element_ty == tl.float32:\n    x = x + 1",
    "dtype props": "x = x + x.dtype.primitive_bitwidth",
    "dtype is": "if x.dtype.is_floating():\n    x = x + 1",
    "shape attr": "x = x + x.shape[0]",
    "numel attr": "x = x + x.numel",
    "type shape": "y = tl.zeros(x.shape, x.dtype)\nx = x + y",
    "zeros like": "x = x + tl.zeros_like(x)",
    "static assert": "tl.static_assert(C == 2)\ntl.static_assert(x.shape[0] == 8, 'eight')",
    "static print": "tl.static_print('C', C, x)",
    "device print": "tl.device_print('x', x, n)",
    "device print hex": "tl.device_print('x', i, hex=True)",
    "device assert": "tl.device_assert(n < 100, 'small')",
    "device assert mask": "tl.device_assert(x < 100, 'small', mask=i < 4)",
    "inline asm": (
        "x = tl.inline_asm_elementwise('add.f32 $0, $1, $1;', '=f,f', [x], dtype=tl.float32, is_pure=True, pack=1)"
    ),
    "inline asm two": (
        "a, b = tl.inline_asm_elementwise('add.f32 $0, $2, $3; sub.f32 $1, $2, $3;', '=f,=f,f,f', ["
        "x, x], dtype=(tl.float32, tl.float32), is_pure=True, pack=1)\nx = a + b"
    ),
    "scan tuple": "a, b = tl.associative_scan((x, x), 0, lin)\nx = a + b",
    "scan reverse": "x = tl.associative_scan(x, 0, addf, reverse=True)",
    "scan 2d": (
        "y = tl.reshape(tl.load(p + tl.arange(0, 16)), (4, 4))\ny = tl.associative_scan(y, 1, maxf)\nx = x + tl.sum(y)"
    ),
    "reduce tuple": "a, b = tl.reduce((x, i), 0, argbest)\nx = x + a + b",
    "reduce welford": (
        "a, b, c = tl.reduce((x, tl.zeros_like(x), tl.zeros_like(x) + 1), 0, welford)\nx = x + a + b + c"
    ),
    "reduce keep": "y = tl.reduce(x, 0, addf, keep_dims=True)\nx = x + y",
    "reduce none axis": "y = tl.reshape(tl.load(p + tl.arange(0, 16)), (4, 4))\nx = x + tl.reduce(y, None, addf)",
    "map elementwise": "x = tl.map_elementwise(cond, x)",
    "map elementwise 2": "a, b = tl.map_elementwise(polar, x, x + 1)\nx = a + b",
    "map elementwise pack": "x = tl.map_elementwise(cond, x, pack=1)",
    "descriptor": (
        "d = tl.make_tensor_descriptor(p, shape=[4, 16], strides=[16, 1], block_shape=[2, 8])\n"
        "y = d.load([0, 8])\nx = x + tl.sum(y)"
    ),
    "descriptor store": (
        "d = tl.make_tensor_descriptor(out, shape=[4, 16], strides=[16, 1], block_shape=[1, 8])\n"
        "d.store([0, 8], x[None, :])"
    ),
    "descriptor reshape": (
        "d = tl.make_tensor_descriptor(p, [4, 16], [16, 1], [1, 8])\ny = d.load([n - n, 8]).reshape(8)\nx = x + y"
    ),
    "descriptor attr": (
        "d = tl.make_tensor_descriptor(p, [4, 16], [16, 1], [1, 8])\nx = x + d.shape[1] + d.block_shape[1]"
    ),
    "descriptor atomic": (
        "d = tl.make_tensor_descriptor(out, [4, 16], [16, 1], [1, 8])\nd.atomic_add([1, 0], x[None, :])"
    ),
    "descriptor gather": (
        "d = tl.make_tensor_descriptor(p, [16, 16], [16, 1], [1, 8])\ny = d.gather(i, 0)\nx = x + tl.sum(y, 1)"
    ),
    "descriptor loop": (
        "d = tl.make_tensor_descriptor(p, [4, 16], [16, 1], [1, 8])\nfor k in range(2):\n"
        "    x += d.load([0, k * 8]).reshape(8)"
    ),
    "load descriptor fn": (
        "d = tl.make_tensor_descriptor(p, [4, 16], [16, 1], [1, 8])\n"
        "x = x + tl.load_tensor_descriptor(d, [0, 0]).reshape(8)"
    ),
    "cat": "y = tl.cat(x, x, can_reorder=True)\nx = x + tl.sum(y)",
    "join split": "y = tl.join(x, x + 1)\na, b = tl.split(y)\nx = a + b",
    "join split method": "a, b = x.reshape(4, 2).split()\nx = x + tl.sum(a) + tl.sum(b)",
    "interleave": "y = tl.interleave(x, x + 1)\nx = x + tl.sum(y)",
    "permute": "y = tl.permute(tl.reshape(x, (2, 2, 2)), (2, 0, 1))\nx = y.reshape(8)",
    "permute method": "y = x.reshape(2, 2, 2).permute(2, 0, 1)\nx = y.reshape(8)",
    "trans": "y = x.reshape(2, 4).trans()\nx = y.reshape(8)",
    "trans 3": "y = x.reshape(2, 2, 2).trans(0, 2, 1)\nx = y.reshape(8)",
    "T": "y = x.reshape(2, 4).T\nx = y.reshape(8)",
    "ravel": "x = x.reshape(2, 4).ravel()",
    "view": "x = x.view(2, 4).reshape([8])",
    "expand dims neg": "y = tl.expand_dims(x, -1)\nx = y.reshape(8)",
    "expand dims tuple": "y = tl.expand_dims(x, (0, 2))\nx = y.reshape(8)",
    "broadcast to": "y = tl.broadcast_to(x[:, None], (8, 4))\nx = x + tl.sum(y, 1)",
    "broadcast method": "y = x[:, None].broadcast_to(8, 4)\nx = x + tl.sum(y, axis=1)",
    "broadcast pair": "a, b = tl.broadcast(x[:, None], x[None, :])\nx = x + tl.sum(a * b, 1)",
    "flip": "x = tl.flip(x) + tl.flip(x, 0)",
    "sort": "x = tl.sort(x, descending=True)",
    "topk": "y = tl.topk(x, 4)\nx = x + tl.sum(y)",
    "gather": "x = tl.gather(x, 7 - i, 0)",
    "gather method": "x = x.gather(i ^ 1, 0)",
    "histogram": "h = tl.histogram(i, 8)\nx = x + h",
    "histogram mask": "h = tl.histogram(i, 8, mask=i < 4)\nx = x + h",
    "where scalar": "x = tl.where(n > 2, x, 0.0)",
    "where tuple of types": "x = tl.where(x > 2, 1, x)",
    "cumsum": "x = tl.cumsum(x, 0) + tl.cumprod(x * 0 + 1, 0)",
    "cumsum reverse dtype": "y = tl.cumsum(i.to(tl.int8), 0, reverse=True, dtype=tl.int32)\nx = x + y",
    "argmax": "x = x + tl.argmax(x, 0) + tl.argmin(x, 0, tie_break_left=False)",
    "max indices": "m, k = tl.max(x, 0, return_indices=True)\nx = x + m + k",
    "max ties": "m, k = tl.max(x, 0, return_indices=True, return_indices_tie_break_left=False)\nx = x + m + k",
    "sum dtype": "x = x + tl.sum(x.to(tl.float16), 0, dtype=tl.float32)",
    "xor sum": "x = x + tl.xor_sum(i, 0)",
    "reduce or": "x = x + tl.reduce_or(i, 0)",
    "softmax": "x = tl.softmax(x)",
    "sigmoid": "x = tl.sigmoid(x)",
    "dot": (
        "a = tl.load(p + tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :])\nd = tl.dot(a, a)\n"
        "x = x + tl.sum(d)"
    ),
    "dot acc kw": (
        "a = tl.load(p + tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :])\n"
        "d = tl.dot(a, a, acc=tl.zeros((16, 16), tl.float32), input_precision='ieee')\nx = x + tl.sum(d)"
    ),
    "dot out dtype": (
        "a = tl.load(p + tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :]).to(tl.float16)\n"
        "d = tl.dot(a, a, out_dtype=tl.float16)\nx = x + tl.sum(d)"
    ),
    "dot batched": "a = tl.zeros((2, 16, 16), tl.float16) + 1\nd = tl.dot(a, a)\nx = x + tl.sum(d)",
    "dot int8": (
        "a = tl.full((16, 32), 3, tl.int8)\nb = tl.full((32, 16), 2, tl.int8)\nd = tl.dot(a, b)\nx = x + tl.sum(d)"
    ),
    "while tuple": "a = x\nk = 0\nwhile (k < n) & (k < 4):\n    a, k = a + 1, k + 1\nx = a",
    "while and": "k = 0\nwhile k < n and k < 4:\n    k += 1\nx = x + k",
    "while nested": "k = 0\nwhile k < n:\n    j = 0\n    while j < k:\n        x += 1\n        j += 1\n    k += 1",
    "while if": "k = 0\nwhile k < n:\n    if k % 2 == 0:\n        x += k\n    else:\n        x -= k\n    k += 1",
    "range hints": "for k in tl.range(0, n, num_stages=3, loop_unroll_factor=2):\n    x += k",
    "range warp": "for k in tl.range(0, n, warp_specialize=True):\n    x += k",
    "range flatten": "for k in tl.range(0, n, flatten=True, disallow_acc_multi_buffer=True):\n    x += k",
    "range licm": "for k in tl.range(0, n, disable_licm=True):\n    x += k",
    "range step neg": "for k in range(n, 0, -1):\n    x += k",
    "range const step": "for k in range(0, 8, C):\n    x += k",
    "range constexpr step": "for k in tl.range(0, 8, step=2):\n    x += k",
    "static range neg": "for k in tl.static_range(4, 0, -1):\n    x += k",
    "static range const": "for k in tl.static_range(C):\n    x += k",
    "nested if elif": "if n > 10:\n    x += 1\nelif n > 4:\n    x += 2\nelse:\n    x += 3",
    "if constexpr elif": "if C == 1:\n    x += 1\nelif C == 2:\n    x += 2\nelse:\n    undefined_name()",
    "if none arg": "y = None\nif y is not None:\n    x += y",
    "if and const": "if C == 2 and n > 1:\n    x += 1",
    "if or const": "if C == 3 or n > 1:\n    x += 1",
    "if not": "if not (n > 1):\n    x += 1",
    "ternary": "y = 1 if n > 2 else 0\nx += y",
    "ternary block": "x = x if C == 2 else 0",
    "ternary nested": "k: tl.constexpr = 1 if C == 1 else 2 if C == 2 else 3\nx += k",
    "return early kernel": "if n < 0:\n    return\nx += 1",
    "chained compare": "if 0 < C < 5:\n    x += 1",
    "walrus": "if (k := C + 1) > 2:\n    x += k",
    "aug all": "x += 1\nx -= 1\nx *= 2\nx /= 2\ni <<= 1\ni >>= 1\ni |= 1\ni &= 7\ni ^= 1\ni //= 2\ni %= 3\nx += i",
    "unary": "x = -x + (+x)\ni = ~i\nx += i",
    "bool ops": "b = (x > 1) & (x < 5) | ~(x > 3)\nx = tl.where(b, x, 0)",
    "logical": "b = (x > 1).logical_and(x < 5).logical_or(x == 7)\nx = tl.where(b, x, 0)",
    "int floordiv": "x = x + i // 3 + i % 3 + (-i) // 3 + (-i) % 3",
    "float mod": "x = x % 3.0",
    "pow2": "x = x * 2**C",
    "matmul op": "a = tl.zeros((16, 16), tl.float16)\nx = x + tl.sum(a @ a)",
    "abs builtin": "x = abs(x) + abs(-3)",
    "min max builtin": "x = min(x, 3.0) + max(x, 1.0) + min(n, 3)",
    "float cast": "x = x + float(C) + int(2.7)",
    "len": "x = x + len(x.shape)",
    "range len": "t = (x, s)\nfor k in tl.static_range(len(t)):\n    x = x + t[k]",
    "cdiv": "x = x + tl.cdiv(n, 2) + tl.cdiv(7, C)",
    "swizzle": "a, b = tl.swizzle2d(n, n, 8, 8, 2)\nx = x + a + b",
    "num programs": "x = x + tl.program_id(0) + tl.num_programs(0) + tl.program_id(axis=1)",
    "multiple of": "k = tl.multiple_of(n, 1)\ni2 = tl.max_contiguous(tl.multiple_of(i, 8), 8)\nx = x + k + i2",
    "max constancy": "i2 = tl.max_constancy(i, 1)\nx = x + i2",
    "assume": "tl.assume(n > 0)\nx = x + 1",
    "debug barrier": "tl.debug_barrier()",
    "atomics": (
        "tl.atomic_add(out + 16 + i, x)\ntl.atomic_max(out + 24 + i, x)\n"
        "tl.atomic_min(out + 24 + i, x, mask=i < 4)\nx = x + 1"
    ),
    "atomic cas": "q = out.to(tl.pointer_type(tl.int32), bitcast=True)\no = tl.atomic_cas(q + 40, 0, 1)\nx = x + o",
    "atomic xchg": "o = tl.atomic_xchg(out + 40 + i, x, sem='relaxed', scope='gpu')\nx = x + o",
    "atomic int": (
        "q = out.to(tl.pointer_type(tl.int32), bitcast=True)\ntl.atomic_or(q + 40 + i, i)\n"
        "tl.atomic_and(q + 40 + i, i)\ntl.atomic_xor(q + 40 + i, i)"
    ),
    "load options": (
        "y = tl.load(p + i, mask=i < 4, other=1.5, cache_modifier='.ca', eviction_policy='evict_las"
        "t', volatile=False)\nx = x + y"
    ),
    "load scalar mask": "y = tl.load(p + n, mask=n < 4, other=0)\nx = x + y",
    "store options": "tl.store(out + 16 + i, x, mask=i < 4, cache_modifier='.cg', eviction_policy='evict_first')",
    "store scalar": "tl.store(out + 30, s)\ntl.store(out + 31, 1.0)\ntl.store(out + 31, 1)",
    "pointer arith": "q = p + 4\nq += i\nx = tl.load(q) + tl.load(q - 2)",
    "pointer carried": "q = p + i\nfor k in range(3):\n    x += tl.load(q)\n    q += 8",
    "pointer if": "q = p if C == 1 else out\nx = x + tl.load(q + i)",
    "pointer bitcast": "q = p.to(tl.pointer_type(tl.int32))\ny = tl.load(q + i)\nx = x + y * 0",
    "bitcast": "y = x.to(tl.int32, bitcast=True).to(tl.float32, bitcast=True)\nx = x + y",
    "cast fn": "x = tl.cast(x, tl.float16).to(tl.float32)",
    "cast rounding": "x = x.to(tl.float8e5, fp_downcast_rounding='rtne').to(tl.float32)",
    "rand": "x = x + tl.rand(n, i) + tl.randn(n, i)",
    "randint": "x = x + tl.randint(n, i).to(tl.float32)",
    "rand4x": "a, b, c, d = tl.rand4x(n, i)\nx = x + a + b + c + d",
    "philox": "a, b, c, d = tl.philox(n, i.to(tl.uint32), 0, 0, 0)\nx = x + a.to(tl.float32)",
    "libdevice": "x = libdevice.tanh(x) + libdevice.pow(x, 2.0)",
    "math names": (
        "x = tl.exp(x) + tl.exp2(x) + tl.log(x + 1) + tl.log2(x + 1) + tl.sin(x) + tl.cos(x) + tl.s"
        "qrt(x) + tl.rsqrt(x + 1) + tl.erf(x) + tl.floor(x) + tl.ceil(x) + tl.fma(x, x, x) + tl.abs(x)"
    ),
    "math methods": "x = x.exp() + x.sqrt() + x.sigmoid() + x.abs() + x.floor() + x.sum() + x.max()",
    "div rn": "x = tl.div_rn(x, x + 1) + tl.sqrt_rn(x) + tl.fdiv(x, x + 1)",
    "umulhi": "x = x + tl.umulhi(i.to(tl.uint32), i.to(tl.uint32) + 7).to(tl.float32)",
    "clamp": "x = tl.clamp(x, 1.0, 4.0)",
    "minimum nan": "x = tl.minimum(x, 3.0, propagate_nan=tl.PropagateNan.ALL) + tl.maximum(x, s)",
    "list comp": "t = [x + k for k in (1, 2, 3)]\nx = t[0] + t[2]",
    "list index": "t = [x, s]\nx = t[0] + t[1]",
    "tuple comp": "t = tl.tuple([x + k for k in (1, 2)])\nx = t[0] + t[1]",
    "enumerate comp": "t = (x, s)\nu = [a * 2 for a in t]\nx = u[0] + u[1]",
    "fstring const": "k: tl.constexpr = f'{C}'\nif k == '2':\n    x += 1",
    "isinstance": "if isinstance(x, tl.tensor):\n    x += 1\nif isinstance(C, tl.constexpr):\n    x += 2",
    "hasattr": "if hasattr(x, 'shape'):\n    x += 1",
    "type equality": "tl.static_assert(x.dtype == tl.float32)\ntl.static_assert(x.type.scalar == tl.float32)",
    "math const": "x = x * tl.math.exp(1.0 * s)",
    "inf": "x = tl.where(x > 1e30, float('inf'), x) - tl.where(x > 1e30, float('-inf'), 0.0)",
    "full scalar": "y = tl.full((8,), n, tl.float32)\nx += y\nz = tl.full([], 3, tl.int32)\nx += z",
    "zeros 2d": "y = tl.zeros([4, C], dtype=tl.float32)\nx += tl.sum(y)",
    "arange slices": (
        "o = tl.arange(0, 4)[:, None] * 2 + tl.arange(0, 2)[None, :]\ny = tl.load(p + o)\nx += tl.sum(y)"
    ),
    "ellipsis index": "y = x.reshape(2, 4)[..., None] if False else x\nx = y",
    "3d index": "y = x[None, :, None]\nx = y.reshape(8)",
    "multiple assign": "a = 1\nb = a\na, b = b + 1, a\nx += a + b",
    "shadow": "tl_sum = tl.sum(x)\nn = n + 1\nx += n + tl_sum",
    "loop var after": "for k in range(4):\n    x += k\nx += 1",
    "unroll in loop": "for k in range(n):\n    for j in tl.static_range(2):\n        x += k * j",
    "scalar f64": "y = tl.load(p + i).to(tl.float64)\nx = (y * 2).to(tl.float32)",
    "int promotions": (
        "a = i.to(tl.int8)\nb = i.to(tl.uint8)\nc = a + b\nd = a.to(tl.int16) * i.to(tl.int64)\n"
        "x += c.to(tl.float32) + d.to(tl.float32)"
    ),
    "bool arithmetic": "b = (i > 3).to(tl.int32) + (i > 2)\nx += b",
    "negative constant": "x += i * -1 + (i - 8)",
    "big constants": (
        "y = i.to(tl.int64) * 5000000000\nx += y.to(tl.float32)\nz = i.to(tl.uint64) + 0xFFFFFFFFFFFFFFFF\n"
        "x += z.to(tl.float32)"
    ),
    "to_tensor": "x += tl.to_tensor(3)",
    "assert statement": "assert C == 2",
    "pass docstring": "'''doc'''\npass",
    "static range in helper": "x = sumall(x, x, x, x)",
    "gdc": "tl.extra.cuda.gdc_wait()\ntl.extra.cuda.gdc_launch_dependents()",
    "condition": "k = 0\nwhile tl.condition(k < n, disable_licm=True):\n    k += 1\nx += k",
}
_number = count()


def made(body: str) -> Any:
    """The kernel with this body, in a module of its own."""
    lines = [*body.split("\n"), "tl.store(out + tl.arange(0, 8), x)"]
    text, name = HEAD + "".join(f"    {line}\n" for line in lines), f"<feature {next(_number)}>"
    linecache.cache[name] = len(text), None, text.splitlines(True), name
    namespace: dict[str, Any] = {"__name__": name}
    exec(compile(text, name, "exec", dont_inherit=True), namespace)
    return namespace["kernel"]
