"""What the user calls the tensors that are compared: by their variables, else as they stand in the line of code."""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from types import FrameType
from typing import Any

import torch

from render.entry.target import is_tool_file
from render.front.parts import Picked
from render.front.steps import HostOperation, Region

_SCOPES = 6
_LONGEST = 48
Name = tuple[Region, str]


_SHOWING = ("_pytest", "pytest", "pluggy", "IPython", "ipykernel", "rich", "pprint", "traceback", "unittest")
"""They print values that the user's code did not ask for."""


def shows(frame: FrameType) -> bool:
    """Whether it belongs to something that shows or compares values for the user's code."""
    return frame.f_globals.get("__name__", "").split(".")[0] in _SHOWING


def user_frame() -> FrameType | None:
    """The innermost frame of the user's own code; None where something else shows values."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_tool_file(frame.f_code.co_filename):
        if shows(frame):
            return None
        frame = frame.f_back
    return None if frame is None or shows(frame) else frame


def in_sight(frame: FrameType | None, known: Callable[[torch.Tensor], Region | None]) -> list[Name]:
    """Places of the tensors that the frame and those around it name, the innermost last."""
    scopes: list[Mapping[str, Any]] = []
    while frame is not None and len(scopes) < _SCOPES:
        if not is_tool_file(frame.f_code.co_filename):
            scopes.append(dict(frame.f_locals))
        frame = frame.f_back
    found: list[Name] = []
    for scope in reversed(scopes):
        for name, value in scope.items():
            if type(value) in (torch.Tensor, torch.nn.Parameter) and name.isidentifier() and name[0] != "_":
                place = known(value)
                found += [] if place is None else [(place, name)]
    return found


def handed_at(
    frame: FrameType | None, places: tuple[Region, Region], called: tuple[str, str], until: int,
    known: Callable[[torch.Tensor], Region | None],
) -> tuple[str, int] | None:  # fmt: skip
    """Where both tensors, or what they were cast from, were handed to the function that compares them, or to the one
    that calls it with them; None where it has them from elsewhere. `called`: what the comparison calls them."""
    ways, found = [[p.cell for p in _made_from(place, until)] for place in places], None

    def handed(frame: FrameType) -> bool:
        given = _arguments(frame)
        cells = {p.cell for x in given.values() if isinstance(x, torch.Tensor) and (p := known(x)) is not None}
        return all(any(cell in cells for cell in way) for way in ways)

    named = frame is not None and {*called} <= _arguments(frame).keys()  # which may name what was made of them since
    while frame is not None and (handed(frame) or (named and found is None)):
        frame = frame.f_back
        while frame is not None and is_tool_file(frame.f_code.co_filename):
            frame = frame.f_back
        found = found if frame is None else (frame.f_code.co_filename, frame.f_lineno)
    return found


def _arguments(frame: FrameType) -> dict[str, Any]:
    """What the parameters of a function that runs hold."""
    code, held = frame.f_code, frame.f_locals
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return {name: held[name] for name in names if name in held}


def names_of(places: tuple[Region, Region], until: int, names: list[Name], file: str, line: int) -> tuple[str, str]:
    """Of two operands of a comparison in this line."""
    called = [_variable(p, until, names) for p in places]
    others = {name for _, name in names}

    def fits(written: tuple[str, str]) -> bool:
        return all((text not in others) if name is None else True for name, text in zip(called, written, strict=True))

    written = next(filter(fits, _operands(file, line)), ("out", "reference"))
    left, right = (name or text for name, text in zip(called, written, strict=True))
    return left, right


def _variable(place: Region, until: int, names: list[Name]) -> str | None:
    """The variable that holds it, or what it was cast or copied from."""
    for origin in _made_from(place, until):
        same = [name for known, name in names if known == origin]
        found = same or [name for known, name in names if known.cell is origin.cell]
        if found:
            return found[-1]
    return None


def _made_from(place: Region, until: int) -> Iterator[Region]:
    """The place, and what it was cast, copied or picked from."""
    for _ in range(4):
        yield place
        step = next((s for s in reversed(place.cell.steps) if s.time <= until), None)
        operands = [x for x in step.args if isinstance(x, Region)] if isinstance(step, HostOperation) else []
        func = getattr(step, "func", None)
        same_size = len(operands) == 1 and operands[0].size == place.size and func in _COPIES
        if not same_size and not isinstance(func, Picked):
            return
        place = operands[0]


_COPIES = frozenset([torch.ops.aten._to_copy.default, torch.ops.aten.clone.default])
_FUNCTIONS = frozenset(["allclose", "equal", "assert_close", "assert_allclose", "isclose", "array_equal", "dist",
                        "assert_array_almost_equal", "assert_almost_equal", "assert_array_equal", "mse_loss",
                        "assert_equal"])  # fmt: skip


def _operands(file: str, line: int) -> Iterator[tuple[str, str]]:
    """The two operands as they are written, of the first comparison in a statement that begins in this line."""
    for node in ast.walk(_statement(file, line)):
        pair: list[ast.expr] = []
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            method = isinstance(node.func, ast.Attribute) and len(node.args) == 1
            pair = [*([node.func.value] if method else []), *node.args] if name in _FUNCTIONS else []  # type: ignore[attr-defined]
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
            pair = [node.left, node.right]
        elif isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Eq | ast.NotEq):
            pair = [node.left, node.comparators[0]]
        if len(pair) >= 2:
            left, right = (ast.unparse(x) for x in pair[:2])
            if max(len(left), len(right)) <= _LONGEST:
                yield left, right


def denied(file: str, line: int) -> bool:
    """Whether the code asserts that two things differ: `assert not torch.equal(a, b)`, `assert err > 0.1`."""
    statement = _statement(file, line)
    first = statement.body[0] if isinstance(statement, ast.Module) and statement.body else None
    if isinstance(first, ast.Assert):
        negated = isinstance(first.test, ast.UnaryOp) and isinstance(first.test.op, ast.Not)
        large = _exceeds(first.test)
        return negated or (large is not None and _is_difference(large))
    if isinstance(first, ast.Assign) and _is_difference(first.value) and isinstance(first.targets[0], ast.Name):
        return _is_to_exceed(file, first.targets[0].id)
    called = first.value.func if isinstance(first, ast.Expr) and isinstance(first.value, ast.Call) else None
    return getattr(called, "attr", "") == "assertFalse" or _is_to_fail(file, line)


def _exceeds(test: ast.expr) -> ast.expr | None:
    """What is asserted to be larger than something else than 0."""
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return None
    small, large = (test.left, test.comparators[0])[:: 1 if isinstance(test.ops[0], ast.Lt | ast.LtE) else -1]
    ordered = isinstance(test.ops[0], ast.Lt | ast.LtE | ast.Gt | ast.GtE)
    return None if not ordered or getattr(small, "value", 1) == 0 else large


def _is_difference(value: ast.expr) -> bool:
    """Whether it grows with a difference that stands in it: no likeness, no signal over noise."""
    below = {id(n) for d in ast.walk(value) if isinstance(d, ast.BinOp) and isinstance(d.op, ast.Div)
             for n in ast.walk(d.right)}  # fmt: skip
    calls = (n.func for n in ast.walk(value) if isinstance(n, ast.Call))
    if any("log" in getattr(f, "attr", getattr(f, "id", "")) for f in calls):
        return False
    differences = [n for n in ast.walk(value) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Sub)]
    return any(id(n) not in below and not isinstance(n.left, ast.Constant) for n in differences)


def _is_to_exceed(file: str, name: str) -> bool:
    """Whether what the file asserts of this variable is that it is large."""
    tree, _ = _parsed(file, "".join(linecache.getlines(file)))
    tests = [n.test for n in (ast.walk(tree) if tree else ()) if isinstance(n, ast.Assert)]
    mine = [t for t in tests if any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(t))]
    return bool(mine) and all(getattr(_exceeds(t), "id", "") == name for t in mine)


def _is_to_fail(file: str, line: int) -> bool:
    """Whether it stands in `with pytest.raises(AssertionError):` or its like."""
    tree, _ = _parsed(file, "".join(linecache.getlines(file)))
    withs = (
        (n for n in ast.walk(tree) if isinstance(n, ast.With) and n.lineno <= line <= (n.end_lineno or 0))
        if tree
        else ()
    )
    calls = (item.context_expr for one in withs for item in one.items if isinstance(item.context_expr, ast.Call))
    return any(getattr(call.func, "attr", "") in ("raises", "assertRaises") for call in calls)


def _statement(file: str, line: int) -> ast.AST:
    lines = linecache.getlines(file)[max(line - 1, 0) : line + 11]
    text = ""
    for part in lines:
        text += part.lstrip() if not text else part
        head = text.rstrip()
        try:
            return ast.parse(f"{head} pass" if head.endswith(":") else head)
        except SyntaxError:
            continue
    return ast.Module([], [])


def only_looked_at(frame: FrameType) -> bool:
    """Whether what the frame is calling now is compared, printed or formatted where it stands, and goes nowhere."""
    at = list(frame.f_code.co_positions())[frame.f_lasti // 2]
    tree, above = _parsed(frame.f_code.co_filename, "".join(linecache.getlines(frame.f_code.co_filename)))
    calls = () if tree is None else ast.walk(tree)
    node: ast.AST | None = next((n for n in calls if isinstance(n, ast.Call) and _span(n) == at), None)
    while isinstance(up := above.get(node), ast.BinOp | ast.UnaryOp):
        node = up
    called = up.func if isinstance(up, ast.Call) else None
    shows = getattr(called, "attr", getattr(called, "id", "")) in ("print", "format")
    return shows or isinstance(up, ast.Compare | ast.FormattedValue | ast.Assert)


def way(frame: FrameType) -> tuple[int, int] | None:
    """The lines that run, or do not, by what the frame is asking now; None where at most an error depends on it."""
    code = frame.f_code
    return _way(code.co_filename, list(code.co_positions())[frame.f_lasti // 2])


@lru_cache(512)
def _way(file: str, at: tuple[int | None, ...]) -> tuple[int, int] | None:
    tree, above = _parsed(file, "".join(linecache.getlines(file)))
    nodes = () if tree is None else ast.walk(tree)
    node: ast.AST | None = next((n for n in nodes if isinstance(n, ast.expr) and _span(n) == at), None)
    while isinstance(up := above.get(node), ast.expr | ast.keyword):
        node = up
    if not isinstance(up, ast.If | ast.While) or node is not up.test:
        return None
    leaves = [n for part in (*up.body, *up.orelse) for n in ast.walk(part)]
    whole: ast.AST | None = up
    if any(isinstance(n, ast.Return | ast.Break | ast.Continue) for n in leaves):
        loops = () if any(isinstance(n, ast.Return) for n in leaves) else (ast.For, ast.While)
        kinds: tuple[type[ast.AST], ...] = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Module, *loops)
        while whole is not None and not isinstance(whole, kinds):
            whole = above.get(whole)
    return getattr(whole, "lineno", 1), getattr(whole, "end_lineno", sys.maxsize)


def _span(node: ast.expr) -> tuple[int, int | None, int, int | None]:
    return node.lineno, node.end_lineno, node.col_offset, node.end_col_offset


@lru_cache(8)
def _parsed(file: str, text: str) -> tuple[ast.AST | None, Mapping[ast.AST | None, ast.AST]]:
    """The tree of a file, and what every node stands in."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return None, {}
    return tree, {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
