"""Seeded faults: one change of a kernel's syntax tree. What changed kernels call stands in `planted`.

A fault is found by its shape in the tree, never by the name of a kernel:
  trip       a `for` loop leaves out its last turn
  boundary   a comparison lets one more in (< becomes <=), or one fewer (n becomes n - 1)
  strides    two parameters that scale two parts of one address (a*p + b*q, or (p, q) in a call) change places
  update     a loop leaves out the statement that moves a pointer or rescales what it carries
  narrow     what a loop accumulates, or a sum or product of matrices, is rounded to float16 or bfloat16
  downgrade  what a load brings is rounded to bfloat16 or float8
  scale      what a store takes is multiplied by 1 + 2^-k, k = 3, 6, 9
  zero       a store takes zeros instead
  program    the last program returns at once
Trap: a fault in the condition of a `while` may never end; the turns of such loops are counted.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from render.interpreter.planted import LAST, NARROW, SCALE, TICK, TRIP, ZERO

_POWERS = (3, 6, 9)
"""12 %, 1.6 % and 0.2 %: from what anyone sees to what a half-precision result only just shows."""
_FLIP = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
_SIGNS = {ast.LtE: "<=", ast.Lt: "<", ast.Gt: ">", ast.GtE: ">="}


@dataclass(frozen=True)
class Fault:
    """One change: the node `place` of the tree in `ast.walk` order, and which of its variants."""

    kind: str
    what: str
    line: int
    place: int
    variant: Any = None


def faults(tree: ast.Module, entry: bool) -> list[Fault]:
    """Every fault that fits the function; `entry` is false for helpers that a kernel calls."""
    function = tree.body[0]
    assert isinstance(function, ast.FunctionDef)
    parameters = {a.arg for a in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
                  if a.annotation is None or "constexpr" not in ast.unparse(a.annotation)}  # fmt: skip
    carried, moved = _carried(function), _moved(function)
    arguments = {id(a) for call in ast.walk(tree) if isinstance(call, ast.Call)
                 for a in (*call.args, *(k.value for k in call.keywords))}  # fmt: skip
    found = [Fault("program", "the last program does nothing", function.lineno, 0)] if entry else []
    for place, node in enumerate(ast.walk(tree)):
        found += [
            Fault(kind, what, node.lineno, place, variant)  # type: ignore[attr-defined]
            for kind, what, variant in (*_of_node(node, parameters, carried, arguments), *_of_access(node))
        ]
        if id(node) in moved:
            found.append(Fault("update", f"{_first(node)} is left out", node.lineno, place))  # type: ignore[attr-defined]
    return found


def _of_node(
    node: ast.AST, parameters: set[str], carried: set[int], arguments: set[int]
) -> Iterator[tuple[str, str, Any]]:
    if isinstance(node, ast.For):
        yield "trip", f"the loop over {ast.unparse(node.iter)} leaves out its last turn", None
    elif isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _FLIP:
        yield from _boundaries(node)
    elif isinstance(node, ast.BinOp) or (isinstance(node, ast.Tuple | ast.List) and id(node) in arguments):
        for one, other in _scales(node, parameters):
            yield "strides", f"{one} and {other} change places in {ast.unparse(node)}", (one, other)
    if id(node) in carried:
        for fmt in ("fp16", "bf16"):
            yield "narrow", f"{_first(node)} is rounded to {fmt}", fmt


def _first(node: ast.AST) -> str:
    return ast.unparse(node).splitlines()[0]


def _of_access(node: ast.AST) -> Iterator[tuple[str, str, Any]]:
    """Faults of what a store takes and of what a load brings."""
    if not isinstance(node, ast.Call):
        return
    name = ast.unparse(node.func).rsplit(".", 1)[-1]
    if name == "load":
        for fmt in ("bf16", "fp8e4nv"):
            yield "downgrade", f"{_first(node)} is rounded to {fmt}", fmt
    elif name in ("store", "atomic_add") and len(node.args) > 1:
        value = _first(node.args[1])
        for k in _POWERS:
            yield "scale", f"{value} times 1 + 2^-{k}", k
        yield "zero", f"zeros instead of {value}", None


def _boundaries(node: ast.Compare) -> Iterator[tuple[str, str, Any]]:
    text = ast.unparse(node)
    flipped = _FLIP[type(node.ops[0])]
    yield "boundary", f"{text} with {_SIGNS[flipped]}", "flip"
    tighter = "-" if isinstance(node.ops[0], ast.Lt | ast.LtE) else "+"
    yield "boundary", f"{text} {tighter} 1", tighter


def _scales(node: ast.AST, parameters: set[str]) -> Iterator[tuple[str, str]]:
    """Pairs of parameters that scale two terms of one sum, or that stand side by side in a tuple of names."""
    if isinstance(node, ast.Tuple | ast.List):
        names = [e.id for e in node.elts if isinstance(e, ast.Name) and isinstance(e.ctx, ast.Load)]
        names = names if len(names) == len(node.elts) and set(names) <= parameters else []
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _factors(node.left, parameters), _factors(node.right, parameters)
        yield from ((p, q) for p in sorted(left) for q in sorted(right) if p != q)
        return
    else:
        return
    yield from ((p, q) for p, q in pairwise(names) if p != q)


def _factors(node: ast.expr, parameters: set[str]) -> set[str]:
    """Parameters that multiply this term itself (of a sum: its last term)."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _factors(node.right, parameters)
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult):
        return set()
    return {n.id for n in (node.left, node.right) if isinstance(n, ast.Name) and n.id in parameters}


