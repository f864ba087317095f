"""Expressions of -k against Python's own evaluation of the same expression."""

from __future__ import annotations

import random

import pytest

from render.lab.replay.select import matches, select
from render.result.errors import RenderError

WORDS = "fp16 matmul split-k 1808 rnd102"


@pytest.mark.parametrize("text", ["", "and", "fp16 and", "( fp16", "fp16 )", "not", "fp16 matmul", "or fp16"])
def test_unreadable(text):
    with pytest.raises(RenderError, match="cannot read -k"):
        matches(text, WORDS)


def test_agrees_with_python():
    random.seed(5)

    def expression(depth: int) -> str:
        kind = random.choice(["word", "word", "not", "and", "or", "()"]) if depth else "word"
        if kind == "word":
            return random.choice(["fp16", "matmul", "bf16", "softmax", "split-k", "RND102"])
        if kind == "not":
            return f"not {expression(0)}"
        if kind == "()":
            return f"( {expression(depth - 1)} )"
        return f"{expression(depth - 1)} {kind} {expression(depth - 1)}"

    for _ in range(300):
        text = expression(4)
        python = " ".join(t if t in ("and", "or", "not", "(", ")") else str(t.lower() in WORDS) for t in text.split())
        assert matches(text, WORDS) == eval(python), text


def test_groups_and_ids(corpus):
    assert [f.name for f in select([])] == ["9001", "9001-minus"]
    assert [f.name for f in select(["twins"])] == ["9001-minus"]
    assert [f.name for f in select(["9001"])] == ["9001"]
    assert [f.name for f in select(["all"], "not twin")] == ["9001"]
    with pytest.raises(RenderError, match="no case 9002"):
        select(["9002"])
