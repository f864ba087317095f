"""The line that makes a NaN or an infinity is found, not the line where it shows."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

import render


@triton.jit
def bad_softmax(X, Out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(X + tl.program_id(0) * n + i, mask=i < n, other=-float("inf"))
    e = tl.exp(x)
    s = tl.sum(e, axis=0)
    y = e / s
    tl.store(Out + tl.program_id(0) * n + i, y, mask=i < n)


def softmax(x):
    out = torch.empty_like(x)
    bad_softmax[(x.shape[0],)](x, out, x.shape[1], 32)
    return out


@triton.jit
def passing_on(X, Out, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(X + i)
    y = tl.where(x > 5, x, 1 / x)
    tl.store(Out + i, y + 1)


def passed(x):
    out = torch.empty_like(x)
    passing_on[(1,)](x, out, 8)
    return out


def line(kernel, offset):
    return kernel.fn.__code__.co_firstlineno + offset


def first_line(kernel):
    import inspect

    source, start = inspect.getsourcelines(kernel.fn)
    return start + next(i for i, text in enumerate(source) if text.startswith("def "))


def test_overflow_of_exp():
    torch.manual_seed(0)
    x = torch.randn(4, 20)
    x[2, 3] = 100.0
    v = render.classify(softmax, x, ref=lambda x: torch.softmax(x, -1))
    assert v.code == "RND204"
    by = {o.kind: o for o in v.origins}
    assert (by["inf"].op, by["inf"].line) == ("exp", first_line(bad_softmax) + 3)
    assert by["inf"].operands == "exp(100) = inf"
    assert by["inf"].program[0] == 2
    assert (by["nan"].op, by["nan"].line) == ("fdiv", first_line(bad_softmax) + 5)
    assert (v.file, v.line) == (by["inf"].file, by["inf"].line)
    assert any("made by exp" in note and "exp(100) = inf" in note for note in v.notes)


def test_the_side_of_a_select_that_was_not_taken_is_innocent():
    x = torch.tensor([6.0, 2, 0, 3, 0, 7, 8, 9])
    v = render.classify(passed, x, ref=lambda x: torch.where(x > 5, x, 1 / (x + 1e-30)) + 1)
    assert [(o.kind, o.op, o.operands) for o in v.origins] == [("inf", "fdiv", "fdiv(1, 0) = inf")]
    assert v.origins[0].line == first_line(passing_on) + 3


def test_an_infinity_that_was_loaded():
    x = torch.tensor([6.0, 2, 1, 3, 1, 7, float("inf"), 9])
    v = render.classify(passed, x, ref=lambda x: x.clamp(max=9))
    (origin,) = v.origins
    assert (origin.op, origin.memory) == ("load", "X")


def test_finite_outputs_have_no_origin():
    assert render.classify(passed, torch.rand(8) + 6, ref=lambda x: x + 1).origins == ()


@pytest.mark.parametrize("kind", ["nan", "inf"])
def test_json(kind):
    x = torch.full((1, 20), 200.0)
    data = render.classify(softmax, x, ref=lambda x: torch.softmax(x, -1)).to_dict()
    assert kind in {o["kind"] for o in data["origins"]}
