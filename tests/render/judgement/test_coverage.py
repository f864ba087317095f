"""What is stored and not compared, never stored, or not finite is no Type-I; the scope says what was judged."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from render.result.errors import RenderError
from tests.verdicts import classify

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


@triton.jit
def tiled_exp(X, Out, N, WRONG: tl.constexpr, B: tl.constexpr):
    pid = tl.program_id(0)
    i = pid * B + tl.arange(0, B)
    y = tl.exp(tl.load(X + i, mask=i < N, other=0.0)) * 1.5
    tl.store(Out + i, y + 0.01 * (pid >= WRONG), mask=i < N)


def in_tiles(wrong=1 << 20, made=torch.empty_like, after=lambda out: out):
    def entry(x):
        out = made(x)
        tiled_exp[(triton.cdiv(x.numel(), 16),)](x, out, x.numel(), wrong, 16)
        return after(out)

    return entry


def in_part(entry, n, programs, ref=lambda x: torch.exp(x) * 1.5):
    torch.manual_seed(n)
    return classify(entry, torch.randn(n), ref=ref, programs=programs)


@pytest.mark.parametrize("made", [torch.empty_like, torch.zeros_like])
@pytest.mark.parametrize(("n", "programs"), [(16 * 30, "10%"), (16 * 30 - 5, "10%"), (16 * 9 + 1, "4"), (16, "1%")])
def test_a_part_of_the_programs_is_judged_as_in_the_whole_and_is_no_round_off(n, programs, made):
    whole, found = (in_part(in_tiles(made=made), n, p) for p in ("all", programs))
    total = -(-n // 16)
    ran = min(int(programs), total) if programs.isdecimal() else -(-total * int(programs[:-1]) // 100)
    chosen = np.isin(np.arange(n) // 16, np.linspace(0, total - 1, ran).astype(int))
    a, b = found.outputs[0].bound, whole.outputs[0].bound
    assert np.array_equal(~np.isnan(a.lo), chosen)
    assert np.array_equal(a.lo[chosen], b.lo[chosen]) and np.array_equal(a.hi[chosen], b.hi[chosen])
    assert found.outputs[0].elements == chosen.sum() and found.outputs[0].allclose_mismatch == 0
    assert chosen[found.outputs[0].worst_index] and np.isfinite(found.outputs[0].got)
    if ran == total:
        assert (found.label, found.scope.left_out) == ("Type-I", ())
        return
    assert (found.label, found.code, found.exit_code) == ("Inconclusive", "RND314", 3)
    assert f"{ran} of {total} programs of tiled_exp ran" in found.scope.sentence
    assert f"{chosen.sum()} of {n} elements of out were judged" in found.message


@triton.jit
def copying_back(X, Out, N, B: tl.constexpr):
    i = (tl.num_programs(0) - 1 - tl.program_id(0)) * B + tl.arange(0, B)
    tl.store(Out + i, tl.load(X + i, mask=i < N, other=0.0), mask=i < N)


def test_the_worst_element_is_one_that_was_judged():
    """Also where all of them are equal, and the first one was left out."""

    def entry(x):
        out = torch.empty_like(x)
        copying_back[(30,)](x, out, x.numel(), 16)
        return out[16:]

    found = in_part(entry, 16 * 30, "1", ref=lambda x: x[16:])
    assert (found.code, found.outputs[0].elements) == ("RND314", 16)
    assert found.outputs[0].worst_index == (16 * 28,) and np.isfinite(found.outputs[0].got)


def test_a_bug_in_the_part_that_ran_is_one():
    found = in_part(in_tiles(wrong=25), 16 * 30, "10%")
    assert (found.label, found.code, found.outputs[0].outside_exact) == ("Type-II", "RND201", 16)
    assert "3 of 30 programs" in found.scope.sentence


@triton.jit
def adding_up(X, Out, B: tl.constexpr):
    tl.atomic_add(Out, tl.sum(tl.load(X + tl.program_id(0) * B + tl.arange(0, B)), 0))


def added_up(x):
    out = torch.zeros(1)
    adding_up[(x.numel() // 16,)](x, out, 16)
    return out


@pytest.mark.parametrize("entry", [added_up, in_tiles(after=lambda out: out * 1.0), in_tiles(made=lambda x: x)])
def test_programs_that_hand_something_on_are_not_judged_in_part(entry):
    with pytest.raises(RenderError, match="reads what a program stores"):
        in_part(entry, 16 * 8, "25%")


@pytest.mark.parametrize("programs", ["0", "0%", "101%", "half", "1.5", "-3"])
def test_what_is_no_part_is_refused(programs):
    with pytest.raises(RenderError, match="no part of the programs"):
        in_part(in_tiles(), 16, programs)


@pytest.mark.parametrize("number", [lambda x: x.norm().item(), lambda x: float(x.norm())])
def test_a_number_that_left_torch_times_a_result_reads_it(number):
    def scaled(x):
        return layer_norm(False)(x)[0] * number(x)

    x = torch.randn(4, N, generator=torch.Generator().manual_seed(0))
    for gain, label in ((1.0, "Type-I"), (1.1, "Type-II")):
        v = classify(scaled, x, ref=lambda x, gain=gain: F.layer_norm(x, (N,)) * x.norm() * gain)
        assert v.label == label, v
