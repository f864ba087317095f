"""The user's code as text: parsed files, the function that an expression stands in, what stands where."""

from __future__ import annotations

import ast
import linecache
from functools import lru_cache

_trees: dict[str, tuple[list[str], ast.Module | None]] = {}


def tree_of(file: str) -> ast.Module | None:
    """The parsed text of a file as it is now; None where there is none."""
    lines = linecache.getlines(file)
    known = _trees.get(file)
    if known is not None and known[0] is lines:
        return known[1]
    try:
        tree = ast.parse("".join(lines)) if lines else None
    except (SyntaxError, ValueError):
        tree = None
    _trees[file] = lines, tree
    return tree


@lru_cache(128)
def parents(tree: ast.AST) -> dict[int, ast.AST]:
    return {id(child): node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}


def function_of(tree: ast.AST, node: ast.AST) -> ast.AST:
    """The outermost function that a node stands in (its names are those of the functions in it), or the module."""
    above, found = parents(tree), tree
    up: ast.AST | None = node
    while (up := above.get(id(up))) is not None:
        inner_of_lambda = isinstance(up, ast.Lambda) and found is tree
        if isinstance(up, ast.FunctionDef | ast.AsyncFunctionDef) or inner_of_lambda:
            found = up
    return found


LOOPS = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)
_LEAVING = frozenset(
    ["float", "complex", "item", "tolist", "numpy", "__float__", "__complex__", "__array__", "allclose", "equal"]
)


def at(tree: ast.AST, place: tuple[int, int, int, int], itself: bool) -> list[ast.AST]:
    """The expressions that hold what comes out at (line, last line, column, last column): what is called there
    (`itself`), or what a function there, which is none of those by which a tensor leaves, is given."""
    line, last, column, end = place
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.expr | ast.For)
            and (node.lineno, node.end_lineno) == (line, last)
            and (node.col_offset, node.end_col_offset) == (column, end)
        ):
            return _held(tree, node, itself)
    return []


def _held(tree: ast.AST, node: ast.expr | ast.For, itself: bool) -> list[ast.AST]:
    above = parents(tree).get(id(node))
    if isinstance(node, LOOPS):
        return [node.generators[0].iter]
    if isinstance(node, ast.For):
        return [node.iter]
    if isinstance(node, ast.Tuple | ast.List) and isinstance(node.ctx, ast.Store):
        value = getattr(above, "value", getattr(above, "iter", None))
        return [node if value is None else value]
    if itself:
        return [node]
    if isinstance(node, ast.BinOp):
        return [node.left, node.right]
    if isinstance(node, ast.Call) and called(node.func) not in _LEAVING:
        return [*node.args, *(k.value for k in node.keywords)] or [node]
    return [node]


def called(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def takers(parameters: ast.arguments) -> list[str]:
    """Names of what takes any number of arguments."""
    return [more.arg for more in (parameters.vararg, parameters.kwarg) if more is not None]


def root_of(node: ast.AST) -> str:
    """The name that attributes, elements and results are reached from."""
    while isinstance(node, ast.Attribute | ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def tells_float(node: ast.Call) -> bool:
    """Whether some argument names a floating-point type."""
    told = [*node.args, *(k.value for k in node.keywords)]
    return any("float" in ast.unparse(x) or "double" in ast.unparse(x) for x in told)
