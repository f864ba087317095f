"""The words of a verdict, and the columns of what it points to."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import torch

from interval_ops.formats.model import FP32
from render.judgement.advice import _around, advice, columns, message, subtype
from render.judgement.measure import measure
from render.result.decision import Case, compare, decide
from render.result.verdict import TaintNote


def output(ref=(1.0, 2.0), half=0.5, **more):
    exact = np.array([1.0, 2.0])
    ends = lambda: (exact, exact)  # noqa: E731
    case = Case("c", exact, exact - half, exact + half, np.array(ref), exact, ends, FP32, FP32, **more)
    masks = compare(case)
    return measure(case, masks, decide(case, masks, "RND101"), torch.float32, torch.float32, 0)


def test_words():
    assert message("RND207", "writes outside a (4 bytes)", []) == "bug: the kernel writes outside a (4 bytes)"
    taint = TaintNote("RND302", "bitcast", "the bits of an interval")
    assert message("RND302", "3 elements", [taint]) == "cannot tell: the bits of an interval"
    assert message("RND303", "3 elements", [taint]) == "cannot tell: 3 elements"
    assert subtype("RND201", [output()]) == "source"
    assert subtype("RND101", [output()]) == "source-level"
    assert advice("RND101", [output((1.1, 2.0))], "ieee: 260x (re-run)")[0] == "ieee: 260x (re-run)"
    steps = advice("RND101", [output((1.1, 2.0))])
    assert "x" not in steps[0].split()[-4:]
    assert steps[-2].startswith("or test with torch.testing.assert_close(actual, expected, atol=")
    assert "it would miss" in steps[-1]


def test_columns_of_the_expression_to_blame(tmp_path):
    path = tmp_path / "k.py"
    path.write_text("def k(x, y):\n    o = foo(x) + tl.dot(x, y)\n    z = x * y + 1\n\n")
    assert columns(str(path), 1) == (5, 6)
    assert columns(str(path), 2, "operand") == (18, 30)
    assert columns(str(path), 2, "cast") == (9, 15)
    assert columns(str(path), 3, "arith") == (9, 18)
    assert columns(str(path), 4) == (0, 0)
    assert columns("nosuch.py", 1) == (0, 0)
    assert columns(None, 0) == (0, 0)


def test_nodes_of_a_line_are_those_of_a_whole_walk():
    text = Path(__file__).read_text() + "\n@decorated(1)\n@again\ndef f(x=3):\n    return [y for y in x]\n"
    tree = ast.parse(text)
    for line in range(1, text.count("\n") + 2):
        whole, near = ([n for n in walk if getattr(n, "lineno", 0) == line] for walk in
                       (ast.walk(tree), _around(tree, line)))  # fmt: skip
        assert near == whole, line
