"""What random programs are made of: stages, each a function of one matrix, as a kernel or as host code, and in torch.

A stage says what it is three times: the kernel, the host code around it, and spellings of the same function for the
reference ("torch" functions, "method" calls, "steps" of elementary operations). `h` is the matrix of m rows and n
columns that a stage takes and gives; further inputs are asked of `Draft.new`.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

Spelled = tuple[str, str, str]
"""The reference's lines as torch functions, as methods, in steps."""


@dataclass
class Draft:
    """A program while it is drawn. `dtype`: of its tensors ("float32"); `shape`: of h now."""

    r: random.Random
    dtype: str
    shape: tuple[int, int]
    inputs: dict[str, str] = field(default_factory=dict)
    kernels: list[str] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    ref: list[Spelled] = field(default_factory=list)
    launches: int = 0

    def new(self, recipe: str) -> str:
        """A further input, made by this expression of torch in float64."""
        name = f"p{len(self.inputs)}"
        self.inputs[name] = recipe
        return name

    def number(self, low: float, high: float) -> float:
        return round(self.r.uniform(low, high), 2)

    def kernel(self, params: str, body: str, call: str) -> None:
        """A kernel with this body, and the lines that launch it; `@` stands for its name there."""
        name = f"k{self.launches}"
        self.launches += 1
        lines = "\n".join("    " + line for line in body.strip().splitlines())
        self.kernels.append(f"@triton.jit\ndef {name}({params}):\n{lines}\n")
        self.calls += call.strip().replace("@", name).splitlines()

    def spell(self, torch: str, method: str = "", steps: str = "") -> None:
        self.ref.append((torch, method or torch, steps or torch))


Stage = Callable[[Draft], None]

LIKE = """o = torch.empty_like(h)
@[{grid}]({args})
h = o"""
FLAT = "(triton.cdiv(h.numel(), 128),)"
ROWS = "(h.shape[0],)"
ROW_LOAD = """row = tl.program_id(0)
j = tl.arange(0, B)
m = j < n
x = tl.load(X + row * sx + j, mask=m, other={other}).to(tl.float32)
"""
ROW_STORE = "\ntl.store(O + row * so + j, {value}, mask=m)"
ROW_PARAMS = "X, O, n, sx, so, B: tl.constexpr"
ROW_ARGS = "h, o, h.shape[1], h.stride(0), o.stride(0), triton.next_power_of_2(h.shape[1])"


