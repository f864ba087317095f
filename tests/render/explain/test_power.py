"""Seeded faults: planted by shape, run, and held against a bound whose width is known."""

from __future__ import annotations

import ast
import textwrap

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

import render
from interval_ops.formats.model import FP32
from interval_ops.profiles.profile import CAUSES
from render.explain.power import hollow, smallest_fault
from render.interpreter.mutation import faults, mutate
from render.interpreter.session import Session
from render.report.details import power_rows
from render.result.decision import Case
from render.result.records import Mutant, Power

KERNEL = textwrap.dedent("""
    def k(p, q, n, s, t, B: tl.constexpr):
        i = tl.arange(0, B)
        ptrs = p + i[:, None] * s + i[None, :] * t
        acc = 0.0
        for j in range(0, n, B):
            acc += tl.load(ptrs, mask=i < n - j)
        while acc > 1:
            acc = helper(acc)
        tl.store(q, acc)
""")


HELPERS = ("trip", "narrow", "last", "scale", "zero")


def planted(source=KERNEL, entry=True):
    tree = ast.parse(source)
    return [(f, ast.unparse(mutate(ast.parse(source), f))) for f in faults(tree, entry)]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("trip", "for j in __render_trip__(range(0, n, B)):"),
        ("boundary", "mask=i <= n - j)"),
        ("boundary", "mask=i < n - j - 1)"),
        ("boundary", "while acc >= 1:"),
        ("boundary", "while acc > 1 + 1:"),
        ("strides", "ptrs = p + i[:, None] * t + i[None, :] * s"),
        ("narrow", "acc = __render_narrow__(acc + tl.load(ptrs, mask=i < n - j), 'fp16')"),
        ("narrow", "acc = __render_narrow__(helper(acc), 'bf16')"),
        ("program", "if __render_last__():\n        return"),
        ("downgrade", "acc += __render_narrow__(tl.load(ptrs, mask=i < n - j), 'bf16')"),
        ("scale", "tl.store(q, __render_scale__(acc, 6))"),
        ("zero", "tl.store(q, __render_zero__(acc))"),
    ],
)
def test_a_fault_of_each_kind(kind, text):
    assert [f.kind for f, source in planted() if text in source] == [kind]


def test_one_fault_at_a_time_and_loops_that_cannot_hang():
    for _, source in planted():
        assert source.count("__render_tick__()") == 1
        assert sum(source.count(f"__render_{name}__") for name in HELPERS) <= 1


def test_updates_are_left_out_unless_a_while_waits_for_them():
    source = "def k(p, n):\n    while i < n:\n        i += 1\n        p += n\n        s = s * 2\n        t = n\n"
    texts = [text for f, text in planted(source) if f.kind == "update"]
    assert len(texts) == 2
    assert "p += n" not in texts[0] and "s = s * 2" in texts[0]
    assert "s = s * 2" not in texts[1] and "p += n" in texts[1]


def test_parameters_side_by_side_change_places_only_as_arguments():
    source = "def k(p, s, t):\n    b = make(p, strides=(s, t))\n    return (s, t)\n"
    (swapped,) = [text for f, text in planted(source, entry=False) if f.kind == "strides"]
    assert "strides=(t, s)" in swapped
    assert "return (s, t)" in swapped


def test_a_helper_has_no_program_to_skip():
    assert not any(f.kind == "program" for f, _ in planted(entry=False))


