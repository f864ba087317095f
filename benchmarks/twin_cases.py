"""The programs of `twins.py` around one kernel over rows: body, wrapper, reference, and the expression that is wrong."""

from __future__ import annotations

from twin import of_class

SOFTMAX = "e = tl.exp(x - tl.max(x, 0))\ny = e / tl.sum(e, 0)"
ROW = "x[1, 3] = INF\nx[2, 5] = -INF"

INFINITIES = of_class(
    {"inputs": ROW},
    ("sum", "y = tl.sum(x, 0) + x * 0", "x.sum(-1, keepdim=True) + x * 0", "tl.sum(x, 0)", "tl.sum(tl.where(j == 3, 0.0, x), 0)", {}),
    ("sum of magnitudes", "y = tl.sum(tl.abs(x), 0) + t * 0", "x.abs().sum(-1, keepdim=True) + t * 0", "tl.abs(x)", "x", {}),
    ("mean", "y = tl.sum(x, 0) / n + t * 0", "x.mean(-1, keepdim=True) + t * 0", "/ n", "/ (n - 1)", {}),
    ("running sum", "y = tl.cumsum(x, 0)", "x.cumsum(-1)", "tl.cumsum(x, 0)", "tl.cumsum(x, 0) - x", {}),
    ("backwards", "y = tl.cumsum(x, 0, reverse=True)", "x.flip(-1).cumsum(-1).flip(-1)", "reverse=True", "reverse=False", {}),
    ("both infinities", "y = tl.sum(x, 0) + t * 0", "x.sum(-1, keepdim=True) + t * 0", "tl.sum(x, 0)", "tl.sum(tl.maximum(x, -9.0), 0)",
     {"inputs": "x[1, 3] = INF\nx[1, 5] = -INF"}),
    ("softmax", SOFTMAX, "x.softmax(-1)", "e / tl.sum(e, 0)", "e / tl.sum(e * e, 0)", {"pad": "-INF_", "inputs": "x[:, 20:] = -INF"}),
    ("padding of a softmax", "e = tl.exp(x - tl.max(tl.where(m, x, -INF_), 0))\ny = e / tl.sum(tl.where(m, e, 0.0), 0)",
     "x.softmax(-1)", "tl.where(m, e, 0.0)", "e", {"pad": "INF_", "inputs": ""}),
    ("no maximum", SOFTMAX, "x.softmax(-1)", " - tl.max(x, 0)", "", {"pad": "-INF_", "inputs": "x = x * 60"}),
    ("log of a sum", "q = tl.max(x, 0)\ny = q + tl.log(tl.sum(tl.exp(x - q), 0)) + t * 0", "x.logsumexp(-1, True) + t * 0",
     "q + tl.log", "tl.log", {"pad": "-INF_", "inputs": "x[:, 20:] = -INF"}),
    ("maximum", "y = tl.max(x, 0) + t * 0", "x.amax(-1, True) + t * 0", "tl.max", "tl.min", {"pad": "-INF_"}),
    ("masked scores", "y = tl.where(j <= row + 20, x, -INF_)", "x.masked_fill(torch.arange(40) > torch.arange(6)[:, None] + 20, -INF)",
     "j <= row + 20", "j < row + 20", {"inputs": ""}),
)  # fmt: skip
"""Infinite terms in sums, and masks that make them."""

