"""Where a program goes on by a number that left: all of its ways, run, say the same as its text."""

from __future__ import annotations

import ast

import pytest
from drawn_flows import ARRAY, FLOAT, NUMBER, programs
from support import trials

from render.interpreter.hosted.carried import ReadingBudget, TooMuchCode
from render.interpreter.hosted.dataflow import Carried, Flow
from render.interpreter.hosted.kinds import Kinds


def through(text: str, kind: Carried = Carried.FLOAT) -> Flow:
    """What is read of `run`, to which each call of `left` gives one."""
    tree = ast.parse(text)
    functions = {n.name: n for n in tree.body if isinstance(n, ast.FunctionDef)}
    sources = {id(n): kind for n in ast.walk(functions["run"]) if ast.unparse(n) == "left()"}

    def entered(call: ast.Call) -> tuple[ast.AST, bool] | None:
        found = functions.get(ast.unparse(call.func))
        return None if found is None else (found, False)

    return Flow(functions["run"], sources, lambda _: None, entered, lambda _: False).run()


def lines(flow: Flow) -> set[int]:
    return {node.lineno for node in flow.decides.values()}  # type: ignore[attr-defined]


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("left", [FLOAT, NUMBER, ARRAY])
def test_nothing_that_a_way_decides_is_overlooked(left: int, plain: bool):
    """And nothing else is told, of texts that say no more than their ways."""
    known = 0
    for drawn in programs(1000 * left, trials(60), left, plain):
        flow = through(drawn.text, Carried(left))
        assert lines(flow) >= drawn.lines, drawn.text
        assert flow.returns or not drawn.returns, drawn.text
        if drawn.whole and plain:
            known += 1
            assert lines(flow) == drawn.lines, drawn.text
            assert bool(flow.returns) == drawn.returns, drawn.text
    assert known or not plain


SUM = "def f(x):\n    s = 0.0\n    for _ in range(3):\n        s += x.item()\n    return {}\n"
CHAIN = "def f(x):\n    v0 = x.item()\n{}    return v0\n"


def reading(text, strange, monkeypatch):
    """How many expressions are looked at."""
    function, seen = ast.parse(text).body[0], []
    asked = Kinds.kind
    monkeypatch.setattr(Kinds, "kind", lambda self, node: seen.append(node) or asked(self, node))
    left = next(n for n in ast.walk(function) if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute))
    Flow(function, {id(left): Carried.NUMBER}, lambda _: None, lambda _: None, lambda _: False, strange=strange).run()
    monkeypatch.undo()
    return len(seen)


@pytest.mark.parametrize("strange", [False, True])
@pytest.mark.parametrize("kind", ["sum", "chain"])
def test_long_expressions_and_chains_of_names_are_read_a_few_times(kind, strange, monkeypatch):
    def text(n):
        if kind == "sum":
            return SUM.format(" + ".join(f"s * {i}.5" for i in range(n)))
        return CHAIN.format("".join(f"    v{i + 1} = v{i} * 1.5 + v{max(i - 1, 0)} * 2.5\n" for i in range(n)))

    few, many = (reading(text(n), strange, monkeypatch) for n in (8, 16))
    assert few > 8
    assert many <= 6 * few


NESTED = "def left(): ...\n\ndef inner(a, b):\n    return a * 2\n\ndef run():\n    v = left()\n    return {}\n"


def nested(depth):
    value = "v"
    for _ in range(depth):
        value = f"inner(abs({value} + 1) * 2, {value[:40].count('v')})"
    return NESTED.format(value)


def test_calls_inside_calls_are_read_a_few_times(monkeypatch):
    seen, asked = [], Kinds.kind
    monkeypatch.setattr(Kinds, "kind", lambda self, node: seen.append(node) or asked(self, node))
    counts = []
    for depth in (6, 12):
        through(nested(depth))
        counts.append(len(seen))
        seen.clear()
    assert counts[1] <= 4 * counts[0]


@pytest.mark.parametrize("left", [FLOAT, NUMBER, ARRAY])
def test_what_was_read_before_is_what_reading_it_again_says(left, monkeypatch):
    """Nothing that is kept of an expression outlives a change of what it is made of."""
    for drawn in programs(77_000 * left, trials(40), left, False):
        kept = through(drawn.text, Carried(left))
        with monkeypatch.context() as patch:
            patch.setattr(Kinds, "kind", Kinds._kind)
            again = through(drawn.text, Carried(left))
        for name in ("returns", "names", "attributes", "tensors"):
            assert getattr(kept, name) == getattr(again, name), drawn.text
        for name in ("decides", "escapes"):
            assert {ast.dump(n, include_attributes=True) for n in getattr(kept, name).values()} == {
                ast.dump(n, include_attributes=True) for n in getattr(again, name).values()
            }, drawn.text


def test_reading_ends_where_there_is_more_than_is_read():
    function = ast.parse("def f(x):\n    v = x.item()\n" + "    v = v * 2 + 1\n" * 50).body[0]

    def read(budget):
        return Flow(function, {}, lambda _: None, lambda _: None, lambda _: False, budget=budget).run()

    read(ReadingBudget(left=2000))
    with pytest.raises(TooMuchCode):
        read(ReadingBudget(left=100))
