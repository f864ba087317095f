"""The user's functions around the launches, with one expression changed.

As a kernel is changed in one place at a time (`guilty`), so is what calls it: the entry function, and the functions
beside it in its file that it calls. They are compiled anew from their text, over a copy of their module's names; the
kernels stay the objects that they are. What is no plain function of a module (a closure, a method) is left alone. A
change may keep a loop from its end (`half /= 2` for `half *= 2`): the turns of all loops are counted.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import pickle
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from render.interpreter.context import is_user_file
from render.interpreter.repairs import Repair, repaired, repairs
from render.result.errors import Endless

Function = tuple[str, int]
TURNS = 1 << 14
"""Turns of loops of changed host code, over all that it calls in its file: some seconds of tensor operations."""
_TURN = "__one_more_turn__"


class Launcher:
    """The functions of one entry, by file and first line; none where they cannot be made anew."""

    def __init__(self, entry: Any) -> None:
        fn = inspect.unwrap(entry) if isinstance(entry, types.FunctionType) else None
        self.trees: dict[Function, ast.Module] = {}
        self._name = self._file = ""
        self._names: dict[str, Any] = {}
        if fn is None or fn.__closure__ or not is_user_file(fn.__code__.co_filename):
            return
        self._name, self._file, self._names = fn.__name__, fn.__code__.co_filename, fn.__globals__
        by = self._functions()
        if fn.__name__ not in by or self._names.get(fn.__name__) is not entry:
            return
        for name in _reached(by, fn.__name__):
            self.trees[self._file, by[name].lineno] = ast.Module([by[name]], [])

    def _functions(self) -> dict[str, ast.FunctionDef]:
        """Plain functions of the module that its names still stand for."""
        try:
            tree = ast.parse("".join(linecache.getlines(self._file)))
        except SyntaxError:
            return {}
        return {n.name: n for n in tree.body if isinstance(n, ast.FunctionDef)
                and isinstance(self._names.get(n.name), types.FunctionType)}  # fmt: skip

    def changed(self, function: Function, place: int, code: str) -> Callable[..., Any]:
        """The entry with the node `place` of one of these functions replaced."""
        names = dict(self._names) | {_TURN: _Turns()}
        for key, tree in self.trees.items():
            made = pickle.loads(pickle.dumps(tree))
            made = _counted(repaired(made, place, code) if key == function else made)
            with warnings.catch_warnings(action="ignore"):
                exec(compile(made, self._file, "exec"), names)
        found: Callable[..., Any] = names[self._name]
        return found


class _Turns:
    def __init__(self) -> None:
        self.left = TURNS

    def __call__(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Endless("RND309", f"the host code makes more than {TURNS} turns of its loops")


def _counted(tree: ast.Module) -> ast.Module:
    """Every turn of every loop tells that it begins."""
    for node in ast.walk(tree):
        if isinstance(node, ast.For | ast.While | ast.AsyncFor):
            told = ast.parse(f"{_TURN}()").body[0]
            node.body.insert(0, ast.fix_missing_locations(ast.copy_location(told, node)))
    return tree


def _reached(by: dict[str, ast.FunctionDef], start: str) -> list[str]:
    """A function and those of the same file whose names stand in it, and so on."""
    seen, todo = [start], [start]
    while todo:
        for node in ast.walk(by[todo.pop()]):
            if isinstance(node, ast.Name) and node.id in by and node.id not in seen:
                seen.append(node.id)
                todo.append(node.id)
    return seen


def host_repairs(tree: ast.Module) -> list[Repair]:
    """Repairs of host code, likely ones first: what fits kernels too; calls, keywords and indices left out."""
    found = repairs(tree)
    for place, node in enumerate(ast.walk(tree)):
        if isinstance(node, ast.expr):
            before = ast.unparse(node)
            found += [Repair(node.lineno, place, code, f"{code} in place of {before}", rank)
                      for code, rank in _of(node) if code != before]  # fmt: skip
    return sorted(dict.fromkeys(found), key=lambda r: r.rank)


def _of(node: ast.expr) -> Iterator[tuple[str, int]]:
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        yield ast.unparse(node.value), 2
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return
    value, name = ast.unparse(node.func.value), node.func.attr
    if not value[:1].isupper() and value not in ("torch", "math", "tl", "triton"):
        yield value, 1
    for left_out in node.keywords:
        rest = ", ".join([*map(ast.unparse, node.args), *(ast.unparse(k) for k in node.keywords if k is not left_out)])
        yield f"{value}.{name}({rest})", 2
