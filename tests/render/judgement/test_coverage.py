"""What is stored and not compared, never stored, or not finite is no Type-I; the scope says what was judged."""

from __future__ import annotations

import hashlib

import pytest
import torch
import triton
import triton.language as tl

from render.classify import classify

F = torch.nn.functional
N = 32


@triton.jit
def normalising(X, Out, Mean, Rstd, n, OFF: tl.constexpr, B: tl.constexpr):
    row, c = tl.program_id(0), tl.arange(0, B)
    x = tl.load(X + row * n + c, mask=c < n, other=0.0)
    mean = tl.sum(x, 0) / n
    d = tl.where(c < n, x - mean, 0.0)
    scale = tl.rsqrt(tl.sum(d * d, 0) / n + 1e-5)
    tl.store(Out + row * n + c, d * scale, mask=c < n)
    if OFF:
        mean = mean + 0.5
    tl.store(Mean + row, mean)
    tl.store(Rstd + row, scale)


def layer_norm(off):
    def run(x):
        out, mean, rstd = torch.empty_like(x), torch.empty(len(x)), torch.empty(len(x))
        normalising[(len(x),)](x, out, mean, rstd, x.shape[1], off, 64)
        return out, mean, rstd

    return run


@triton.jit
def idle(X, Out, STORE: tl.constexpr, B: tl.constexpr):
    c = tl.arange(0, B)
    x = tl.load(X + c)
    if STORE:
        tl.store(Out + c, x, mask=c < 0)


def never(store):
    def run(x):
        out = torch.zeros_like(x)
        idle[(1,)](x, out, store, N)
        return out

    return run


@triton.jit
def backward(X, G, DX, DW, B: tl.constexpr):
    c = tl.arange(0, B)
    g = tl.load(G + c)
    tl.store(DX + c, g * 2)
    tl.store(DW + c, tl.load(DW + c) + g * tl.load(X + c))


def gradients(x, g, dw):
    dx = torch.empty_like(x)
    backward[(1,)](x, g, dx, dw, N)
    return dx


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.ones(N))


def in_a_module(x, g, layer):
    layer.w.grad = torch.zeros(N)
    dx = torch.empty_like(x)
    backward[(1,)](x, g, dx, layer.w.grad, N)
    return dx


@triton.jit
def copying(X, Out, B: tl.constexpr):
    c = tl.arange(0, B)
    tl.store(Out + c, tl.load(X + c))


def copied(x):
    out = torch.empty_like(x)
    copying[(1,)](x, out, N)
    return out


def through(x, room):
    out = torch.empty_like(x)
    copying[(1,)](x, room, N)
    copying[(1,)](room, out, N)
    return out


def row(seed=0):
    return torch.randn(N, generator=torch.Generator().manual_seed(seed))


def test_statistics_that_are_kept_are_steps_of_what_is_compared_or_judged_by_nobody():
    x = torch.randn(4, 50, generator=torch.Generator().manual_seed(0))
    ref = lambda x: F.layer_norm(x, (50,))  # noqa: E731
    right = classify(layer_norm(False), x, ref=ref)
    assert right.label == "Type-I" and right.scope.unjudged == ()
    assert sum("steps on the way" in note for note in right.notes) == 2
    wrong = classify(layer_norm(True), x, ref=ref)
    assert (wrong.label, wrong.code) == ("Inconclusive", "RND310") and wrong.scope.unjudged == ("mean",)


@pytest.mark.parametrize("store", [False, True])
def test_a_result_that_nothing_was_stored_to_is_never_stored_whatever_it_held(store):
    assert classify(never(store), row(), ref=torch.zeros_like).code == "RND205"


def test_gradients_in_place_count():
    x, g = row(), row(1)
    v = classify(gradients, x, g, torch.zeros(N), ref=lambda x, g, dw: g * 2)
    assert (v.code, v.scope.stored, v.scope.compared, v.scope.unjudged) == ("RND310", ("dx", "dw"), ("dx",), ("dw",))
    assert "not compared: dw" in v.scope.sentence
    assert classify(in_a_module, x, g, Layer(), ref=lambda x, g, layer: g * 2).scope.unjudged == ("layer.w.grad",)


def test_what_a_later_launch_reads_is_passed_on():
    v = classify(through, row(), torch.zeros(N), ref=lambda x, room: x.clone())
    assert v.label == "Type-I" and v.scope.stored == ("out", "room") and v.scope.unjudged == ()


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_nothing_finite_is_nothing_compared(value):
    v = classify(copied, torch.full((N,), value), ref=torch.clone)
    assert (v.label, v.code) == ("Inconclusive", "RND301")


def test_inputs_are_named_with_their_hashes():
    x = row().bfloat16()
    (given,) = classify(copied, x, ref=torch.clone, seed=3).scope.inputs
    assert (given.name, given.shape, given.dtype) == ("x", (N,), "bfloat16")
    assert given.sha256 == hashlib.sha256(x.view(torch.int16).numpy().tobytes()).hexdigest()


def test_equal_is_equal():
    """No cause, no advice, exit 0; a difference in one bit is not equal."""
    v = classify(copied, row(), ref=torch.clone)
    assert (v.label, v.code, v.subtype, v.headline, v.exit_code, v.help) == (
        "Type-I",
        "RND100",
        "equal",
        "Equal",
        0,
        (),
    )
    off = classify(copied, row(), ref=lambda x: torch.nextafter(x, x + 1))
    assert (off.label, off.subtype == "equal") == ("Type-I", False)
