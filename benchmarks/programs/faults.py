"""One mistake planted in the text of a program: what people write wrong, by rules on the syntax tree.

Nothing here knows how `render.explain.guilty` looks for mistakes. Whether a change is a fault, and how large, is
measured afterwards: both texts run with every format widened to float64.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator
from typing import NamedTuple

CALLS = {"max": "min", "maximum": "minimum", "exp": "exp2", "rsqrt": "sqrt", "sqrt": "abs", "sigmoid": "exp",
         "sum": "max", "sin": "cos", "cos": "sin", "cumsum": "flip", "relu": "tanh", "tanh": "sigmoid", "gelu": "silu",
         "log": "log2", "mean": "amax", "empty_like": "zeros_like"}  # fmt: skip
BINARY = {ast.Add: "-", ast.Sub: "+", ast.Mult: "+", ast.Div: "*"}
COMPARE = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">"}
POWERS = (2, 5, 8, 11, 13)


class Fault(NamedTuple):
    kind: str
    line: int
    text: str
    was: str
    now: str


def faults(text: str) -> list[Fault]:
    """Every one-line change that the rules know, outside of the reference and of what checks or allocates."""
    tree = ast.parse(text)
    found = []
    for function in tree.body:
        if isinstance(function, ast.FunctionDef) and function.name != "reference":
            names = _names(function)
            for statement in function.body:
                for node in ast.walk(statement):
                    found += [_planted(text, node, *change) for change in _changes(node, names, text)]
    return [f for f in found if f is not None]


def draw(text: str, r: random.Random) -> Iterator[Fault]:
    """Faults in random order, kinds taking turns, so that no kind is as frequent as its places are."""
    by: dict[str, list[Fault]] = {}
    for fault in faults(text):
        by.setdefault(fault.kind, []).append(fault)
    for group in by.values():
        r.shuffle(group)
    while by:
        kind = r.choice(sorted(by))
        yield by[kind].pop()
        if not by[kind]:
            del by[kind]


def _names(function: ast.FunctionDef) -> list[str]:
    """What is assigned in a function, and its parameters that are no constexprs."""
    found = [a.arg for a in function.args.args if a.annotation is None]
    for node in ast.walk(function):
        if isinstance(node, ast.Assign):
            found += [t.id for t in node.targets if isinstance(t, ast.Name)]
    return list(dict.fromkeys(found))


def _changes(node: ast.AST, names: list[str], text: str) -> Iterator[tuple[str, str]]:
    """(kind, what stands in the node's place)."""
    if isinstance(node, ast.Constant) and isinstance(node.value, float) and node.value:
        for k in POWERS:
            yield "constant", f"{node.value * (1 + 2.0**-k):.6g}"
    elif isinstance(node, ast.Constant) and type(node.value) is int and node.value not in (16, 32, 128):
        yield "integer", str(node.value + 1)
    elif isinstance(node, ast.BinOp):
        left, right = (ast.get_source_segment(text, side) for side in (node.left, node.right))
        if type(node.op) in BINARY:
            yield "operator", f"({left}) {BINARY[type(node.op)]} ({right})"
        yield "missing", f"({left})"
        if isinstance(node.op, ast.Sub | ast.Div):
            yield "swapped", f"({right}) {'-' if isinstance(node.op, ast.Sub) else '/'} ({left})"
        if isinstance(node.op, ast.Div):
            yield "divisor", f"({left}) / ({right} - 1)"
    elif isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in COMPARE:
        left, right = (ast.get_source_segment(text, side) for side in (node.left, node.comparators[0]))
        yield "mask", f"({left}) {COMPARE[type(node.ops[0])]} ({right})"
        yield "mask", f"({left}) {ast.get_source_segment(text, node)[len(left or '') :].split()[0]} ({right}) - 1"
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr in CALLS:
            source = ast.get_source_segment(text, node) or ""
            yield "function", source.replace(f"{node.func.attr}(", f"{CALLS[node.func.attr]}(", 1)
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in names:
        for other in names:
            if other != node.id and other[0].isupper() == node.id[0].isupper():
                yield "name", other


def _planted(text: str, node: ast.AST, kind: str, new: str) -> Fault | None:
    """The text with the node replaced, if it lies in one line."""
    if node.lineno != node.end_lineno:  # type: ignore[attr-defined]
        return None
    lines, at = text.splitlines(), node.lineno - 1  # type: ignore[attr-defined]
    line = lines[at]
    lines[at] = line[: node.col_offset] + new + line[node.end_col_offset :]  # type: ignore[attr-defined]
    try:
        ast.parse(lines[at].strip().rstrip(":") if not line.rstrip().endswith(":") else f"{lines[at].strip()} pass")
    except SyntaxError:
        return None
    return Fault(kind, at + 1, "\n".join(lines) + "\n", line.strip(), lines[at].strip())
