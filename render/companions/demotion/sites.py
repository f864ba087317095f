"""What of a kernel may be demoted, and the kernel's source with a choice of it carried out.

A site is a name of a jitted function (all assignments to it at once, and to the names that a loop hands on to it, so
that what it carries keeps one type), or the operands of one `tl.dot`. Demoting `x = e` gives `x = (e).to(tl.float16)`:
what is computed from x alone is then computed in that format, Python scalars included. Functions that take no half
precision, and dots, get their arguments back in fp32. The edits are insertions into the user's text; everything else
stays as it is.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from render.interpreter.context import Context
from render.interpreter.events import Listener
from render.interpreter.types import format_name

TYPES = {"fp16": "tl.float16", "bf16": "tl.bfloat16", "fp8e4nv": "tl.float8e4nv", "fp8e5": "tl.float8e5"}
BITS = {"fp32": 32, "tf32": 19, "fp16": 16, "bf16": 16, "fp8e4nv": 8, "fp8e5": 8}
NARROW = ("fp8e4nv", "fp8e5")
"""Formats in which nothing is computed: a value is rounded to them and comes back."""
_WIDE_ONLY = frozenset(
    ["exp", "exp2", "log", "log2", "sin", "cos", "sqrt", "sqrt_rn", "rsqrt", "erf", "sigmoid", "div_rn", "softmax",
     "floor", "ceil", "tanh", "fma"]
)  # fmt: skip


@dataclass(frozen=True)
class Spot:
    """`kind`: load, operation, accumulator, dot. `name`: a name, or `dot` with its place; `lines`: its assignments.
    `also`: further names that have to keep the same type."""

    function: str
    name: str
    kind: str
    lines: tuple[int, ...]
    formats: tuple[str, ...]
    also: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        return f"{self.kind} {self.name}" if self.kind != "dot" else f"operands of the dot in line {self.lines[0]}"


Choice = Mapping[Spot, str]
"""Formats of the sites that are demoted."""


class FloatLines(Listener):
    """Lines whose last result is an fp32 tensor, and those of dots with fp32 operands; seen in a run."""

    def __init__(self) -> None:
        self.last: dict[int, str] = {}
        self.dots: set[int] = set()

    def launched(self, ctx: Context) -> None:
        self.context = ctx

    def event(self, op: str, args: Sequence[Any], outs: Sequence[Any], attrs: Any = None) -> None:
        if not outs or op in ("argument", "constant", "branch", "atomic"):
            return
        line = self.context.site().line
        scalar = outs[0].dtype.scalar
        self.last[line] = format_name(scalar) if scalar.is_floating() else "other"
        if op == "dot" and format_name(args[0].dtype.scalar) == "fp32":
            self.dots.add(line)


def found_sites(source: str, seen: FloatLines, formats: Sequence[str]) -> list[Spot]:
    """The demotable sites of every jitted function in `source`, in the order of the text."""
    sites: list[Spot] = []
    for function in kernels(ast.parse(source)):
        named: dict[str, list[ast.stmt]] = {}
        barred: set[str] = set()
        for node in ast.walk(function):
            if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
                name = _target(node)
                if name is None:
                    barred |= {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
                else:
                    named.setdefault(name, []).append(node)
            elif isinstance(node, ast.For):
                barred |= {n.id for n in ast.walk(node.target) if isinstance(n, ast.Name)}
        for names in _handed_on(named):
            nodes = sorted((n for name in names for n in named[name]), key=lambda n: n.lineno)
            if not barred & set(names) and {_float(n, seen) for n in nodes} - {None} == {True}:
                loads = all(_calls(n, "load") for n in nodes)
                kind = "load" if loads else "accumulator" if len(named[names[0]]) > 1 else "operation"
                allowed = tuple(f for f in formats if f in TYPES and (f not in NARROW or kind == "load"))
                lines = tuple(n.lineno for n in nodes)
                sites.append(Spot(function.name, names[0], kind, lines, allowed, tuple(names[1:])))
        sites += [
            Spot(function.name, f"dot:{call.lineno}:{call.col_offset}", "dot", (call.lineno,), tuple(formats))
            for call in ast.walk(function)
            if isinstance(call, ast.Call) and call_name(call) == "dot" and _span(call) & seen.dots
        ]
    return sorted((s for s in sites if s.formats), key=lambda s: (s.lines[0], s.name))


def _handed_on(named: Mapping[str, list[ast.stmt]]) -> list[list[str]]:
    """The names in groups: with one that is assigned several times those that are assigned to it as they are."""
    groups = {name: [name] for name in named}
    for name, nodes in named.items():
        for value in (getattr(n, "value", None) for n in nodes if len(nodes) > 1 and isinstance(n, ast.Assign)):
            if isinstance(value, ast.Name) and value.id in named and groups[value.id] is not groups[name]:
                groups[name] += groups[value.id]
                for other in groups[value.id]:
                    groups[other] = groups[name]
    return list({id(g): g for g in groups.values()}.values())


def rewritten(source: str, choice: Choice) -> str:
    """The text with the choice carried out."""
    edits = Edits(source)
    for function in kernels(ast.parse(source)):
        chosen = [(site, fmt) for site, fmt in choice.items() if site.function == function.name]
        mine = {name: fmt for site, fmt in chosen for name in (site.name, *site.also)}
        if choice:
            _promoted(function, mine, edits)
        for node in ast.walk(function):
            if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign) and (name := _target(node)) in mine:
                assert name is not None
                _demoted(node, name, mine[name], edits)
    return edits.applied()


def kernels(tree: ast.Module) -> list[ast.FunctionDef]:
    """The jitted functions."""
    return [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)
            and any(ast.unparse(d).split("(")[0].endswith("jit") for d in n.decorator_list)]  # fmt: skip


def _target(node: ast.Assign | ast.AugAssign | ast.AnnAssign) -> str | None:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    only = targets[0]
    return only.id if len(targets) == 1 and isinstance(only, ast.Name) and node.value is not None else None


def call_name(call: ast.Call) -> str:
    """The last part of what is called."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _calls(node: ast.stmt, name: str) -> bool:
    value = getattr(node, "value", None)
    return isinstance(value, ast.Call) and call_name(value) == name


