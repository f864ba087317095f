"""Numbers that the user's code computes in plain sight, of literals, shapes and numbers that left torch.

A float that turns up after others have left may come of one of them (`hosted.numbers`). Before it is called unknown it
is looked for among the values of the expressions in the functions that are running. Those are evaluated once more, from
what cannot carry an error (literals, integers, sizes, constants of modules, numbers that were there before anything
left) by arithmetic and functions without side effects. What left as a plain float, `float(t)` or `t.item()`, is each
that did, with its bounds. A float that has such a value in every bit is known by it, as one that equals a literal is.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import product
from types import BuiltinFunctionType, FrameType, FunctionType, ModuleType
from typing import Any

import numpy as np
import torch
import triton

from render.interpreter.hosted.mathematics import JOINTLY, MATH, MathFunction
from render.interpreter.hosted.numbers import Ends, LeftNumbers, Number
from render.interpreter.hosted.reading import tree_of
from render.result.defects import caught

MOST = 64
"""Values that one expression is followed to have."""
STEPS, ALL = 5_000, 500_000
"""Evaluations in one function for one number, and in one session."""
OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow,
}  # fmt: skip
_UNKNOWN = -1
_LOST = frozenset({_UNKNOWN})
"""The taint of what a function that is not followed makes of a number with bounds."""
SIGNS: dict[type, Callable[[Any], Any]] = {ast.USub: operator.neg, ast.UAdd: operator.pos}
_PLAIN: tuple[Any, ...] = (float, int, abs, round, pow, bool, triton.cdiv, triton.next_power_of_2)
_BUILT_IN: tuple[Any, ...] = (float, int, abs, round, pow, bool, len, max, min)
_LIMITS: tuple[Any, ...] = (torch.finfo, torch.iinfo, np.finfo)
_FUNCTIONS = (BuiltinFunctionType, FunctionType, type, np.ufunc, MathFunction)
"""What may be one of them; anything else is not even asked for its name, which may run code of its own."""
_SIZES = frozenset(["size", "numel", "dim", "stride", "element_size", "nelement", "__len__"])
_SEEN = (ast.BinOp, ast.UnaryOp, ast.Call, ast.IfExp, ast.Attribute, ast.Subscript)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_STEPS = {ast.Assign, ast.AnnAssign, ast.Return, ast.Expr, ast.Name, ast.BinOp, ast.Call}
"""Of a function that is followed: statements, or the expression of a lambda."""
_COMPREHENSIONS = (ast.ListComp, ast.GeneratorExp, ast.SetComp)


def _scope(file: str, line: int, name: str) -> tuple[ast.AST, ...]:
    """Statements (or the expression) of a code object."""
    tree = tree_of(file)
    return () if tree is None else _within(tree, line, name)


@lru_cache(256)
def _within(tree: ast.Module, line: int, name: str) -> tuple[ast.AST, ...]:
    if name == "<module>":
        return tuple(tree.body)
    if name.endswith(("comp>", "expr>")):  # of several in a line it may be any
        return tuple(n.elt for n in ast.walk(tree) if isinstance(n, _COMPREHENSIONS) and n.lineno == line)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == name:
            if line in (node.lineno, *(d.lineno for d in node.decorator_list)):
                return tuple(node.body)
        elif isinstance(node, ast.Lambda) and name == "<lambda>" and node.lineno == line:
            return (node.body,)
    return ()


@lru_cache(256)
def _giving(body: tuple[ast.AST, ...]) -> dict[str, list[ast.AST]]:
    """The statements that give something to a name, in their order."""
    found = dict[str, list[ast.AST]]()
    for statement in (s for top in body for s in ast.walk(top)):
        single = isinstance(statement, ast.AnnAssign | ast.NamedExpr | ast.AugAssign)
        targets = [statement.target] if single else getattr(statement, "targets", [])  # type: ignore[attr-defined]
        names = {n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)}
        for name in names if single or isinstance(statement, ast.Assign) else ():
            found.setdefault(name, []).append(statement)
    return found


class _Enough(Exception):
    """There is too much to evaluate."""


@dataclass
class _Reader:
    """Evaluates expressions of one function; `names`: its variables; `floats`: what is known of a plain float."""

    names: Mapping[str, Any]
    beyond: Mapping[str, Any]
    body: tuple[ast.AST, ...]
    apart: LeftNumbers
    """Of the numbers that are tried here."""
    floats: Callable[[float], list[Any]]
    left: list[Any]
    """Numbers that left, each with its bounds."""
    whole: Callable[[int], bool]
    """Whether an integer in a variable came of no number that left."""
    outside: Callable[[str], bool]
    count: list[int]
    clean: frozenset[str] = frozenset()
    """Names whose values were found here."""
    busy: set[int] = field(default_factory=set)
    found: dict[str, list[Any]] = field(default_factory=dict, init=False)
    """Values of names so far; `asked`: of those that are looked for."""
    asked: set[str] = field(default_factory=set, init=False)

    def collect(self) -> Iterator[Any]:
        """The values of all expressions."""
        for node in self.body:
            yield from self._all(node)

    def _all(self, node: ast.AST) -> Iterator[Any]:
        if isinstance(node, _SCOPES):
            return
        if isinstance(node, _SEEN):
            yield from self.values(node)
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            yield from self._assigned(node.target.id)
        if isinstance(node, ast.For) and isinstance(node.target, ast.Name):
            yield from self._over(node.target.id, node.iter, node.body)
        elif isinstance(node, _COMPREHENSIONS) and isinstance(node.generators[0].target, ast.Name):
            yield from self._over(node.generators[0].target.id, node.generators[0].iter, [node.elt])
        else:
            for child in ast.iter_child_nodes(node):
                yield from self._all(child)

    def _over(self, name: str, turns: ast.expr, body: Iterable[ast.AST]) -> Iterator[Any]:
        """What a loop computes in each of its turns."""
        for turn in self._turns(turns):
            inner = replace(self, names={**self.names, name: turn}, body=tuple(body), clean=self.clean | {name})
            yield from inner.collect()

    def _turns(self, node: ast.expr) -> Iterable[Any]:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range":
            ends = [self.values(a) for a in node.args]
            if all(len(e) == 1 and isinstance(e[0], int) for e in ends):
                return range(*(e[0] for e in ends))
        if isinstance(node, ast.Tuple | ast.List):
            return [v for x in node.elts for v in self.values(x)]
        return ()

    def values(self, node: ast.AST) -> list[Any]:
        """Numbers that an expression may have given; none where it is not followed."""
        self.count[0] -= 1
        if self.count[0] <= 0:
            raise _Enough
        method = getattr(self, f"_{type(node).__name__.lower()}", None)
        found = [] if method is None else method(node)
        return list(found)[:MOST]

    def _constant(self, node: ast.Constant) -> list[Any]:
        return [node.value] if isinstance(node.value, int | float) else []

    def _name(self, node: ast.Name) -> list[Any]:
        own = self.names.get(node.id, self.beyond.get(node.id))
        if node.id in self.clean:
            return [own] if isinstance(own, int | float) else []
        if node.id not in self.found:
            first = node.id not in self.asked
            self.asked.add(node.id)
            found = _distinct([*self._vetted(own), *self._assigned(node.id)])
            if not first:  # of itself as it was before
                return found
            self.found[node.id] = found
        return self.found[node.id]

    def _vetted(self, x: Any) -> list[Any]:
        if isinstance(x, Number):
            return [Number(float(x), x.ends, self.apart)]
        if type(x) is float or isinstance(x, np.floating):
            return self.floats(float(x))
        return [x] if isinstance(x, float) or (isinstance(x, int) and self.whole(x)) else []

    def _assigned(self, name: str) -> list[Any]:
        """What the statements of the function give to a name."""
        found: list[Any] = []
        for statement in _giving(self.body).get(name, ()):
            if id(statement) in self.busy:
                continue
            self.busy.add(id(statement))
            try:
                target = getattr(statement, "target", None)
                mine = isinstance(target, ast.Name) and target.id == name
                if isinstance(statement, ast.Assign):
                    found += [x for t in statement.targets for x in self._given(t, statement.value, name)]
                elif mine and isinstance(statement, ast.AnnAssign | ast.NamedExpr) and statement.value is not None:
                    found += self.values(statement.value)
                elif mine and isinstance(statement, ast.AugAssign):
                    before = [*found, *self._vetted(self.names.get(name))]
                    found += self._applied(OPERATORS.get(type(statement.op)), before, self.values(statement.value))
            finally:
                self.busy.discard(id(statement))
        return found[:MOST]

    def _given(self, target: ast.AST, value: ast.expr, name: str) -> list[Any]:
        """What one assignment gives to a name, also among several that take the sizes of a tensor, or a list, apart."""
        if isinstance(target, ast.Name) and target.id == name:
            return self.values(value)
        if not isinstance(target, ast.Tuple):
            return []
        parts: Sequence[Any] = value.elts if isinstance(value, ast.Tuple) else self._sizes(value)
        rest, back = False, len(target.elts)
        for i, part in enumerate(target.elts):
            rest = rest or isinstance(part, ast.Starred)
            at = i - back + len(parts) if rest else i
            if isinstance(part, ast.Name) and part.id == name and 0 <= at < len(parts):
                return self.values(parts[at]) if isinstance(parts[at], ast.AST) else [parts[at]]
        return []

    def _sizes(self, node: ast.expr) -> tuple[int, ...]:
        called = isinstance(node, ast.Call) and not node.args and isinstance(node.func, ast.Attribute)
        if called and node.func.attr == "size":  # type: ignore[attr-defined]
            of = self.thing(node.func.value)  # type: ignore[attr-defined]
            return tuple(of.shape) if isinstance(of, torch.Tensor) else ()
        of = self.thing(node)
        return tuple(of) if isinstance(of, torch.Size) else ()

    def _applied(self, function: Callable[..., Any] | None, *operands: list[Any]) -> list[Any]:
        found: list[Any] = []
        for given in product(*operands) if function is not None else ():
            if function is operator.pow and all(isinstance(x, int) for x in given) and abs(given[1]) > 64:
                continue
            if any(isinstance(x, Number) for x in given) and any(isinstance(x, np.float32 | np.float16) for x in given):
                continue  # numpy computes in the narrow type
            given = tuple(float(x) if isinstance(x, np.float64) else x for x in given)  # which hides a number's bounds
            try:
                found.append(function(*given))  # type: ignore[misc]
            except (ArithmeticError, ValueError, TypeError):
                continue
            if len(found) == MOST:
                break
        return [x for x in found if isinstance(x, int | float)]

    def _binop(self, node: ast.BinOp) -> list[Any]:
        return self._applied(OPERATORS.get(type(node.op)), self.values(node.left), self.values(node.right))

    def _unaryop(self, node: ast.UnaryOp) -> list[Any]:
        return self._applied(SIGNS.get(type(node.op)), self.values(node.operand))

    def _ifexp(self, node: ast.IfExp) -> list[Any]:
        return [*self.values(node.body), *self.values(node.orelse)]

    def _attribute(self, node: ast.Attribute) -> list[Any]:
        of, found = self.thing(node.value), self.thing(node)
        library = isinstance(of, ModuleType) and not self.outside(getattr(of, "__file__", None) or "")
        if library or isinstance(of, torch.finfo | torch.iinfo | np.finfo):
            return [found] if isinstance(found, int | float) else []
        return self._vetted(found)

    def _subscript(self, node: ast.Subscript) -> list[Any]:
        of = self.thing(node.value)
        found: list[Any] = []
        for at in self.values(node.slice) if isinstance(of, tuple | list) else ():
            if isinstance(at, int) and -len(of) <= at < len(of):
                found += [of[at]] if isinstance(of, torch.Size) else self._vetted(of[at])
        return found

    def thing(self, node: ast.AST) -> Any:
        """The object that names and attributes lead to, without running code of its class."""
        if isinstance(node, ast.Name):
            return self.names.get(node.id, self.beyond.get(node.id, _built_in(node.id)))
        if isinstance(node, ast.Attribute):
            of = self.thing(node.value)
            if isinstance(of, torch.Tensor):
                return getattr(of, node.attr) if node.attr in ("shape", "ndim", "itemsize", "dtype") else None
            if isinstance(of, torch.dtype | torch.finfo | torch.iinfo | np.finfo | ModuleType):
                return getattr(of, node.attr, None)
            return getattr(of, "__dict__", {}).get(node.attr)
        if isinstance(node, ast.Call) and any((made := self.thing(node.func)) is k for k in _LIMITS):
            kind = self.thing(node.args[0]) if len(node.args) == 1 else None
            return made(kind) if isinstance(kind, torch.dtype | type) else None
        return None

    def _call(self, node: ast.Call) -> list[Any]:
        if isinstance(node.func, ast.Attribute):
            of = self.thing(node.func.value)
            if isinstance(of, torch.Tensor) and node.func.attr in _SIZES:
                sizes = getattr(of, node.func.attr)
                return self._applied(sizes, *(self.values(a) for a in node.args))
            if node.func.attr == "item" and not node.args:
                return self.left
        function = self.thing(node.func)
        if function is len and len(node.args) == 1:
            of = self.thing(node.args[0])
            return [len(of)] if isinstance(of, torch.Tensor | tuple | list) else []
        if isinstance(function, FunctionType) and self.outside(function.__code__.co_filename):
            return self._of_function(function, node)
        given = [self.values(a) for a in node.args] if not node.keywords else []
        if function is float and given == [[]]:
            return self.left
        if (function is max or function is min) and len(given) > 1:
            return self._applied(extreme(function), *given)
        return self._applied(_followed(function), *given) if given else []

    def _of_function(self, function: FunctionType, node: ast.Call) -> list[Any]:
        """What a small function of the user returns: one of assignments and a result."""
        code = function.__code__
        body = _scope(code.co_filename, code.co_firstlineno, code.co_name)
        inner = self._named(function, node)
        if inner is None or len(body) > 12 or not set(map(type, body)) <= _STEPS:
            return []
        given = frozenset(inner) - frozenset(code.co_freevars)
        reader = replace(self, names=inner, beyond=function.__globals__, body=body, clean=given)
        last = body[-1].value if isinstance(body[-1], ast.Return) else body[-1]
        return [] if last is None else reader.values(last)

    def _named(self, function: FunctionType, node: ast.Call) -> dict[str, Any] | None:
        """Its arguments, each of one value."""
        code, found = function.__code__, dict[str, Any]()
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        defaults = function.__defaults__ or ()
        found.update(zip(code.co_varnames[code.co_argcount - len(defaults) : code.co_argcount], defaults, strict=True))
        found.update(function.__kwdefaults__ or {})
        given = [*zip(names, node.args, strict=False), *((k.arg, k.value) for k in node.keywords)]
        for name, x in given:
            thing, one = self.thing(x), self.values(x)
            if name is None or (len(one) != 1 and not isinstance(thing, torch.Tensor)):
                return None
            found[name] = one[0] if one else thing
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            found[name] = cell.cell_contents
        return found if set(names) <= set(found) and len(node.args) <= code.co_argcount else None


def _distinct(xs: list[Any]) -> list[Any]:
    """The first of those with one value; numbers with bounds are not compared."""
    return list({(type(x), float(x).hex()): x for x in reversed(xs)}.values())[::-1]


def _built_in(name: str) -> Any:
    return next((f for f in _BUILT_IN if f.__name__ == name), None)


def extreme(plain: Callable[..., Any]) -> Callable[..., Any]:
    """The largest or least of numbers rises in each of them; asking for it compares nothing that is open."""

    def found(*given: Any) -> Any:
        open_ = [x for x in given if isinstance(x, Number)]
        if not open_:
            return plain(*given)
        ends = [x.ends if isinstance(x, Number) else Ends(float(x), float(x)) for x in given]
        taint = frozenset[int]().union(*(e.taint for e in ends))
        one = Ends(plain(e.lo for e in ends), plain(e.hi for e in ends), taint)
        return Number(plain(map(float, given)), one, open_[0].own)

    return found


def _followed(function: Any) -> Callable[..., Any] | None:
    """A function without side effects, of numbers and of those with bounds; None for any other."""
    plain = any(function is f for f in _PLAIN)
    if not (plain or isinstance(function, _FUNCTIONS)):
        return None
    name = getattr(function, "__name__", "")
    of_math = isinstance(function, MathFunction) or getattr(math, name, None) is function
    of_numpy = isinstance(function, np.ufunc) or function in (np.float64, np.float32)
    if not (of_math or of_numpy or plain):
        return None

    def applied(*given: Any) -> Any:
        open_ = [x for x in given if isinstance(x, Number)]
        if not open_:
            return function(*given)
        if function in (float, np.float64) and len(given) == 1:
            return given[0]
        if name in MATH and len(given) == 1 and (of_math or of_numpy):
            return given[0].of_math(name, getattr(function, "_plain", function))
        if isinstance(function, MathFunction) and name in JOINTLY:
            return function(*given)
        if function in (abs, pow) or (function is round and len(given) == 2):
            return function(*given)
        value, ends = float(function(*map(float, given))), open_[0].ends
        if function is np.float32:  # rises with what it rounds
            lo, hi = (float(np.float32(x)) for x in (ends.lo, ends.hi))
            return Number(value, Ends(min(lo, ends.lo), max(hi, ends.hi), ends.taint), open_[0].own)
        return Number(value, Ends(value, value, _LOST), open_[0].own)

    return applied


def _to_the_end(values: Iterator[Any]) -> Iterator[Any]:
    """What there is, until there is too much, or an object of the user's does not answer: the rest is not explained."""
    try:
        yield from values
    except _Enough:
        return
    except Exception as error:
        caught(error, "expressions of the running functions")


