"""Twins of what targets decide, of integers and places, and of how tight bounds are."""

from __future__ import annotations

from typing import Any

from twin import NOT_TYPE_I, Row, of_class

_HISTOGRAM = """@triton.jit
def histogram(X, O, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(X + i, mask=i < n, other=0.0)
    tl.atomic_add(O + tl.minimum(tl.maximum(v * 2 + 4, 0.0), 7.0).to(tl.int32), 1, mask=i < n)


def counts(x):
    o = torch.zeros(8, dtype=torch.int32)
    histogram[(triton.cdiv(x.numel(), 64),)](x, o, x.numel(), 64)
    return o
"""
_BINS = "torch.bincount((x * 2 + 4).clamp(0, 7).int().flatten(), minlength=8).int()"
INTEGERS = of_class(
    {},
    ("histogram", "y = x", _BINS, "v * 2 + 4", "v * 2 + 3", {"helpers": _HISTOGRAM, "host": "return counts(x)"}),
    ("histogram, padding counted", "y = x", _BINS, "1, mask=i < n)", "1)", {"helpers": _HISTOGRAM, "host": "return counts(x)"}),
    ("truth of a float", "y = tl.where(x != 0, t, 1.0)", "torch.where(x.bool(), t, 1.0)", "t, 1.0)", "1.0, t)", {"inputs": "x[:, ::2] = 0"}),
    ("truth of a difference", "y = tl.where(x - t > 0, x, t)", "torch.where((x - t) > 0, x, t)", "x - t > 0", "t - x > 0", {}),
    ("branch on a float", "s = tl.sum(x, 0)\ny = x\nif s > 0: y = x * 2", "torch.where(x.sum(-1, True) > 0, x * 2, x)", "x * 2", "x * 2.1", {}),
    ("branch on an item", "s = tl.load(T + row)\ny = x\nif s > 1.0: y = -x", "torch.where(t[:6, None] > 1, -x, x)", "s > 1.0", "s < 1.0", {}),
    ("count", "y = tl.sum((m & (x > 0)).to(tl.int32), 0) + t * 0", "(x > 0).sum(-1, True) + t * 0", "x > 0", "x > 0.1", {}),
    ("running count", "y = tl.cumsum((x > 0).to(tl.int32), 0)", "(x > 0).cumsum(-1).float()", "x > 0", "x >= 0.2", {}),
    ("parity", "y = tl.xor_sum((x * 100).to(tl.int32), 0) + t * 0", "from functools import reduce\nq = (x * 100).int()\nreturn reduce(torch.bitwise_xor, q.unbind(-1))[:, None] + t * 0", "x * 100", "x * 99", {}),
    ("shift", "y = ((x * 100).to(tl.int32) >> 2).to(tl.float32)", "((x * 100).int() >> 2).float()", ">> 2", ">> 1", {}),
    ("remainder", "y = ((x * 100).to(tl.int32) % 7).to(tl.float32)", "torch.fmod((x * 100).int(), 7).float()", "% 7", "% 8", {}),
    ("place of the largest", "y = tl.argmax(x, 0) + t * 0", "x.argmax(-1, True) + t * 0", "tl.argmax(x, 0)", "tl.argmax(tl.abs(x), 0)", {"pad": "-INF_"}),
    ("exact product of integers", "q = (x * 100).to(tl.int32)\ny = tl.sum(q * q, 0) + t * 0", "((x * 100).int() ** 2).sum(-1, True) + t * 0", "q * q", "q * tl.abs(q)", {}),
)  # fmt: skip
"""Integers, which are exact, and decisions by floats."""


def _constants() -> list[Row]:
    return [(f"division by {c} on {device}", f"y = x / {c}", f"x / {c}", f"/ {c}", f"/ {c} * 1.00001", {"device": device})
            for c in ("3.0", "7.0", "0.1") for device in ("sm_80", "gfx942")]  # fmt: skip