def _span(node: ast.AST) -> set[int]:
    return set(range(node.lineno, (node.end_lineno or node.lineno) + 1))  # type: ignore[attr-defined]


def _float(node: ast.stmt, seen: FloatLines) -> bool | None:
    """Whether what is assigned is an fp32 tensor, by the last result on its lines; None where nothing ran."""
    kinds = [seen.last[line] for line in sorted(_span(node)) if line in seen.last]
    return kinds[-1] == "fp32" if kinds else None


def _demoted(node: ast.stmt, name: str, fmt: str, edits: Edits) -> None:
    to = f".to({TYPES[fmt]})" + (".to(tl.float32)" if fmt in NARROW else "")
    value: ast.expr = node.value  # type: ignore[attr-defined]
    if isinstance(node, ast.AugAssign):
        sign = edits.between(node.target, value).replace("=", "").strip()
        edits.replace(edits.end(node.target), edits.start(value), f" = ({name} {sign} (")
        edits.insert(edits.end(value), f")){to}")
    elif _number(value):
        edits.insert(edits.start(value), "tl.full((), ")
        edits.insert(edits.end(value), f", tl.float32){to}")
    else:
        edits.insert(edits.start(value), "(")
        edits.insert(edits.end(value), f"){to}")


def _number(value: ast.expr) -> bool:
    """Whether it is a number of Python, as in `0.0` and `-float("inf")`, which has no `to`."""
    known = ast.Constant | ast.UnaryOp | ast.BinOp | ast.unaryop | ast.operator | ast.expr_context
    calls = {id(n.func) for n in ast.walk(value) if isinstance(n, ast.Call) and call_name(n) == "float"}
    return all(isinstance(n, known) or id(n) in calls or (isinstance(n, ast.Call) and id(n.func) in calls)
               for n in ast.walk(value))  # fmt: skip


def _promoted(function: ast.FunctionDef, mine: Mapping[str, str], edits: Edits) -> None:
    """Arguments of functions that know fp32 alone, and of dots, in fp32 (a dot's operands: in what was chosen)."""
    for call in (n for n in ast.walk(function) if isinstance(n, ast.Call)):
        name = call_name(call)
        if name == "dot":
            _dot(call, mine.get(f"dot:{call.lineno}:{call.col_offset}"), edits)
        elif name in _WIDE_ONLY or "libdevice" in ast.unparse(call.func):
            for argument in call.args:
                if not isinstance(argument, ast.Constant):
                    _cast(argument, "tl.float32", edits)


def _dot(call: ast.Call, fmt: str | None, edits: Edits) -> None:
    to = TYPES.get(fmt or "", "tl.float32")
    for argument in call.args[:2]:
        _cast(argument, to, edits)
    for argument in call.args[2:3]:
        _cast(argument, "tl.float32", edits)
    given = next((k for k in call.keywords if k.arg == "input_precision"), None)
    if fmt == "tf32" and given is not None:
        edits.replace(edits.start(given.value), edits.end(given.value), '"tf32"')
    elif fmt == "tf32":
        edits.insert(
            edits.end(call.args[-1] if not call.keywords else call.keywords[-1].value), ', input_precision="tf32"'
        )


def _cast(node: ast.expr, to: str, edits: Edits) -> None:
    edits.insert(edits.start(node), "(")
    edits.insert(edits.end(node), f").to({to})")


class Edits:
    """Insertions and replacements at places of a text; those at one place stand in the order that nesting asks for."""

    def __init__(self, source: str) -> None:
        self.source = source.encode()
        self.starts = np.cumsum([0, *(len(line) for line in self.source.splitlines(keepends=True))])
        self.made: list[tuple[int, int, int, str]] = []

    def start(self, node: ast.expr | ast.stmt) -> int:
        return int(self.starts[node.lineno - 1]) + node.col_offset

    def end(self, node: ast.expr | ast.stmt) -> int:
        assert node.end_lineno is not None and node.end_col_offset is not None
        return int(self.starts[node.end_lineno - 1]) + node.end_col_offset

    def between(self, left: ast.expr, right: ast.expr) -> str:
        return self.source[self.end(left) : self.start(right)].decode()

    def insert(self, at: int, text: str) -> None:
        self.made.append((at, at, len(self.made), text))

    def replace(self, start: int, stop: int, text: str) -> None:
        self.made.append((start, stop, len(self.made), text))

    def applied(self) -> str:
        out, last = [], 0
        for start, stop, _, text in sorted(self.made, key=lambda e: (e[0], e[1] > e[0], e[2])):
            out += [self.source[last:start], text.encode()]
            last = max(last, stop)
        return b"".join([*out, self.source[last:]]).decode()
