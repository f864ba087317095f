"""Reductions and scans by combine functions of the user's own: correct programs and wrong twins of each class.

    python benchmarks/combine_functions.py [--count N] [--class NAME ...] [--page docs/combine.md]

A program reduces or scans the rows or columns of a tile, forwards or backwards, in one of three dtypes; its reference
folds the elements one after the other in torch. The wrong twin has one thing changed in the combine function, or
reduces by a function that does not commute. Right answers: Type-I for the correct one (it is never Type-II), anything
but Type-I for the twin. --page writes the table (docs/combine.md).
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from programs.module import module_of
from tightness import between, markdown

import render


@dataclass(frozen=True)
class Combine:
    """A combine function in Triton, its fold in torch, and how it goes wrong.

    `names` are its components, `made` what they are made of x, y (numbers) and f (a flag, 0 or 1), `wrong` a pair of
    texts (what is right, what a twin has instead), `out` the expression of the result. `commutes`: may be reduced.
    """

    kind: str
    names: tuple[str, ...]
    made: tuple[str, ...]
    body: str
    wrong: tuple[tuple[str, str], ...]
    fold: str
    out: str
    commutes: bool = True
    ints: tuple[str, ...] = ()
    final: str = ""


FUNCTIONS = (
    Combine(
        "complex product",
        ("a", "b"),
        ("1 + x * 0.1", "y * 0.1"),
        "re = a1 * a2 - b1 * b2\n    im = a1 * b2 + b1 * a2\n    return re, im",
        (("a1 * a2 - b1", "a1 * a2 + b1"), ("a1 * b2 +", "a1 * b2 -")),
        "a1 * a2 - b1 * b2, a1 * b2 + b1 * a2",
        "a + b",
    ),
    Combine(
        "complex product",
        ("a", "b"),
        ("1 + x * 0.1", "y * 0.1"),
        "return tl.fma(a1, a2, -b1 * b2), a1 * b2 + b1 * a2",
        (("-b1", "b1"), ("+ b1 * a2", "+ b1 * b2")),
        "a1 * a2 - b1 * b2, a1 * b2 + b1 * a2",
        "b",
    ),
    Combine(
        "2x2 product",
        ("a", "b", "c", "d"),
        ("1 + x * 0.1", "y * 0.1", "x * 0.05", "1 - y * 0.1"),
        "return a1 * a2 + b1 * c2, a1 * b2 + b1 * d2, c1 * a2 + d1 * c2, c1 * b2 + d1 * d2",
        (("a1 * a2 + b1 * c2", "a1 * a2 + b1 * b2"), ("c1 * b2 + d1", "c1 * b2 - d1")),
        "a1 * a2 + b1 * c2, a1 * b2 + b1 * d2, c1 * a2 + d1 * c2, c1 * b2 + d1 * d2",
        "a + b",
        False,
    ),
    Combine(
        "linear in either operand",
        ("a", "d"),
        ("1 + x * 0.1", "y"),
        "return a1 * a2, a1 * d2 + d1 * a2",
        (("a1 * d2 +", "a1 * d2 -"), ("d1 * a2", "d1 * d2")),
        "a1 * a2, a1 * d2 + d1 * a2",
        "d",
    ),
    Combine(
        "linear in either operand",
        ("s", "e"),
        ("x", "x * 0"),
        "return s1 + s2, e1 + e2 + s1 * s2",
        (("s1 * s2", "s1 * s1"), ("e1 + e2 +", "e1 + e2 -")),
        "s1 + s2, e1 + e2 + s1 * s2",
        "e",
    ),
    Combine(
        "segmented pair",
        ("f", "v"),
        ("f", "x"),
        "return f1 | f2, tl.where(f2 != 0, v2, v1 + v2)",
        (("v1 + v2", "v1 - v2"), ("f2 != 0", "f1 != 0")),
        "f1 | f2, torch.where(f2 != 0, v2, v1 + v2)",
        "v",
        False,
        ("f",),
    ),
    Combine(
        "segmented pair",
        ("v", "f"),
        ("1 + x * 0.1", "f"),
        "keep = f2 == 0\n    return tl.where(keep, v1 * v2, v2), tl.maximum(f1, f2)",
        (("v1 * v2, v2", "v1 * v2, v1"), ("f2 == 0", "f2 == 1")),
        "torch.where(f2 == 0, v1 * v2, v2), torch.maximum(f1, f2)",
        "v",
        False,
        ("f",),
    ),
    Combine(
        "Welford",
        ("m", "q", "n"),
        ("x + 3", "x * 0", "x * 0 + 1"),
        "d = m2 - m1\n    n = n1 + n2\n    r = n2 / n\n    return m1 + d * r, q1 + q2 + d * d * n1 * r, n",
        (("d * d * n1 * r", "d * d * r"), ("m1 + d * r", "m2 + d * r")),
        "(m1 * n1 + m2 * n2) / (n1 + n2), q1 + q2 + (m2 - m1) ** 2 * n1 * n2 / (n1 + n2), n1 + n2",
        "q / n",
    ),
    Combine(
        "Welford",
        ("m", "q", "n"),
        ("x + 3", "x * 0", "x * 0 + 1"),
        "n = n1 + n2\n    d = m2 - m1\n    return m1 + d * n2 / n, q1 + q2 + d * d * n1 * n2 / n, n",
        (("n1 * n2 / n, n", "n2 / n, n"), ("d * n2 / n,", "d * n1 / n,")),
        "(m1 * n1 + m2 * n2) / (n1 + n2), q1 + q2 + (m2 - m1) ** 2 * n1 * n2 / (n1 + n2), n1 + n2",
        "m",
    ),
    Combine(
        "linear recurrence",
        ("a", "b"),
        ("0.9 + x * 0.02", "y"),
        "return a1 * a2, b1 * a2 + b2",
        (("b1 * a2", "b1 * a1"), ("+ b2", "- b2")),
        "a1 * a2, b1 * a2 + b2",
        "b",
        False,
    ),
    Combine(
        "linear recurrence",
        ("b", "a"),
        ("y", "0.9 + x * 0.02"),
        "return tl.fma(a2, b1, b2), a2 * a1",
        (("a2, b1, b2", "a1, b1, b2"), ("a2, b1, b2", "a2, b2, b1")),
        "b1 * a2 + b2, a1 * a2",
        "b",
        False,
    ),
    Combine(
        "argmax with payload",
        ("v", "i", "p"),
        ("x", "i", "y * 3"),
        "left = (v1 > v2) | ((v1 == v2) & (i1 < i2))\n"
        "    return tl.where(left, v1, v2), tl.where(left, i1, i2), tl.where(left, p1, p2)",
        (("v1 > v2", "v1 < v2"), ("left, p1, p2", "left, p2, p1")),
        "torch.where(v1 >= v2, v1, v2), torch.where(v1 >= v2, i1, i2), torch.where(v1 >= v2, p1, p2)",
        "p",
        True,
        ("i",),
    ),
    Combine(
        "log-sum-exp with values",
        ("m", "s", "o"),
        ("x", "x * 0 + 1", "y"),
        "m = tl.maximum(m1, m2)\n    a = tl.exp(m1 - m)\n    b = tl.exp(m2 - m)\n"
        "    return m, s1 * a + s2 * b, o1 * a + o2 * b",
        (("o1 * a + o2 * b", "o1 + o2 * b"), ("s1 * a", "s1 * b")),
        "torch.maximum(m1, m2), s1 * torch.exp(m1 - torch.maximum(m1, m2)) + s2 * torch.exp(m2 - torch.maximum(m1, "
        "m2)), o1 * torch.exp(m1 - torch.maximum(m1, m2)) + o2 * torch.exp(m2 - torch.maximum(m1, m2))",
        "o / s",
    ),
    Combine(
        "log-sum-exp",
        ("m", "s"),
        ("x", "x * 0 + 1"),
        "m = tl.maximum(m1, m2)\n    return m, s1 * tl.exp(m1 - m) + s2 * tl.exp(m2 - m)",
        (("s1 * tl.exp(m1 - m)", "s1"), ("m2 - m)", "m1 - m)")),
        "torch.maximum(m1, m2), s1 * torch.exp(m1 - torch.maximum(m1, m2)) + s2 * torch.exp(m2 - torch.maximum(m1, "
        "m2))",
        "m + torch.log(s)",
        final="m + tl.log(s)",
    ),
    Combine(
        "other",
        ("v",),
        ("x",),
        "return tl.sqrt(v1 * v1 + v2 * v2)",
        (("v1 * v1 +", "v1 * v1 -"), ("sqrt", "exp")),
        "torch.sqrt(v1 * v1 + v2 * v2)",
        "v",
    ),
    Combine(
        "other",
        ("v",),
        ("x * x + 1",),
        "return v1 * v2 / (v1 + v2)",
        (("v1 + v2", "v1 + 2 * v2"), ("/", "*")),
        "v1 * v2 / (v1 + v2)",
        "v",
    ),
    Combine(
        "other",
        ("v",),
        ("x",),
        "m = tl.maximum(v1, v2)\n    return m + tl.log(tl.exp(v1 - m) + tl.exp(v2 - m))",
        (("exp(v1 - m)", "exp(v1 - 2 * m)"), ("+ tl.exp", "+ 2 * tl.exp")),
        "torch.logaddexp(v1, v2)",
        "v",
    ),
)
CLASSES = tuple(dict.fromkeys(f.kind for f in FUNCTIONS))


@dataclass(frozen=True)
class Written:
    """One program as text: of a class, a correct one or a twin; `seed` makes its inputs."""

    kind: str
    scan: bool
    faulty: bool
    text: str
    seed: int


def write(f: Combine, rng: random.Random, seed: int, fault: int | None) -> Written:
    scan = rng.random() < 0.5 or (not f.commutes and fault is None)
    axis, back, dtype = rng.randrange(2), scan and rng.random() < 0.4, rng.choice(("float32", "float16", "bfloat16"))
    wide = rng.choice(("float", "double"))
    n, rows = 2 ** rng.randrange(3, 8), 2 ** rng.randrange(0, 3)
    shape = (rows, n) if axis else (n, rows)
    body = f.body
    if fault is not None and (scan or f.commutes):
        was, now = f.wrong[fault]
        assert was in body, (f, was)
        body = body.replace(was, now, 1)
    params = ", ".join([*(c + "1" for c in f.names), *(c + "2" for c in f.names)])
    parts = [m if c in f.ints else f"({m}).to(tl.float32)" for c, m in zip(f.names, f.made, strict=True)]
    made = f"({', '.join(parts)}{',' if len(parts) == 1 else ''})" if len(parts) > 1 else parts[0]
    call = (
        f"tl.associative_scan({made}, {axis}, combine, reverse={back})"
        if scan
        else f"tl.reduce({made}, {axis}, combine)"
    )
    got, out = ", ".join(f.names), f.final or f.out
    where = "at" if scan else ("row" if axis else "col")
    folded = f.fold
    torch_made = [m.replace("i", "i") for m in f.made]
    text = f"""import torch
