"""Does a Type-II name the line of the mistake? Random programs with one planted fault each.

    python benchmarks/guilty_lines.py [--seed N] [--count N] [--json PATH]

Programs are drawn from families (elementwise chains, reductions, softmax, norms, matrix products with epilogues,
attention, pipelines of two and three kernels) with random operations, constants and shapes; the reference is the same
function in torch. A fault changes the text of one line of a kernel: a constant, an operator, an index, a mask, or a
term that is left out. Faults are made on text by rules of their own, so that nothing here knows how
`render.explain.guilty` looks for them. Counted are the Type-II verdicts, and those whose line lies within three of the
planted one.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import random
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch

import render

HEAD = "import torch, triton\nimport triton.language as tl\n"
NEAR = 3


class Program(NamedTuple):
    family: str
    text: str
    given: tuple[torch.Tensor, ...]


def _chain(r: random.Random, names: list[str], depth: int) -> tuple[list[str], list[str], str]:
    """(kernel lines, torch lines, result) of a chain of elementwise operations on some names."""
    kernel, ref, known = [], [], list(names)
    for k in range(depth):
        a, b = r.choice(known), r.choice(known)
        c = round(r.uniform(0.2, 2.5), 2)
        one, two = r.choice([
            (f"{a} * {c} + {b}", f"{a} * {c} + {b}"), (f"{a} - {b} * {c}", f"{a} - {b} * {c}"),
            (f"tl.exp({a} * -0.5) + {b}", f"torch.exp({a} * -0.5) + {b}"),
            (f"tl.maximum({a}, {b}) * {c}", f"torch.maximum({a}, {b}) * {c}"),
            (f"tl.sigmoid({a}) * {b}", f"torch.sigmoid({a}) * {b}"),
            (f"tl.sqrt({a} * {a} + {c}) - {b}", f"torch.sqrt({a} * {a} + {c}) - {b}"),
            (f"{a} / (tl.abs({b}) + {c})", f"{a} / (torch.abs({b}) + {c})"),
            (f"tl.where({a} > {b}, {a}, {b} * {c})", f"torch.where({a} > {b}, {a}, {b} * {c})"),
        ])  # fmt: skip
        kernel.append(f"v{k} = {one}")
        ref.append(f"v{k} = {two}")
        known.append(f"v{k}")
    return kernel, ref, known[-1]


def _flat(name: str, lines: list[str], result: str, ins: list[str]) -> str:
    loads = [f"{x} = tl.load({x.upper()}p + i, mask=m, other=0.0)" for x in ins]
    body = ["i = tl.program_id(0) * B + tl.arange(0, B)", "m = i < n", *loads, *lines,
            f"tl.store(Op + i, {result}, mask=m)"]  # fmt: skip
    args = ", ".join([*(f"{x.upper()}p" for x in ins), "Op", "n", "B: tl.constexpr"])
    return f"\n@triton.jit\ndef {name}({args}):\n" + "".join(f"    {line}\n" for line in body)


def elementwise(r: random.Random) -> Program:
    lines, ref, out = _chain(r, ["x", "y"], r.randint(3, 6))
    text = (
        _flat("kernel", lines, out, ["x", "y"])
        + f"""
def entry(x, y):
    out = torch.empty_like(x)
    kernel[(triton.cdiv(x.numel(), 128),)](x, y, out, x.numel(), 128)
    return out

def reference(x, y):
    {"; ".join(ref)}
    return {out}
"""
    )
    n = r.choice([200, 500, 777])
    return Program("elementwise", text, (torch.randn(n), torch.randn(n)))


ROW = """
@triton.jit
def {name}(Xp, Wp, Op, n, stride, B: tl.constexpr):
    row = tl.program_id(0)
    j = tl.arange(0, B)
    m = j < n
    x = tl.load(Xp + row * stride + j, mask=m, other={other})
    w = tl.load(Wp + j, mask=m, other=0.0)
{body}

def {call}(x, w):
    out = torch.empty({shape})
    {name}[(x.shape[0],)](x, w, out, x.shape[1], x.stride(0), triton.next_power_of_2(x.shape[1]))
    return out