_REVERSED = "tl.store(O + row * n + j, x * t, mask=m){0}\ny = tl.load(O + row * n + n - 1 - j, mask=m, other=0.0)\n{0}"
TARGETS = of_class(
    {},
    *_constants(),
    ("contraction on", "y = x * t + 0.1", "torch.addcmul(torch.tensor(0.1), x, t)", "x * t", "x * t * 1.00001", {"options": {"fp_contraction": "on"}}),
    ("contraction off", "y = x * t + 0.1", "x * t + 0.1", "x * t", "x * t * 1.00001", {"options": {"fp_contraction": "off"}}),
    ("clamped to int8", "q = tl.clamp(x * 80, -128.0, 127.0)\ny = q.to(tl.int8).to(tl.float32)", "(x * 80).clamp(-128, 127).to(torch.int8).float()", "-128.0, 127.0", "-128.0, 140.0", {"device": "sm_90", "wanted": NOT_TYPE_I}),
    ("barrier", _REVERSED.replace("{0}", "; tl.debug_barrier()", 1).replace("{0}", "tl.debug_barrier()"), "(x * t).flip(-1)", "; tl.debug_barrier()", "", {"wanted": NOT_TYPE_I, "device": "sm_80"}),
    ("exact root", "y = tl.sqrt_rn(x * x + 1)", "(x * x + 1).sqrt()", "+ 1)", "+ 1.0001)", {"device": "sm_80"}),
    ("hyperbolic sine", "y = (tl.exp(x) - tl.exp(-x)) * 0.5", "torch.sinh(x)", "* 0.5", "* 0.50001", {"device": "sm_80", "inputs": "x = x.sign() * (x.abs() + 2)"}),
)  # fmt: skip
"""Constants, contraction, conversions and barriers."""

_DOT = """@triton.jit
def product(X, T, O, K: tl.constexpr, B: tl.constexpr):
    i, k = tl.arange(0, 16), tl.arange(0, B)
    acc = tl.zeros((16, 16), {0})
    for s in range(0, K, B):
        a = tl.load(X + i[:, None] * K + s + k)
        b = tl.load(T + (s + k)[:, None] * 16 + i)
        acc = tl.dot(a, b, acc{1})
    tl.store(O + i[:, None] * 16 + i, acc)


def mm(x, t):
    o = torch.empty(16, 16, dtype={2})
    product[(1,)](x, t, o, x.shape[1], 32)
    return o
"""
_MM_FAULTS = (
    ("scaled", "16 + i, acc)", "16 + i, acc * 1.02)"), ("last block", "range(0, K, B)", "range(0, K - B, B)"),
    ("transposed", "O + i[:, None] * 16 + i,", "O + i * 16 + i[:, None],"), ("shifted", "(s + k)[:, None] * 16", "(s + (k + 1) % B)[:, None] * 16"),
)  # fmt: skip


def _product(terms: int, style: str = "randn", **more: Any) -> dict[str, Any]:
    drawn = f"x, t = torch.{style}(16, {terms}, generator=g), torch.{style}({terms}, 16, generator=g)"
    return {"host": "return mm(x, t)", "inputs": drawn, **more}


TENSOR_CORES = of_class(
    {},
    *((f"{precision or 'default'} on {device}, {name}", "y = x", "x @ t", was, now,
       _product(64, device=device, helpers=_DOT.format("tl.float32", f', input_precision="{precision}"' if precision else "", "torch.float32")))
      for device, precision in (("any", ""), ("sm_80", "tf32"), ("sm_90", "tf32x3"), ("gfx942", "ieee")) for name, was, now in _MM_FAULTS),
)  # fmt: skip
"""Operands that lose bits before they are multiplied."""