def _updates(function: ast.FunctionDef) -> Iterator[tuple[ast.AST, str]]:
    """(assignment inside a loop that uses what it assigns, the name)."""
    for loop in (n for n in ast.walk(function) if isinstance(n, ast.For | ast.While)):
        for node in ast.walk(loop):
            if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
                yield node, node.target.id
            elif isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                used = {n.id for n in ast.walk(node.value) if isinstance(n, ast.Name)}
                if node.targets[0].id in used:
                    yield node, node.targets[0].id


def _carried(function: ast.FunctionDef) -> set[int]:
    """Updates inside loops and, where there are none, calls that reduce an axis."""
    found = {id(node) for node, _ in _updates(function)}
    if not found:
        for node in ast.walk(function):
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and _reduces(node.value):
                found.add(id(node))
    return found


def _moved(function: ast.FunctionDef) -> set[int]:
    """Assignments inside loops that use what they assign, unless a `while` waits for them."""
    waited = {n.id for loop in ast.walk(function) if isinstance(loop, ast.While)
              for n in ast.walk(loop.test) if isinstance(n, ast.Name)}  # fmt: skip
    return {id(node) for node, name in _updates(function) if name not in waited}


def _reduces(call: ast.Call) -> bool:
    """A library function that sums: tl.sum, tl.dot, tl.reduce, x.sum(...)."""
    name = ast.unparse(call.func).rsplit(".", 1)[-1]
    return name in ("sum", "dot", "dot_scaled", "reduce")


def mutate(tree: ast.Module, fault: Fault) -> ast.Module:
    """The tree, freshly parsed, with one fault planted."""
    node = list(ast.walk(tree))[fault.place]
    if fault.kind == "program":
        function = tree.body[0]
        assert isinstance(function, ast.FunctionDef)
        stop = ast.If(_call(LAST, []), [ast.Return()], [])
        function.body.insert(1 if ast.get_docstring(function) else 0, ast.copy_location(stop, function.body[0]))
    elif isinstance(node, ast.For):
        node.iter = ast.copy_location(_call(TRIP, [node.iter]), node.iter)
    elif isinstance(node, ast.Compare):
        _shift(node, fault.variant)
    elif fault.kind == "strides":
        _swap(node, *fault.variant)
    elif fault.kind in ("scale", "zero"):
        assert isinstance(node, ast.Call)
        extra: list[ast.expr] = [] if fault.variant is None else [ast.Constant(fault.variant)]
        node.args[1] = ast.copy_location(_call(SCALE if extra else ZERO, [node.args[1], *extra]), node.args[1])
    elif fault.kind == "downgrade":
        assert isinstance(node, ast.expr)
        rounded = ast.copy_location(_call(NARROW, [node, ast.Constant(fault.variant)]), node)
        _Replace(node, rounded).visit(tree)
    elif fault.kind == "update":
        _Replace(node, ast.copy_location(ast.Pass(), node)).visit(tree)
    else:
        _Replace(node, _narrowed(node, fault.variant)).visit(tree)
    for loop in ast.walk(tree):
        if isinstance(loop, ast.While):
            loop.body.insert(0, ast.copy_location(ast.Expr(_call(TICK, [])), loop.body[0]))
    return ast.fix_missing_locations(tree)


def _call(helper: str, args: list[ast.expr]) -> ast.expr:
    return ast.Call(ast.Name(helper, ast.Load()), args, [])


def _shift(node: ast.Compare, variant: str) -> None:
    if variant == "flip":
        node.ops[0] = _FLIP[type(node.ops[0])]()
        return
    op = ast.Sub() if variant == "-" else ast.Add()
    limit = node.comparators[0]
    node.comparators[0] = ast.copy_location(ast.BinOp(limit, op, ast.Constant(1)), limit)


def _swap(node: ast.AST, one: str, other: str) -> None:
    """Exchanges the first use of `one` on the left with the first use of `other` on the right."""
    if isinstance(node, ast.BinOp):
        left = next(n for n in ast.walk(_last_term(node.left)) if isinstance(n, ast.Name) and n.id == one)
        right = next(n for n in ast.walk(_last_term(node.right)) if isinstance(n, ast.Name) and n.id == other)
    else:
        assert isinstance(node, ast.Tuple | ast.List)
        left = next(n for n in node.elts if isinstance(n, ast.Name) and n.id == one)
        right = next(n for n in node.elts if isinstance(n, ast.Name) and n.id == other)
    left.id, right.id = other, one


def _last_term(node: ast.expr) -> ast.expr:
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        node = node.right
    return node


def _narrowed(node: ast.AST, fmt: str) -> ast.AST:
    """The assignment with its value rounded."""
    if isinstance(node, ast.AugAssign):
        assert isinstance(node.target, ast.Name)
        name = node.target.id
        node = ast.copy_location(
            ast.Assign([ast.Name(name, ast.Store())], ast.BinOp(ast.Name(name, ast.Load()), node.op, node.value)), node
        )
    assert isinstance(node, ast.Assign)
    node.value = ast.copy_location(_call(NARROW, [node.value, ast.Constant(fmt)]), node.value)
    return node


def replaced(tree: ast.Module, old: ast.AST, new: ast.AST) -> ast.Module:
    """The tree with one node in the place of another. Hundreds of changes of one tree are tried: it is not visited as a
    whole."""
    for parent in ast.walk(tree):
        for name, value in ast.iter_fields(parent):
            if value is old:
                setattr(parent, name, new)
                return tree
            if isinstance(value, list) and any(x is old for x in value):
                setattr(parent, name, [new if x is old else x for x in value])
                return tree
    return tree


class _Replace(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        return self.new if node is self.old else self.generic_visit(node)