"""
_ROWS = {
    "reduction": [
        ("0.0", ["s = tl.sum(x * w)", "q = tl.sum(x * x)", "r = s * 0.7 + tl.sqrt(q + 1.0)", "tl.store(Op + row, r)"],
         "x.shape[0]", "(x * w).sum(-1) * 0.7 + torch.sqrt((x * x).sum(-1) + 1.0)"),
        ("-float('inf')", ["a = tl.max(x)", "b = tl.sum(tl.where(m, x - a, 0.0) * w)", "r = a * 1.5 - b / n",
                           "tl.store(Op + row, r)"],
         "x.shape[0]", "x.amax(-1) * 1.5 - ((x - x.amax(-1, keepdim=True)) * w).sum(-1) / x.shape[1]"),
    ],
    "softmax": [
        ("-float('inf')", ["z = x * 0.8", "z = z - tl.max(z)", "e = tl.exp(z)", "p = e / tl.sum(e)", "p = p * w",
                           "tl.store(Op + row * stride + j, p, mask=m)"],
         "x.shape", "torch.softmax(x * 0.8, -1) * w"),
        ("-float('inf')", ["a = tl.max(x)", "e = tl.where(m, tl.exp(x - a), 0.0)", "l = tl.log(tl.sum(e)) + a",
                           "r = x - l + w", "tl.store(Op + row * stride + j, r, mask=m)"],
         "x.shape", "torch.log_softmax(x, -1) + w"),
    ],
    "norm": [
        ("0.0", ["mean = tl.sum(x) / n", "d = tl.where(m, x - mean, 0.0)", "var = tl.sum(d * d) / n",
                 "rstd = 1 / tl.sqrt(var + 0.01)", "r = d * rstd * w + 0.3",
                 "tl.store(Op + row * stride + j, r, mask=m)"],
         "x.shape", "torch.nn.functional.layer_norm(x, x.shape[-1:], w, None, 0.01) + 0.3"),
        ("0.0", ["ms = tl.sum(x * x) / n", "scale = tl.rsqrt(ms + 0.05)", "r = x * scale", "r = r * (1.0 + w)",
                 "tl.store(Op + row * stride + j, r, mask=m)"],
         "x.shape", "x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 0.05) * (1.0 + w)"),
    ],
}  # fmt: skip


def _row(name: str, call: str, spec: tuple[str, list[str], str, str]) -> str:
    other, body, shape, _ = spec
    return ROW.format(name=name, call=call, other=other, shape=shape, body="\n".join("    " + b for b in body))


def rows(family: str) -> Callable[[random.Random], Program]:
    def make(r: random.Random) -> Program:
        spec = r.choice(_ROWS[family])
        text = _row("kernel", "entry", spec) + f"\ndef reference(x, w):\n    return {spec[3]}\n"
        n = r.choice([40, 100, 130])
        return Program(family, text, (torch.randn(r.choice([5, 9]), n), torch.randn(n)))

    return make


_ARGS = "Ap, Bp, Cp, Op, M, N, K, sam, sak, sbk, sbn, som, son, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr"
MATMUL = """
@triton.jit
def {name}({args}):
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    rm = pm * BM + tl.arange(0, BM)
    rn = pn * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        rk = k + tl.arange(0, BK)
        ap = Ap + rm[:, None] * sam + rk[None, :] * sak
        bp = Bp + rk[:, None] * sbk + rn[None, :] * sbn
        a = tl.load(ap, mask=(rm[:, None] < M) & (rk[None, :] < K), other=0.0)
        b = tl.load(bp, mask=(rk[:, None] < K) & (rn[None, :] < N), other=0.0)
        acc += tl.dot(a, b, input_precision="ieee")
    bias = tl.load(Cp + rn, mask=rn < N, other=0.0)
    r = acc * {alpha} + bias[None, :]
    r = {act}
    tl.store(Op + rm[:, None] * som + rn[None, :] * son, r, mask=(rm[:, None] < M) & (rn[None, :] < N))

def {call}(a, b, c):
    out = torch.empty(a.shape[0], b.shape[1])
    grid = (triton.cdiv(a.shape[0], 16), triton.cdiv(b.shape[1], 32))
    {name}[grid](a, b, c, out, a.shape[0], b.shape[1], a.shape[1], *a.stride(), *b.stride(), *out.stride(), 16, 32, 16)
    return out