_TIE = "x[:, 11] = x[:, 29] = 4.0\nx[:, 11] *= 1 + 2e-8"
PLACES = of_class(
    {"pad": "-INF_"},
    ("routed", "k = tl.argmax(x * 1.1 + 0.1, 0)\ny = tl.load(T + k) + x * 0", "t[(x * 1.1 + 0.1).argmax(-1)][:, None] + x * 0", "tl.load(T + k)", "tl.load(T + (k + 1) % n)", {"inputs": ""}),
    ("routed by a softmax", "e = tl.exp(x - tl.max(x, 0))\nk = tl.argmax(e / tl.sum(e, 0), 0)\ny = tl.load(T + k) + x * 0", "t[x.softmax(-1).argmax(-1)][:, None] + x * 0", "tl.load(T + k)", "tl.load(T + n - 1 - k)", {"inputs": ""}),
    ("routed by products", "k = tl.argmax(tl.where(m, x * t, -INF_), 0)\ny = tl.load(T + k) + x * 0", "t[(x * t).argmax(-1)][:, None] + x * 0", "x * t", "x + t", {"inputs": ""}),
    ("routed by the smallest", "k = tl.argmin(tl.where(m, x * 1.1, 9.0), 0)\ny = tl.load(T + k) + x * 0", "t[(x * 1.1).argmin(-1)][:, None] + x * 0", "tl.argmin", "tl.argmax", {"inputs": ""}),
    ("place stored", "y = tl.argmax(x * 1.1, 0) + t * 0", "(x * 1.1).argmax(-1, True) + t * 0", "tl.argmax(x * 1.1, 0)", "tl.argmax(x * 1.1, 0) + 1", {"inputs": ""}),
    ("tie in a place", "k = tl.argmax(x * 1.1, 0)\ny = tl.load(X + row * n + k) + t * 0", "x.gather(-1, (x * 1.1).argmax(-1, True)) + t * 0", "tl.load(X + row * n + k)", "tl.load(X + row * n + k) * 1.01", {"inputs": _TIE}),
    ("scaled by the largest", "k = tl.argmax(tl.where(m, tl.abs(x), -1.0), 0)\ny = tl.where(m, x, 0.0) / tl.load(X + row * n + k)", "x / x.gather(-1, x.abs().argmax(-1, True))", "tl.abs(x)", "x", {"inputs": ""}),
    ("second largest", "k = tl.argmax(x, 0)\nq = tl.argmax(tl.where(j == k, -INF_, x), 0)\ny = tl.load(T + q) + x * 0", "t[x.topk(2).indices[:, 1]][:, None] + x * 0", "j == k, -INF_", "j == k + 1, -INF_", {"inputs": ""}),
    ("table", "k = tl.minimum(tl.maximum(x * 5 + 20, 0.0), 39.0).to(tl.int32)\ny = tl.load(T + k, mask=m, other=0.0)", "t[(x * 5 + 20).clamp(0, 39).int()]", "x * 5", "x * 6", {"inputs": "", "pad": "0.0"}),
    ("interpolated table", "q = tl.minimum(tl.maximum(x * 5 + 20, 0.0), 38.0)\nk = q.to(tl.int32)\na = tl.load(T + k)\nb = tl.load(T + k + 1)\ny = a + (b - a) * (q - k)",
     "q = (x * 5 + 20).clamp(0, 38)\nk = q.long()\nreturn torch.lerp(t[k], t[k + 1], q - k)", "T + k + 1)", "T + k + 2, mask=k < 37, other=1.0)", {"inputs": "", "pad": "0.0"}),
)  # fmt: skip
"""Addresses that come from floats."""

_LONG = "x, t = torch.rand(4, 1000, generator=g), torch.rand(1000, generator=g) + 0.5"
_ATOMIC = """@triton.jit
def added(X, O, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.atomic_add(O, tl.sum(tl.load(X + i, mask=i < n, other=0.0), 0))


def total(x):
    o = torch.zeros(1)
    added[(triton.cdiv(x.numel(), 128),)](x, o, x.numel(), 128)
    return o
"""
SUMS = of_class(
    {"inputs": _LONG},
    *((f"a term less, {order} order", "y = tl.sum(x, 0) + t * 0", "x.sum(-1, True) + t * 0", "tl.sum(x, 0)", "tl.sum(tl.where(j == 7, 0.0, x), 0)", {"options": {"sum_order": order}}) for order in ("any", "tree")),
    ("a term twice", "y = tl.sum(x, 0) + t * 0", "x.sum(-1, True) + t * 0", "tl.sum(x, 0)", "tl.sum(x * tl.where(j == 7, 2, 1), 0)", {}),
    ("mean by n - 1", "y = tl.sum(x, 0) / n + t * 0", "x.mean(-1, True) + t * 0", "/ n", "/ (n - 1)", {}),
    ("running sum", "y = tl.cumsum(x, 0)", "x.cumsum(-1)", "tl.cumsum(x, 0)", "tl.cumsum(tl.where(j == 500, 0.0, x), 0)", {}),
    ("backwards", "y = tl.cumsum(x, 0, reverse=True)", "x.flip(-1).cumsum(-1).flip(-1)", "tl.cumsum(x, 0", "tl.cumsum(x * 1.0001, 0", {}),
    ("weighted", "y = tl.sum(x * t, 0) + t * 0", "(x * t).sum(-1, True) + t * 0", "x * t, 0", "x * t * 1.0001, 0", {}),
    ("in blocks", "q = tl.reshape(x, (8, B // 8))\ny = tl.sum(tl.sum(q, 1), 0) + t * 0", "x.sum(-1, True) + t * 0", "tl.sum(q, 1)", "tl.sum(q, 1) * 1.0001", {}),
    ("atomics", "y = x", "x.sum().reshape(1)", "i < n, other=0.0), 0)", "i < n - 1, other=0.0), 0)", {"helpers": _ATOMIC, "host": "return total(x)"}),
    ("halves", "y = tl.sum(x, 0) + t * 0", "(x.float().sum(-1, True) + t.float() * 0).half()", "tl.sum(x, 0)", "tl.sum(x, 0) * 1.002", {"dtype": "float16"}),
    ("bfloat16", "y = tl.sum(x, 0) + t * 0", "(x.float().sum(-1, True) + t.float() * 0).bfloat16()", "tl.sum(x, 0)", "tl.sum(x, 0) * 1.01", {"dtype": "bfloat16"}),
    *((f"dot, {k} terms", "y = x", "x @ t", "16 + i, acc)", "16 + i, acc * 1.0001)", _product(k, "rand", helpers=_DOT.format("tl.float32", ', input_precision="ieee"', "torch.float32"))) for k in (256, 1024)),
)  # fmt: skip
"""Sums of many terms, wrong by about one of them or less."""