def chain(d: Draft) -> None:
    """Elementwise operations of h and one more tensor or a vector of columns."""
    vector = d.r.random() < 0.5
    p = d.new(f"torch.randn({d.shape[1]})" if vector else f"torch.randn({d.shape[0]}, {d.shape[1]})")
    where = "i % n" if vector else "i"
    known, kernel, ref = ["x", "y"], list[str](), list[tuple[str, str]]()
    for k in range(d.r.randint(2, 5)):
        a, b, c = d.r.choice(known), d.r.choice(known), d.number(0.2, 2.5)
        one, two, three = d.r.choice([
            (f"{a} * {c} + {b}", f"{a} * {c} + {b}", f"{a}.mul({c}).add({b})"),
            (f"{a} - {b} * {c}", f"torch.sub({a}, {b}, alpha={c})", f"{a}.sub({b} * {c})"),
            (f"tl.exp({a} * -0.5) + {b}", f"torch.exp({a} * -0.5) + {b}", f"({a} * -0.5).exp() + {b}"),
            (f"tl.maximum({a}, {b}) * {c}", f"torch.maximum({a}, {b}) * {c}", f"{a}.maximum({b}).mul({c})"),
            (f"tl.sigmoid({a}) * {b}", f"torch.sigmoid({a}) * {b}", f"{a}.sigmoid() * {b}"),
            (f"tl.sqrt({a} * {a} + {c}) - {b}", f"torch.sqrt({a} * {a} + {c}) - {b}", f"({a}.square() + {c}).sqrt() - {b}"),
            (f"{a} / (tl.abs({b}) + {c})", f"{a} / (torch.abs({b}) + {c})", f"{a}.div({b}.abs() + {c})"),
            (f"tl.where({a} > {b}, {a}, {b} * {c})", f"torch.where({a} > {b}, {a}, {b} * {c})",
             f"{a}.where({a} > {b}, {b} * {c})"),
            (f"tl.minimum(tl.maximum({a}, -{c}), {c})", f"torch.clamp({a}, -{c}, {c})", f"{a}.clamp(-{c}, {c})"),
            (f"{a} * {a} * {c} - {b}", f"torch.pow({a}, 2) * {c} - {b}", f"{a}.pow(2) * {c} - {b}"),
            (f"tl.log(tl.abs({a}) + {c}) + {b}", f"torch.log(torch.abs({a}) + {c}) + {b}", f"({a}.abs() + {c}).log() + {b}"),
            (f"tl.sin({a}) + tl.cos({b}) * {c}", f"torch.sin({a}) + torch.cos({b}) * {c}", f"{a}.sin() + {b}.cos() * {c}"),
        ])  # fmt: skip
        kernel.append(f"v{k} = {one}")
        ref.append((f"v{k} = {two}", f"v{k} = {three}"))
        known.append(f"v{k}")
    c = d.number(0.2, 2.5)  # y alone may be a row
    kernel.append(f"z = {known[-1]} + x * {c}")
    ref.append((f"z = {known[-1]} + x * {c}",) * 2)
    body = [
        "i = tl.program_id(0) * B + tl.arange(0, B)", "m = i < size",
        "x = tl.load(X + i, mask=m, other=0.0).to(tl.float32)",
        f"y = tl.load(Y + {where}, mask=m, other=0.0).to(tl.float32)",
        *kernel, "tl.store(O + i, z, mask=m)",
    ]  # fmt: skip
    d.kernel("X, Y, O, size, n, B: tl.constexpr", "\n".join(body),
             LIKE.format(grid=FLAT, args=f"h, {p}, o, h.numel(), h.shape[1], 128"))  # fmt: skip
    plain, method = ("; ".join([f"x, y = h, {p}", *(line[k] for line in ref), "h = z"]) for k in (0, 1))
    d.spell(plain, method, plain)


def softmax(d: Draft) -> None:
    c = d.number(0.3, 1.5)
    body = (
        ROW_LOAD.format(other="-float('inf')") + f"x = x * {c}\nz = x - tl.max(x, 0)\ne = tl.exp(z)\ns = tl.sum(e, 0)"
    )
    log = d.r.random() < 0.4
    value, name = ("z - tl.log(s)", "log_softmax") if log else ("e / s", "softmax")
    d.kernel(ROW_PARAMS, body + ROW_STORE.format(value=value), LIKE.format(grid=ROWS, args=ROW_ARGS))
    e = f"h = h * {c}; h = h - h.amax(-1, keepdim=True)"
    steps = (
        f"{e}; h = h - h.exp().sum(-1, keepdim=True).log()"
        if log
        else f"{e}; h = h.exp(); h = h / h.sum(-1, keepdim=True)"
    )
    d.spell(f"h = torch.{name}(h * {c}, -1)", f"h = h.mul({c}).{name}(dim=-1)", steps)