_PLAIN = """@triton.jit
def plain(X, O, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(X + i, mask=i < n).to(tl.float32)
    tl.store(O + i, v / (1 + tl.exp(-v)), mask=i < n)


def run(v, B=64):
    o = torch.empty_like(v)
    plain[(triton.cdiv(v.numel(), B),)](v, o, v.numel(), B)
    return o
"""
_SILU = "y = x * tl.sigmoid(x)"
REFERENCES = of_class(
    {"helpers": _PLAIN, "inputs": ""},
    ("another kernel", _SILU, "run(x)", "sigmoid(x)", "sigmoid(x * 1.01)", {}),
    ("other blocks", _SILU, "run(x, 128)", "sigmoid(x)", "sigmoid(x + 0.01)", {}),
    ("no_grad", _SILU, "with torch.no_grad():\n    return run(x)", "x * tl", "1.003 * x * tl", {}),
    ("inference mode", _SILU, "with torch.inference_mode():\n    return run(x)", "x * tl", "0.997 * x * tl", {}),
    ("recursive", _SILU, "return run(x) if len(x) == 1 else torch.cat([reference(x[:1].clone(), t), reference(x[1:].clone(), t)])",
     "sigmoid(x)", "sigmoid(x * 0.99)", {}),
    ("between torch", "y = x * tl.sigmoid(x) * t", "torch.mul(run(x * 1.0), t)", "* t", "+ t", {}),
    ("autograd", _SILU, "class G(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, v):\n        return run(v)\nreturn G.apply(x)",
     "sigmoid(x)", "sigmoid(-x)", {}),
    ("module", _SILU, "class M(torch.nn.Module):\n    def forward(self, v):\n        return run(v)\nreturn M()(x)", "sigmoid(x)", "sigmoid(x * 1.002)", {}),
    ("wider", _SILU, "run(x.double()).float()", "sigmoid(x)", "sigmoid(x * 1.001)", {}),
    ("half", _SILU, "run(x)", "sigmoid(x)", "sigmoid(x * 1.1)", {"dtype": "float16"}),
    ("twice", "y = x * tl.sigmoid(x)\ny = y * tl.sigmoid(y)", "run(run(x))", "y * tl.sigmoid(y)", "y * tl.sigmoid(x)", {}),
)  # fmt: skip
"""References that launch kernels."""

_CLAMP = "q = tl.clamp(x * 10, -128.0, 127.0)"
CONVERSIONS = of_class(
    {"inputs": "x[1, 3] = 99.0"},
    ("clamped", f"{_CLAMP}\ny = q.to(tl.int8).to(tl.float32)", "(x * 10).clamp(-128, 127).to(torch.int8).float()", "x * 10", "x * 11", {}),
    ("floor", f"{_CLAMP}\ny = tl.floor(q).to(tl.int8).to(tl.float32)", "(x * 10).clamp(-128, 127).floor().to(torch.int8).float()", "tl.floor(q)", "tl.ceil(q)", {}),
    ("half up", f"{_CLAMP}\ny = tl.floor(q + 0.5).to(tl.int32).to(tl.float32)", "(x * 10).clamp(-128, 127).add(0.5).floor().int().float()", "+ 0.5", "- 0.5", {}),
    ("padding out of range", "y = (x * 10).to(tl.int8).to(tl.float32)", "(x * 10).to(torch.int8).float()", "x * 10", "x * 9", {"pad": "1e9", "inputs": ""}),
    ("chosen", "q = (x * 10).to(tl.int8).to(tl.float32)\ny = tl.where(x * 10 > 127, 127.0, q)", "(x * 10).clamp(-128, 127).to(torch.int8).float()",
     "127.0, q", "126.0, q", {}),
    ("unsigned", "q = tl.clamp(x * 10 + 100, 0.0, 255.0)\ny = q.to(tl.uint8).to(tl.float32)", "(x * 10 + 100).clamp(0, 255).to(torch.uint8).float()",
     "+ 100", "+ 101", {}),
    ("sixteen bits", "y = (x * 1000).to(tl.int16).to(tl.float32)", "(x * 1000).to(torch.int16).float()", "x * 1000", "x * 1024", {"inputs": ""}),
    ("quotient", "q = (x * 10).to(tl.int32)\ny = tl.where(q == 0, 0, 100 // tl.where(q == 0, 1, q)).to(tl.float32)",
     "torch.where((x * 10).int() == 0, 0, torch.div(100, torch.where((x * 10).int() == 0, 1, (x * 10).int()), rounding_mode='trunc')).float()",
     "100 //", "99 //", {}),
    ("scaled back", "s = tl.max(tl.abs(x), 0) / 127\ny = tl.floor(x / s + 0.5) * s",
     "s = x.abs().amax(-1, True) / 127\nreturn (x / s + 0.5).floor() * s", "+ 0.5) * s", "+ 0.5) * s * 1.01", {"inputs": ""}),
    ("bits", "q = (x * 10).to(tl.int32) & 7\ny = q.to(tl.float32)", "((x * 10).int() & 7).float()", "& 7", "& 3", {"inputs": ""}),
)  # fmt: skip
"""Floats that become integers, some of which the type does not hold."""