class InSight:
    """Values of the expressions of the functions that are running."""

    def __init__(self, own: LeftNumbers) -> None:
        self._own, self._budget = own, ALL
        self._key: Any = None
        self._found: dict[float, Ends] = {}
        self._points: dict[Any, dict[float, Ends]] = {}
        """What was found to rest on nothing that left: so it does in the next turn of a loop."""

    def of(self, value: float, frames: Iterable[FrameType], inside: Callable[[float], float]) -> Ends | None:
        """Ends of a float that `inside` made of a value that they have; None where there is none, or it was lost."""
        points = self._points.setdefault(inside, {})
        if value in points:
            return points[value]
        running = list(frames)
        key = len(self._own.known), inside, tuple((id(f), f.f_lasti, _scalars(f.f_locals)) for f in running)
        if self._key != key:
            self._key, self._found = key, {}
            for x, ends in self._values(running):
                old = self._found.get(at := inside(x), ends)
                self._found[at] = Ends(min(old.lo, ends.lo), max(old.hi, ends.hi), old.taint | ends.taint)
            points.update((x, e) for x, e in self._found.items() if e.point and not e.taint)
        found = self._found.get(value)
        return None if found is None or found.taint >= _LOST else found

    def _values(self, frames: Iterable[FrameType]) -> Iterator[tuple[float, Ends]]:
        own = self._own
        apart = LeftNumbers(lambda *_: _UNKNOWN, own.outside)  # what is tried here did not happen
        seen, counts = dict[float, list[Any]](), set[int]()
        left = [Number(k, e, apart) for k, e in list(own.known.items())[-MOST:]]

        def floats(x: float) -> list[Any]:
            known = own.known.get(x)
            if known is not None:
                return [Number(x, known, apart)]
            return [x] if own.is_written(x) or (x.is_integer() and abs(x) <= 2) else seen.get(x, [])

        def whole(x: int) -> bool:
            return abs(x) <= 2 or x in counts or own.is_written(float(x))

        for frame in reversed(list(frames)):  # what a caller computed, a function gets as its arguments
            code, most = frame.f_code, min(STEPS, self._budget)
            count = [most]
            body = _scope(code.co_filename, code.co_firstlineno, code.co_name)
            reader = _Reader(frame.f_locals, frame.f_globals, body, apart, floats, left, whole, own.outside, count)
            for x in _to_the_end(reader.collect()):
                if isinstance(x, float) and not apart.branched:
                    seen[float(x)] = _distinct([*seen.get(float(x), []), x])
                    yield float(x), x.ends if isinstance(x, Number) else Ends(float(x), float(x))
                elif isinstance(x, int):
                    counts.add(x)
            self._budget -= most - count[0]


def _scalars(names: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple((k, float(v).hex()) for k, v in names.items() if isinstance(v, int | float) and abs(v) < 2**1000)