def layer_norm(d: Draft) -> None:
    n, eps = d.shape[1], d.r.choice([1e-5, 1e-3, 0.01])
    w, b = d.new(f"torch.rand({n}) + 0.5"), d.new(f"torch.randn({n})")
    body = ROW_LOAD.format(other="0.0") + (
        f"mean = tl.sum(x, 0) / n\nc = tl.where(m, x - mean, 0.0)\nvar = tl.sum(c * c, 0) / n\n"
        f"rstd = 1 / tl.sqrt(var + {eps})\nw = tl.load(W + j, mask=m, other=0.0).to(tl.float32)\n"
        "b = tl.load(C + j, mask=m, other=0.0).to(tl.float32)\ny = c * rstd * w + b"
    )
    d.kernel("W, C, " + ROW_PARAMS, body + ROW_STORE.format(value="y"),
             LIKE.format(grid=ROWS, args=f"{w}, {b}, " + ROW_ARGS))  # fmt: skip
    steps = f"c = h - h.mean(-1, keepdim=True); h = c / torch.sqrt((c * c).mean(-1, keepdim=True) + {eps}) * {w} + {b}"
    method = (f"h = h.sub(h.mean(-1, keepdim=True)).mul(h.var(-1, keepdim=True, unbiased=False).add({eps}).rsqrt())"
              f".mul({w}).add({b})")  # fmt: skip
    d.spell(f"h = F.layer_norm(h, (h.shape[-1],), {w}, {b}, {eps})", method, steps)


def rms_norm(d: Draft) -> None:
    w, eps = d.new(f"torch.rand({d.shape[1]}) + 0.5"), d.r.choice([1e-6, 1e-3, 0.05])
    body = ROW_LOAD.format(other="0.0") + (
        f"ms = tl.sum(x * x, 0) / n\nscale = tl.rsqrt(ms + {eps})\nw = tl.load(W + j, mask=m, other=0.0).to(tl.float32)\n"
        "y = x * scale * w"
    )
    d.kernel("W, " + ROW_PARAMS, body + ROW_STORE.format(value="y"),
             LIKE.format(grid=ROWS, args=f"{w}, " + ROW_ARGS))  # fmt: skip
    d.spell(f"h = F.rms_norm(h, (h.shape[-1],), {w}, {eps})",
            f"h = h.mul(h.pow(2).mean(-1, keepdim=True).add({eps}).rsqrt()).mul({w})",
            f"h = h / torch.sqrt((h * h).mean(-1, keepdim=True) + {eps}) * {w}")  # fmt: skip


def scan(d: Draft) -> None:
    """A running sum, or by a combine function of its own: a decaying sum, a running mean, a running log-sum-exp."""
    c = d.number(0.1, 0.9)
    combine, values, y, spelled = COMBINES[round(c * 100) % len(COMBINES)]
    name, body = f"f{d.launches}", ROW_LOAD.format(other="0.0")
    if combine:
        d.kernels.append(f"@triton.jit\ndef {name}{combine}\n")
        body += f"one = tl.full((B,), 1.0, tl.float32)\n{values.format(c=c, f=name)}\n"
    d.kernel(ROW_PARAMS, body + f"y = {y} * {c}" + ROW_STORE.format(value="y"), LIKE.format(grid=ROWS, args=ROW_ARGS))
    d.spell(*(line.format(c=c) for line in spelled))