import triton
import triton.language as tl


@triton.jit
def combine({params}):
    {body}


@triton.jit
def kernel(X, Y, F, Out, R: tl.constexpr, C: tl.constexpr):
    row = tl.arange(0, R)
    col = tl.arange(0, C)
    at = row[:, None] * C + col[None, :]
    x = tl.load(X + at).to(tl.float32)
    y = tl.load(Y + at).to(tl.float32)
    f = tl.load(F + at)
    i = {"col[None, :] + 0 * row[:, None]" if axis else "row[:, None] + 0 * col[None, :]"}
    {got} = {call}
    tl.store(Out + {where}, {out})


def entry(x, y, f):
    R, C = x.shape
    out = torch.empty({"(R, C)" if scan else ("(R,)" if axis else "(C,)")}, dtype=x.dtype)
    kernel[(1,)](x, y, f, out, R, C)
    return out


def fold({params}):
    return {folded}{"," if len(f.names) == 1 else ""}


def reference(x, y, f):
    dtype = x.dtype
    x, y = x.{wide}(), y.{wide}()
    i = torch.arange(x.shape[{axis}], dtype=torch.int32){"[None, :]" if axis else "[:, None]"}.expand(x.shape)
    parts = [p.unbind({axis}) for p in ({", ".join(torch_made)},)]
    order = range(x.shape[{axis}]){"[::-1]" if back else ""}
    state, seen = None, []
    for k in order:
        here = [p[k] for p in parts]
        state = here if state is None else list(fold(*state, *here))
        seen.append(state)
    seen = seen[::-1] if {back} else seen
    {got if len(f.names) > 1 else got + ","} = [torch.stack([s[j] for s in seen], {axis}) for j in range({len(f.names)})] if {scan} else state
    return ({f.out}).to(dtype)


