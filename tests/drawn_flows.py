"""Random functions of numbers that left, and what running them on every way says of their decisions.

`programs` draws functions with one statement to a line; `ways` runs one with followed values in place of floats, once
for each outcome of everything that a program may not foresee (`flag()`, `pick()`, a decision by a followed value), and
tells the lines where anything was decided by such a value, and whether one is returned. It shares nothing with
`render.interpreter.hosted.dataflow`.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

FILE = "<drawn>"
MOST = 200
"""Ways through one function; of one that has more the rest is not known."""


class Way:
    """One way through a function; `given` are its first answers, the others are 0."""

    def __init__(self, given: tuple[int, ...]) -> None:
        self.given, self.taken, self.lines = given, list[tuple[int, int]](), set[int]()
        self._turns = 3

    def answer(self, of: int) -> int:
        n = len(self.taken)
        self.taken.append((self.given[n] if n < len(self.given) else 0, of))
        return self.taken[-1][0]

    def again(self) -> bool:
        """Whether a loop or a function that calls itself goes on: in all at most three times."""
        goes = self._turns > 0 and bool(self.answer(2))
        self._turns -= goes
        return goes

    def decided(self) -> int:
        frame = sys._getframe(2)
        while frame.f_code.co_filename != FILE:
            assert frame.f_back is not None
            frame = frame.f_back
        self.lines.add(frame.f_lineno)
        return self.answer(2)


FLOAT, NUMBER, ARRAY = range(3, 6)
"""How a value left: as a plain float, as a number that sees what it decides, as an array."""


class Value:
    """A number without a value: what it decides, if it does not see that itself, is on its way."""

    def __init__(self, way: Way, left: int) -> None:
        self.way, self.left = way, left

    def _met(self, *others: Any) -> Value:
        return Value(self.way, max([self.left, *(o.left for o in others if isinstance(o, Value))]))

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __neg__ = __abs__ = _met

    def _decides(self, *others: Any) -> Any:
        if self._met(*others).left == NUMBER:
            return bool(self.way.answer(2))
        return bool(self.way.decided())

    __lt__ = __le__ = __gt__ = __ge__ = __bool__ = _decides
    __eq__ = __ne__ = _decides  # type: ignore[assignment]
    __hash__ = None  # type: ignore[assignment]

    def __index__(self) -> int:
        return int(self._decides())

    def rounded(self, *others: Any) -> Value:
        self._decides(*others)
        return self._met(*others)

    __floordiv__ = __rfloordiv__ = rounded

    def __mod__(self, other: Any) -> Value:
        return self.rounded(other) if self._met(other).left == ARRAY else self._met(other)

    def __format__(self, spec: str) -> str:
        return TEXT


TEXT = "?"
"""Digits of a followed number."""


@dataclass
class Drawn:
    text: str
    ways: int = 0
    whole: bool = True
    lines: set[int] = field(default_factory=set)
    """Where a followed value decided."""
    returns: bool = False


def ways(text: str, left: int) -> Drawn:
    """All ways through the function `run` of a text, depth first."""
    found, code, todo = Drawn(text), compile(text, FILE, "exec"), [()]
    while todo and found.ways < MOST:
        way = Way(todo.pop())
        space = _functions(way, left)
        exec(code, space)
        found.ways += 1
        with contextlib.suppress(UnboundLocalError):  # a way that ends as it ends for a user, and returns nothing
            found.returns |= _holds(space["run"]())
        found.lines |= way.lines
        for n in range(len(way.given), len(way.taken)):
            answer, of = way.taken[n]
            todo += [(*(a for a, _ in way.taken[:n]), other) for other in range(answer + 1, of)]
    found.whole = not todo
    return found


def _holds(x: Any) -> bool:
    return isinstance(x, Value) or (isinstance(x, list | tuple) and any(map(_holds, x)))


def _functions(way: Way, left: int) -> dict[str, Any]:
    def number(x: Any) -> Any:
        if isinstance(x, str) and TEXT in x:
            way.decided()
        return Value(way, FLOAT) if isinstance(x, Value | str) else float(x)

    def fails() -> None:
        if way.answer(2):
            raise ValueError

    def whole(x: Any) -> Any:
        return x.rounded() if isinstance(x, Value) else int(x) % 2

    return {
        "left": lambda: Value(way, left), "flag": lambda: bool(way.answer(2)), "pick": way.answer, "float": number,
        "again": way.again, "fails": fails, "print": lambda *_: None, "Held": Held, "int": whole, "round": whole,
    }  # fmt: skip


class Held:
    """What has attributes."""


HELPERS = """\
def twice(a):
    return a + a