COMBINES: list[tuple[str, str, str, Spelled]] = [
    ("", "", "tl.cumsum(x, 0)", (
        "h = torch.cumsum(h, -1) * {c}", "h = h.cumsum(-1).mul({c})",
        "h = torch.stack([h[:, :k + 1].sum(-1) for k in range(h.shape[1])], -1) * {c}")),
    ("(a, b, c, d):\n    return a * c, b * c + d", "p, q = tl.associative_scan((one * {c}, x), 0, {f})", "q", (
        "q = [h[:, 0]]\n    for k in range(1, h.shape[1]): q.append(q[-1] * {c} + h[:, k])\n    h = torch.stack(q, -1) * {c}",
        "q = [h[:, 0]]\n    for k in range(1, h.shape[1]): q.append(q[-1].mul({c}).add(h[:, k]))\n"
        "    h = torch.stack(q, 1).mul({c})",
        "q = h.clone()\n    for k in range(1, h.shape[1]): q[:, k] = q[:, k] + {c} * q[:, k - 1]\n    h = q * {c}")),
    ("(a, s, n, b, t, k):\n    d = b - a\n    w = n + k\n    r = k / w\n    return a + d * r, s + t + d * d * n * r, w",
     "p, q, w = tl.associative_scan((x, x * 0, one), 0, {f})", "p", (
        "h = torch.cumsum(h, -1) / torch.arange(1, h.shape[1] + 1) * {c}",
        "h = h.cumsum(-1).div(torch.arange(1, h.shape[1] + 1)).mul({c})",
        "h = torch.stack([h[:, :k + 1].mean(-1) for k in range(h.shape[1])], -1) * {c}")),
    ("(a, s, b, t):\n    m = tl.maximum(a, b)\n    return m, s * tl.exp(a - m) + t * tl.exp(b - m)",
     "p, q = tl.associative_scan((x, one), 0, {f})", "(p + tl.log(q))", (
        "h = torch.logcumsumexp(h, -1) * {c}", "h = h.logcumsumexp(-1).mul({c})",
        "h = torch.stack([h[:, :k + 1].logsumexp(-1) for k in range(h.shape[1])], -1) * {c}")),
]  # fmt: skip
"""Combine function, what is scanned by it ("" for both: a library's scan), what is stored, and the spellings."""


def stencil(d: Draft) -> None:
    """A convolution of three along the row, zero beyond its ends."""
    a, b, c = (d.number(-1.0, 1.0) or 0.5 for _ in range(3))
    body = ROW_LOAD.format(other="0.0") + (
        "left = tl.load(X + row * sx + j - 1, mask=m & (j >= 1), other=0.0).to(tl.float32)\n"
        "right = tl.load(X + row * sx + j + 1, mask=j + 1 < n, other=0.0).to(tl.float32)\n"
        f"y = left * {a} + x * {b} + right * {c}"
    )
    d.kernel(ROW_PARAMS, body + ROW_STORE.format(value="y"), LIKE.format(grid=ROWS, args=ROW_ARGS))
    pad = "q = F.pad(h, (1, 1))"
    d.spell(f"h = F.conv1d(h[:, None], h.new_tensor([[[{a}, {b}, {c}]]]), padding=1)[:, 0]",
            f"{pad}; h = q[:, :-2].mul({a}) + h.mul({b}) + q[:, 2:].mul({c})",
            f"{pad}; h = q[:, :-2] * {a} + q[:, 1:-1] * {b} + q[:, 2:] * {c}")  # fmt: skip


def gather(d: Draft) -> None:
    """Rows picked by an index."""
    rows = d.r.choice([5, 8, 11])
    index = d.new(f"torch.randint(0, {d.shape[0]}, ({rows},))")
    body = ("row = tl.program_id(0)\nj = tl.arange(0, B)\nm = j < n\nat = tl.load(I + row)\n"
            "x = tl.load(X + at * sx + j, mask=m, other=0.0)\ntl.store(O + row * so + j, x, mask=m)")  # fmt: skip
    d.kernel("I, " + ROW_PARAMS, body, f"o = h.new_empty({index}.shape[0], h.shape[1])\n"
             f"@[(o.shape[0],)]({index}, {ROW_ARGS})\nh = o")  # fmt: skip
    d.spell(f"h = torch.index_select(h, 0, {index})", f"h = h.index_select(0, {index})", f"h = h[{index}]")
    d.shape = rows, d.shape[1]


