"""The other direction: which single change of a kernel repairs its accuracy.

Candidates are found by their shape in the source; each is carried out and run, and is told only if the changed kernel
still computes the same function (in wider formats) and gives the same formats, and both its bound and its observed
error shrink. Errors are measured as Dual-Delta does, |y - exact| / (1 + |exact|): the last rounding of a large element
would hide what smaller ones gain.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from render.companions.called import Called
from render.companions.demotion.certify import Bench, Failed
from render.companions.demotion.rewrites import HALF, Change, mean_of, unfused, welford, wide_sums
from render.companions.demotion.sites import Edits, call_name, kernels
from render.entry.execution import Entry
from render.entry.inputs import Inputs

SHRINK = 1.5
"""Factor by which the largest and the root mean square error must shrink to be told; a choice."""
NARROWER = 1.05
"""The same of the bound, which holds the worst of every order of the sums that are left; a choice."""
_SAME = 1e-4
"""Of the largest exact value: what the changed function may differ by in wider formats."""
_IMPORT = "from triton.language.extra import libdevice\n"


@dataclass(frozen=True)
class Promotion:
    """One change: `bound`, `error`: how many times the median width and the largest observed error shrink, of
    1 + |exact| (infinite: nothing is left, or there was no bound before). `source`: the changed file."""

    what: str
    line: int
    bound: float
    error: float
    source: str

    @property
    def sentence(self) -> str:
        return f"line {self.line}: {self.what}: bound {_times(self.bound)}, observed error {_times(self.error)}"


def _times(x: float) -> str:
    return "gone" if not np.isfinite(x) else f"{x:.3g} times smaller"


def promotions(called: Called, inputs: Inputs, device: str = "any") -> list[Promotion]:
    """The changes that help, the best first."""
    bench = Bench(called, inputs, 1.0, 0.0, device)
    before = _measured(bench, bench.entry({}))
    found = []
    for what, line, source in candidates(bench.source):
        try:
            after = _measured(bench, bench.entry_of(source))
            same = _same(bench, source)
        except Failed:
            continue
        if same and before is not None and after is not None:
            bound, error, mean = (b / a if a else np.inf if b else 1.0 for b, a in zip(before, after, strict=True))
            if bound >= NARROWER and min(error, mean) >= SHRINK:
                found.append(Promotion(what, line, bound, error, source))
    return sorted(found, key=lambda p: -p.error)


def _measured(bench: Bench, entry: Entry) -> tuple[float, float, float] | None:
    """(median width of the bound, largest and root mean square observed error), infinite where there is none."""
    run = entry.run()
    if [o.tensor.dtype for o in run.outputs] != [o.tensor.dtype for o in bench.base.outputs]:
        return None  # an output in more bits is another interface
    found = []
    for out, exact in zip(run.outputs, bench.exact, strict=True):
        with np.errstate(all="ignore"):
            scale = 1 + np.abs(exact)
            width, gap = (out.hi - out.lo) / scale, np.abs(out.value - exact) / scale
            width, gap = (np.where(np.isnan(x), np.inf, x) for x in (width, gap))
            found.append((np.median(width), gap.max(initial=0.0), np.sqrt(np.mean(np.square(gap)))))
    width, worst, mean = (float(max(x)) for x in zip(*found, strict=True))
    return width, worst, mean


def _same(bench: Bench, source: str) -> bool:
    """Whether original and change agree in wider formats wherever the original has a number there."""
    for x, y in zip(bench.exact, bench.exact_of(bench.entry_of(source).fn), strict=True):
        known = np.isfinite(x)
        if not np.isfinite(y[known]).all():
            return False
        if known.any() and np.abs(x[known] - y[known]).max() > _SAME * max(1e-30, np.abs(x[known]).max()):
            return False
    return True


def candidates(source: str) -> Iterator[tuple[str, int, str]]:
    """(what, line, changed source) of every change that fits, each text once."""
    tree, known = ast.parse(source), {source}
    single = (change for f in kernels(tree) for node in ast.walk(f) for change in _of(node, f))
    for what, changes in (*wide_sums(tree), *single):
        edits = Edits(source)
        for at, text in changes:
            edits.replace(edits.start(at), edits.end(at), text)
        text = edits.applied()
        if "libdevice." in text and "import libdevice" not in text:
            text = _with_import(text)
        if text not in known:
            known.add(text)
            yield what, changes[-1][0].lineno, text


def _with_import(text: str) -> str:
    """The import behind the file's own first import of Triton's language."""
    lines = text.splitlines(keepends=True)
    at = next(i for i, line in enumerate(lines) if "triton.language" in line)
    return "".join([*lines[: at + 1], _IMPORT, *lines[at + 1 :]])


def _of(node: ast.AST, function: ast.FunctionDef) -> Iterator[Change]:
    if isinstance(node, ast.Attribute) and node.attr in HALF:
        yield "fp32 instead of half precision", [(node, "tl.float32")]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
        if _is_call(node.left, "exp") and _one(node.right):
            yield "expm1", [(node, f"libdevice.expm1({_argument(node.left)})")]
        yield from _variance(node)
        yield from welford(node, function)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        yield from unfused(node, function)
    if isinstance(node, ast.Call) and call_name(node) == "log" and isinstance(node.args[0], ast.BinOp):
        inner = node.args[0]
        if isinstance(inner.op, ast.Add) and (_one(inner.left) or _one(inner.right)):
            rest = inner.right if _one(inner.left) else inner.left
            yield "log1p", [(node, f"libdevice.log1p({ast.unparse(rest)})")]
    if isinstance(node, ast.Call) and call_name(node) == "exp" and isinstance(node.args[0], ast.Name):
        x = node.args[0].id
        yield "the maximum taken out of the exponent", [(node.args[0], f"{x} - tl.max({x}, axis=0)")]


def _variance(node: ast.BinOp) -> Iterator[Change]:
    """`mean of squares - mean * mean` of one tile as a second pass over the differences."""
    mean = mean_of(node.right)
    if mean is None:
        return
    for call in (n for n in ast.walk(node.left) if isinstance(n, ast.Call) and call_name(n) == "sum"):
        squares = call.args[0]
        if isinstance(squares, ast.BinOp) and ast.dump(squares.left) == ast.dump(squares.right):
            gap = f"({ast.unparse(squares.left)} - {mean})"
            whole = ast.unparse(node.left).replace(ast.unparse(squares), f"{gap} * {gap}")
            yield "squares of the differences from the mean (two passes)", [(node, f"({whole})")]


def _is_call(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Call) and call_name(node) == name and len(node.args) == 1


def _argument(node: ast.expr) -> str:
    assert isinstance(node, ast.Call)
    return ast.unparse(node.args[0])


def _one(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == 1