"""
_ACTS = [("tl.maximum(r, 0.0)", "torch.relu({})"), ("r * tl.sigmoid(r)", "torch.nn.functional.silu({})"),
         ("tl.where(r > 0, r, r * 0.1)", "torch.nn.functional.leaky_relu({}, 0.1)"),
         ("r - 0.25", "({} - 0.25)")]  # fmt: skip


def _product(r: random.Random, name: str, call: str) -> tuple[str, str]:
    alpha, (act, ref) = round(r.uniform(0.3, 2.0), 2), r.choice(_ACTS)
    return MATMUL.format(args=_ARGS, name=name, call=call, alpha=alpha, act=act), ref.format(f"(a @ b * {alpha} + c)")


def matmul(r: random.Random) -> Program:
    text, ref = _product(r, "kernel", "entry")
    m, n, k = r.choice([20, 33]), r.choice([40, 32]), r.choice([24, 48])
    given = torch.randn(m, k), torch.randn(k, n), torch.randn(n)
    return Program("matmul", text + f"\ndef reference(a, b, c):\n    return {ref}\n", given)


ATTENTION = """
@triton.jit
def kernel(Qp, Kp, Vp, Op, scale, T: tl.constexpr, D: tl.constexpr, B: tl.constexpr):
    row = tl.program_id(0) * B
    i = row + tl.arange(0, B)
    j = tl.arange(0, T)
    d = tl.arange(0, D)
    q = tl.load(Qp + i[:, None] * D + d[None, :])
    k = tl.load(Kp + j[:, None] * D + d[None, :])
    v = tl.load(Vp + j[:, None] * D + d[None, :])
    s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
    s = tl.where({mask}, s, -1e30)
    top = tl.max(s, 1)
    p = tl.exp(s - top[:, None])
    total = tl.sum(p, 1)
    o = tl.dot(p, v, input_precision="ieee")
    o = o / total[:, None]
    tl.store(Op + i[:, None] * D + d[None, :], o)

