"""Twins of what stands around the arithmetic: outputs, devices' outputs, undefined lanes, references, lines, headlines."""

from __future__ import annotations

from typing import Any

from twin import NOT_TYPE_I, Row, of_class

STORE = "y, mask=m)"
SOFTMAX = "e = tl.exp(x - tl.max(x, 0))\ny = e / tl.sum(e, 0)"

_TUNED = """@triton.autotune([triton.Config({"D": 1}), triton.Config({"D": 2})], key=[])
@triton.jit
def tuned(X, O, n, D: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(X + tl.program_id(0) * n + i, mask=i < n, other=0.0)
    tl.store(O + tl.program_id(0) * n + i, v * (2.0 if D == 2 else 2), mask=i < n)
"""
_LARGE = {
    "inputs": "x = torch.rand(64, 2048, generator=g)\nt = torch.rand(2048, generator=g) + 0.5",
    "dtype": "float16",
}
NOTHING_LEFT_OUT = of_class(
    {},
    ("columns never stored", "y = x * t", "x * t", STORE, "y, mask=m & (j < 30))", {}),
    ("rows never stored", "y = x * t", "x * t", "(x.shape[0],)]", "(x.shape[0] - 1,)]", {}),
    ("nothing stored into what is right", "y = x * t", "x * t", STORE, "y, mask=m & (n > 99))", {"host": "return launch(x, t, x * t)"}),
    ("another tensor returned", "y = x * t", "x * t", "launch(x, t, o)", "launch(x, t)", {"host": "o = x * t\nlaunch(x, t, o)\nreturn o", "wanted": NOT_TYPE_I}),
    ("input written over", "y = x * t", "x * t", "y = x * t", "y = x * t; tl.store(X + row * n + j, x * 2, mask=m)", {"wanted": NOT_TYPE_I}),
    ("second output", "y = x * t", "return x * t, x.sum(-1, True)", "x.sum(-1, True)", "x.sum(-1, True) * 1.01", {"host": "return launch(x, t), x.sum(-1, True)"}),
    ("second configuration", "y = x", "x * 2", "2.0 if D == 2", "2.01 if D == 2",
     {"helpers": _TUNED, "host": "o = torch.empty_like(x)\ntuned[(len(x),)](x, o, 40, B=64)\nreturn o", "options": {"configs": "all"}}),
    ("large sum, scaled", "y = tl.sum(x * t, 0) + t * 0", "((x.float() * t.float()).sum(-1, True) + t * 0).half()", "x * t, 0)", "x * t, 0) * 1.3", _LARGE),
    ("large running sum, scaled", "y = tl.cumsum(x, 0)", "x.float().cumsum(-1).half()", "x, 0)", "x, 0) * 1.3", _LARGE),
    ("large softmax, scaled", SOFTMAX, "x.float().softmax(-1).half()", "tl.sum(e, 0)", "tl.sum(e, 0) * 1.3", _LARGE | {"pad": "-INF_"}),
    ("large normalisation, scaled", "y = x * tl.rsqrt(tl.sum(x * x, 0) / n + 1e-5)", "F.rms_norm(x.float(), (2048,), eps=1e-5).half()", "/ n + 1e-5", "/ n * 1.3 + 1e-5", _LARGE),
)  # fmt: skip
"""Stores, tensors, configurations and sizes that could be passed over."""

_FAULTS = (
    ("one element", "v", "v + (torch.arange(v.numel()).reshape(v.shape) == 77) * 1e-2"),
    ("another seed", "v", "made(torch.randn(6, 40, generator=torch.Generator().manual_seed(8)), t)"),
    ("scaled", "v", "v * 1.002"),
    ("not a number", "v", "v.masked_fill(torch.arange(v.numel()).reshape(v.shape) == 77, float('nan'))"),
    ("last column stale", "v", "v * (torch.arange(v.shape[-1]) < v.shape[-1] - 1)"),
)