def transpose(d: Draft) -> None:
    body = ("i = tl.program_id(0) * 16 + tl.arange(0, 16)\nj = tl.program_id(1) * 16 + tl.arange(0, 16)\n"
            "m = (i[:, None] < rows) & (j[None, :] < n)\n"
            "x = tl.load(X + i[:, None] * sx + j[None, :], mask=m, other=0.0)\n"
            "tl.store(O + j[:, None] * so + i[None, :], tl.trans(x), mask=(j[:, None] < n) & (i[None, :] < rows))")  # fmt: skip
    d.kernel("X, O, rows, n, sx, so", body, "o = h.new_empty(h.shape[1], h.shape[0])\n"
             "@[(triton.cdiv(h.shape[0], 16), triton.cdiv(h.shape[1], 16))](h, o, *h.shape, h.stride(0), o.stride(0))\n"
             "h = o")  # fmt: skip
    d.spell("h = torch.transpose(h, 0, 1)", "h = h.t()", "h = h.mT")
    d.shape = d.shape[1], d.shape[0]


MATMUL = """rm = tl.program_id(0) * 16 + tl.arange(0, 16)
rn = tl.program_id(1) * 32 + tl.arange(0, 32)
acc = tl.zeros((16, 32), tl.float32)
for k in range(0, K, 16):
    rk = k + tl.arange(0, 16)
    a = tl.load(A + rm[:, None] * sa + rk[None, :], mask=(rm[:, None] < M) & (rk[None, :] < K), other=0.0)
    b = tl.load(W + rk[:, None] * sw + rn[None, :], mask=(rk[:, None] < K) & (rn[None, :] < N), other=0.0)
    acc += tl.dot(a, b{how})
bias = tl.load(C + rn, mask=rn < N, other=0.0).to(tl.float32)
r = acc * {alpha} + bias[None, :]
r = {act}
tl.store(O + rm[:, None] * so + rn[None, :], r, mask=(rm[:, None] < M) & (rn[None, :] < N))"""
ACTS = [("tl.maximum(r, 0.0)", "torch.relu({})", "({}).relu()"),
        ("r * tl.sigmoid(r)", "F.silu({})", "F.silu({})"),
        ("tl.where(r > 0, r, r * 0.1)", "F.leaky_relu({}, 0.1)", "F.leaky_relu({}, 0.1)"),
        ("r - 0.25", "({}) - 0.25", "({}).sub(0.25)"),
        ("0.5 * r * (1 + tl.math.erf(r * 0.7071067811865476))", "F.gelu({})", "F.gelu({})")]  # fmt: skip


def matmul(d: Draft) -> None:
    k, n, alpha = d.shape[1], d.r.choice([24, 40]), d.number(0.3, 2.0)
    w, b = d.new(f"torch.randn({k}, {n}) / {k} ** 0.5"), d.new(f"torch.randn({n})")
    act, one, two = d.r.choice(ACTS)
    how = d.r.choice(["", ', input_precision="ieee"'])
    body = MATMUL.format(how=how, alpha=alpha, act=act)
    d.kernel("A, W, C, O, M, N, K, sa, sw, so", body, f"o = h.new_empty(h.shape[0], {w}.shape[1])\n"
             f"@[(triton.cdiv(o.shape[0], 16), triton.cdiv(o.shape[1], 32))](h, {w}, {b}, o, *o.shape, h.shape[1], "
             f"h.stride(0), {w}.stride(0), o.stride(0))\nh = o")  # fmt: skip
    d.spell("h = " + one.format(f"torch.matmul(h, {w}) * {alpha} + {b}"),
            "h = " + two.format(f"(h @ {w}).mul({alpha}).add({b})"),
            "h = " + one.format(f'torch.einsum("ik,kj->ij", h, {w}) * {alpha} + {b}'))  # fmt: skip
    d.shape = d.shape[0], n


def column_sums(d: Draft) -> None:
    """Sums of columns, by a kernel, taken off each row by the host."""
    body = ("j = tl.program_id(0)\ni = tl.arange(0, B)\n"
            "x = tl.load(X + i * sx + j, mask=i < rows, other=0.0).to(tl.float32)\n"
            "tl.store(O + j, tl.sum(x, 0) / rows)")  # fmt: skip
    d.kernel("X, O, rows, sx, B: tl.constexpr", body, "s = torch.empty(h.shape[1], dtype=torch.float32)\n"
             "@[(h.shape[1],)](h, s, h.shape[0], h.stride(0), triton.next_power_of_2(h.shape[0]))\n"
             "h = (h - s).to(h.dtype)")  # fmt: skip
    d.spell("h = h - torch.mean(h, 0)", "h = h.sub(h.mean(0, keepdim=True))", "h = h - h.sum(0) / h.shape[0]")


