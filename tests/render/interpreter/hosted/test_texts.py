"""A number that became a text: who may read it again as one, and who only shows it or builds another text of it."""

from __future__ import annotations

import ast

import pytest

from render.interpreter.hosted.carried import Carried
from render.interpreter.hosted.dataflow import Flow


def flow_of(body: str) -> Flow:
    """Of a function in which each call of `left` gives a number."""
    function = ast.parse("def run():\n" + "".join(f"    {line}\n" for line in body.splitlines())).body[0]
    sources = {id(n): Carried.FLOAT for n in ast.walk(function) if ast.unparse(n) == "left()"}
    return Flow(function, sources, lambda _: None, lambda _: None, lambda _: False).run()


@pytest.mark.parametrize(
    ("body", "escapes", "decides"),
    [
        ("return parse(str(left()))", True, False), ("return parse('%s' % left())", True, False),
        ("return parse(f'{left()}')", True, False), ("return tool.read(repr(left()))", True, False),
        ("return str(left()).upper()", False, False), ("return '{}'.format(left())", False, False),
        ("return ', '.join([str(left())])", False, False), ("return repr(str(left()))", False, False),
        ("return float(str(left()))", False, True), ("return float(left())", False, False),
        ("print(str(left()))\nreturn 1", False, False),
        ("xs = []\nxs.append(str(left()))\nreturn xs", False, False),
    ],
)  # fmt: skip
def test_where_a_text_goes(body: str, escapes: bool, decides: bool) -> None:
    flow = flow_of(body)
    assert (bool(flow.escapes), bool(flow.decides)) == (escapes, decides)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("return str(left())", Carried.TEXT), ("return '{}'.format(left())", Carried.TEXT),
        ("return float(left())", Carried.FLOAT), ("return float(str(left()))", Carried.FLOAT),
        ("return len(str(left()))", Carried.NONE), ("return '%s' % left()", Carried.TEXT),
        ("return '%s' % 3", Carried.NONE), ("return str(3)", Carried.NONE),
        ("xs = []\nxs.append(str(left()))\nreturn xs", Carried.TEXT),
    ],
)  # fmt: skip
def test_what_is_returned(body: str, kind: Carried) -> None:
    assert flow_of(body).returns is kind
