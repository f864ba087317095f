"""The words of a verdict: one sentence, what to do next, and the place in the user's file to look at."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path

from render.explain.budget import CODES
from render.result.records import WITHOUT
from render.result.verdict import BudgetItem, Finding, OutputVerdict, TaintNote

_MESSAGES = {
    "RND100": "both sides are exact and agree",
    "RND110": "the kernel is within its bound; the reference carries the error",
    "RND201": "bug: the kernel computes something else than the reference",
    "RND202": "bug below the source (compiler, race or hardware): only the device output is out of bound",
    "RND204": "bug: NaN or Inf on one side only",
    "RND206": "bug: the implementation is numerically unstable",
    "RND208": "bug: memory that was never written reaches an output",
    "RND209": "bug: programs store different values to one address",
    "RND211": "bug: another function than the reference, which the bound would hide",
    "RND301": "the bound is too wide to tell: an output of zeros would fit",
    "RND304": "overflow is possible: the bound is infinite",
}
_ACTIONS = {"read": "reads", "write": "writes", "atomic": "updates"}


def message(code: str, detail: str, findings: Sequence[Finding], taints: Sequence[TaintNote]) -> str:
    """One sentence that can be pasted into a thread."""
    if code == "RND205":
        return f"bug: {detail}"
    if code == "RND207" and findings:
        first = next((f for f in findings if f.code == code), findings[0])
        where = f"outside tensor {first.tensor}" if first.tensor else "memory of no known tensor"
        return f"bug: the kernel {_ACTIONS.get(first.kind, 'reaches')} {where}"
    if code == "RND301" and detail.startswith(WITHOUT):
        return f"cannot tell: {detail}"
    if code == "RND301" and "seeded" in detail:
        return f"the bound is too wide to tell: {detail}"
    if code in ("RND306", "RND308"):
        return f"a defect of RENDER, not of your kernel: {detail}"
    if code in ("RND302", "RND303", "RND305"):
        found = [t for t in taints if t.code == code]
        return f"cannot tell: {found[0].message}" if found else f"cannot tell: {detail}"
    if code == "RND307":
        return f"cannot tell: {detail}"
    return _MESSAGES.get(code, "round-off explains every difference")


def subtype(code: str, outputs: Sequence[OutputVerdict]) -> str:
    """The cell of the 2x2 of reference and device (`source-level`: no device output was given)."""
    device = [o.outside_device for o in outputs if o.outside_device is not None]
    if code == "RND201":
        return "both" if any(device) else "source"
    if code == "RND202":
        return "device"
    if code in ("RND207", "RND208", "RND209"):
        return "memory"
    if code.startswith("RND2"):
        return {"RND204": "nonfinite", "RND205": "shape"}.get(code, "source")
    if code.startswith("RND3"):
        named = {"RND301": "power", "RND304": "overflow", "RND307": "reference", "RND306": "defect", "RND308": "defect"}
        return named.get(code, "taint")
    return "device-checked" if device else "source-level"


def advice(code: str, budget: Sequence[BudgetItem], outputs: Sequence[OutputVerdict], ieee: str = "") -> list[str]:
    """What to do, most useful first. `ieee` is the line about IEEE products; a factor in it must come from a run."""
    lines = list(_STEPS.get(code, ()))
    if code == "RND110" and any(o.reference_dtype == "float64" for o in outputs):
        lines = ["write the reference in a stable form (shifted variance, logsumexp, expm1): float64 is not enough"]
    top = budget[0] if budget else None
    if top and code == "RND101" and top.key == "operand":
        lines.append(ieee or 'input_precision="ieee" in tl.dot keeps all bits of the operands')
    if code.startswith("RND1") and code not in ("RND100", "RND110"):
        lines += _tolerances([o for o in outputs if o.allclose_mismatch and o.tolerance])
    return lines


def _tolerances(outputs: Sequence[OutputVerdict]) -> list[str]:
    """One line per output that fails torch's defaults, and what it would let through."""
    lines = []
    for o in outputs:
        assert o.tolerance is not None
        name = f" for {o.name}" if len(outputs) > 1 else ""
        lines.append(f"or test{name} with {o.tolerance.line}")
        lines += [o.tolerance.misses] if o.tolerance.misses else []
    return lines