_KAHAN = "s = tl.zeros((B,), tl.float32)\nc = tl.zeros((B,), tl.float32)\nfor k in range(200):\n    v = x * (0.1 * k + 0.1) - c\n    w = s + v\n    c = (w - s) - v\n    s = w\ny = s"
_TWOSUM = "a, b = x * 1000, t\ns = a + b\nv = s - a\nr = (a - (s - v)) + (b - v)\ny = r + (s - a)"
JOINT = of_class(
    {"inputs": "x = -4 * torch.rand(6, 40, generator=g)"},
    ("softmax", "e = tl.exp(x - tl.max(x, 0))\ny = e / tl.sum(e, 0)", "x.softmax(-1)", "tl.sum(e, 0)", "tl.sum(e, 0) * 1.00001", {"pad": "-INF_"}),
    ("softmax of four", "e = tl.exp(tl.where(j < 4, x, -INF_))\ny = e / tl.sum(e, 0)", "x.masked_fill(torch.arange(40) >= 4, -INF).softmax(-1)", "j < 4", "j < 5", {}),
    ("sum of shares", "e = tl.exp(x)\ny = tl.sum(e / tl.sum(e, 0), 0) + t * 0", "torch.ones(6, 40)", "e / tl.sum(e, 0)", "e * 1.00001 / tl.sum(e, 0)", {"pad": "-INF_"}),
    ("expected place", "e = tl.exp(x)\ny = tl.sum(e * j, 0) / tl.sum(e, 0) + t * 0", "(x.softmax(-1) * torch.arange(40)).sum(-1, True) + t * 0", "e * j", "e * (j + 0.001)", {"pad": "-INF_"}),
    ("own mean", "y = x / (tl.sum(x, 0) / n)", "x / x.mean(-1, True)", "/ n)", "/ n * 1.00001)", {}),
    ("own norm", "y = x * tl.rsqrt(tl.sum(x * x, 0) / n)", "x / (x * x).mean(-1, True).sqrt()", "/ n)", "/ n * 1.0001)", {}),
    ("own statistics", "u = tl.sum(x, 0) / n\nd = tl.where(m, x - u, 0.0)\ny = d * tl.rsqrt(tl.sum(d * d, 0) / n)", "(x - x.mean(-1, True)) / x.std(-1, keepdim=True, unbiased=False)", "/ n)", "/ n * 1.0001)", {}),
    ("own largest", "y = x / tl.max(tl.abs(x), 0)", "x / x.abs().amax(-1, True)", "tl.max(tl.abs(x), 0)", "tl.max(tl.abs(x), 0) * 1.00001", {}),
    ("compensated", _KAHAN, "x * 2010", "0.1 * k + 0.1", "0.1 * k + 0.1001", {"options": {"fp_contraction": "off"}}),
    ("two sums", _TWOSUM, "t + x * 0", "(b - v)", "(b - v) * 3 + 0.001", {"options": {"fp_contraction": "off"}}),
)  # fmt: skip
"""What depends on the same numbers twice."""

_HALF_ACC = _DOT.format("tl.float16", ", out_dtype=tl.float16", "torch.float16")
BAND = of_class(
    {},
    *((f"half accumulator, {k} terms, {name}", "y = x", "x @ t", was, now, _product(k, helpers=_HALF_ACC, dtype="float16", device="sm_80"))
      for k in (512, 1024) for name, was, now in _MM_FAULTS),
    *((f"half sum, {k} terms", "y = tl.sum(x.to(tl.float16), 0).to(tl.float32) + t * 0", "x.float().sum(-1, True) + t * 0", "tl.sum(x.to(tl.float16), 0)", "tl.sum((x + 0.1).to(tl.float16), 0)",
       {"inputs": f"x, t = torch.randn(4, {k}, generator=g), torch.rand({k}, generator=g)"}) for k in (500, 2000)),
    ("half running sum", "y = tl.cumsum(x.to(tl.float16), 0)", "x.float().cumsum(-1)", "x.to(tl.float16)", "(x + 0.1).to(tl.float16)", {"inputs": "x, t = torch.randn(4, 1000, generator=g), torch.rand(1000, generator=g)"}),
)  # fmt: skip
"""Bounds that are wide, beside what independent roundings reach."""
