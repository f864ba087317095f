"""The words of a verdict: one sentence, what to do next, and the place in the user's file to look at."""

from __future__ import annotations

import ast
import linecache
from collections import deque
from collections.abc import Iterator, Sequence

from render.result import codes
from render.result.verdict import BudgetItem, OutputVerdict, TaintNote


def message(code: str, detail: str, taints: Sequence[TaintNote]) -> str:
    """One sentence that can be pasted into a thread; of a taint that decided, what it says."""
    told = next((t.message for t in taints if t.code == code), detail)
    return codes.CODES[code].sentence.format(detail=told)


def subtype(code: str, outputs: Sequence[OutputVerdict]) -> str:
    """What the code says, else the cell of the 2x2 of reference and device (`source-level`: no device output)."""
    device = [o.outside_device for o in outputs if o.outside_device is not None]
    if code == "RND201" and any(device):
        return "both"
    return codes.CODES[code].subtype or ("device-checked" if device else "source-level")


def advice(code: str, outputs: Sequence[OutputVerdict], ieee: str = "") -> list[str]:
    """What to do, most useful first. `ieee` is the line about IEEE products; a factor in it must come from a run."""
    lines = list(codes.CODES[code].steps)
    if code == "RND110" and any(o.reference_dtype == "float64" for o in outputs):
        lines = ["write the reference in a stable form (shifted variance, logsumexp, expm1): float64 is not enough"]
    if code == "RND204" and any(o.sides is not None and o.sides.wrong == "device" for o in outputs):
        lines = list(codes.CODES["RND202"].steps)  # the source makes none
    if ieee and code == "RND101":
        lines = [ieee]
    if codes.CODES[code].causes:
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


def code_of(budget: Sequence[BudgetItem]) -> str:
    """The code of the cause that owns most of the bound."""
    return codes.of_cause(budget[0].key)


def _tree(file: str) -> ast.Module | None:
    try:
        return ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return None


def _around(tree: ast.Module, line: int) -> Iterator[ast.AST]:
    """The nodes of `ast.walk`, in its order, without statements that end before a line or begin behind it."""
    todo = deque[ast.AST]([tree])
    while todo:
        node = todo.popleft()
        yield node
        todo.extend(x for x in ast.iter_child_nodes(node) if not isinstance(x, ast.stmt) or _reaches(x, line))


def _reaches(node: ast.stmt, line: int) -> bool:
    """Decorators stand before the line of what they decorate."""
    heads: list[ast.expr] = getattr(node, "decorator_list", [])
    first = min([node.lineno, *(x.lineno for x in heads)])
    return first <= line <= (node.end_lineno or node.lineno)


def columns(file: str | None, line: int, key: str = "") -> tuple[int, int]:
    """(first, one past last) column, 1-based, of the expression on this line that a cause or finding is about.

    (0, 0) where the source is not at hand. Of several calls on the line, one whose name fits the cause wins.
    """
    tree = _tree(file) if file else None
    if tree is None:
        return 0, 0
    nodes = list(_around(tree, line))
    heads = [n for n in nodes if isinstance(n, ast.FunctionDef) and n.lineno == line]
    if heads:  # the whole kernel is meant: its name
        start = heads[0].col_offset + len("def ")
        return start + 1, start + len(heads[0].name) + 1
    here = [n for n in nodes if isinstance(n, ast.expr) and n.lineno == line]
    wanted = {"operand": ("dot",), "accumulation": ("dot", "sum", "atomic"), "lowacc": ("dot", "sum", "atomic")}
    names = wanted.get(key, ())
    calls = [n for n in here if isinstance(n, ast.Call)]
    named = [n for n in calls if any(name in ast.unparse(n.func) for name in names)]
    arithmetic = [n for n in here if isinstance(n, ast.BinOp | ast.UnaryOp)] if key == "arith" else []
    for group in (named, arithmetic, calls, [n for n in here if isinstance(n, ast.BinOp)], here):
        if group:
            text, best = linecache.getline(str(file), line).rstrip().encode(), group[0]
            end = best.end_col_offset if best.end_lineno == best.lineno else None
            return _characters(text, best.col_offset) + 1, _characters(text, end) + 1
    return 0, 0


def _characters(text: bytes, offset: int | None) -> int:
    """ast counts UTF-8 bytes, a reader counts characters; None: to the end of the line."""
    return len(text[:offset].decode(errors="ignore"))