def second(a, b):
    return b

def larger(a, b):
    if a > 1.5:
        return 2.5
    return 3.5

def of_all(*a, **b):
    return a[pick(len(a))] * 2.5

def swapped(a, b):
    if again():
        return swapped(b, a)
    return a

def asked(a, b):
    if again():
        return asked(b, a)
    if b > 1.5:
        return 2.5
    return 3.5

"""


WIDER = ("*[", "**", "def ", "lambda", "box.", "held[", "float(")
"""Where a text is read for more than its ways do: who gets which of several arguments, functions with names of others,
attributes of one object, elements that are overwritten."""


class Text:
    """Draws one function."""

    def __init__(self, seed: int, plain: bool) -> None:
        self._plain = plain
        self._g, self._lines, self._names, self._asked = np.random.default_rng(seed), list[str](), ["a", "b", "c"], 0
        self._loops = 0

    def _one(self, of: list[Any]) -> Any:
        return of[int(self._g.integers(len(of)))]

    def _name(self) -> str:
        return str(self._one(self._names))

    def expression(self, depth: int = 2) -> str:
        if depth == 0 or self._g.random() < 0.3:
            return self._name() if self._g.random() < 0.8 else str(self._one(["2.5", "0.75"]))
        e: Callable[[], str] = lambda: self.expression(depth - 1)  # noqa: E731
        kinds: list[Callable[[], str]] = [
            lambda: f"({e()} {self._one(['+', '-', '*'])} {e()})", lambda: f"-{e()}", lambda: f"abs({e()})",
            lambda: f"[{e()}, {e()}][pick(2)]", lambda: f"({e()} if flag() else {e()})",
            lambda: f"twice({e()})", lambda: f"second({e()}, {e()})", lambda: f"second(b={e()}, a={e()})",
            lambda: f"second(*[{e()}, {e()}])", lambda: f"second(**dict(a={e()}, b={e()}))",
            lambda: f"of_all({e()}, {e()})", lambda: f"sum([{e()} for {self._name()} in [{e()}, {e()}]])",
            lambda: f"sum([i * {e()} for i in [{e()}] if flag()], 0.5)", lambda: f"swapped({e()}, {e()})",
            lambda: f"list([{e()}])[pick(1)]", lambda: f"(d := {e()})",
        ]  # fmt: skip
        return str(self._one(kinds)())

    def decision(self) -> str:
        e = self.expression(1)
        return str(self._one([
            f"{e} > {self.expression(1)}", f"{e} == 1.5", f"not {e}", f"{e} // 2.0", f"{e} % 2.0", f"int({e})",
            f"round({e})", f"float({e}) > 1", f"{e} != float({self.expression(1)})",
            f"[1.5, 2.5][int({e})]", f"(1.5 if {e} > 1 else 2.5)", f"larger({e}, 1.5)", f"larger(1.5, {e})",
            f"asked({e}, {self.expression(1)})", f"float(f'{{{e}}}')", f"len([0 for i in [1.5] if {e}])",
            f"larger(*[{e}, 1.5])", f"larger(**dict(b={e}, a=1.5))", f"larger(b={e}, a=2.5)",
        ]))  # fmt: skip

    def block(self, depth: int, count: int, indent: str) -> None:
        for _ in range(count):
            self.statement(depth, indent)

    def statement(self, depth: int, indent: str) -> None:
        put: Callable[[str], None] = lambda line: self._lines.append(indent + line)  # noqa: E731
        r, name = self._g.random(), self._name()
        if r < 0.3:
            put(f"{name} = {self.expression()}")
        elif r < 0.38:
            put(f"{name}, {self._name()} = {self.expression(1)}, {self.expression(1)}")
        elif r < 0.44:
            put(f"{name} {self._one(['+=', '-=', '*='])} {self.expression(1)}")
        elif r < 0.5:
            put(f"{name} = left()")
        elif r < 0.58 and self._asked < 2:
            self._asked += 1
            put(self.decision())
        elif r < 0.62:
            put(self._one([f"print({self.expression(1)})", f"print(f'{{{self.expression(1)}}}')",
                           f"assert True or {self.expression(1)}"]))  # fmt: skip
        elif r < 0.68:
            put(self._one([f"held.append({self.expression(1)})", f"held[pick(1)] = {self.expression(1)}",
                           f"{name} = held[pick(len(held))]", f"held = [{self.expression(1)}]",
                           f"box.x = {self.expression(1)}", f"{name} = box.x", f"box.y = {self.expression(1)}",
                           f"get = lambda: {self.expression(1)}", f"{name} = get()"]))  # fmt: skip
        elif depth and r < 0.7:
            put("def get(u=0.5):")
            self.block(0, 1, indent + "    ")
            put(f"    return u * {self.expression(1)}")
        elif depth and r < 0.8:
            put("if flag():")
            self.block(depth - 1, 2, indent + "    ")
            if self._g.random() < 0.6:
                put("else:")
                self.block(depth - 1, 1, indent + "    ")
        elif depth and r < 0.94 and self._loops == 0:
            self._loop(depth, indent, put)
        elif depth:
            put("try:")
            put("    fails()")
            self.block(0, 1, indent + "    ")
            put("    fails()")
            self.block(0, 1, indent + "    ")
            put("except ValueError:")
            self.block(0, 1, indent + "    ")
            if self._g.random() < 0.3:
                put("finally:")
                self.block(0, 1, indent + "    ")

    def _loop(self, depth: int, indent: str, put: Callable[[str], None]) -> None:
        self._loops += 1
        name, other = self._one([("a", "b"), ("b", "c"), ("i", "j")])
        put(f"turns, others = [{self.expression(1)}] * pick(4), [{self.expression(1)}] * 3")
        put(self._one(["while again():", f"for {name} in turns:", f"for {name}, {other} in zip(turns, others):",
                       f"for {name}, {other} in zip(others, turns):", f"for {name}, {other} in enumerate(turns):",
                       f"for {name}, ({other}, i) in enumerate(zip(turns, others)):",
                       f"for {name}, {other} in zip(*[turns, others]):"]))  # fmt: skip
        self.block(depth - 1, 2, indent + "    ")
        if self._g.random() < 0.4:
            put("    if flag():")
            put(f"        {self._one(['break', 'continue'])}")
            self.block(0, 1, indent + "    ")
        if self._g.random() < 0.3:
            put("else:")
            self.block(0, 1, indent + "    ")
        self._loops -= 1

    def whole(self) -> str:
        self.block(2, 4, "    ")
        self._lines += [f"    {self.decision()}", f"    return {self.expression(1)}\n"]
        if self._plain and any(mark in line for mark in WIDER for line in self._lines):
            self._lines, self._asked = [], 0
            return self.whole()
        head = ["def run():", "    a, b, c, d, i, j = left(), 1.5, 2.5, 3.5, 0.5, 0.25",
                "    held, box, get = [1.5], Held(), flag", "    box.x = 1.5"]  # fmt: skip
        return HELPERS + "\n".join([*head, *self._lines])


def programs(first: int, count: int, left: int, plain: bool) -> Iterator[Drawn]:
    for seed in range(first, first + count):
        with contextlib.suppress(SyntaxError):  # a name given among what a comprehension takes its turns from
            yield ways(Text(seed, plain).whole(), left)
