"""Which names are one variable, against Python's own table of symbols, over functions in functions of every kind."""

from __future__ import annotations

import ast
import symtable
from collections import defaultdict

import pytest

from render.interpreter.hosted.scopes import bindings, is_result, variables

TEXTS = {
    "own": "def f(x):\n    y = x\n    def g(z):\n        y = z\n        return y\n    return g(y)\n",
    "taken": "def f(x):\n    y = x\n    def g(z):\n        return y + z\n    return g(y)\n",
    "nonlocal": "def f(x):\n    y = x\n    def g():\n        nonlocal y\n        y = 2\n    g()\n    return y\n",
    "global": "def f(x):\n    global y\n    y = x\n    def g():\n        global y\n        y = 3\n    return y\n",
    "default": "def f(x):\n    y = x\n    def g(y=y):\n        return y\n    return g\n",
    "decorator": "def f(x):\n    y = x\n    @y\n    def g(y):\n        return y\n    return g\n",
    "lambda": "def f(x):\n    y = x\n    g = lambda y, z=y: y + z + x\n    return g(y)\n",
    "import": "def f(x):\n    os = x\n    def g():\n        import os\n        return os\n    return g, os\n",
    "import as": "def f(x):\n    y = x\n    def g():\n        import os.path as y\n        return y\n    return y\n",
    "import part": "def f(x):\n    os = x\n    def g():\n        import os.path\n        return os\n    return os\n",
    "error": "def f(x):\n    e = x\n    def g():\n        try:\n            pass\n        except OSError as e:\n"
             "            return e\n    return e\n",
    "match": "def f(x):\n    y = x\n    def g(z):\n        match z:\n            case [y, *w]:\n"
             "                return y, w\n    return y\n",
    "deep": "def f(x):\n    y = x\n    def g():\n        def h():\n            return y\n        y = 3\n"
            "        return h\n    return y, g\n",
    "function": "def f(x):\n    g = x\n    def h():\n        def g():\n            return 1\n        return g()\n"
                "    return g, h\n",
    "kinds": "def f(x, *y, z=1, **w):\n    def g(*y, z=x, **w):\n        return y, z, w, x\n    return g, y, z, w\n",
    "async": "async def f(x):\n    y = x\n    async def g(y):\n        return y\n    return await g(y)\n",
}  # fmt: skip


def owners(text: str) -> dict[tuple[int, str], str]:
    """Of each name in each function (by the line that it begins in), the line of the function whose variable it is."""
    found: dict[tuple[int, str], str] = {}

    def visit(table: symtable.SymbolTable, around: list[symtable.SymbolTable]) -> None:
        chain = [*around, table]
        for symbol in table.get_symbols():
            if symbol.is_global():
                found[id_of(table), symbol.get_name()] = ""
            elif not symbol.is_free():
                found[id_of(table), symbol.get_name()] = str(id_of(table))
            else:
                inner = next(t for t in reversed(around) if _binds(t, symbol.get_name()))
                found[id_of(table), symbol.get_name()] = str(id_of(inner))
        for child in table.get_children():
            visit(child, chain)

    visit(symtable.symtable(text, "text", "exec").get_children()[0], [])
    return found


def _binds(table: symtable.SymbolTable, name: str) -> bool:
    return any(s.get_name() == name and s.is_local() and not s.is_free() for s in table.get_symbols())


def id_of(table: symtable.SymbolTable) -> int:
    return table.get_lineno()


@pytest.mark.parametrize("name", TEXTS)
def test_two_names_are_one_variable_where_python_says_so(name: str) -> None:
    scope = ast.parse(TEXTS[name]).body[0]
    said, ours, truth = owners(TEXTS[name]), variables(scope), defaultdict(set)

    def walk(node: ast.AST, function: ast.AST) -> None:
        if isinstance(node, ast.Name) and (function.lineno, node.id) in said:
            truth[node.id, said[function.lineno, node.id]].add(ours[id(node)])
        inner = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) and node is not scope
        body = node.body if inner and isinstance(node.body, list) else [node.body] if inner else []
        for child in ast.iter_child_nodes(node):
            first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))]) if inner else 0
            walk(child, ast.Pass(lineno=first) if any(child is b for b in body) else function)

    walk(scope, scope)
    assert all(len(one) == 1 for one in truth.values()), truth
    flat = [next(iter(one)) for one in truth.values()]
    assert len(set(flat)) == len(flat), truth


def test_what_is_bound_stands_with_its_statement() -> None:
    scope = ast.parse(
        "def f(x):\n    a = g(x)\n    for b in x:\n        a, c = b\n    d: int = 3\n    return a\n"
    ).body[0]
    assert {k: len(v) for k, v in bindings(scope).items()} == {"a": 2, "b": 1, "c": 1, "d": 1}


@pytest.mark.parametrize(
    ("value", "result"),
    [
        ("g(x)", True), ("x + 1", True), ("-x", True), ("x[0]", True), ("x.a", True), ("Thing(x)", False),
        ("[x]", False), ("3.0", False), ("x", False), ("x if x else 1", False), ("m.Thing(x)", False),
    ],
)  # fmt: skip
def test_results_of_calls_and_operations(value: str, result: bool) -> None:
    assert is_result(ast.parse(f"def f(x):\n    a = {value}\n    return a\n").body[0], "a") is result
    twice = ast.parse(f"def f(x):\n    a = g(x)\n    a = {value}\n    return a\n").body[0]
    assert is_result(twice, "a") is result and not is_result(twice, "x")