@triton.jit
def adding(X, Y, Out, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(Out + i, tl.load(X + i, mask=i < n) + tl.load(Y + i, mask=i < n), mask=i < n)


def add(x, y):
    out = torch.empty_like(x)
    adding[(triton.cdiv(x.numel(), 16),)](x, y, out, x.numel(), 16)
    return out


@triton.jit
def row_sum(X, Out, n, B: tl.constexpr):
    acc = tl.zeros((B,), dtype=X.dtype.element_ty)
    for j in range(0, n, B):
        i = j + tl.arange(0, B)
        acc += tl.load(X + i, mask=(i >= 0) & (i < n), other=0.0)
    tl.store(Out, tl.sum(acc))


def total(x):
    out = torch.empty(1, dtype=x.dtype)
    row_sum[(1,)](x, out, x.numel(), 256)
    return out


def sum_of(x):
    return x.sum().reshape(1)


@triton.jit
def spinning(X, Out, n):
    i = 0
    while i < n:
        i = tl.minimum(i + 1, n)
    tl.store(Out, tl.load(X) + i)


def run_with(kind, variant=None, **options):
    """The values of `add` and their bounds with the first fault of this kind."""

    def plant(fn, tree):
        found = [f for f in faults(tree, True) if f.kind == kind and variant in (None, f.variant)]
        return mutate(tree, found[0]) if fn is adding else tree

    torch.manual_seed(0)
    x, y = torch.rand(100), torch.rand(100)
    with Session(change=plant, **options) as session:
        out = add(x, y)
    return x, y, out, session.envelope(out)


def test_a_scaled_store_has_the_scaled_bound():
    x, y, out, bound = run_with("scale", 9)
    exact = (x.double() + y.double()).numpy() * (1 + 2.0**-9)
    assert np.all((bound.lo <= exact) & (exact <= bound.hi))
    assert np.all((bound.lo <= out.double().numpy()) & (out.double().numpy() <= bound.hi))
    assert np.all(bound.hi - bound.lo <= 2.0**-21)  # values up to 2 (1 + 2^-9), two roundings and a hull
    plain = (x + y).double().numpy()
    assert np.all((plain < bound.lo) | (plain > bound.hi))


def test_a_narrowed_load_is_a_cast():
    """The mutant is a kernel of its own: its bound holds the exact sum and the one of the rounded operand."""
    x, y, out, bound = run_with("downgrade", "bf16")
    exact, rounded = x.double() + y.double(), x.bfloat16().double() + y.double()
    torch.testing.assert_close(out.double(), rounded, rtol=2.0**-24, atol=0)
    for legal in (exact.numpy(), rounded.numpy()):
        assert np.all((bound.lo <= legal) & (legal <= bound.hi))
    assert np.median(bound.hi - bound.lo) > 2.0**-12


def test_zeros_are_stored():
    _, _, out, bound = run_with("zero")
    assert not out.any() and not bound.lo.any() and not bound.hi.any()


def test_a_lifted_run_still_rounds_what_was_planted():
    """A wider format must not undo the fault: values in float64, the operand in bfloat16."""
    from render.interpreter.lift import LiftedBuilder, wide_values
    from render.interpreter.types import lifted_formats

    def plant(fn, tree):
        found = [f for f in faults(tree, True) if f.variant == "bf16"]
        return mutate(tree, found[0]) if fn is adding else tree

    x, y = torch.rand(100), torch.rand(100)
    with lifted_formats(), Session(builder=LiftedBuilder, mute=CAUSES, change=plant) as session:
        wide = wide_values(session, add(x, y))
    np.testing.assert_array_equal(wide, (x.bfloat16().double() + y.double()).numpy())


def test_what_the_memory_check_notices_is_listed_apart():
    x, y = torch.rand(100), torch.rand(100)
    power = render.classify(add, x, y, ref=torch.add, explain="power").power
    by = {(m.kind, m.what): m.outcome for m in power.mutants}
    assert by["program", "the last program does nothing"] == "memory"
    assert by["zero", "out is all zeros"] == "outside"
    stores = [m for m in power.mutants if m.kind == "boundary"]
    assert {m.outcome for m in stores} == {"memory", "outside"}  # loads cut short give x + 0
    assert sum(m.outcome == "memory" for m in stores) == 4
    assert power.share == 1.0


def test_smallest_fault_of_a_sum_of_two_is_one_ulp_or_two():
    x, y = torch.rand(100) + 1, torch.rand(100) + 1
    power = render.classify(add, x, y, ref=torch.add, explain="power").power
    assert 2.0**-24 <= power.smallest_fault["out"] <= 2.0**-22


def test_smallest_fault_against_widths_set_by_hand():
    y = np.array([1.0, -1.5])

    def case(half):
        return Case("c", y, y - half, y + half, y, y, lambda: (y, y), FP32, FP32)

    assert smallest_fault(case(np.array([0.3, 0.3]))) == 0.25  # 1.5 * 2^-2 = 0.375 leaves, 1.5 * 2^-3 does not
    assert smallest_fault(case(np.array([0.3, 9.0]))) == 0.5
    assert smallest_fault(case(np.array([9.0, 9.0]))) is None


def test_a_wide_bound_makes_a_hollow_type_one_inconclusive():
    """8192 half values: the order of 256 partial sums of 3 may lose several per cent, the last of 32 blocks is 3 %."""
    torch.manual_seed(0)
    x = torch.rand(8192).half() * 0.01 + 0.1
    x[0] = x[-1] = 8.0  # lost by a mask that is off by one, and still less than the order may lose
    plain = render.classify(total, x, ref=sum_of)
    assert plain.label == "Type-I"
    judged = render.classify(total, x, ref=sum_of, explain="power")
    outcomes = {m.kind: m.outcome for m in judged.power.mutants}
    assert (outcomes["trip"], outcomes["zero"], outcomes["program"]) == ("inside", "outside", "memory")
    assert (judged.label, judged.code, judged.subtype, judged.exit_code) == ("Inconclusive", "RND301", "power", 3)
    assert "seeded faults" in judged.message


def test_a_sharp_bound_stays_type_one():
    judged = render.classify(total, torch.rand(4096), ref=sum_of, explain="power")
    assert judged.label == "Type-I"
    assert judged.power.share >= 0.5
    assert {m.outcome for m in judged.power.mutants if m.kind == "trip"} == {"outside"}


def test_a_loop_that_would_never_end_is_a_crash(monkeypatch):
    monkeypatch.setattr("render.interpreter.planted.TURNS", 64)

    def spin(x):
        out = torch.empty_like(x)
        spinning[(1,)](x, out, 3)
        return out

    power = render.classify(spin, torch.rand(1), ref=lambda x: x + 3, explain="power").power
    assert [m.outcome for m in power.mutants if m.what == "i < n with <="] == ["crash"]


def test_no_time_no_mutants():
    power = render.classify(add, *torch.rand(2, 100), ref=torch.add, explain="power", explain_seconds=0.0).power
    assert power.skipped > 0
    assert {m.kind for m in power.mutants} == {"zero"}


def test_the_user_sees_his_own_output_once(capsys):
    def talking(x):
        print("launching")
        return total(x)

    render.classify(talking, torch.rand(512), ref=sum_of, budget=False, explain=["power", "counterfactuals"])
    assert capsys.readouterr().out == "launching\n"


def test_a_bug_needs_no_power():
    assert render.classify(add, *torch.rand(2, 100), ref=torch.sub, explain="power").power is None


def test_a_session_without_a_fault_is_left_alone():
    with Session(interval=False, change=lambda fn, tree: tree):
        x, y = torch.rand(100), torch.rand(100)
        torch.testing.assert_close(add(x, y), x + y, rtol=0, atol=0)
    with Session(interval=False):  # the changed code was not kept
        torch.testing.assert_close(add(x, y), x + y, rtol=0, atol=0)


def mutants(outside, inside):
    return tuple(Mutant("k", "w", None, 0, o) for o in ["outside"] * outside + ["inside"] * inside)


@pytest.mark.parametrize(("outside", "inside", "low"), [(2, 2, False), (1, 3, True), (1, 2, False), (9, 10, True)])
def test_threshold(outside, inside, low):
    found = Power(outside / (outside + inside), mutants(outside, inside))
    assert (hollow(found) is not None) is low


def test_zeros_that_fit_are_enough():
    assert hollow(Power(1.0, mutants(9, 0), zeros_fit=("c",))).code == "RND301"


def test_words():
    rows = list(power_rows(Power(0.75, mutants(3, 1), {"c": 2.0**-7, "d": None}, skipped=2)))
    assert rows[0] == "0.75: 3 of 4 seeded faults that change the result would leave this bound"
    assert "missed: w" in rows
    assert "besides: 2 not run for lack of time" in rows
    assert rows[-2:] == ["smallest fault noticed in c: a relative error of 2^-7",
                         "smallest fault noticed in d: not even a factor of two"]  # fmt: skip