def entry(q, k, v):
    out = torch.empty_like(q)
    kernel[(q.shape[0] // 16,)](q, k, v, out, q.shape[1] ** -0.5, q.shape[0], q.shape[1], 16)
    return out

def reference(q, k, v):
    s = torch.einsum("id,jd->ij", q.float(), k.float()) * q.shape[1] ** -0.5
    i = torch.arange(q.shape[0])
    s = s.masked_fill(~({ref}), -float("inf"))
    return torch.softmax(s, -1) @ v.float()
"""


def attention(r: random.Random) -> Program:
    mask, ref = r.choice([("i[:, None] >= j[None, :]", "i[:, None] >= i[None, :]"),
                          ("(i[:, None] >= j[None, :]) & (i[:, None] - j[None, :] < 8)",
                           "(i[:, None] >= i[None, :]) & (i[:, None] - i[None, :] < 8)")])  # fmt: skip
    d = r.choice([16, 32])
    return Program("attention", ATTENTION.format(mask=mask, ref=ref), tuple(torch.randn(32, d) for _ in range(3)))


def pipeline(r: random.Random) -> Program:
    """A product, a row kernel on it, and sometimes elementwise operations behind that."""
    product, first = _product(r, "product", "_product")
    spec = r.choice(_ROWS["norm"] + _ROWS["softmax"])
    parts, calls = [product, _row("rows", "_rows", spec)], ["h = _product(a, b, c)", "h = _rows(h, w)"]
    ref = [f"x = {first}", f"x = {spec[3]}"]
    if r.random() < 0.5:
        lines, chain, out = _chain(r, ["x"], 3)
        parts.append(_flat("tail", lines, out, ["x"]))
        calls += ["g = torch.empty_like(h)", "tail[(triton.cdiv(h.numel(), 128),)](h, g, h.numel(), 128)", "h = g"]
        ref += [*chain, f"x = {out}"]
    text = "".join(parts) + "\ndef entry(a, b, c, w):\n" + "".join(f"    {c}\n" for c in calls) + "    return h\n"
    text += "\ndef reference(a, b, c, w):\n" + "".join(f"    {c}\n" for c in ref) + "    return x\n"
    m, n, k = 20, r.choice([40, 30]), r.choice([24, 48])
    return Program("pipeline", text, (torch.randn(m, k), torch.randn(k, n), torch.randn(n), torch.randn(n)))


FAMILIES: list[Callable[[random.Random], Program]] = [
    elementwise, rows("reduction"), rows("softmax"), rows("norm"), matmul, attention, pipeline, pipeline,
]  # fmt: skip

Faults = list[tuple[str, str]]


def _faults_of(line: str) -> Faults:
    """(kind, changed line) of everything that may be planted in a line of a kernel."""
    found: Faults = []
    for match in re.finditer(r"(?<![\w.])\d+\.\d+", line):
        if "other=" not in line[max(0, match.start() - 8) : match.start()]:
            for factor in (1.5, 0.7):
                value = f"{float(match[0]) * factor:.4g}" if float(match[0]) else "0.5"
                found.append(("constant", line[: match.start()] + value + line[match.end() :]))
    for old, new in ((" + ", " - "), (" - ", " + "), (" * ", " + "), (" / ", " * "), ("tl.max(", "tl.min("),
                     ("tl.exp(", "tl.exp2("), ("maximum", "minimum"), ("rsqrt", "sqrt")):  # fmt: skip
        for match in re.finditer(re.escape(old), line):
            found.append(("operator", line[: match.start()] + new + line[match.end() :]))
    for old, new in (("rm[:, None]", "rn[:, None]"), ("sak", "sam"), ("sbk", "sbn"), ("row * stride", "row"),
                     ("+ j,", "+ j + 1,"), ("+ i,", "+ i + 1,"), ("* D + d", "* D + d + 1"),
                     ("k + tl.arange", "tl.arange"),
                     ("i[:, None] * D", "row * D"), ("Kp + j", "Vp + j"), ("pn * BN", "pm * BN")):  # fmt: skip
        if old in line and "tl.constexpr" not in line:
            found.append(("index", line.replace(old, new, 1)))
    for old, new in ((" < n", " < n - 1"), (" >= ", " > "), (" < N)", " < N - 1)"), ("< K)", "< K - 3)"),
                     ("< 8", "<= 8"),
                     ("other=-float('inf')", "other=0.0"), ("-1e30", "0.0")):  # fmt: skip
        if old in line:
            found.append(("mask", line.replace(old, new, 1)))
    for term in (" * scale", " + bias[None, :]", " - top[:, None]", " / total[:, None]", " * w", " + w", " - a",
                 " * rstd",
                 " - mean", " / n", " + a"):  # fmt: skip
        if term in line:
            found.append(("missing", line.replace(term, "", 1)))
    return [(kind, text) for kind, text in found if text != line]


def planted(program: Program, r: random.Random) -> tuple[str, str, int] | None:
    """(text, kind, line) with one fault in a kernel."""
    lines = (HEAD + program.text).splitlines()
    inside, places = False, []
    for number, line in enumerate(lines, 1):
        head = line.startswith("def ") and lines[number - 2].startswith("@triton.jit")
        inside = head or (inside and line[:1] == " ")
        if inside and line.startswith(" "):
            places += [(number, kind, text) for kind, text in _faults_of(line)]
    if not places:
        return None
    kind = r.choice(sorted({p[1] for p in places}))
    number, kind, text = r.choice([p for p in places if p[1] == kind])
    return "\n".join([*lines[: number - 1], text, *lines[number:]]) + "\n", kind, number


def judge(seed: int, folder: Path) -> dict[str, Any] | None:
    r = random.Random(seed)
    torch.manual_seed(seed)
    program = FAMILIES[seed % len(FAMILIES)](r)
    fault = planted(program, r)
    if fault is None:
        return None
    text, kind, line = fault
    path = folder / f"program_{seed}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    row: dict[str, Any] = {"seed": seed, "family": program.family, "kind": kind, "planted": line,
                           "text": text.splitlines()[line - 1].strip()}  # fmt: skip
    try:
        v = render.classify(module.entry, *program.given, ref=module.reference, device="sm_90")
    except Exception as error:  # a fault that does not compile is no fault
        return row | {"label": "error", "code": type(error).__name__, "line": 0, "near": False}
    near = v.line and abs(v.line - line) <= NEAR and Path(v.file or "").stem == path.stem
    return row | {"label": v.label, "code": v.code, "line": v.line, "near": bool(near), "message": v.message,
                  "notes": list(v.notes), "seconds": v.timing["total_s"]}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=80)
    parser.add_argument("--json", default="")
    args = parser.parse_args()
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(args.seed, args.seed + args.count):
            row = judge(seed, Path(folder))
            if row is not None:
                found.append(row)
                print(f"{seed:4} {row['family']:12} {row['kind']:9} {row['label']:12} {row['code']} planted "
                      f"{row['planted']:3} named {row['line']:3} {'' if row['near'] else '!'} {row['text'][:60]}",
                      flush=True)  # fmt: skip
    bugs = [row for row in found if row["label"] == "Type-II"]
    for name in ("family", "kind"):
        for key in sorted({row[name] for row in bugs}):
            mine = [row for row in bugs if row[name] == key]
            print(f"{key:12} {sum(row['near'] for row in mine)} of {len(mine)}")
    print(f"named: {sum(row['near'] for row in bugs)} of {len(bugs)} Type-II, of {len(found)} programs")
    if args.json:
        Path(args.json).write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
