"""Whether the host decides anything by a number that left torch where nobody sees it (`hosted.dataflow`), from the
frames that run when it leaves. A comparison that comes out alike for all that its bounds allow decides nothing."""

from __future__ import annotations

import ast
import math
import operator
import os
import sysconfig
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import islice
from types import CodeType, FrameType, FunctionType
from typing import Any

import numpy as np
import torch

from render.interpreter.hosted.carried import Carried, ReadingBudget, TooMuchCode
from render.interpreter.hosted.dataflow import Flow
from render.interpreter.hosted.expressions import OPERATORS, SIGNS, extreme
from render.interpreter.hosted.held import is_strange, keeps_nothing
from render.interpreter.hosted.mathematics import ASKING, MATH
from render.interpreter.hosted.numbers import Ends, LeftNumbers, Number
from render.interpreter.hosted.overloads import OWN_ROOTS
from render.interpreter.hosted.reading import at, function_of, parents, tree_of

_OURS = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "")
_WATCHING = (
    *(os.path.join(_OURS, name, "") for name in ("interpreter", "ops")),
    os.path.join(_OURS, "reference", "shadow.py"),
)
"""Where it sees what leaves."""
_AGAIN = os.path.join(_OURS, "front", "")
"""Where it reads once more what was recorded, in the name of the user's line."""
_NUMPY = (os.path.join(os.path.dirname(np.__file__), ""),)
_STANDARD = (*{os.path.join(sysconfig.get_path(p), "") for p in ("stdlib", "platstdlib")}, *_NUMPY)
_RUNNERS = frozenset(["_pytest", "pluggy", "xdist", "execnet", "IPython", "ipykernel", "tornado"])
_STARTED = (os.path.join(os.sep, "pytest", "__main__.py"), os.path.join(os.sep, "bin", "pytest"))
"""Where tests are started from, without the processes that would stand between."""
_RETURNED = 20
"""Expressions of one function's results that are computed ahead."""
_COMPARISONS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}  # fmt: skip
_CALLED: dict[str, Callable[..., Any]] = {plain.__name__: extreme(plain) for plain in (max, min)}
_CALLED |= {float.__name__: lambda x: x, abs.__name__: abs}