def rotary(d: Draft) -> None:
    """Rotation of the two halves of each row by tables that the host makes."""
    if d.shape[1] % 2:
        chain(d)
        return
    body = ("row = tl.program_id(0)\nj = tl.arange(0, B)\nm = j < half\n"
            "a = tl.load(X + row * sx + j, mask=m, other=0.0).to(tl.float32)\n"
            "b = tl.load(X + row * sx + half + j, mask=m, other=0.0).to(tl.float32)\n"
            "c = tl.load(C + row * half + j, mask=m, other=0.0)\ns = tl.load(S + row * half + j, mask=m, other=0.0)\n"
            "tl.store(O + row * so + j, a * c - b * s, mask=m)\n"
            "tl.store(O + row * so + half + j, b * c + a * s, mask=m)")  # fmt: skip
    table = ("angle = torch.arange(h.shape[0], dtype=torch.float32)[:, None] * "
             "100.0 ** (-torch.arange(h.shape[1] // 2, dtype=torch.float32) / (h.shape[1] // 2))")  # fmt: skip
    d.kernel("C, S, X, O, half, sx, so, B: tl.constexpr", body, f"{table}\no = torch.empty_like(h)\n"
             "@[(h.shape[0],)](angle.cos(), angle.sin(), h, o, h.shape[1] // 2, h.stride(0), o.stride(0), "
             "triton.next_power_of_2(h.shape[1] // 2))\nh = o")  # fmt: skip
    split = "a, b = h.chunk(2, -1)"
    d.spell(f"{table}; {split}; c, s = torch.cos(angle), torch.sin(angle); h = torch.cat([a * c - b * s, b * c + a * s], -1).to(h.dtype)",
            f"{table}; {split}; h = torch.cat([a.mul(angle.cos()) - b.mul(angle.sin()), b.mul(angle.cos()) + a.mul(angle.sin())], 1).to(h.dtype)",
            f"{table}; {split}; q = torch.cat([-b, a], -1); h = (h * angle.cos().repeat(1, 2) + q * angle.sin().repeat(1, 2)).to(h.dtype)")  # fmt: skip


def gated(d: Draft) -> None:
    """The product of one half of each row with the SiLU of the other."""
    if d.shape[1] % 2:
        chain(d)
        return
    body = ("row = tl.program_id(0)\nj = tl.arange(0, B)\nm = j < half\n"
            "a = tl.load(X + row * sx + j, mask=m, other=0.0).to(tl.float32)\n"
            "b = tl.load(X + row * sx + half + j, mask=m, other=0.0).to(tl.float32)\n"
            "y = a * tl.sigmoid(a) * b\ntl.store(O + row * so + j, y, mask=m)")  # fmt: skip
    d.kernel("X, O, half, sx, so, B: tl.constexpr", body, "o = h.new_empty(h.shape[0], h.shape[1] // 2)\n"
             "@[(h.shape[0],)](h, o, o.shape[1], h.stride(0), o.stride(0), triton.next_power_of_2(o.shape[1]))\nh = o")  # fmt: skip
    d.spell("a, b = torch.chunk(h, 2, -1); h = F.silu(a) * b", "a, b = h.chunk(2, -1); h = a.sigmoid().mul(a).mul(b)",
            "a, b = h[:, :h.shape[1] // 2], h[:, h.shape[1] // 2:]; h = a / (1 + torch.exp(-a)) * b")  # fmt: skip
    d.shape = d.shape[0], d.shape[1] // 2


