"""Single changes of a kernel's syntax tree that may undo one mistake: what to try when an output is wrong.

A repair is found by its shape in the tree, like a fault (`mutation`), likely ones first:
  operator   + - * / change places, or an operand is left out; max, min, sum and pairs of functions change places
  compare    < <= > >= change places, a limit moves by one, the sides of a `where` change places
  constant   a whole number or a divisor one more or less, the value of masked-off lanes; floats are solved (`literals`)
  name       another name of the same kind: what a kernel calls alike it confuses
  index      an address or an index one further or one less
  term       a name that is never read or is assigned anew joins a value; a call is left out or put around a value
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from render.interpreter.mutation import replaced

_OPERATORS: dict[type[ast.operator], tuple[type[ast.operator], ...]] = {
    ast.Add: (ast.Sub, ast.Mult), ast.Sub: (ast.Add, ast.Mult), ast.Mult: (ast.Div, ast.Add), ast.Div: (ast.Mult,),
    ast.FloorDiv: (ast.Mod,), ast.Mod: (ast.FloorDiv,),
}  # fmt: skip
_COMPARE: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.Gt, ast.GtE), ast.LtE: (ast.Lt, ast.GtE, ast.Gt), ast.Gt: (ast.GtE, ast.Lt, ast.LtE),
    ast.GtE: (ast.Gt, ast.LtE, ast.Lt), ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,),
}  # fmt: skip
_CALLS = {"max": ("min", "sum"), "min": ("max",), "sum": ("max", "mean"), "maximum": ("minimum",),
          "minimum": ("maximum",), "exp": ("exp2",), "exp2": ("exp",), "log": ("log2",), "log2": ("log",),
          "sqrt": ("rsqrt",), "rsqrt": ("sqrt",), "sin": ("cos",), "cos": ("sin",), "mean": ("sum", "amax"),
          "amax": ("amin", "sum"), "amin": ("amax",), "var": ("std",), "std": ("var",), "cumsum": ("flip",),
          "argmax": ("argmin",), "argmin": ("argmax",), "ones": ("zeros",), "ones_like": ("zeros_like",),
          "tril": ("triu",), "triu": ("tril",), "floor": ("round", "ceil"), "ceil": ("floor",), "round": ("floor",),
          "trunc": ("floor",)}  # fmt: skip
_SHAPED = frozenset({"load", "arange", "program_id", "num_programs", "range", "to", "zeros", "cdiv"})
_AROUND = ("exp", "sqrt", "abs", "log", "sigmoid")
_TERMS: tuple[type[ast.operator], ...] = (ast.Add, ast.Mult, ast.Sub, ast.Div)


@dataclass(frozen=True)
class Repair:
    """The node `place` of the tree in `ast.walk` order becomes `code`; `what` says so; `rank`: small ones first."""

    line: int
    place: int
    code: str
    what: str
    rank: int


@dataclass(frozen=True)
class Literal:
    """A float in the source, the node `place`, that may have another value."""

    line: int
    place: int
    value: float
    fill: bool = False
    """What masked lanes of a load get: a neutral element or a sentinel, which nobody writes as a fraction."""


def repaired(tree: ast.Module, place: int, code: str) -> ast.Module:
    """The tree, freshly parsed, with an expression replaced."""
    node = next(islice(ast.walk(tree), place, None))
    new = ast.parse(code, mode="eval").body
    for part in ast.walk(new):
        ast.copy_location(part, node)
    return replaced(tree, node, new)


def literals(tree: ast.Module) -> list[Literal]:
    fills = {id(n) for call in ast.walk(tree) if isinstance(call, ast.Call)
             for word in call.keywords if word.arg == "other" for n in ast.walk(word.value)}  # fmt: skip
    return [Literal(n.lineno, place, n.value, id(n) in fills) for place, n in enumerate(ast.walk(tree))
            if isinstance(n, ast.Constant) and isinstance(n.value, float) and abs(n.value) < 1e6]  # fmt: skip


def repairs(tree: ast.Module) -> list[Repair]:
    """Every repair that fits the function, likely ones first."""
    function = tree.body[0]
    assert isinstance(function, ast.FunctionDef)
    names = _Names(function)
    skipped = {id(n) for a in ast.walk(function.args) for n in ast.walk(a)}
    skipped |= {id(n) for d in function.decorator_list for n in ast.walk(d)}
    found = []
    for place, node in enumerate(ast.walk(tree)):
        if isinstance(node, ast.expr) and id(node) not in skipped:
            before = ast.unparse(node)
            for code, rank in _of(node, names):
                if code != before:
                    found.append(Repair(node.lineno, place, code, f"{code} in place of {before}", rank))
    return sorted(dict.fromkeys(found), key=lambda r: r.rank)


def unread(tree: ast.Module) -> list[str]:
    """Parameters that a function does not read."""
    function = tree.body[0]
    assert isinstance(function, ast.FunctionDef)
    names = _Names(function)
    return [name for name in names.unread if name in names.parameters]


class _Names:
    """The names of a kernel: parameters, what it assigns, and which are never read."""

    def __init__(self, function: ast.FunctionDef) -> None:
        args = (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
        self.parameters, self.kinds = [a.arg for a in args], _kinds(function)
        loads = [n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)]
        stores = [n for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
        self.assigned = list(dict.fromkeys(n.id for n in stores))
        self.lines = {n.id: n.lineno for n in reversed(stores)} | dict.fromkeys(self.parameters, function.lineno)
        self.unread = [n for n in (*self.assigned, *self.parameters) if n not in loads]
        values = {id(part) for n in ast.walk(function) if isinstance(n, ast.Assign | ast.AugAssign)
                  for part in [n.value]}  # fmt: skip
        self.values = values | {id(n.args[1]) for n in ast.walk(function) if _called(n) == "store" and len(n.args) > 1}  # type: ignore[attr-defined]
        assigned = [(n.value, n.targets[0].id, n.lineno) for n in ast.walk(function)
                    if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name)]  # fmt: skip
        self.again = {id(value): name for value, name, line in assigned if self.lines[name] < line
                      and not any(isinstance(x, ast.Name) and x.id == name for x in ast.walk(value))}  # fmt: skip
        """What is assigned to a name that has a value, which it does not read: an accumulation that was forgotten."""
        self.addresses = {id(n.args[0]) for n in ast.walk(function) if _called(n) in ("load", "store") and n.args}  # type: ignore[attr-defined]
        self.indices = {id(n.value) for n in ast.walk(function) if isinstance(n, ast.Assign) and any(
            _called(c) in ("arange", "program_id") for c in ast.walk(n.value))}  # fmt: skip

    def like(self, name: str, line: int) -> Iterator[str]:
        """Other names that may be meant: parameters for parameters, results for results, nearest spelling first."""
        pool = self.parameters if name in self.parameters else self.assigned
        kind = self.kinds.get(name)
        fits = {n for n in pool if self.kinds.get(n) == kind or n in self.unread}
        pool = [n for n in pool if n != name and n in fits and self.lines.get(n, line) <= line]
        yield from sorted(
            pool, key=lambda n: (n[0] != name[0] and not _words(n) & _words(name), abs(len(n) - len(name)))
        )[:4]


_KINDS = (("load", "value"), ("arange", "index"), ("program_id", "index"))


def _kinds(function: ast.FunctionDef) -> dict[str, str]:
    """What names stand for: pointers (the first name of an address), values (something loaded is in them), indices."""
    found: dict[str, str] = {}
    for n in ast.walk(function):
        if _called(n) in ("load", "store") and n.args:  # type: ignore[attr-defined]
            first = n.args[0]  # type: ignore[attr-defined]
            while isinstance(first, ast.BinOp):
                first = first.left
            if isinstance(first, ast.Name):
                found[first.id] = "pointer"
    for n in ast.walk(function):
        if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name):
            first = n.value
            while isinstance(first, ast.BinOp):
                first = first.left
            if isinstance(first, ast.Name) and found.get(n.targets[0].id) == "pointer":
                found[first.id] = "pointer"
    for n in sorted(ast.walk(function), key=lambda n: getattr(n, "lineno", 0)):
        if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name):
            calls = {_called(x) for x in ast.walk(n.value)}
            behind = {found.get(x.id) for x in ast.walk(n.value) if isinstance(x, ast.Name)}
            kind = next((k for call, k in _KINDS if call in calls), None)
            kind = kind or next((k for k in ("value", "index") if k in behind), "")
            found.setdefault(n.targets[0].id, "mask" if isinstance(n.value, ast.Compare) else kind)
        elif isinstance(n, ast.For) and isinstance(n.target, ast.Name):
            found.setdefault(n.target.id, "index")
    return found


def _words(name: str) -> set[str]:
    return set(name.lower().split("_"))


def _called(node: ast.AST) -> str:
    return ast.unparse(node.func).rsplit(".", 1)[-1] if isinstance(node, ast.Call) else ""


def _of(node: ast.expr, names: _Names) -> Iterator[tuple[str, int]]:
    text = ast.unparse(node)
    if isinstance(node, ast.BinOp):
        left, right = ast.unparse(node.left), ast.unparse(node.right)
        of_pointer = isinstance(node.left, ast.Name) and names.kinds.get(node.left.id) == "pointer"
        for op in _OPERATORS.get(type(node.op), ()) if not of_pointer else ():
            yield ast.unparse(ast.BinOp(node.left, op(), node.right)), 0
        if isinstance(node.op, ast.Sub | ast.Div):
            yield ast.unparse(ast.BinOp(node.right, node.op, node.left)), 1
        if isinstance(node.op, ast.Div) and _counts(node.right):
            yield from ((f"({left}) / ({right} {sign} 1)", 1) for sign in "-+")
        if isinstance(node.op, ast.Add | ast.Sub | ast.Mult | ast.Div | ast.BitAnd):
            yield left, 2
            yield right, 2
    elif isinstance(node, ast.Compare) and len(node.ops) == 1:
        for kind in _COMPARE.get(type(node.ops[0]), ()):
            yield ast.unparse(ast.Compare(node.left, [kind()], node.comparators)), 0
        for sign in "-+":
            yield f"{text} {sign} 1", 1
    elif isinstance(node, ast.Constant):
        yield from _constants(node)
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        if node.id in names.lines:
            yield from ((other, 3) for other in names.like(node.id, node.lineno))
            yield f"({node.id} * {node.id})", 5
        if names.kinds.get(node.id) == "index":
            yield from ((f"({node.id} * {name})", 1) for name in names.unread if name in names.parameters)
    elif isinstance(node, ast.Call):
        yield from _calls(node)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield ast.unparse(node.operand), 1
    if id(node) in names.addresses or id(node) in names.indices:
        for sign in "-+":
            yield f"({text}) {sign} 1", 2
    if id(node) in names.again:
        yield f"({text}) + {names.again[id(node)]}", 0
    if id(node) in names.values:
        for name in names.unread:
            if names.lines.get(name, 0) <= node.lineno:
                yield from ((f"({text}) {sign} {name}", 1) for sign in "+*-/")
        if id(node) not in names.indices:
            yield from ((f"tl.{call}({text})", 4) for call in _AROUND)
            yield f"-({text})", 4
            yield f"tl.maximum({text}, 0.0)", 4
            recent = [n for n in names.assigned if names.lines[n] < node.lineno][-6:]
            for name in recent:
                yield from ((f"({text}) {sign} {name}", 5) for sign in "+*-/")


FIRST = -3
"""Rank of what a loop goes over: there are few of them, and they lie far from where its sum departs."""


def _ranges(args: list[str], node: ast.Call) -> Iterator[str]:
    """From the first, and to the last that is not whole."""
    if len(args) > 1 and isinstance(node.args[0], ast.Constant) and node.args[0].value:
        yield ", ".join(["0", *args[1:]])
    for i, x in enumerate(node.args[:2]):
        if isinstance(x, ast.BinOp) and isinstance(x.op, ast.FloorDiv):
            step = ast.unparse(x.right)
            yield ", ".join([*args[:i], f"({ast.unparse(x.left)} + {step} - 1) // {step}", *args[i + 1 :]])


def _counts(node: ast.expr) -> bool:
    """Whether a divisor may be a number of elements: a name, a call, a product of these."""
    return isinstance(node.op, ast.Mult) if isinstance(node, ast.BinOp) else not isinstance(node, ast.Constant)


def _constants(node: ast.Constant) -> Iterator[tuple[str, int]]:
    value = node.value
    if isinstance(value, bool):
        yield str(not value), 2
    elif isinstance(value, int):
        yield from ((str(v), 1) for v in dict.fromkeys([value + 1, value - 1, 2 * value, value // 2]) if v >= 0)
    elif isinstance(value, float):
        yield from ((code, 2) for code in ("-float('inf')", "0.0", "1.0"))


def _calls(node: ast.Call) -> Iterator[tuple[str, int]]:
    name = _called(node)
    function, _, _ = ast.unparse(node.func).rpartition(".")
    given = ", ".join([*map(ast.unparse, node.args), *map(ast.unparse, node.keywords)])
    for other in _CALLS.get(name, ()):
        yield f"{function}.{other}({given})", 0
    if name in ("range", "static_range"):
        ranges = _ranges(list(map(ast.unparse, node.args)), node)
        yield from ((f"{ast.unparse(node.func)}({made})", FIRST) for made in ranges)
    if name == "where" and len(node.args) == 3:
        cond, x, y = map(ast.unparse, node.args)
        yield f"{function}.where({cond}, {y}, {x})", 1
        yield x, 2
    elif name in ("maximum", "minimum") or (len(node.args) == 1 and name not in _SHAPED):
        yield ast.unparse(node.args[0]), 2
