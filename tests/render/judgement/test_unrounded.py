"""Kernel and reference without rounding: two forms of one function agree, a fault that the bound hides does not."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from interval_ops.formats.model import FP32
from render.classify import classify
from render.entry.execution import Entry
from render.judgement import unrounded
from render.judgement.formulas import Comparison
from render.result import blockwise
from render.result.decision import Case, Decision
from render.result.records import Unrounded
from render.witness.check import rechecked

B = 64


@triton.jit
def quantising(X, S, T, Out, B: tl.constexpr):
    i = tl.program_id(0)
    small = (tl.load(X + i * B + tl.arange(0, B)) / tl.load(S)).to(tl.float8e4nv)
    tl.store(Out + i, (tl.sum(small.to(tl.float32)) * tl.load(T)).to(Out.dtype.element_ty))


def quantised(x, off=1.0, dtype=torch.float32):
    """Sums of rows through float8 with a scale; `off` is by how much the scale on the way back is wrong."""
    s = torch.tensor([0.25])
    out = torch.empty(len(x), dtype=dtype)
    quantising[(len(x),)](x, s, s * off, out, B)
    return out


@triton.jit
def exponential(X, Out, LOG2E: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(Out + i, tl.exp2(tl.load(X + i) * LOG2E))


def through_exp2(x, constant=1.44269504):
    out = torch.empty_like(x)
    exponential[(len(x),)](x, out, constant, B)
    return out


@triton.jit
def dotting(A, W, Out, N: tl.constexpr):
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    tl.store(Out + i * N + j, tl.dot(tl.load(A + i * N + j), tl.load(W + i * N + j)))


def halved(a, w):
    """Products of operands that the host casts."""
    a, w = a.half(), w.to(torch.float16)
    out = torch.empty(a.shape, dtype=torch.float32)
    dotting[(1,)](a, w, out, a.shape[0])
    return out


def summed(x):
    return x.sum(1)


def data(rows=16):
    return torch.randn(rows, B, generator=torch.Generator().manual_seed(0))


def square(seed):
    return torch.randn(32, 32, generator=torch.Generator().manual_seed(seed))


def test_one_function_agrees_whatever_its_bound():
    v = classify(quantised, data(), ref=summed)
    (one,) = v.unrounded
    assert v.label == "Type-I"
    assert (one.output, one.compared, one.differing) == ("out", 16, 0)
    assert one.sentence == "kernel and reference agree in every element of out: the same function"
    assert v.to_dict()["unrounded"][0]["sentence"] == one.sentence


def test_a_wrong_scale_inside_the_bound_is_a_bug_with_a_witness():
    v = classify(quantised, data(), 1.02, ref=lambda x, off: x.sum(1))
    out = v.outputs["out"]
    assert (v.label, v.code, v.exit_code) == ("Type-II", "RND211", 1)
    assert (out.outside_exact, out.label, out.code, out.sides.wrong, out.tolerance) == (
        0,
        "Type-II",
        "RND211",
        "formula",
        None,
    )
    assert v.unrounded[0].visible == 16
    assert v.unrounded[0].gap == pytest.approx(0.02 * abs(v.unrounded[0].reference), rel=1e-6)
    assert v.witness.status == "agrees"
    assert rechecked(v.witness.document).agrees


def test_the_witness_says_nothing_against_the_right_scale():
    """The same claim about the right kernel is refuted: this evaluation can say no."""
    from render.judgement.formulas import Comparison

    x = data()
    v = classify(quantised, x, ref=summed)
    assert v.label == "Type-I"
    seen = []

    class Wrong(Entry):
        def run(self, mute=()):
            run = super().run(mute)
            if not mute:
                return run
            return replace(run, outputs=[replace(o, lo=o.lo * 1.02, hi=o.hi * 1.02) for o in run.outputs])

    def compared(self, *args):
        self.entry = Wrong(**{f: getattr(self.entry, f) for f in ("fn", "inputs", "device", "seed", "options")})
        seen.append(original(self, *args))
        return seen[-1]

    original = Comparison.__call__
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Comparison, "__call__", compared)
        v = classify(quantised, x, ref=summed)
    assert (v.label, v.code) == ("Inconclusive", "RND306")
    assert seen[0].witness.status == "disagrees"


def test_what_no_output_shows_is_told_and_decides_only_where_it_is_no_chance():
    few, ref = data(), lambda x, off, dtype: x.sum(1).bfloat16()
    few[3:] = 0
    v = classify(quantised, few, 1 + 2.0**-12, torch.bfloat16, ref=ref)
    (one,) = v.unrounded
    assert (v.label, one.differing, one.visible, one.systematic) == ("Type-I", 3, 0, False)
    assert any("without any rounding" in note for note in v.notes)
    v = classify(quantised, data(), 1 + 2.0**-12, torch.bfloat16, ref=ref)
    (one,) = v.unrounded
    assert (v.code, one.differing, one.visible, one.systematic) == ("RND211", 16, 0, True)


@pytest.mark.parametrize(
    ("constant", "label", "differing"),
    [(math.log2(math.e), "Type-I", 0), (1.44269504, "Type-I", 0), (1.4427, "Type-II", 16)],
)
def test_a_constant_may_be_rounded_to_float32_and_no_further(constant, label, differing):
    x = data() * 8
    v = classify(through_exp2, x, constant, ref=lambda x, constant: torch.exp(x))
    assert v.label == label
    if label == "Type-I":
        assert v.unrounded[0].differing == differing


def test_casts_of_the_reference_round_nothing():
    v = classify(quantised, data(), ref=lambda x: (x / 0.25).to(torch.float8_e4m3fn).float().sum(1) * 0.25)
    assert (v.label, v.unrounded[0].differing) == ("Type-I", 0)


def test_a_cast_on_the_host_is_rounding():
    v = classify(halved, square(1), square(2), ref=lambda a, w: a @ w).wait()
    assert (v.label, v.code, v.subtype) == ("Type-I", "RND104", "downgrade")
    assert v.unrounded[0].differing == 0
    (host,) = [item for item in v.budget if item.key == "cast"]
    assert "on the host" in host.cause and host.confirmed and host.share > 0.9
    with open(host.file) as file:
        assert ".half()" in file.read().splitlines()[host.line - 1]


def test_and_a_fault_beside_it_is_none():
    v = classify(halved, square(1), square(2), ref=lambda a, w: a @ w.T)
    assert (v.label, v.code) == ("Type-II", "RND201")


@pytest.mark.parametrize(("off", "label"), [(1.0, "Type-I"), (1.02, "Type-II")])
def test_where_a_repetition_is_too_much_work_a_sample_is_compared_and_that_is_said(off, label):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(unrounded, "WORTH_WORK", 10)
        v = classify(quantised, data(), off, ref=lambda x, off: x.sum(1))
    (one,) = v.unrounded
    assert (v.label, one.differing > 0) == (label, off != 1.0)
    assert 6 <= one.sampled == one.compared <= 8 and one.elements == 16
    assert v.scope.left_out == (unrounded.TOO_MUCH,)
    assert (v.witness is not None) == (off != 1.0)


def test_a_sample_is_evaluated_once_with_a_device_output_and_without(monkeypatch):
    looks = []
    monkeypatch.setattr(Comparison, "_look", lambda self, asked: (looks.append(asked), None, [])[1:])
    asks = Comparison(None, None, [])
    ends = [np.array([x]) for x in (0.5, 1.5, 1.0)]
    case = Case("y", ends[2], ends[0], ends[1], ends[2], ends[2], lambda: (ends[2], ends[2]), FP32, FP32)
    sample, run = [((0,), 0.1)], object()
    found = asks._looked_at(run, case, sample, False)
    assert asks._looked_at(run, replace(case, device=ends[0]), list(sample), False) is found
    assert len(looks) == 1
    others = (
        (object(), case, sample, False),
        (run, replace(case, hi=ends[1] + 1), sample, False),
        (run, replace(case, exact=ends[1]), sample, False),
        (run, case, [((0,), 0.2)], False),
        (run, case, sample, True),
    )
    for n, other in enumerate(others, 2):
        asks._looked_at(*other)
        assert len(looks) == n


def answer(**changes):
    known = {
        "output": "y", "compared": 4, "elements": 4, "differing": 1, "visible": 1, "index": (2,), "kernel": 1.5,
        "reference": 1.0, "gap": 0.5, "slack": 0.1, "share": 0.9,
    }  # fmt: skip
    return Unrounded(**(known | changes))


@pytest.mark.parametrize(
    ("answers", "before", "after"),
    [
        ([], "Type-I", ("Type-I", "RND101")),
        ([answer(visible=0)], "Type-I", ("Type-I", "RND101")),
        ([answer()], "Type-I", ("Type-II", "RND211")),
        ([answer(estimated=True)], "Type-I", ("Inconclusive", "RND301")),
        ([answer()], "Inconclusive", ("Inconclusive", "RND101")),
    ],
)
def test_decisions(answers, before, after):
    found = unrounded.decided(answers, Decision(before, "RND101", ""))
    assert (found.label, found.code) == after


def test_a_hollow_bound_hides_no_other_function():
    found = unrounded.decided([answer()], Decision("Inconclusive", "RND301", ""))
    assert (found.label, found.code) == ("Type-II", "RND211")


def test_claims_leave_room_for_the_slack():
    assert unrounded.claims([answer(share=0.1, output="x"), answer()]) == [("y", (2,), 0.9, 1.1), ("x", (2,), 0.9, 1.1)]


def test_part_of_the_elements_is_no_whole():
    assert "3 of 4" in answer(compared=3, differing=0).sentence
    assert "same function" not in answer(compared=3, differing=0).sentence


def weighted(x):
    """The host rounds a softmax to bfloat16; nothing says how."""
    x = torch.softmax(x.bfloat16(), 1).float()
    s = torch.tensor([0.25])
    out = torch.empty(len(x), dtype=torch.float32)
    quantising[(len(x),)](x, s, s, out, B)
    return out


def test_what_the_host_rounds_by_no_rule_is_no_bug():
    def exact(x):
        return (torch.softmax(x, 1) / 0.25).sum(1) * 0.25

    v = classify(weighted, data(), ref=exact)
    assert v.code != "RND211"
    assert v.label in ("Type-I", "Inconclusive")


@triton.jit
def normalising(X, Out, N, more, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(X + i, mask=i < N, other=0.0)
    tl.store(Out + i, x / tl.sqrt(tl.sum(x * x) / (N + more)), mask=i < N)


@pytest.mark.parametrize(("more", "label"), [(0, "Type-I"), (1, "Type-II")])
def test_what_the_host_gave_with_the_target_s_roundings_refutes_no_difference(more, label):
    """A convolution in TF32 before the kernel: its bound is wide and rests on no launch."""

    def kernel(x, w):
        y = torch.nn.functional.conv1d(x, w, padding=1).reshape(-1)
        out = torch.empty_like(y)
        normalising[(1,)](y, out, y.numel(), more, 512)
        return out

    def reference(x, w):
        y = torch.nn.functional.conv1d(x, w, padding=1).reshape(-1)
        return y / y.square().mean().sqrt()

    generator = torch.Generator().manual_seed(0)
    x, w = torch.randn(1, 2, 500, generator=generator), torch.randn(1, 2, 3, generator=generator)
    v = classify(kernel, x, w, ref=reference)
    assert (v.label, v.paper_rule) == (label, "Type-I")
    if more:
        assert v.code == "RND211" and v.witness.status == "agrees"
        assert v.guilty is not None and "N + more" in v.guilty.what and v.guilty.what != "N - more in place of N + more"


@triton.jit
def scaled_sum(X, Y, Out, by, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(Out + i, tl.load(X + i) * by + tl.load(Y + i))


def scaled(x, y, by):
    out = torch.empty_like(x)
    scaled_sum[(len(x) // B,)](x, y, out, by, B)
    return out


@pytest.mark.parametrize(("sign", "runs"), [(1, 0), (-1, 1)])
def test_a_bound_that_leaves_no_room_needs_no_other_run(sign, runs, monkeypatch):
    """A sum of two of one sign has none; where they cancel, the rounding of the product is as large as what is left."""
    muted, plain = [], Entry.run
    monkeypatch.setattr(Entry, "run", lambda self, mute=(): (muted.append(bool(mute)), plain(self, mute))[1])
    x = torch.rand(2 * B) + 1
    y = sign * (0.3 * x + 2.0**-12)
    found = classify(scaled, x, y, 0.3, ref=lambda x, y, by: x * by + y, budget=False)
    (answer,) = found.unrounded
    assert found.label == "Type-I" and sum(muted) == runs
    assert not answer.differing and (runs or answer.compared == len(x))
    assert answer.gap <= unrounded.SLACK * abs(answer.reference)


@pytest.mark.parametrize("seed", range(12))
def test_a_sample_has_the_largest_differences_and_places_between(seed, monkeypatch):
    monkeypatch.setattr(blockwise, "BLOCK", 7)
    g = np.random.default_rng(seed)
    n = int(g.integers(1, 60))
    exact, ref = g.normal(size=n), g.normal(size=n)
    half, slack = g.choice([0.0, 0.1, 1.0], n), g.choice([0.1, np.inf if seed % 3 else 0.2], n)
    exact[g.random(n) < 0.1 * (seed % 2)] = np.nan
    case = Case("y", ref + 0.1 * g.normal(size=n), ref - half, ref + half, ref, exact, lambda: None, FP32, FP32)
    known = np.flatnonzero(np.isfinite(exact) & np.isfinite(slack))
    with np.errstate(all="ignore"):
        apart = np.abs(case.value - ref)
        figures = [np.nan_to_num(x[known], nan=-1.0, posinf=-1.0) for x in (apart, apart / (2 * half))]
    spread = known[((np.arange(6) + 0.5) * known.size / 6).astype(int)] if known.size else []
    wanted = [known[int(np.argmax(x))] for x in figures] if known.size else []
    assert unrounded._spread_out(case, slack) == list(dict.fromkeys(int(i) for i in (*wanted, *spread)))