_STEPS: dict[str, tuple[str, ...]] = {
    "RND102": ("an accumulator of higher precision, or splitting the sum, narrows the bound",),
    "RND103": ("accumulate in float32 and cast once at the end",),
    "RND104": ("cast later, or keep intermediate results in float32",),
    "RND105": ("use the precise form of the function (for example tl.math.div_rn, tl.sqrt_rn)",),
    "RND106": ("the bound covers a fused multiply-add and the two separate roundings alike",),
    "RND110": ("compute the reference in float64 and cast the result",),
    "RND201": (
        "run the kernel on a small shape and compare by hand; check strides, masks and the K loop first",
        "if the kernel is right, the reference is not the same function: check its arguments",
    ),
    "RND202": ("look for a race, num_stages > 1, or a miscompiled op: the source alone is within the bound",),
    "RND204": ("find the overflow, inf - inf, 0/0, or a load that needs other=...",),
    "RND205": ("check the output's allocation, the grid and the store mask",),
    "RND206": ("rewrite the step that cancels: two-pass variance, softmax less its maximum, expm1, log1p",),
    "RND207": ("check the strides and the mask of this access against the tensor's shape",),
    "RND208": ("zero the tensor before the launch, or store every element that is read",),
    "RND209": ("mask the store, or make the programs' tiles disjoint",),
    "RND211": (
        "run the kernel on a small shape and compare by hand: constants, scales, masks and the K loop first",
        "an approximation on purpose (a polynomial, another eps) is such a difference too",
    ),
    "RND301": ("use a device profile with a known accumulator (--device), or inputs without cancellation",),
    "RND302": ("what has a rule is listed by `render ops`; where a tie is open, inputs without ties decide it",),
    "RND303": ("choose inputs away from the threshold of the condition",),
    "RND304": ("scale the inputs down, or accumulate in a wider format",),
    "RND306": ("please report this with the JSON of the verdict (--json): one of our two evaluations is wrong",),
    "RND307": ("give a stable reference (shifted variance, logsumexp), or one of operations with a rule in more bits",),
    "RND308": (
        "please report this with the JSON of the verdict (--json): the bound calls it a bug, and nothing confirms it",
        "a smaller shape with the same fault, or another output, may have a second evaluation",
    ),
    "RND305": ("make the order explicit (a second kernel, or atomics on integers)",),
}


def code_of(budget: Sequence[BudgetItem]) -> str:
    """The code of the cause that owns most of the bound; RND100 where nothing was rounded."""
    return CODES.get(budget[0].key, "RND106") if budget else "RND100"


def _tree(file: str) -> ast.Module | None:
    try:
        return ast.parse(Path(file).read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return None


def columns(file: str | None, line: int, key: str = "") -> tuple[int, int]:
    """(first, one past last) column, 1-based, of the expression on this line that a cause or finding is about.

    (0, 0) where the source is not at hand. Of several calls on the line, one whose name fits the cause wins.
    """
    tree = _tree(file) if file else None
    if tree is None:
        return 0, 0
    heads = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.lineno == line]
    if heads:  # the whole kernel is meant: its name
        start = heads[0].col_offset + len("def ")
        return start + 1, start + len(heads[0].name) + 1
    here = [n for n in ast.walk(tree) if isinstance(n, ast.expr) and n.lineno == line]
    wanted = {"operand": ("dot",), "accumulation": ("dot", "sum", "atomic"), "lowacc": ("dot", "sum", "atomic")}
    names = wanted.get(key, ())
    calls = [n for n in here if isinstance(n, ast.Call)]
    named = [n for n in calls if any(name in ast.unparse(n.func) for name in names)]
    arithmetic = [n for n in here if isinstance(n, ast.BinOp | ast.UnaryOp)] if key == "arith" else []
    for group in (named, arithmetic, calls, [n for n in here if isinstance(n, ast.BinOp)], here):
        if group:
            best = group[0]
            end = best.end_col_offset if best.end_lineno == best.lineno else None
            return best.col_offset + 1, (end if end is not None else best.col_offset + 1) + 1
    return 0, 0