def _returned() -> list[Row]:
    """What a device gave: a rounding of the exact result, and five ways in which it is not."""
    made = {
        "product": ("y = x * t", "x * t"),
        "softmax": (SOFTMAX, "x.softmax(-1)"),
        "running sum": ("y = tl.cumsum(x, 0)", "x.cumsum(-1)"),
    }
    rows: list[Row] = []
    for name, (body, ref) in made.items():
        helpers = f"def made(x, t):\n    return {ref.replace('x.', 'x.double().') if name != 'product' else ref}\n"
        for fault, was, now in _FAULTS:
            what = {
                "helpers": helpers,
                "output": f"v = made(x, t)\nreturn ({was}).float()",
                "pad": "-INF_" if name == "softmax" else "0.0",
            }
            rows.append((f"{name}, {fault}", body, ref, f"({was}).float()", f"({now}).float()", what))
    return rows


DEVICE_OUTPUTS = of_class({"wanted": NOT_TYPE_I}, *_returned())
"""What a device returned for the same inputs, or for others."""

_UNDEFINED = (
    ("sum", "y = tl.sum(x, 0) + t * 0", "x.sum(-1, True) + t * 0", "0.0"), ("sum of squares", "y = tl.sum(x * x, 0) + t * 0", "(x * x).sum(-1, True) + t * 0", "0.0"),
    ("mean", "y = x - tl.sum(x, 0) / n", "x - x.mean(-1, True)", "0.0"), ("largest", "y = tl.max(x, 0) + t * 0", "x.amax(-1, True) + t * 0", "-INF_"),
    ("smallest", "y = tl.min(x, 0) + t * 0", "x.amin(-1, True) + t * 0", "INF_"), ("softmax", SOFTMAX, "x.softmax(-1)", "-INF_"),
    ("norm", "y = x * tl.rsqrt(tl.sum(x * x, 0))", "F.normalize(x, dim=-1)", "0.0"), ("backwards", "y = tl.cumsum(x, 0, reverse=True)", "x.flip(-1).cumsum(-1).flip(-1)", "0.0"),
    ("product of all", "y = tl.reduce(x, 0, times) + t * 0", "x.prod(-1, keepdim=True) + t * 0", "1.0"), ("count", "y = tl.sum((x > 0).to(tl.int32), 0) + t * 0", "(x > 0).sum(-1, True) + t * 0", "0.0"),
    ("place of the largest", "y = tl.argmax(x, 0) + t * 0", "x.argmax(-1, True) + t * 0", "-INF_"),
)  # fmt: skip
_NARROW: dict[str, Any] = {"wanted": ("Type-I",), "told": "precision downgrade: out is"}
UNDEFINED = of_class(
    {"wanted": NOT_TYPE_I, "helpers": "@triton.jit\ndef times(a, b):\n    return a * b\n"},
    *((name, body, ref, f"mask=m, other={pad})", "mask=m)", {"pad": pad}) for name, body, ref, pad in _UNDEFINED),
    ("half for a float", "y = x * t", "x * t", "torch.empty_like(x)", "torch.empty_like(x, dtype=torch.float16)", _NARROW),
    ("bfloat16 for a half", "y = x * t", "x * t", "torch.empty_like(x)", "torch.empty_like(x, dtype=torch.bfloat16)", _NARROW | {"dtype": "float16"}),
)  # fmt: skip
"""Lanes that nobody defined, and outputs of another type."""