HOST = of_class(
    {"inputs": ""},
    ("exp of a table", "y = x * t", "x * torch.exp(-t)", "torch.exp(-t)", "torch.exp(t)", {"host": "return launch(x, torch.exp(-t))"}),
    ("softmax of weights", "y = x * t", "x * t.softmax(0)", "t.softmax(0)", "t / t.sum()", {"host": "return launch(x, t.softmax(0))"}),
    ("running sum", "y = x + t", "x + t.cumsum(0)", "t.cumsum(0)", "t.cumsum(0) - t", {"host": "return launch(x, t.cumsum(0))"}),
    ("root", "y = x / t", "x / (t + 1).sqrt()", "(t + 1).sqrt()", "(t + 1.01).sqrt()", {"host": "return launch(x, (t + 1).sqrt())"}),
    ("power", "y = x * t", "x * t**1.5", "t**1.5", "t**1.6", {"host": "return launch(x, t**1.5)"}),
    ("angles", "y = x * t", "x * torch.cos(torch.arange(40) * 0.1)", "* 0.1", "* 0.11", {"host": "return launch(x, torch.cos(torch.arange(40) * 0.1))"}),
    ("mean after", "y = x * t", "(x * t).mean(-1, True)", "launch(x, t).mean(-1, True)", "launch(x, t).sum(-1, True) / 39", {"host": "return launch(x, t).mean(-1, True)"}),
    ("softmax after", "y = x * t", "(x * t).softmax(-1)", ".softmax(-1)", ".softmax(0)", {"host": "return launch(x, t).softmax(-1)"}),
    ("product after", "y = x * t", "(x * t) @ t", "@ t", "@ (t * 1.001)", {"host": "return launch(x, t) @ t"}),
    ("added by index", "y = x * t", "torch.zeros(3, 40).index_add(0, torch.tensor([0, 1, 2, 0, 1, 2]), x * t)", "[0, 1, 2, 0, 1, 2]", "[0, 1, 2, 1, 1, 2]",
     {"host": "return torch.zeros(3, 40).index_add(0, torch.tensor([0, 1, 2, 0, 1, 2]), launch(x, t))"}),
    ("scale by item", "y = x * t", "x * t / x.abs().max()", "x.abs().max()", "x.max()", {"host": "return launch(x, t / x.abs().max().item())"}),
    ("normalised", "y = x * t", "F.layer_norm(x, (40,)) * t", "F.layer_norm(x, (40,))", "F.rms_norm(x, (40,))", {"host": "return launch(F.layer_norm(x, (40,)), t)"}),
)  # fmt: skip
"""What the wrapper computes in torch before and after the launch."""