def inputs():
    import torch
    g = torch.Generator().manual_seed({seed})
    shape = {shape}
    x, y = (torch.randn(shape, generator=g).to(torch.{dtype}) for _ in range(2))
    return x, y, (torch.rand(shape, generator=g) < 0.2).to(torch.int32)
"""  # noqa: E501
    return Written(f.kind, scan, fault is not None, text, seed)


def programs(kind: str, count: int, seed: int) -> Iterator[Written]:
    """`count` correct ones of the class and as many twins."""
    rng = random.Random(f"{kind} {seed}")
    mine = [f for f in FUNCTIONS if f.kind == kind]
    for k in range(count):
        f = mine[k % len(mine)]
        yield write(f, rng, seed * 1000 + k, None)
        yield write(f, rng, seed * 1000 + k, k // len(mine) % len(f.wrong))


def judged(p: Written, name: str, folder: Path, order: str) -> render.Verdict:
    module = module_of(p.text, name, folder)
    return render.classify(module.entry, *module.inputs(), ref=module.reference, device="sm_90", sum_order=order)


NAMES = ("class", "order", "form", "right ones", "Type-I", "Inconclusive", "Type-II", "wrong ones", "not Type-I",
         "Type-II, wrong")  # fmt: skip


def cells(kind: str, order: str, form: str, found: Counter[str]) -> list[str]:
    right, wrong = (
        sum(n for key, n in found.items() if key.startswith(f"{what} {form}")) for what in ("right", "wrong")
    )
    count = {
        (w, k): found[f"{w} {form}: {k}"] for w in ("right", "wrong") for k in ("Type-I", "Inconclusive", "Type-II")
    }
    return [kind, order, form, str(right), *(str(count["right", k]) for k in ("Type-I", "Inconclusive", "Type-II")),
            str(wrong), str(wrong - count["wrong", "Type-I"]), str(count["wrong", "Type-II"])]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--class", dest="classes", nargs="+", default=list(CLASSES), choices=CLASSES)
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--page", metavar="PATH", help="write the table into this Markdown page")
    options = parser.parse_args()
    table = []
    with tempfile.TemporaryDirectory() as temporary:
        for kind in options.classes:
            for order in ("any", "tree") if kind == "other" else ("any",):
                found: Counter[str] = Counter()
                for k, p in enumerate(programs(kind, options.count, options.seed)):
                    name = f"{kind.replace(' ', '_').replace('-', '_')}_{order}_{options.seed}_{k}"
                    v = judged(p, name, Path(temporary), order)
                    what = f"{'wrong' if p.faulty else 'right'} {'scan' if p.scan else 'reduce'}"
                    found[f"{what}: {v.label}"] += 1
                    if options.verbose:
                        print(k, what, v.label, v.code, v.message[:150])
                table += [cells(kind, order, form, found) for form in ("reduce", "scan")]
                print(order, kind, dict(sorted(found.items())), flush=True)
    if options.page:
        between(options.page, "combine", markdown(NAMES, table))


if __name__ == "__main__":
    main()