_DROP = "torch.manual_seed(3)\nreturn launch(x * (torch.rand_like(x) > 0.5), t)"
_LOOP = "a = x.numpy()\no = np.zeros(a.shape, np.float32)\ns = np.zeros(a.shape[0], np.float32)\n"
AS_WRITTEN = of_class(
    {"helpers": "import numpy as np\n"},
    ("no epsilon", "y = x * tl.rsqrt(tl.sum(x * x, 0) / n + 1.1920929e-07)", "F.rms_norm(x, (40,))", "1.1920929e-07", "1e-6", {"inputs": "x = x * 1e-3"}),
    ("eps of the type", "y = x / (tl.abs(x) + 1.1920929e-07)", "x / (x.abs() + torch.finfo(x.dtype).eps)", "1.1920929e-07", "2.384e-07", {"inputs": "x = x * 1e-6"}),
    ("eps of half", "y = x / (tl.abs(x) + 0.0009765625)", "x / (x.abs() + torch.finfo(x.dtype).eps)", "0.0009765625", "0.00195", {"inputs": "x = x * 1e-2", "dtype": "float16"}),
    ("smallest number", "y = tl.where(m & (t > 1), x, -3.4028234663852886e38)", "x.masked_fill(t <= 1, torch.finfo(x.dtype).min)", "t > 1", "t > 0.9", {}),
    ("by type", "y = x * 2", "x * 2 if x.dtype == torch.float32 else x * 3", "x * 2", "x * 3", {}),
    ("by width", "y = x * 4", "x * x.element_size()", "x * 4", "x * 8", {}),
    ("drawn after a seed", "y = x * t", "torch.manual_seed(3)\nreturn x * (torch.rand_like(x) > 0.5) * t", "> 0.5", "> 0.4", {"host": _DROP}),
    ("noise after a seed", "y = x * t", "torch.manual_seed(3)\nreturn (x + torch.randn_like(x)) * t", "manual_seed(3)", "manual_seed(4)",
     {"host": "torch.manual_seed(3)\nreturn launch(x + torch.randn_like(x), t)"}),
    ("running sum in numpy", "y = tl.cumsum(x, 0)", f"{_LOOP}for k in range(40):\n    s += a[:, k]\n    o[:, k] = s\nreturn torch.from_numpy(o)", "tl.cumsum(x, 0)", "tl.cumsum(x, 0) - x * 0.01", {}),
    ("product in numpy", "y = x * t", "a, b = x.numpy(), t.numpy()\no = np.empty(a.shape, np.float32)\nfor k in range(40): o[:, k] = a[:, k] * b[k]\nreturn torch.from_numpy(o)",
     "x * t", "x * t * 1.001", {}),
    ("recurrence in numpy", "p, q = tl.associative_scan((x * 0 + 0.5, x), 0, combine)\ny = q",
     f"{_LOOP}for k in range(40):\n    s = np.float32(0.5) * s + a[:, k]\n    o[:, k] = s\nreturn torch.from_numpy(o)", "b * c + d", "b * c + d * 1.01",
     {"helpers": "import numpy as np\n@triton.jit\ndef combine(a, b, c, d):\n    return a * c, b * c + d\n"}),
    ("allocated before", "y = tl.sum(x, 0) + t * 0", "o = torch.zeros(6, dtype=x.dtype)\nfor k in range(40): o += x[:, k]\nreturn o[:, None] + t * 0", "tl.sum(x, 0)", "tl.sum(x, 0) * 1.001", {}),
    ("rounded by hand", "y = (x * t).to(tl.float16).to(tl.float32) * 3", "(x * t).half().float() * 3", "* 3", "* 3.01", {}),
)  # fmt: skip
"""References whose meaning depends on the type of what they are given, or which leave torch."""

_ONE = """@triton.jit
def first(X, O, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(X + i, mask=i < n, other=0.0).to(tl.float32)
    {0}
    tl.store(O + i, w, mask=i < n)


def run(v):
    o = torch.empty_like(v)
    first[(triton.cdiv(v.numel(), 64),)](v, o, v.numel(), 64)
    return o
"""
_TWO = "return launch(run(x), t)"
LINES = of_class(
    {"host": _TWO},
    ("first kernel, factor", "y = x * t", "x * 2 * t", "v * 2", "v * 2.02", {"helpers": _ONE.format("w = v * 2")}),
    ("first kernel, operator", "y = x * t", "(x + 1) * t", "v + 1", "v - 1", {"helpers": _ONE.format("w = v + 1")}),
    ("first kernel, function", "y = tl.maximum(x, t)", "torch.maximum(x.sin(), t)", "tl.sin(v)", "tl.cos(v)", {"helpers": _ONE.format("w = tl.sin(v)")}),
    ("first kernel, last block", "y = x + t", "x * 2 + t", "triton.cdiv(v.numel(), 64)", "v.numel() // 64", {"helpers": _ONE.format("w = v * 2")}),
    ("second kernel", SOFTMAX, "(x * 2).softmax(-1)", "e / tl.sum(e, 0)", "e / tl.sum(e * e, 0)", {"helpers": _ONE.format("w = v * 2"), "pad": "-INF_"}),
    ("between them", "y = x * t", "x.tanh() * 2 * t", "run(x) * 2", "run(x) * 2.1", {"helpers": _ONE.format("w = 2 * tl.sigmoid(2 * v) - 1"), "host": "return launch(run(x) * 2, t)"}),
    ("after them", "y = x * t", "(x * 2 * t).sum(-1)", ".sum(-1)", ".sum(0)[:6]", {"helpers": _ONE.format("w = v * 2"), "host": "return launch(run(x), t).sum(-1)"}),
    ("transposed", "y = x * t", "x.t() * 2", ".t().contiguous()", ".contiguous()", {"helpers": _ONE.format("w = v * 2"), "inputs": "x = x[:, :6]", "host": "return run(x.t().contiguous())"}),
    ("shifted by one", "y = x * t", "x * 2 * t", "row * n + j, mask=m, other=0.0)", "row * n + j + 1, mask=m & (row * n + j < 239), other=0.0)", {"helpers": _ONE.format("w = v * 2")}),
    ("without an input", "y = x * t + row", "x * t + torch.arange(6)[:, None]", "+ row", "+ 0 * row", {"host": "return launch(x, t)"}),
    ("another mask", "y = tl.where(j < 20, x, t)", "torch.where(torch.arange(40) < 20, x, t)", "j < 20", "j < 21", {"host": "return launch(x, t)"}),
    ("integers wrap", "y = ((x * 100).to(tl.int32) * 7).to(tl.float32)", "((x * 100).int() * 7).float()", ".to(tl.int32) * 7).to(tl.float32)", ".to(tl.int32) * 7).to(tl.int8).to(tl.float32)", {"host": "return launch(x, t)"}),
)  # fmt: skip
"""Where in several kernels and steps of the host the mistake lies."""