ATTENTION = """i = tl.program_id(0) * 16 + tl.arange(0, 16)
j = tl.arange(0, T)
d = tl.arange(0, D)
q = tl.load(Q + i[:, None] * sq + d[None, :], mask=(i[:, None] < t) & (d[None, :] < n), other=0.0).to(tl.float32)
k = tl.load(X + j[:, None] * sx + d[None, :], mask=(j[:, None] < t) & (d[None, :] < n), other=0.0).to(tl.float32)
s = tl.dot(q, tl.trans(k), input_precision="ieee") * {scale}
s = tl.where((j[None, :] < t){causal}, s, -1e30)
top = tl.max(s, 1)
p = tl.exp(s - top[:, None])
p = p / tl.sum(p, 1)[:, None]
o = tl.dot(p, k, input_precision="ieee")
tl.store(O + i[:, None] * so + d[None, :], o, mask=(i[:, None] < t) & (d[None, :] < n))"""


def attention(d: Draft) -> None:
    q, scale, causal = d.new(f"torch.randn{d.shape}"), d.number(0.1, 0.4), d.r.random() < 0.5
    body = ATTENTION.format(scale=scale, causal=" & (j[None, :] <= i[:, None])" if causal else "")
    d.kernel("Q, X, O, t, n, sq, sx, so, T: tl.constexpr, D: tl.constexpr", body, LIKE.format(
        grid="(triton.cdiv(h.shape[0], 16),)",
        args=f"{q}, h, o, *h.shape, {q}.stride(0), h.stride(0), o.stride(0), max(16, triton.next_power_of_2(h.shape[0])), "
             "max(16, triton.next_power_of_2(h.shape[1]))"))  # fmt: skip
    mask = "; s = s.masked_fill(torch.ones(s.shape).triu(1).bool(), -float('inf'))" if causal else ""
    d.spell(f"h = F.scaled_dot_product_attention({q}[None], h[None], h[None], is_causal={causal}, scale={scale})[0]",
            f"s = ({q} @ h.t()) * {scale}{mask}; h = s.softmax(-1) @ h",
            f"s = torch.einsum('id,jd->ij', {q}, h) * {scale}{mask}; e = torch.exp(s - s.amax(-1, keepdim=True)); "
            "h = (e @ h) / e.sum(-1, keepdim=True)")  # fmt: skip


def quantize(d: Draft) -> None:
    """Rows scaled by a power of two and cut to eighths, in float: what rounds lies behind a jump in both programs."""
    c = d.r.choice([2.0, 4.0, 8.0])
    body = ROW_LOAD.format(other="0.0") + f"y = tl.floor(x * {c}) / {c}"
    d.kernel(ROW_PARAMS, body + ROW_STORE.format(value="y"), LIKE.format(grid=ROWS, args=ROW_ARGS))
    d.spell(f"h = torch.floor(h * {c}) / {c}", f"h = h.mul({c}).floor().div({c})", f"h = (h * {c}).floor() * {1 / c}")


def histogram(d: Draft) -> None:
    """Sums by group, with atomics."""
    groups = d.r.choice([4, 7])
    index = d.new(f"torch.randint(0, {groups}, ({d.shape[0]},))")
    body = ROW_LOAD.format(other="0.0") + "at = tl.load(I + row)\ntl.atomic_add(O + at * so + j, x, mask=m)"
    d.kernel("I, " + ROW_PARAMS, body, f"o = torch.zeros({groups}, h.shape[1], dtype=torch.float32)\n"
             f"@[(h.shape[0],)]({index}, {ROW_ARGS})\nh = o.to(h.dtype)")  # fmt: skip
    zeros = f"h.new_zeros({groups}, h.shape[1])"
    d.spell(f"h = torch.index_add({zeros}, 0, {index}, h)", f"h = {zeros}.index_add(0, {index}, h)",
            f"h = F.one_hot({index}, {groups}).to(h.dtype).t() @ h")  # fmt: skip
    d.shape = groups, d.shape[1]


