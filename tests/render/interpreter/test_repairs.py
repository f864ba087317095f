"""Faults planted by hand in a tree are undone by one of the repairs that are proposed for it."""

import ast

import pytest

from render.interpreter.repairs import literals, repaired, repairs, unread

GOOD = """
def kernel(X, W, Out, n, scale, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    x = tl.load(X + i, mask=m, other=0.0)
    w = tl.load(W + i, mask=m, other=0.0)
    y = tl.where(x > 0, x * w, w - x)
    y = y / (n - 1)
    y = tl.exp(y) * scale
    tl.store(Out + i, y, mask=m)
"""


@pytest.mark.parametrize(("right", "wrong"), [
    ("i < n", "i <= n"), ("i < n", "i < n + 1"), ("x * w", "x + w"), ("w - x", "x - w"), ("tl.exp(y)", "tl.exp2(y)"),
    (" * scale", ""), ("x > 0", "x >= 0"), ("x > 0", "w > 0"), ("x * w, w - x", "w - x, x * w"),
    ("X + i", "X + i + 1"), ("tl.load(W + i", "tl.load(X + i"), ("x > 0", "x > 1"), ("(n - 1)", "n"),
])  # fmt: skip
def test_a_fault_is_undone(right, wrong):
    assert right in GOOD
    bad = GOOD.replace(right, wrong, 1)
    wanted = ast.unparse(ast.parse(GOOD))
    line = next(k for k, (a, b) in enumerate(zip(GOOD.splitlines(), bad.splitlines(), strict=True), 1) if a != b)
    found = [r for r in repairs(ast.parse(bad)) if _same(repaired(ast.parse(bad), r.place, r.code), wanted)]
    assert found and found[0].line == line


def _same(tree, wanted):
    """Up to limits written as sums: `n + 1 - 1` is n."""
    text = ast.unparse(tree)
    return any(t == wanted for t in (text, text.replace(" + 1 - 1", ""), text.replace("n + 0", "n")))


def test_literals_are_floats_of_the_body():
    assert [(x.line, x.value) for x in literals(ast.parse(GOOD))] == [(5, 0.0), (6, 0.0)]
    assert all(x.fill for x in literals(ast.parse(GOOD)))
    assert not any(x.fill for x in literals(ast.parse(GOOD.replace("* scale", "* 0.5"))) if x.value == 0.5)


def test_an_accumulation_that_was_forgotten_comes_first():
    text = "def kernel(X):\n    acc = 0.0\n    for k in range(8):\n        acc = tl.load(X + k)\n    tl.store(X, acc)\n"
    assert repairs(ast.parse(text))[0].code == "(tl.load(X + k)) + acc"


def test_the_ends_of_a_loop_come_first():
    text = "def f(n, B):\n    for i in range(1, n // B):\n        s = i / (n * B)\n    return s\n"
    codes = [r.code for r in repairs(ast.parse(text))]
    assert codes[:2] == ["range(0, n // B)", "range(1, (n + B - 1) // B)"]
    assert "(i) / (n * B - 1)" in codes


def test_a_stride_that_was_forgotten_is_a_parameter_that_nobody_reads():
    """And not a name that was assigned and is not read."""
    text = (
        "def f(X, stride, n):\n    spare = n * 2\n    i = tl.arange(0, 8)\n    x = tl.load(X + i)\n    tl.store(X, x)\n"
    )
    products = {r.code for r in repairs(ast.parse(text)) if r.code.startswith("(i * ")}
    assert products == {"(i * stride)", "(i * i)"}
    assert unread(ast.parse(text)) == ["stride"]