_DOT = """@triton.jit
def product(X, T, O, K: tl.constexpr):
    i, k = tl.arange(0, 16), tl.arange(0, K)
    a = tl.load(X + i[:, None] * K + k)
    b = tl.load(T + k[:, None] * 16 + i)
    tl.store(O + i[:, None] * 16 + i, tl.dot(a, b))


def mm(x, t):
    o = torch.empty(16, 16)
    product[(1,)](x, t, o, x.shape[1])
    return o
"""
_SQUARE = {
    "helpers": _DOT,
    "host": "return mm(x, t)",
    "inputs": "x, t = torch.randn(16, 64, generator=g), torch.randn(64, 16, generator=g)",
}
HEADLINES = of_class(
    {},
    ("equal", "y = x * 2", "x + x", "x * 2", "x * 3", {"causes": ("RND100",)}),
    ("order of a sum", "y = tl.sum(x, 0) + t * 0", "x.flip(-1).cumsum(-1)[:, -1:] + t * 0", "tl.sum(x, 0)", "tl.sum(x, 0) * 1.001", {"causes": ("RND102",), "inputs": "x, t = torch.randn(6, 400, generator=g), torch.rand(400, generator=g)"}),
    ("function", "y = tl.exp(x)", "x.exp()", "tl.exp(x)", "tl.exp2(x)", {"causes": ("RND105", "RND100")}),
    ("products", "y = x * t * 1.1", "x * (t * 1.1)", "* 1.1", "* 1.2", {"causes": ("RND106", "RND110")}),
    ("fused", "y = x * t + 0.1", "x * t + 0.1", "+ 0.1", "+ 0.11", {"causes": ("RND108", "RND100")}),
    ("cast inside", "y = x.to(tl.bfloat16).to(tl.float32) * t", "x * t", "* t", "+ t", {"causes": ("RND104",)}),
    ("narrow arithmetic", "q = x.to(tl.float16)\ny = (q * q + q * t.to(tl.float16)).to(tl.float32)", "(x.float() * x.float() + x.float() * t.float()).half()", "q * q + q", "q * q - q", {"causes": ("RND107",), "dtype": "float16"}),
    ("narrow sum", "y = tl.sum(x.to(tl.float16), 0).to(tl.float32) + t * 0", "x.sum(-1, True) + t * 0", "+ t * 0", "+ t", {"causes": ("RND103", "RND111")}),
    ("a step", "y = tl.floor(x * 10.1)", "(x / (1 / 10.1)).floor()", "10.1", "10.2", {"causes": ("RND109", "RND100")}),
    ("weak reference", "y = x * t", "(x.half() * t.half()).float()", "x * t", "x + t", {"causes": ("RND110",)}),
    ("TF32", "y = x", "x @ t", "k[:, None] * 16 + i)", "k[:, None] * 16 + (15 - i))", _SQUARE | {"causes": ("RND101",), "device": "sm_90"}),
)  # fmt: skip
"""What the first line says of a right one."""