KERNELS: list[Stage] = [chain, chain, softmax, layer_norm, rms_norm, scan, stencil, gather, transpose, matmul, matmul,
                        column_sums, rotary, gated, attention, histogram]  # fmt: skip


def host(d: Draft) -> None:
    """Plain torch between launches, and how a reference may say the same."""
    c, n = d.number(0.3, 1.7), d.shape[1]
    v = d.new(f"torch.randn({n})") if d.r.random() < 0.4 else ""
    call, torch, method, steps = d.r.choice([
        (f"h = h * {c} + 0.1", f"h = torch.add(torch.mul(h, {c}), 0.1)", f"h = h.mul({c}).add(0.1)", f"h = h * {c} + 0.1"),
        ("h = torch.relu(h)", "h = F.relu(h)", "h = h.clamp(min=0)", "h = torch.where(h > 0, h, torch.zeros_like(h))"),
        ("h = h - h.mean(-1, keepdim=True)", "h = h - torch.mean(h, -1, keepdim=True)", "h = h.sub(h.mean(1, True))",
         "h = h - h.sum(-1, keepdim=True) / h.shape[1]"),
        ("h = torch.tanh(h)", "h = torch.tanh(h)", "h = h.tanh()", "h = 2 * torch.sigmoid(2 * h) - 1"),
        ("top = h.abs().max().item()\nh = h / (top + 1.0)", "h = h / (torch.max(torch.abs(h)) + 1.0)",
         "h = h.div(h.abs().max() + 1.0)", "h = h / (h.abs().amax((0, 1)) + 1.0)"),
        (f"h = torch.cat([h, h * {c}], -1)", f"h = torch.cat([h, h * {c}], 1)", f"h = torch.hstack([h, h.mul({c})])",
         f"h = torch.stack([h, h * {c}], 1).reshape(h.shape[0], -1)"),
        ("h = F.gelu(h)", "h = F.gelu(h)", "h = F.gelu(h)", "h = 0.5 * h * (1 + torch.erf(h / 2 ** 0.5))"),
        ("h = h / (1 + h.abs())", "h = F.softsign(h)", "h = h.div(h.abs().add(1))", "h = h / (1 + torch.abs(h))"),
        ("g = torch.linspace(0.5, 1.5, h.shape[1]).to(h.dtype)\nh = h * g",
         "h = h * torch.linspace(0.5, 1.5, h.shape[1]).to(h.dtype)", "h = h.mul(torch.linspace(0.5, 1.5, h.shape[1]).to(h.dtype))",
         "h = h * (torch.linspace(0.5, 1.5, h.shape[1]).to(h.dtype))[None, :]"),
        ("h = h[:, torch.arange(h.shape[1] - 1, -1, -1)]", "h = torch.flip(h, (1,))", "h = h.flip(-1)", "h = torch.fliplr(h)"),
        ("h = torch.softmax(h.float(), -1).to(h.dtype)", "h = torch.softmax(h, -1)", "h = h.softmax(-1)",
         "e = torch.exp(h - h.amax(-1, keepdim=True)); h = e / e.sum(-1, keepdim=True)"),
        ("h = torch.where(h > 0, h, 0.2 * h)", "h = F.leaky_relu(h, 0.2)", "h = h.where(h > 0, h * 0.2)",
         "h = torch.maximum(h, h * 0.2)"),
    ])  # fmt: skip
    if v:
        call = f"{call}\nh = h[:, :{n}] + {v}"
        torch, method, steps = (f"{x}; h = h[:, :{n}] + {v}" for x in (torch, method, steps))
    elif "cat(" in call:
        d.shape = d.shape[0], 2 * n
    d.calls += call.splitlines()
    d.spell(torch, method, steps)
