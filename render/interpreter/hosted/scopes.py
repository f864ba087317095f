"""Which names of a function, and of the functions inside it, are one variable."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache

from render.interpreter.hosted.reading import called, parents

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


@lru_cache(256)
def variables(scope: ast.AST) -> dict[int, str]:
    """Of each name in a function, by id, the variable that it is: those of the function itself and of what is around it
    are called by their names, those of functions inside by these, too. Functions inside stand under the names that they
    are bound to."""
    found: dict[int, str] = {}
    _visit(scope, [], found, scope)
    return found


@lru_cache(256)
def bindings(scope: ast.AST) -> dict[str, list[ast.AST | None]]:
    """Of each variable that a function binds, the statements around its names where it does."""
    found: dict[str, list[ast.AST | None]] = {}
    above, own = parents(scope), variables(scope)
    for node in ast.walk(scope):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.setdefault(own[id(node)], []).append(above.get(id(node)))
    return found


@lru_cache(512)
def is_result(scope: ast.AST, name: str) -> bool:
    """Whether all that a function binds to a variable are results of calls and operations or parts of these, which are
    of one kind: no literals, containers or objects that are made there."""
    bound = bindings(scope).get(name, [])
    return bool(bound) and all(_is_result(node) for node in bound)


def _is_result(node: ast.AST | None) -> bool:
    if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
        value = node.value
        made = isinstance(value, ast.Call) and called(value.func)[:1].isupper()
        return isinstance(value, ast.Call | ast.BinOp | ast.UnaryOp | ast.Subscript | ast.Attribute) and not made
    return isinstance(node, ast.Tuple | ast.For)


def _visit(node: ast.AST, around: list[tuple[str, set[str]]], found: dict[int, str], scope: ast.AST) -> None:
    if isinstance(node, ast.Name):
        found[id(node)] = _variable(node.id, around)
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node is not scope:
        found[id(node)] = _variable(node.name, around)
    if not isinstance(node, _FUNCTIONS) or node is scope:
        for child in ast.iter_child_nodes(node):
            _visit(child, around, found, scope)
        return
    own = f"@{node.lineno}:{node.col_offset}", _bound(node)
    inside = set(map(id, node.body if isinstance(node.body, list) else [node.body]))
    for child in ast.iter_child_nodes(node):  # defaults and decorators belong to what is around it
        _visit(child, [*around, own] if id(child) in inside else around, found, scope)


def _variable(name: str, around: list[tuple[str, set[str]]]) -> str:
    return next((name + place for place, bound in reversed(around) if name in bound), name)


def _bound(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> set[str]:
    """The names that a function binds."""
    bound, shared = {a.arg for a in ast.walk(function.args) if isinstance(a, ast.arg)}, set[str]()
    for node in _own_nodes(function):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            bound.add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            bound.add(node.name)
        elif isinstance(node, ast.Global | ast.Nonlocal):
            shared |= set(node.names)
        elif isinstance(node, ast.alias):
            bound.add((node.asname or node.name).split(".")[0])
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            bound.add(node.name)
    return bound - shared


def _own_nodes(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> Iterator[ast.AST]:
    """What stands in a function and in no other inside it."""
    rest: list[ast.AST] = [*function.body] if isinstance(function.body, list) else [function.body]
    while rest:
        node = rest.pop()
        yield node
        if not isinstance(node, _FUNCTIONS):
            rest += ast.iter_child_nodes(node)