def _nodes(code: CodeType, instruction: int, itself: bool) -> tuple[ast.AST, ...]:
    """Expressions that hold what an instruction of a function gives (`at`)."""
    tree = tree_of(code.co_filename)
    place = next(islice(code.co_positions(), instruction // 2, None))
    if tree is None or None in place:
        return ()
    return _standing(tree, place, itself)  # type: ignore[arg-type]


@lru_cache(512)
def _standing(tree: ast.Module, place: tuple[int, int, int, int], itself: bool) -> tuple[ast.AST, ...]:
    return tuple(at(tree, place, itself))


@lru_cache(4096)
def _is_library(file: str) -> bool:
    """Whether a file is Python's own or numpy's: what these do is known by the name of what is called. Or of what runs
    tests and notebooks, which goes on by nothing of theirs."""
    if not _RUNNERS.isdisjoint(file.split(os.sep)) or file.endswith(_STARTED):
        return True
    return file.startswith(_NUMPY) or (file.startswith(_STANDARD) and "site-packages" not in file)


@lru_cache(4096)
def _is_outside(file: str) -> bool:
    """Whether a file is neither ours nor torch's."""
    return not file.startswith(OWN_ROOTS)


@lru_cache(4096)
def _asks(file: str) -> bool:
    """Whether a file is of RENDER's code that calls what sees numbers leave."""
    return file.startswith(_OURS) and not file.startswith(_WATCHING)


def _of_arrays() -> UnseenDecisions:
    return UnseenDecisions(LeftNumbers(lambda *_: 0, _is_outside))


def by_array(frame: FrameType) -> str | None:
    """What the user's running functions decide by an array that leaves now, in words; None where it is nothing."""
    return _of_arrays().by(Ends(0.0, 1.0), None, Carried.ARRAY, frame)


def of_users(numbers: LeftNumbers) -> UnseenDecisions:
    """What they do with numbers of somebody who is asked for no files."""
    return UnseenDecisions(numbers, _is_outside)


def is_users(frame: FrameType) -> bool:
    """Whether a function of the user's gets an array that leaves now, and not RENDER alone."""
    return not _asks(frame.f_code.co_filename) and _of_arrays().gets(frame)  # most of all that leaves are our own


class UnseenDecisions:
    """What the user's running functions do with a number; `outside`: is a file the user's?"""

    def __init__(self, numbers: LeftNumbers, outside: Callable[[str], bool] | None = None) -> None:
        self._numbers, self._outside = numbers, outside or numbers.outside
        self._flows: dict[Any, Flow | None] = {}

    def by(self, ends: Ends, value: float | None, kind: Carried, frame: FrameType) -> str | None:
        """What they decide by it, in words; None where it is nothing. `value`: None for an array."""
        parts: list[Carried] = []
        for frame_, nodes in self._users(frame):
            if not nodes:
                return "its source cannot be read"
            flow = self._flow(frame_, nodes, kind, parts)
            if flow is None:
                return "more code than is read"
            if value is not None and kind is Carried.FLOAT:
                self._know_made(ends, value, frame_, nodes)
            for node in flow.decides.values():
                if value is None or not self._alike(node, ends, value, frame_, nodes):
                    return f"`{' '.join(ast.unparse(node).split())[:60]}`"
            kind, parts = _returned(flow, nodes)
            if not kind:
                return None
        return None

    def _know_made(self, ends: Ends, value: float, frame: FrameType, nodes: tuple[ast.AST, ...]) -> None:
        """Numbers that a function is going to make of a plain float: in the statement where it leaves, and in what it
        returns, when none of its frames is left to be asked."""
        scope = function_of(tree_of(frame.f_code.co_filename), nodes[0])  # type: ignore[arg-type]
        apart = LeftNumbers(lambda *_: 0, self._outside)
        known, again = set(map(id, nodes)), _in_loop(scope, nodes[0])

        def reader(node: ast.expr, names: dict[str, Any] | None) -> _Value:
            left = Number(value, ends, apart)
            return _Value(self._numbers, apart, frame, scope, known, left, node, names)

        statement, around = _around(scope, nodes[0])
        found = [reader(node, {}).of(node) for node in around]
        names = reader(around[-1], {}).bound(statement) if around else {}
        returned = [reader(node, names if again else None).of(node) for node in _returning(scope) if names or not again]
        for made in (*found, *names.values(), *returned):
            if isinstance(made, Number):
                self._numbers.keep(float(made), made.ends)

    def know(self, ends: Ends, value: float, frame: FrameType) -> None:
        """What the innermost running function of the user's makes of a plain float in sight has ends, too."""
        for frame_, nodes in self._users(frame):
            if nodes:
                self._know_made(ends, value, frame_, nodes)
            break

    def confines(self, kind: Carried, frame: FrameType) -> bool:
        """Whether all that they do with what leaves is read, and none of it makes a float that torch gets unknown."""
        below: FrameType | None = None
        parts: list[Carried] = []
        users = list(self._users(frame))
        files = {frame_.f_code.co_filename for frame_, _ in users}
        for frame_, nodes in users:
            if not nodes or (below is not None and below.f_back is not frame_):
                return False  # a library between the two has it
            flow = self._flow(frame_, nodes, kind, parts)
            if flow is None or flow.escapes or (any(flow.attributes.values()) and len(files) > 1):
                return False  # attributes are read in the function's own file
            (kind, parts), below = _returned(flow, nodes), frame_
            if not kind:
                return True
        return below is not None and not kind.blind  # RENDER gets it, and knows one that sees

    def gets(self, frame: FrameType) -> bool:
        """Whether any of them gets what leaves."""
        return any(True for _ in self._users(frame))

    def _users(self, frame: FrameType | None) -> Iterator[tuple[FrameType, tuple[ast.AST, ...]]]:
        """The user's functions, each with the expression that it is at; up to where RENDER called them. None where one
        of RENDER's own functions, which runs what was recorded before, is who gets the number."""
        seen = False
        while frame is not None:
            file = frame.f_code.co_filename
            if self._outside(file) and not _is_library(file):
                back = frame.f_back
                if back is not None and back.f_code.co_filename.startswith(_AGAIN):
                    return
                yield frame, _nodes(frame.f_code, frame.f_lasti, seen)
                seen = True
            elif _asks(file) or (seen and file.startswith(_OURS)):
                return
            frame = frame.f_back

    def _flow(self, frame: FrameType, nodes: tuple[ast.AST, ...], kind: Carried, parts: list[Carried]) -> Flow | None:
        """None where it is more than is read."""
        tensors = frozenset(k for k, v in frame.f_locals.items() if isinstance(v, torch.Tensor))
        key = frame.f_code, frame.f_lasti, kind, tuple(parts), tensors
        if key not in self._flows:
            tree = tree_of(frame.f_code.co_filename)
            assert tree is not None
            scope = function_of(tree, nodes[0])
            sources = dict.fromkeys(map(id, nodes), kind)
            try:
                found = self._through(frame, tree, scope, sources, parts, keeps_nothing(tree, nodes[0]))
            except (TooMuchCode, RecursionError):
                found = None
            self._flows[key] = found
        return self._flows[key]

    def _through(
        self,
        frame: FrameType,
        tree: ast.Module,
        scope: ast.AST,
        sources: dict[int, Carried],
        parts: list[Carried],
        running: ast.AST | None,
    ) -> Flow:
        def thing(node: ast.AST) -> Any:
            return _thing(node, frame)

        trees, budget = [tree], ReadingBudget()

        def entered(call: ast.Call) -> tuple[ast.AST, bool] | None:
            return self._entered(thing(call.func), call, trees)

        def is_tensor(x: Any) -> bool:
            return isinstance(x, torch.Tensor)

        def through(strange: bool) -> Flow:
            known = dict.fromkeys(sources, parts)
            return Flow(
                scope, sources, thing, entered, is_tensor, parts=known, strange=strange, running=running, budget=budget
            ).run()

        flow = through(is_strange(tree))
        if not flow.strange and any(map(is_strange, trees)):
            flow = through(True)
        if flow.attributes and any(flow.attributes.values()):
            self._by_attribute(flow, trees, scope)
        return flow

    def _by_attribute(self, flow: Flow, trees: list[ast.Module], scope: ast.AST) -> None:
        """What other functions of the files do with what this one stored in attributes, and with what these give."""
        attributes, functions = dict(flow.attributes), dict[str, Carried]()
        before: Any = None
        while before != (attributes, functions):
            before = dict(attributes), dict(functions)
            for other in (part for tree in dict.fromkeys(trees) for part in _parts(tree)):
                if other is scope or not any(attributes.get(n) or functions.get(n) for n in _mentioned(other)):
                    continue
                inner = Flow(
                    other, {}, lambda _: None, flow.entered, flow.is_tensor, dict(functions), attributes,
                    methods=functions, strange=flow.strange, budget=flow.budget,
                ).run()  # fmt: skip
                flow.decides.update(inner.decides)
                flow.escapes.update(inner.escapes)
                if inner.returns and isinstance(other, ast.FunctionDef | ast.AsyncFunctionDef):
                    held = (functions, attributes) if other.decorator_list else (functions,)  # a property, perhaps
                    for names in held:
                        names[other.name] = inner.returns.either(names.get(other.name, inner.returns))

    def _entered(self, function: Any, call: ast.Call, trees: list[ast.Module]) -> tuple[ast.AST, bool] | None:
        bound = False
        if isinstance(call.func, ast.Attribute) and call.func.attr == "apply":
            owner = getattr(function, "__self__", None)
            if isinstance(owner, type) and issubclass(owner, torch.autograd.Function):
                function, bound = owner.forward, True
        made = vars(function).get("__init__") if isinstance(function, type) else None
        if isinstance(made, FunctionType):
            function, bound = made, True  # its attributes hold what it is given
        if not isinstance(function, FunctionType):
            held = getattr(function, "__func__", None)
            if not isinstance(held, FunctionType):
                return None
            function, bound = held, True
        code = function.__code__
        if not self._outside(code.co_filename) or _is_library(code.co_filename):
            return None
        tree = tree_of(code.co_filename)
        for node in ast.walk(tree) if tree is not None else ():
            if isinstance(node, ast.FunctionDef) and node.name == code.co_name:
                if code.co_firstlineno in (node.lineno, *(d.lineno for d in node.decorator_list)):
                    break
            elif isinstance(node, ast.Lambda) and code.co_name == "<lambda>" and node.lineno == code.co_firstlineno:
                break
        else:
            return None
        assert tree is not None
        trees.append(tree)
        return node, bound

    # --- what an open comparison gives ---

    def _alike(
        self, node: ast.AST, ends: Ends, value: float, frame: FrameType, nodes: tuple[ast.AST, ...]
    ) -> bool:  # fmt: skip
        """Whether a decision is the same for everything that the bounds allow, or its result is known by its value."""
        tree = tree_of(frame.f_code.co_filename)
        if (
            not isinstance(node, ast.expr)
            or ends.taint
            or tree is None
            or function_of(tree, node) is not function_of(tree, nodes[0])
        ):
            return False
        apart = LeftNumbers(lambda *_: 0, self._outside)
        left = Number(value, ends, apart)
        reader = _Value(self._numbers, apart, frame, function_of(tree, node), {id(n) for n in nodes}, left, node)
        if isinstance(node, ast.Compare):
            function = _COMPARISONS.get(type(node.ops[0])) if len(node.ops) == 1 else None
            sides = [reader.of(x) for x in (node.left, *node.comparators)]
            if function is None or None in sides:
                return False
            function(*sides)
            return not apart.branched
        if isinstance(node, ast.Call) and len(node.args) == 1 and ast.unparse(node.func).split(".")[-1] in ASKING:
            asked = reader.of(node.args[0])
            return isinstance(asked, Number) and math.isfinite(asked.ends.lo + asked.ends.hi)
        found = reader.of(node)  # the larger or the lesser of some
        return isinstance(found, Number) and (found.ends.point or self._numbers.is_telling(float(found)))


class _Value:
    """The value of an expression where each name in it has one."""

    def __init__(
        self,
        own: LeftNumbers,
        apart: LeftNumbers,
        frame: FrameType,
        scope: ast.AST,
        sources: set[int],
        left: Number,
        decision: ast.expr,
        names: dict[str, Any] | None = None,
    ) -> None:
        """`names`: variables with values of their own; where there are such, others are what they are now."""
        self._own, self._apart, self._frame, self._scope = own, apart, frame, scope
        self._sources, self._left, self._decision = sources, left, decision
        self._again, self._names = _in_loop(scope, decision), names
        self._steps = 100

    def of(self, node: ast.AST) -> Any:
        """A number, None where it is not known."""
        self._steps -= 1
        if self._steps < 0:
            return None
        if id(node) in self._sources:
            return self._left
        if isinstance(node, ast.Constant):
            return node.value if isinstance(node.value, int | float) else None
        if isinstance(node, ast.Name | ast.Attribute):
            return self._named(node)
        if isinstance(node, ast.NamedExpr):
            return self.of(node.value)
        if isinstance(node, ast.UnaryOp):
            return self._applied(SIGNS.get(type(node.op)), self.of(node.operand))
        if isinstance(node, ast.BinOp):
            return self._applied(OPERATORS.get(type(node.op)), self.of(node.left), self.of(node.right))
        if isinstance(node, ast.Call) and node.args and not node.keywords:
            return self._applied(self._function(node.func), *map(self.of, node.args))
        return None

    def bound(self, statement: ast.AST) -> dict[str, Any]:
        """The variable that a statement binds, with what it is bound to, as far as that is known."""
        if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
            operands = self._named(statement.target), self.of(statement.value)
            return {statement.target.id: self._applied(OPERATORS.get(type(statement.op)), *operands)}
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        if len(targets) == 1 and isinstance(targets[0], ast.Name):
            return {targets[0].id: self.of(statement.value)}  # type: ignore[attr-defined]
        return {}

    def _function(self, node: ast.expr) -> Callable[..., Any] | None:
        if isinstance(node, ast.Attribute):
            return getattr(math, node.attr) if node.attr in MATH and _thing(node.value, self._frame) is math else None
        return _CALLED.get(node.id) if isinstance(node, ast.Name) else None

    def _applied(self, function: Callable[..., Any] | None, *operands: Any) -> Any:
        if function is None or None in operands:
            return None
        try:
            return function(*operands)
        except ArithmeticError:
            return None

    def _named(self, node: ast.Name | ast.Attribute) -> Any:
        if isinstance(node, ast.Name) and self._names and node.id in self._names:
            return self._names[node.id]
        if isinstance(node, ast.Name) and self._names is None:
            named = (s for s in ast.walk(self._scope) if isinstance(s, ast.Name) and s.id == node.id)
            given = [s for s in named if isinstance(s.ctx, ast.Store) and (self._again or _before(s, self._decision))]
            if given:
                above = parents(self._scope).get(id(given[0]))
                plain = isinstance(above, ast.Assign | ast.AnnAssign | ast.NamedExpr) and above.value is not None
                return self.of(above.value) if len(given) == 1 and plain else None  # type: ignore[union-attr,arg-type]
        found = _thing(node, self._frame)
        if isinstance(found, Number):
            return Number(float(found), found.ends, self._apart)
        if not isinstance(found, int | float):
            return None
        ends = self._own.of(float(found))
        return found if ends is None else Number(float(found), ends, self._apart)


def _returned(flow: Flow, nodes: tuple[ast.AST, ...]) -> tuple[Carried, list[Carried]]:
    """What the function that runs, which may stand inside the one that was read, gives back, and the parts of that."""
    above, up = parents(flow.scope), nodes[0]
    while id(up) in above and not isinstance(up, ast.Lambda | ast.FunctionDef | ast.AsyncFunctionDef):
        up = above[id(up)]
    if isinstance(up, ast.Lambda) and up is not flow.scope:
        try:
            return flow.kind(up.body), []
        except TooMuchCode:
            return Carried.ARRAY, []  # all that a value may be
    return flow.inside.get(id(up), (flow.returns, flow.given_back()))


def _around(scope: ast.AST, node: ast.AST) -> tuple[ast.AST, list[ast.expr]]:
    """The statement that an expression stands in, and what it is a part of there, itself first."""
    above, found, up = parents(scope), [node], node
    while id(up) in above and not isinstance(above[id(up)], ast.stmt):
        up = above[id(up)]
        found.append(up)
    return above.get(id(up), up), [x for x in found if isinstance(x, ast.expr)]


@lru_cache(256)
def _returning(scope: ast.AST) -> tuple[ast.expr, ...]:
    """What a function computes in its `return` statements."""
    told = [n.value for n in ast.walk(scope) if isinstance(n, ast.Return) and n.value is not None]
    told += [scope.body] if isinstance(scope, ast.Lambda) else []
    made = (x for whole in told for x in ast.walk(whole) if isinstance(x, ast.BinOp | ast.UnaryOp | ast.Call))
    return tuple(islice(made, _RETURNED))


@lru_cache(1024)
def _mentioned(part: ast.AST) -> frozenset[str]:
    """Names and attributes that stand in a function."""
    nodes = ast.walk(part)
    return frozenset(
        n.id if isinstance(n, ast.Name) else n.attr for n in nodes if isinstance(n, ast.Name | ast.Attribute)
    )


@lru_cache(128)
def _parts(tree: ast.Module) -> tuple[ast.AST, ...]:
    """Its functions, and what stands in none."""
    rest = [node for node in tree.body if not isinstance(node, ast.FunctionDef | ast.ClassDef)]
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return *functions, ast.Module(rest, [])


def _before(one: ast.expr, other: ast.expr) -> bool:
    return (one.lineno, one.col_offset) < (other.lineno, other.col_offset)


def _in_loop(scope: ast.AST, node: ast.AST) -> bool:
    """Whether an expression is run again after statements that follow it."""
    above, up = parents(scope), node
    while up is not scope and id(up) in above:
        up = above[id(up)]
        if isinstance(up, ast.For | ast.While | ast.AsyncFor):
            return True
    return False


def _thing(node: ast.AST, frame: FrameType) -> Any:
    """The object that names and attributes lead to, without running code of its class."""
    if isinstance(node, ast.Name):
        return frame.f_locals.get(node.id, frame.f_globals.get(node.id))
    if isinstance(node, ast.Attribute):
        of = _thing(node.value, frame)
        if of is None:
            return None
        try:
            known = vars(of)
        except TypeError:
            return None
        if node.attr in known:
            return known[node.attr]
        held = getattr(type(of), "__dict__", {}).get(node.attr)
        if isinstance(held, FunctionType):
            return held.__get__(of)
        return getattr(of, node.attr, None) if isinstance(of, type) else None
    return None
