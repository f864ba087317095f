"""The line that makes a NaN or an infinity is found, not the line where it shows."""

from __future__ import annotations

import inspect

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


def at(kernel, text):
    source, start = inspect.getsourcelines(kernel.fn)
    return start + next(i for i, row in enumerate(source) if text in row)


@triton.jit
def exponential(X, Tmp, N: tl.constexpr):
    i = tl.arange(0, N)
    e = tl.exp(tl.load(X + i))
    tl.store(Tmp + i, e)


@triton.jit
def shifted(Tmp, Out, N: tl.constexpr):
    i = tl.arange(0, N)
    t = tl.load(Tmp + (i ^ 1))
    y = t - 1
    tl.store(Out + i, y)


def in_two_launches(x, host=False):
    tmp, out = torch.empty_like(x), torch.empty_like(x)
    exponential[(1,)](x, tmp, x.numel())
    shifted[(1,)](tmp + 0 if host else tmp, out, x.numel())
    return out


def bounded_exp(x, host=False):
    return torch.exp(x.clamp(max=80)).reshape(-1, 2).flip(1).flatten() - 1


def test_the_walk_goes_on_in_the_launch_that_stored_it():
    x = torch.zeros(8)
    x[2] = 200.0
    v = render.classify(in_two_launches, x, ref=bounded_exp)
    assert v.code == "RND204"
    (found,) = v.origins
    assert (found.op, found.kernel, found.launch) == ("exp", "exponential", 0)
    assert found.operands == "exp(200) = inf"
    assert found.lines == (at(exponential, "tl.exp"), at(shifted, "t = tl.load"), at(shifted, "y = t"))
    assert (v.file, v.line) == (found.file, at(exponential, "tl.exp"))
    passed = f"it passes lines {at(shifted, 't = tl.load')}, {at(shifted, 'y = t')}"
    assert any(passed in note for note in v.notes)


def test_what_the_host_made_is_named_by_its_tensor():
    x = torch.zeros(8)
    x[2] = 200.0
    (found,) = render.classify(in_two_launches, x, host=True, ref=bounded_exp).origins
    assert (found.op, found.memory, found.kernel) == ("load", "Tmp", "shifted")


@triton.jit
def reciprocal_of_a_sum(X, Out, N: tl.constexpr):
    s = tl.sum(tl.load(X + tl.arange(0, N)))
    y = 1 / s
    tl.store(Out, y * 2)


def test_the_operation_that_makes_a_bound_infinite():
    """1e8, -1e8 and some ones: in another order the sum may be 0."""
    x = torch.ones(32)
    x[0], x[1] = 1e8, -1e8

    def run(x):
        out = torch.empty(1)
        reciprocal_of_a_sum[(1,)](x, out, x.numel())
        return out

    v = render.classify(run, x, ref=lambda x: 2 / x.sum().reshape(1) * (1 + 2.0**-23))
    assert (v.label, v.code) == ("Inconclusive", "RND304")
    (found,) = v.origins
    assert (found.kind, found.op, found.line) == ("bound", "fdiv", at(reciprocal_of_a_sum, "1 / s"))
    assert found.operands.startswith("fdiv(1, [-") and found.operands.endswith("= [-inf, inf]")
    assert found.lines == (at(reciprocal_of_a_sum, "1 / s"), at(reciprocal_of_a_sum, "y * 2"))
    assert v.line == found.line
    assert any("the first infinite bound behind this element is made by fdiv" in n for n in v.notes)


@triton.jit
def guarded(X, Out, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    x = tl.load(X + i)
    e = tl.exp(x)
    tl.store(Out + i, tl.where(x > 80, 0.0, e))


def guarded_exp(x):
    out = torch.empty_like(x)
    guarded[(2,)](x, out, 8)
    return out


def test_an_infinity_that_is_masked():
    x = torch.zeros(16)
    x[3], x[12], x[13] = 100.0, 200.0, 300.0
    ref = lambda x: torch.where(x > 80, torch.zeros_like(x), torch.exp(x.clamp(max=80)))  # noqa: E731
    assert render.classify(guarded_exp, x, ref=ref).origins == ()
    v = render.classify(guarded_exp, x, ref=ref, explain="nonfinite")
    assert v.label == "Type-I"
    (found,) = v.origins
    assert (found.kind, found.op, found.line, found.reach, found.lanes) == (
        "inf", "exp", at(guarded, "tl.exp"), "masked", 3,
    )  # fmt: skip
    assert any("in 3 lanes is masked: no output has one" in note for note in v.notes)


def test_one_behind_the_element_and_one_that_is_not():
    x = torch.tensor([6.0, 2, 0, 3, 0, 7, 8, float("inf")])
    v = render.classify(passed, x, ref=lambda x: torch.where(x > 5, x, 1 / (x + 1e-30)) + 1, explain="nonfinite")
    assert {(o.op, o.reach) for o in v.origins} == {("fdiv", "output"), ("load", "elsewhere")}


@pytest.mark.parametrize("kind", ["nan", "inf"])
def test_json(kind):
    x = torch.full((1, 20), 200.0)
    data = render.classify(softmax, x, ref=lambda x: torch.softmax(x, -1)).to_dict()
    assert kind in {o["kind"] for o in data["origins"]}