_VARIANCE = (
    "u = tl.sum(x, 0) / n\nd = tl.where(m, x - u, 0.0)\nv = tl.sum(d * d, 0) / n\ny = d * tl.rsqrt(v + 1e-5) * t"
)
SMALL = of_class(
    {"inputs": ""},
    ("n - 1 in bf16", _VARIANCE, "F.layer_norm(x.float(), (40,), eps=1e-5).mul(t.float()).bfloat16()", "tl.sum(d * d, 0) / n", "tl.sum(d * d, 0) / (n - 1)", {"dtype": "bfloat16"}),
    ("n - 1 in fp16", _VARIANCE, "F.layer_norm(x.float(), (40,), eps=1e-5).mul(t.float()).half()", "tl.sum(d * d, 0) / n", "tl.sum(d * d, 0) / (n - 1)", {"dtype": "float16"}),
    ("gain in bf16", "y = x * t", "(x.float() * t.float()).bfloat16()", "x * t", "x * t * 1.0036", {"dtype": "bfloat16"}),
    ("gain in fp16", "y = x * t", "x * t", "x * t", "x * t * 1.0005", {"dtype": "float16"}),
    ("epsilon", _VARIANCE, "F.layer_norm(x, (40,), t, eps=1e-5)", "1e-5", "1e-3", {}),
    ("constant of gelu", "y = 0.5 * x * (1 + tl.math.erf(x * 0.70710678))", "F.gelu(x)", "0.70710678", "0.707", {}),
    ("tanh form", "y = 0.5 * x * (1 + tl.math.erf(x * 0.70710678))", "F.gelu(x)", "(1 + tl.math.erf(x * 0.70710678))",
     "2 * tl.sigmoid(1.5957691216 * (x + 0.044715 * x * x * x))", {}),
    ("log2 of e", "y = tl.exp2(x * 1.4426950408889634)", "x.exp()", "1.4426950408889634", "1.4427", {}),
    ("offset", "y = x * t + 0.1", "x * t + 0.1", "+ 0.1", "+ 0.1001", {}),
    ("slope", "y = tl.where(x > 0, x, 0.01 * x)", "F.leaky_relu(x)", "0.01 * x", "0.0101 * x", {}),
    ("last column", "y = x * t", "x * t", "x * t", "x * tl.where(j == n - 1, t * 1.001, t)", {}),
)  # fmt: skip
"""Differences below, or about, one rounding of the output."""

STABLE = of_class(
    {"inputs": ""},
    ("two passes", "u = tl.sum(x, 0) / n\nd = tl.where(m, x - u, 0.0)\ny = tl.sum(d * d, 0) / n + t * 0", "x.var(-1, keepdim=True, unbiased=False) + t * 0",
     "tl.sum(d * d, 0) / n", "(tl.sum(x * x, 0) / n - u * u)", {"inputs": "x = x + 3000"}),
    ("tanh", "y = 2 * tl.sigmoid(2 * x) - 1", "torch.tanh(x)", "2 * tl.sigmoid(2 * x) - 1", "(tl.exp(2 * x) - 1) / (tl.exp(2 * x) + 1)", {"inputs": "x = x * 30"}),
    ("softmax", SOFTMAX, "x.softmax(-1)", "x - tl.max(x, 0)", "x", {"pad": "-INF_", "inputs": "x = x * 100"}),
    ("log softmax", "q = x - tl.max(x, 0)\ny = q - tl.log(tl.sum(tl.exp(q), 0))", "x.log_softmax(-1)", "y = q - tl.log(tl.sum(tl.exp(q), 0))",
     "y = tl.log(tl.exp(q) / tl.sum(tl.exp(q), 0))", {"pad": "-INF_", "inputs": "x = x * 40"}),
    ("rotation", "y = x * 0.8 - t * 0.6", "x * 0.8 - t * 0.6", "x * 0.8 - t * 0.6", "(x * 0.8 - t * 0.6 + 1048576.0) - 1048576.0", {}),
    ("norm", "y = x * tl.rsqrt(tl.sum(x * x, 0))", "F.normalize(x, dim=-1)", "tl.rsqrt(tl.sum(x * x, 0))", "tl.rsqrt(tl.sum(x * x + 1e4, 0) - 1e4 * B)", {"inputs": "x = x * 0.1"}),
    ("difference of squares", "y = x * (x + 2 * t)", "x * (x + 2 * t)", "x * (x + 2 * t)", "(x + t) * (x + t) - t * t", {"inputs": "t = t + 1000\nx = x * 1e-3"}),
    ("mean of a shifted row", "u = tl.sum(x - 5000.0 * m, 0) / n + 5000\ny = x - u", "x - x.mean(-1, True)", "tl.sum(x - 5000.0 * m, 0) / n + 5000",
     "(tl.sum((x + 1e6) * m, 0) / n - 1e6)", {"inputs": "x = x + 5000"}),
    ("exact decision", "y = tl.where(x * 2 > t * 2, 1.0, 0.0)", "(x > t).float()", "x * 2 > t * 2", "(x + 1e6) > (t + 1e6)", {"inputs": "x = t + x * 1e-3"}),
    ("sum of exponentials", "q = tl.max(x, 0)\ny = q + tl.log(tl.sum(tl.exp(x - q), 0)) + t * 0", "x.logsumexp(-1, True) + t * 0",
     "q + tl.log(tl.sum(tl.exp(x - q), 0))", "tl.log(tl.sum(tl.exp(x), 0))", {"pad": "-INF_", "inputs": "x = x - 120"}),
)  # fmt: skip
"""Implementations that lose digits which their reference keeps."""

