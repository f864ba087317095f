"""Whether a name of a function is a container of its own, which nobody else reads."""

from __future__ import annotations

import ast
import dataclasses
import inspect
from functools import lru_cache

from render.interpreter.hosted.carried import CARRYING, PUTTING, SHOWING
from render.interpreter.hosted.numbers import ARITHMETIC
from render.interpreter.hosted.reading import called, parents, root_of

_DISPLAYS = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)
_MADE = frozenset(["list", "dict", "set", "defaultdict", "deque", "OrderedDict"])
_READING = (
    ast.Attribute, ast.Subscript, ast.Return, ast.For, ast.comprehension, ast.BinOp, ast.FormattedValue, ast.Compare,
    ast.If, ast.BoolOp, ast.UnaryOp, ast.IfExp, ast.Starred,
)  # fmt: skip


@lru_cache(512)
def is_own(scope: ast.AST, name: str) -> bool:
    """Whether all that a function binds to a name is a container made there, by no other name: what is put into it can
    be met under this name alone."""
    above = parents(scope)
    if not isinstance(scope, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef) or name in _given(scope):
        return False
    nodes = [n for n in ast.walk(scope) if isinstance(n, ast.Name) and n.id == name]
    made = [n for n in nodes if isinstance(n.ctx, ast.Store)]
    return bool(made) and all(_is_made(above, n) for n in made) and all(
        _is_read(above, n) for n in nodes if isinstance(n.ctx, ast.Load))  # fmt: skip


def _given(scope: ast.AST) -> set[str]:
    """Names that it, or a function in it, gets from somewhere else or shares with others."""
    found: set[str] = set()
    for node in ast.walk(scope):
        if isinstance(node, ast.Global | ast.Nonlocal):
            found |= set(node.names)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
    return found


def fields_of(found: object) -> tuple[str, ...]:
    """Where a call of this only keeps what it is given, the attributes that do: a named tuple, a plain dataclass."""
    if not isinstance(found, type):
        return ()
    if issubclass(found, tuple) and isinstance(names := getattr(found, "_fields", None), tuple):
        return names if _is_generated(found.__new__) and found.__init__ is object.__init__ else ()
    if not dataclasses.is_dataclass(found) or hasattr(found, "__post_init__") or not _is_generated(found.__init__):
        return ()
    plain = found.__setattr__ is object.__setattr__ or _is_generated(found.__setattr__)
    return tuple(f.name for f in dataclasses.fields(found) if f.init) if plain else ()


def _is_generated(function: object) -> bool:
    """Whether Python's library wrote it."""
    code = getattr(inspect.unwrap(function), "__code__", None) if callable(function) else None
    return code is not None and code.co_filename.startswith("<string>")


def is_shared(scope: ast.AST, name: str) -> bool:
    """Whether other functions read what this one binds to a name."""
    return any(isinstance(n, ast.Global | ast.Nonlocal) and name in n.names for n in ast.walk(scope))


def _is_made(above: dict[int, ast.AST], name: ast.Name) -> bool:
    node = above.get(id(name))
    if isinstance(node, ast.Tuple | ast.List):
        several, node = node, above.get(id(node))
        values = node.value if isinstance(node, ast.Assign) else None
        if not isinstance(values, ast.Tuple | ast.List) or len(values.elts) != len(several.elts):
            return False
        value: ast.expr | None = values.elts[several.elts.index(name)]
    else:
        value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
    if isinstance(node, ast.Assign) and len(node.targets) > 1:
        return False
    return isinstance(value, _DISPLAYS) or (isinstance(value, ast.Call) and called(value.func) in _MADE)


def _is_read(above: dict[int, ast.AST], name: ast.Name) -> bool:
    """Whether a use gives the container no second name."""
    node = above.get(id(name))
    if isinstance(node, ast.Tuple):
        node = above.get(id(node))
    if isinstance(node, ast.Call):
        return node.func is not name and called(node.func) in CARRYING | SHOWING
    return isinstance(node, _READING)


def keeps_nothing(tree: ast.AST, node: ast.AST) -> ast.AST | None:
    """The innermost function around an expression, if it puts nothing where another call of it could find it."""
    above, up = parents(tree), node
    while not isinstance(up, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        if id(up) not in above:
            return None
        up = above[id(up)]
    own = {n.arg for n in ast.walk(up.args) if isinstance(n, ast.arg)}
    own |= {n.id for n in ast.walk(up) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return up if all(_keeps_not(n, own) for n in ast.walk(up)) else None


def _keeps_not(node: ast.AST, own: set[str]) -> bool:
    if isinstance(node, ast.Global | ast.Nonlocal | ast.NamedExpr | ast.Yield | ast.YieldFrom):
        return False
    if isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store):
        return root_of(node) in own
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in PUTTING:
        return root_of(node.func) in own
    return True


_STRANGE = frozenset([
    "np", "numpy", "complex", "cmath", "cfloat", "complex64", "complex128", "view_as_complex", "polar", "mpmath", "mpf",
    "gmpy2", "sympy", "jax", "jnp", "cupy", "pandas", "pd", "scipy", "Decimal", "ctypes",
])  # fmt: skip
_OPERATORS = frozenset(f"__{of}{function.__name__}__" for function in ARITHMETIC for of in ("", "r", "i"))


@lru_cache(256)
def is_strange(tree: ast.AST) -> bool:
    """Whether a file has numbers that take a float in arithmetic as they like: arrays, complex ones, classes of it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, complex):
            return True
        if isinstance(node, ast.FunctionDef) and node.name in _OPERATORS:
            return True
        if isinstance(node, ast.Name | ast.Attribute) and called(node) in _STRANGE:
            return True
    return False
