"""What the user's code does with a number that left torch as a plain float or an array: does any decision rest on it?

A `Number` sees how it is compared; a plain float (`float(t)`, what numpy makes of a number) and an array do not. So the
function where one leaves is read: names, attributes and elements that it reaches on any way through the statements, and
every place where the program goes on by its value - a comparison, a condition, an index, an integer or a rounded
value made of it, a function that may do any of these. Calls of small functions of the user are entered; what a function
returns flows on in its caller.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from render.interpreter.hosted.carried import SHOWING, Carried, any_of
from render.interpreter.hosted.kinds import Kinds
from render.interpreter.hosted.reading import called

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_TURNS = 100
_State = tuple[dict[str, Any], set[str], dict[str, Any], Any]


@dataclass
class _Ends:
    """Of a loop: where it is left, and where a turn ends before the last statement."""

    left: list[_State]
    early: list[_State]


@dataclass
class Flow(Kinds):
    """Through the statements of one function."""

    _ends: _Ends = field(default_factory=lambda: _Ends([], []))

    def _state(self) -> _State:
        return dict(self.names), set(self.tensors), dict(self.attributes), self.returns

    def _join(self, other: _State) -> None:
        """Either of two ways led here."""
        names, tensors = other[:2]
        self._changed = self.budget.change()
        self.tensors = {n for n in self.tensors | tensors if all(
            n in t or not k.get(n) for t, k in ((self.tensors, self.names), (tensors, names)))}  # fmt: skip
        self.names = {name: any_of(k.get(name, Carried.NONE) for k in (self.names, names))
                      for name in self.names | names}  # fmt: skip

    def _at(self, ways: Iterable[_State]) -> None:
        """One of these leads here, and nothing else does."""
        first, *others = ways
        if self._ordered:
            self.names, self.tensors, self._changed = dict(first[0]), set(first[1]), self.budget.change()
        for way in (first, *others):
            self._join(way)

    def run(self) -> Flow:
        """In the order of the statements; in any order where functions inside share the names."""
        body = self.scope.body if isinstance(self.scope.body, list) else [self.scope.body]  # type: ignore[attr-defined]
        self._ordered = not any(isinstance(n, _SCOPES) for top in body for n in ast.walk(top))
        if self._ordered:
            self._block(body)
            return self._returned()
        for _ in range(_TURNS):
            before = self._state()
            self._block(body)
            if before == self._state():
                break
        return self._returned()

    def _returned(self) -> Flow:
        if isinstance(self.scope, ast.Lambda):
            self.returns = self.returns.either(self.kind(self.scope.body))
        return self

    def _statement(self, node: ast.AST) -> None:
        if isinstance(node, ast.Import | ast.ImportFrom | ast.Global | ast.Nonlocal):
            return
        if isinstance(node, ast.Assert | ast.Raise):
            self._ending(node)
            return
        method = getattr(self, f"_{type(node).__name__.lower()}", None)
        if method is not None:
            method(node)
            return
        if isinstance(node, ast.expr):
            self.kind(node)
            return
        for child in ast.iter_child_nodes(node):
            self._statement(child)

    def _ending(self, node: ast.Assert | ast.Raise) -> None:
        """What only ends the program decides nothing else; functions written there may."""
        told = node.test if isinstance(node, ast.Assert) else node.exc
        for inner in ast.walk(node):
            if isinstance(inner, ast.Lambda):
                self.kind(inner)
        before = dict(self.decides)
        if told is not None and self.kind(told) > Carried.TEXT and isinstance(node, ast.Raise):
            self._lost(node)  # whoever catches it
        self.decides = before

    def _block(self, nodes: Iterable[ast.AST]) -> None:
        for node in nodes:
            self._statement(node)

    def _functiondef(self, node: Any) -> None:
        outer = self.returns, self.returned
        self.returns, self.returned = Carried.NONE, []
        self._block(node.body)  # it sees the names of the function around it
        self.inside[id(node)], self.functions[node.name] = (self.returns, self.given_back()), self.given_back()
        if node is not self.running:
            name = self.variable(node)
            self.names[name] = self.returns.either(self.names.get(name, Carried.NONE))
        self._changed = self.budget.change()
        self.returns, self.returned = outer

    _asyncfunctiondef = _functiondef

    def _assign(self, node: ast.Assign) -> None:
        self._given([part for target in node.targets for part in self._parted(target, node.value)])

    def _annassign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._given(self._parted(node.target, node.value))

    def _augassign(self, node: ast.AugAssign) -> None:
        kind = self._met(node, [self.kind(node.target), self.kind(node.value)], node.op)
        if kind.blind and self.tensor(node.target):
            self._lost(node)
        self._put(node.target, kind, self.tensor(node.value))

    def _for(self, node: ast.For) -> None:
        def turn() -> None:
            self._taken(node.target, node.iter)
            self._block(node.body)

        self._again(turn, node.orelse)

    def _again(self, turn: Callable[[], None], otherwise: Iterable[ast.AST]) -> None:
        outer, self._ends = self._ends, _Ends([], [])
        for _ in range(_TURNS if self._ordered else 1):
            before = self._state()
            turn()
            for way in (before, *self._ends.early):
                self._join(way)
            if before == self._state():
                break
        left, self._ends = self._ends.left, outer
        self._block(otherwise)
        for way in left:
            self._join(way)

    def _break(self, _: ast.Break) -> None:
        self._ends.left.append(self._state())

    def _continue(self, _: ast.Continue) -> None:
        self._ends.early.append(self._state())

    def _if(self, node: ast.If) -> None:
        if self._harmless(node):
            before = dict(self.decides)
            self.kind(node.test)
            self.decides = before
        else:
            self._asked(node.test)
        start = self._state()
        self._block(node.body)
        after = self._state()
        self._at([start])
        self._block(node.orelse)
        self._join(after)

    def _while(self, node: ast.While) -> None:
        def turn() -> None:
            self._asked(node.test)
            self._block(node.body)

        self._again(turn, node.orelse)

    def _try(self, node: ast.Try) -> None:
        ways = [self._state()]
        for statement in node.body:
            self._statement(statement)
            ways.append(self._state())  # any of them may fail
        self._block(node.orelse)
        ends = [self._state()]
        for handler in node.handlers:
            self._at(ways)
            self._block(handler.body)
            ends.append(self._state())
        self._at([*ends, *ways] if node.finalbody else ends)
        self._block(node.finalbody)

    _trystar = _try

    def _harmless(self, node: ast.If) -> bool:
        """Whether it only raises, or shows something: no result rests on which way it goes."""
        return all(
            isinstance(s, ast.Raise | ast.Pass)
            or (isinstance(s, ast.Expr) and isinstance(s.value, ast.Call) and called(s.value.func) in SHOWING)
            for s in (*node.body, *node.orelse)
        )

    def _match(self, node: ast.Match) -> None:
        self._asked(node.subject)
        if self.kind(node.subject):
            self._lost(node)  # its patterns may bind it
        for case in node.cases:
            self._block(case.body)

    def _return(self, node: ast.Return | ast.Yield) -> Carried:
        if node.value is not None:
            kind = self.kind(node.value)
            parts = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
            plain = not any(isinstance(x, ast.Starred) for x in parts)
            kinds = [Carried.NONE if self.tensor(x) else self.kind(x) for x in parts] if plain else []
            self.returned = [*(known for known in self.returned if known != kinds), kinds]
            self.returns = self.returns.either(Carried.NONE if self.tensor(node.value) else kind)
        return Carried.NONE

    def _yielded(self, node: ast.Yield) -> Carried:
        found = self._return(node)
        self._changed = self.budget.change()
        if self.returns:
            self._lost(node)  # whoever asks for the next one
        return found

    _yield = _yieldfrom = _yielded