_HEAD = "@triton.jit\ndef combine"
_LSE = f"{_HEAD}(a, s, b, q):\n    w = tl.maximum(a, b)\n    return w, s * tl.exp(a - w) + q * tl.exp(b - w)\n"
_WELFORD = f"{_HEAD}(a, s, n, b, q, k):\n    d = b - a\n    w = n + k\n    r = tl.where(w == 0, 0.0, k / w)\n    return a + d * r, s + q + d * d * n * r, w\n"
COMBINES = of_class(
    {"inputs": ""},
    ("log-sum-exp", "p, q = tl.reduce((x, tl.where(m, 1.0, 0.0)), 0, combine)\ny = p + tl.log(q) + t * 0", "x.logsumexp(-1, True) + t * 0", "q * tl.exp(b - w)", "q * tl.exp(a - w)",
     {"helpers": _LSE, "pad": "-1e30"}),
    ("Welford", "p, q, w = tl.reduce((x, x * 0, tl.where(m, 1.0, 0.0)), 0, combine)\ny = q / w + t * 0", "x.var(-1, keepdim=True, unbiased=False) + t * 0", "d * d * n * r", "d * d * r", {"helpers": _WELFORD}),
    ("sum", "y = tl.reduce(x, 0, combine) + t * 0", "x.sum(-1, True) + t * 0", "a + b", "a + b * 1.01", {"helpers": f"{_HEAD}(a, b):\n    return a + b\n"}),
    ("product", "y = tl.reduce(x, 0, combine) + t * 0", "x.prod(-1, keepdim=True) + t * 0", "a * b", "tl.abs(a * b)", {"helpers": f"{_HEAD}(a, b):\n    return a * b\n", "pad": "1.0"}),
    ("maximum", "y = tl.reduce(x, 0, combine) + t * 0", "x.amax(-1, True) + t * 0", "tl.maximum", "tl.minimum", {"helpers": f"{_HEAD}(a, b):\n    return tl.maximum(a, b)\n", "pad": "-9.0"}),
    ("two sums", "p, q = tl.reduce((x, x * x), 0, combine)\ny = q - p + t * 0", "(x * x - x).sum(-1, True) + t * 0", "c + d", "c + d + b * 0.01",
     {"helpers": f"{_HEAD}(a, c, b, d):\n    return a + b, c + d\n"}),
    ("linear recurrence", "p, q = tl.associative_scan((x * 0 + 0.5, x), 0, combine)\ny = q",
     "o = [x[:, 0]]\nfor k in range(1, 40): o.append(o[-1] * 0.5 + x[:, k])\nreturn torch.stack(o, -1)", "b * c + d", "b + d", {"helpers": f"{_HEAD}(a, b, c, d):\n    return a * c, b * c + d\n"}),
    ("running sum", "y = tl.associative_scan(x, 0, combine)", "x.cumsum(-1)", "a + b", "a - b", {"helpers": f"{_HEAD}(a, b):\n    return a + b\n"}),
    ("running maximum", "y = tl.associative_scan(x, 0, combine)", "x.cummax(-1).values", "tl.maximum(a, b)", "tl.maximum(a, -b)", {"helpers": f"{_HEAD}(a, b):\n    return tl.maximum(a, b)\n"}),
    ("largest magnitude", "y = tl.reduce(tl.abs(x), 0, combine) + t * 0", "x.abs().amax(-1, True) + t * 0", "tl.where(a > b, a, b)", "tl.where(a > b, b, a)", {"helpers": f"{_HEAD}(a, b):\n    return tl.where(a > b, a, b)\n"}),
)  # fmt: skip
"""Combine functions of reductions and scans."""

_SENTINEL = "s = tl.where(m, x, {0})\nq = tl.max(s, 0)\ne = tl.exp(s - q)\ny = e / tl.sum(e, 0)"
SENTINELS = of_class(
    {"inputs": ""},
    *((f"padding {v}", _SENTINEL.format(v), "x.softmax(-1)", "e / tl.sum(e, 0)", "e / tl.sum(e, 0) * 1.001", {}) for v in ("-1e30", "-1e20", "-3e38", "float('-inf')", "-10000.0")),
    ("causal", "s = tl.where(m & (j <= row * 6), x, -1e30)\ne = tl.exp(s - tl.max(s, 0))\ny = e / tl.sum(e, 0)",
     "x.masked_fill(torch.arange(40) > torch.arange(6)[:, None] * 6, -INF).softmax(-1)", "j <= row * 6", "j < row * 6 + 2", {}),
    ("added", "s = x + tl.where(m & (j <= row * 6), 0.0, -1e30)\ne = tl.exp(s - tl.max(s, 0))\ny = e / tl.sum(e, 0)",
     "(x + torch.where(torch.arange(40) > torch.arange(6)[:, None] * 6, -INF, 0.0)).softmax(-1)", "j <= row * 6", "j <= row * 6 + 1", {}),
    ("largest of some", "y = tl.max(tl.where(m & (t > 1), x, -1e30), 0) + t * 0", "x.masked_fill(t <= 1, -1e30).amax(-1, True) + t * 0", "t > 1", "t > 0.9", {}),
    ("smallest of some", "y = tl.min(tl.where(m & (t > 1), x, 1e30), 0) + t * 0", "x.masked_fill(t <= 1, 1e30).amin(-1, True) + t * 0", "tl.min(", "tl.max(-1e30 + 0 * ", {}),
    ("log-sum-exp", "s = tl.where(m, x, -1e30)\nq = tl.max(s, 0)\ny = q + tl.log(tl.sum(tl.exp(s - q), 0)) + t * 0", "x.logsumexp(-1, True) + t * 0", "q + tl.log", "2 * q + tl.log", {}),
)  # fmt: skip
"""Numbers that stand for minus infinity."""

EQUAL = of_class(
    {"inputs": ""},
    ("copied", "y = x", "x.clone()", "y = x", "y = -x", {}),
    ("scaled by 2", "y = x * 2", "x + x", "x * 2", "x * 2.5", {}),
    ("zeros", "y = x * 0", "torch.zeros_like(x)", "x * 0", "x * 1e-3", {}),
    ("selected", "y = tl.where(x > 0, x, 0.0)", "F.relu(x)", "x > 0", "x > 0.1", {}),
    ("magnitudes", "y = tl.abs(x)", "x.abs()", "tl.abs(x)", "x", {}),
    ("floor", "y = tl.floor(x)", "x.floor()", "tl.floor", "tl.ceil", {}),
    ("overflow in fp16", "y = x * 60000.0", "x * 60000.0", "60000.0", "59000.0", {"dtype": "float16"}),
    ("maximum of two", "y = tl.maximum(x, t)", "torch.maximum(x, t)", "tl.maximum", "tl.minimum", {}),
    ("bf16", "y = x", "x.clone()", "y = x", "y = x * 1.01", {"dtype": "bfloat16"}),
    ("infinities kept", "y = x", "x.clone()", "y = x", "y = tl.minimum(x, 1e30)", {"inputs": ROW}),
    ("NaN kept", "y = x + 0.0", "x + 0.0", "x + 0.0", "tl.where(x == x, x, 0.0)", {"inputs": "x[1, 3] = float('nan')"}),
)  # fmt: skip
"""Outputs that are equal in every bit, or have to be."""
