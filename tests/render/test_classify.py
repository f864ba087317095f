"""The whole path from a call to a verdict, on a session that is told what the kernel does."""

from __future__ import annotations

import contextlib
import sys
from functools import partial

import numpy as np
import pytest
import torch

import render.classify
import render.entry.execution
import render.judgement.causes
from interval_ops.profiles.file import ProfileError
from interval_ops.profiles.profile import CAUSES, MissingRule
from render.judgement import confirmation as second
from render.result.elements import Witness
from render.result.errors import KernelError, RenderError, UnsupportedOp

sys.path.insert(0, __file__.rsplit("/", 1)[0])
from fake_session import FakeSession

classify_module = sys.modules["render.classify"]
classify, classify_file = classify_module.classify, classify_module.classify_file

X = torch.linspace(1, 2, 6).reshape(2, 3)
DOT, CAST, SUM = ("operand", "k.py", 14), ("cast", "k.py", 20), ("accumulation", "k.py", 14)


RUNS: list[str] = []
"""Sessions that were opened; the functions that are judged do not name it, for theirs would be as it was."""


@pytest.fixture(autouse=True)
def session(monkeypatch):
    def open_session(device, mute=(), **options):
        if device == "nosuch":
            raise RenderError("RND902", "unknown profile nosuch")
        RUNS.append(device)
        return FakeSession(device, frozenset(mute), **options)

    monkeypatch.setattr(render.entry.execution, "open_session", open_session)

    def confirmed(entry, run, claim, figures=None):
        """Nothing can be cut out of such a run; the witness has tests of its own."""
        return Witness("agrees", claim.case.name, claim.place, "as the test has it")

    monkeypatch.setattr(render.entry.execution, "on_cpu", contextlib.nullcontext)
    monkeypatch.setattr(second, "confirmed", confirmed)
    RUNS.clear()


def test_without_a_second_evaluation_there_is_no_bug(monkeypatch):
    def refused(entry, run, claim, figures=None):
        return Witness("none", claim.case.name, claim.place, "it cannot be cut")

    monkeypatch.setattr(second, "confirmed", refused)
    v = classify(doubling(), X, ref=lambda x: 2 * x + 1)
    assert (v.label, v.code, v.subtype, v.exit_code) == ("Inconclusive", "RND308", "defect", 3)
    assert "it cannot be cut" in v.message and v.outputs[0].code == "RND308"


def now():
    return FakeSession.current


def doubling(error=0.0, **store):
    """An entry that doubles x with an absolute error, which is rounding, and the given bound."""

    def double(x):
        y = torch.empty_like(x)
        rounding = 0.0 if now().mute >= set(CAUSES) else error
        now().store(y, 2 * x + rounding, **({"halves": {DOT: 0.01}} | store))
        return y

    return double


def twice(x):
    return 2 * x


def test_type_one_with_its_cause():
    v = classify(doubling(0.004), X, ref=twice)
    assert (v.label, v.code, v.subtype, v.paper_rule, v.exit_code) == ("Type-I", "RND101", "source-level", "Type-I", 0)
    out = v.outputs["y"]
    assert (out.elements, out.outside_reference, out.outside_exact, out.outside_device) == (6, 0, 0, None)
    assert out.worst_usage == pytest.approx(0.4, rel=1e-3)
    assert out.bound.median_half_width == pytest.approx(0.01)
    assert out.allclose_mismatch == 6
    assert (v.file, v.line) == ("k.py", 14)
    assert any("ieee" in line for line in v.help)
    assert any("assert_close" in line for line in v.help)


def test_shares_come_from_runs_without_each_cause():
    v = classify(doubling(halves={DOT: 0.03, SUM: 0.01}), X, ref=twice)
    assert [(b.key, round(b.share, 6)) for b in v.budget] == [("operand", 0.75), ("accumulation", 0.25)]
    assert v.budget[0].shrink == pytest.approx(4.0)
    assert len(RUNS) == 4  # the call, one run without each cause, one without any


def test_one_cause_needs_no_run_without_it():
    v = classify(doubling(halves={SUM: 0.01}), X, ref=twice)
    assert v.budget[0].share == 1.0
    assert len(RUNS) == 2  # the call, one run without rounding


def test_the_line_that_matters_most_is_named():
    v = classify(doubling(halves={("cast", "k.py", 3): 0.01, ("cast", "k.py", 5): 0.02}), X, ref=twice)
    assert v.line == 5


def test_budget_can_be_left_out_or_be_too_much_work(monkeypatch):
    many = {DOT: 0.03, CAST: 0.01}
    assert classify(doubling(halves=many), X, ref=twice, budget=False).budget == ()
    monkeypatch.setattr(render.judgement.causes, "budget", partial(render.judgement.causes.budget, limit=-1))
    v = classify(doubling(halves=many), X, ref=twice)
    assert [b.share for b in v.budget] == [0.0, 0.0]
    assert v.code == "RND101"
    assert any("not measured" in note for note in v.notes)


def test_an_exact_kernel():
    v = classify(doubling(halves={}), X, ref=twice)
    assert (v.label, v.code, v.budget) == ("Type-I", "RND100", ())


def test_the_kernel_computes_something_else():
    v = classify(doubling(), X, ref=lambda x: 2 * x + 1)
    assert (v.label, v.code, v.subtype, v.paper_rule, v.exit_code) == ("Type-II", "RND201", "source", "Type-II", 1)
    assert v.outputs[0].outside_exact == 6
    assert len(RUNS) == 2  # the call, one run to find the line
    both = classify(doubling(), X, ref=lambda x: 2 * x + 1, output=2 * X + 5)
    assert (both.code, both.subtype) == ("RND201", "both")


def test_the_device_alone_is_outside():
    many = torch.linspace(1, 2, 600).reshape(20, 30)  # enough that the rest shows that the output belongs to them
    v = classify(doubling(), many, ref=twice, output=2 * many + torch.eye(20, 30))
    assert (v.label, v.code, v.subtype, v.paper_rule) == ("Type-II", "RND202", "device", "Type-I")
    assert v.outputs[0].outside_device == 20
    assert v.outputs[0].worst_index[0] == v.outputs[0].worst_index[1]
    inside = classify(doubling(), X, ref=twice, output=2 * X + 0.005)
    assert (inside.label, inside.subtype) == ("Type-I", "device-checked")
    assert inside.outputs[0].worst_usage == pytest.approx(0.5, rel=1e-3)


def test_a_device_output_from_a_file(tmp_path):
    torch.save({"y": 2 * X}, tmp_path / "d.pt")
    assert classify(doubling(), X, ref=twice, output=tmp_path / "d.pt").outputs[0].outside_device == 0


def test_the_reference_carries_the_error():
    def rounds(x):
        return 2 * x.half().float()

    def third(x):
        y = torch.empty_like(x)
        now().store(y, 2 * x, {CAST: 1e-6})
        return y

    v = classify(third, X + 1e-4, ref=rounds)
    assert (v.label, v.code) == ("Type-I", "RND110")
    assert v.paper_rule == "Type-II"


def test_a_tf32_reference():
    a = torch.randn(16, 16, generator=torch.Generator().manual_seed(0))

    def product(a):
        y = torch.empty_like(a)
        now().store(y, a @ a, {SUM: 1e-5})
        return y

    plain = classify(product, a, ref=lambda a: a @ a)
    assert plain.paper_rule == "Type-I"
    for precision in ("tf32", "tf32-rna"):
        v = classify(product, a, ref=lambda a: a @ a, ref_precision=precision)
        assert (v.code, v.paper_rule) == ("RND110", "Type-II")


def test_memory_findings_come_first():
    def entry(x):
        y = torch.empty_like(x)
        now().find("RND209", "write", "y", 12)
        now().find("RND207", "read", "a", 9)
        now().store(y, 0 * x, {}, lo=np.full((2, 3), np.nan), hi=np.full((2, 3), np.nan))
        return y

    v = classify(entry, X, ref=twice)
    assert (v.label, v.code, v.subtype, v.paper_rule) == ("Type-II", "RND207", "memory", "Type-II")
    assert [f.code for f in v.findings] == ["RND207", "RND209"]
    assert v.message == "bug: the kernel reads outside a"
    assert v.line == 9
    assert v.outputs[0].tainted == 6


def test_a_never_written_read_counts_only_if_it_reaches_an_output():
    def entry(reaches):
        def run(x):
            y = torch.empty_like(x)
            now().taint(4, "RND208")
            now().find("RND208", taint=4)
            now().store(y, 2 * x, {DOT: 0.01}, taints=[4] if reaches else [])
            return y

        return run

    assert classify(entry(True), X, ref=twice).code == "RND208"
    assert classify(entry(False), X, ref=twice).code == "RND101"


@pytest.mark.parametrize("code", ["RND302", "RND303", "RND305"])
def test_taint_is_inconclusive(code):
    def entry(x):
        y = torch.empty_like(x)
        now().taint(1, code, message="floor of an interval")
        now().store(y, 2 * x, {DOT: 0.01}, taints=[1])
        return y

    v = classify(entry, X, ref=twice)
    assert (v.label, v.code, v.exit_code) == ("Inconclusive", code, 3)
    assert v.message == "cannot tell: floor of an interval"
    assert (v.file, v.line) == ("k.py", 3)


def test_a_bound_without_power():
    v = classify(doubling(halves={DOT: 100.0}), X, ref=twice)
    assert (v.label, v.code) == ("Inconclusive", "RND301")
    assert v.budget[0].key == "operand"


def test_unstored_elements():
    v = classify(doubling(written=np.array([[True, True, False]] * 2)), X, ref=twice)
    assert (v.label, v.code, v.outputs[0].unstored) == ("Type-II", "RND205", 2)


def test_shapes_that_differ():
    v = classify(doubling(), X, ref=lambda x: (2 * x).flatten())
    assert (v.label, v.code, v.message) == ("Type-II", "RND205", "bug: y is [2, 3], the reference is [6]")
    v.to_json()
    repr(v)


def test_nan_pattern():
    v = classify(doubling(torch.tensor(float("nan"))), X, ref=twice)
    assert (v.label, v.code, v.outputs[0].nonfinite_mismatch) == ("Type-II", "RND204", 6)


def test_unsupported_operations_are_a_verdict():
    def entry(x):
        raise UnsupportedOp("tl.inline_asm", "its meaning is unknown", __file__, 3)

    v = classify(entry, X, ref=twice)
    assert (v.label, v.code, v.outputs, v.line) == ("Inconclusive", "RND302", (), 3)
    assert "inline_asm" in v.message
    v.to_json()

    def missing(x):
        raise MissingRule("tanh", "any")

    assert classify(missing, X, ref=twice).code == "RND302"


def test_in_place_entries():
    def entry(x, out):
        now().store(out, 2 * x, {DOT: 0.01})

    v = classify(entry, X, torch.zeros_like(X), ref=twice)
    assert v.outputs[0].name == "out"
    assert v.label == "Type-I"

    def reference(x, out):
        out.copy_(2 * x)

    assert classify(entry, X, torch.zeros_like(X), ref=reference).label == "Type-I"


def test_inputs_are_left_alone():
    def entry(x):
        now().store(x, 2 * x, {DOT: 0.01})
        return x

    before = X.clone()
    v = classify(entry, X, ref=lambda x: x.mul_(2))
    assert v.label == "Type-I"
    assert torch.equal(X, before)


@pytest.mark.parametrize("change", [1, -1, 2**40, 2**62])
def test_large_integers_are_compared_exactly(change):
    """float64 rounds int64 beyond 2**53: as numbers, x and x + 1 would be the same."""
    x = torch.arange(6).reshape(2, 3) + 2**60
    assert torch.equal(x.double(), (x + 1).double())

    def entry(error):
        def run(x):
            y = torch.empty_like(x)
            now().store(y, x + error, {})
            return y

        return run

    right, wrong = classify(entry(0), x, ref=torch.clone), classify(entry(change), x, ref=torch.clone)
    assert (right.label, right.code) == ("Type-I", "RND100")
    assert (wrong.code, wrong.outputs[0].outside_exact) == ("RND201", 6)
    assert classify(entry(0), x, ref=torch.clone, output=x + change).code == "RND202"


def test_nan_on_both_sides_is_agreement():
    x = torch.tensor([1.0, float("nan")])

    def entry(x):
        y = torch.empty_like(x)
        now().store(y, x, {})
        return y

    assert classify(entry, x, ref=torch.clone).code == "RND100"


def test_outputs_computed_on_the_host():
    def entry(change):
        def run(x):
            y = torch.empty_like(x)
            now().store(y, 2 * x, {DOT: 0.01})
            return y, (2 * x).sum() + change

        return run

    def reference(x):
        return 2 * x, (2 * x).sum()

    assert classify(entry(0.0), X, ref=reference).label == "Type-I"
    v = classify(entry(1.0), X, ref=reference)
    assert v.label != "Type-I"


def test_several_outputs_give_one_label():
    def entry(x):
        y, z = torch.empty_like(x), torch.empty_like(x)
        now().store(y, 2 * x, {DOT: 0.01})
        now().store(z, 3 * x, {DOT: 0.01})
        return y, z

    v = classify(entry, X, ref=lambda x: (2 * x, 4 * x))
    assert [o.code for o in v.outputs] == ["RND101", "RND201"] or [o.label for o in v.outputs] == ["Type-I", "Type-II"]
    assert v.code == "RND201"
    assert classify(entry, X, ref=twice).notes


def test_nothing_launched():
    with pytest.raises(RenderError, match="launched no Triton kernel") as error:
        classify(lambda x: x, X, ref=twice)
    assert error.value.code == "RND904"


def test_errors_of_the_users_code():
    def entry(x):
        raise IndexError("tile too big")

    with pytest.raises(KernelError, match="IndexError: tile too big") as error:
        classify(entry, X, ref=twice)
    assert error.value.frames[-1][2] == "entry"


@pytest.mark.parametrize("change", [{"ref": "torch.nosuch"}, {"device": "nosuch"}, {"ref_precision": "fp4"}])
def test_usage_errors(change):
    with pytest.raises(RenderError):
        classify(doubling(), X, **({"ref": twice} | change))
    with pytest.raises(RenderError, match="is not a function"):
        classify(3, X, ref=twice)


def test_an_unknown_device_is_the_users_mistake_a_broken_profile_is_ours(monkeypatch):
    monkeypatch.undo()
    with pytest.raises(RenderError, match="unknown device profile"):
        render.entry.execution.open_session("nosuch")

    def broken(name):
        raise ProfileError("any.toml: unknown key")

    monkeypatch.setattr(render.entry.execution, "load_profile", broken)
    with pytest.raises(ProfileError):
        render.entry.execution.open_session("any")


FILE = """
import torch, triton

@triton.jit
def kernel(x, y):
    pass

def double(x):
    from fake_session import FakeSession
    kernel[(1,)]
    y = torch.empty_like(x)
    if False:
        kernel[(1,)](x, y)
    FakeSession.current.store(y, 2 * x, {("operand", __file__, 10): 0.01})
    return y

def make_inputs():
    return dict(x=torch.randn(3, 4))

def reference(x):
    return 2 * x

def wrong(x):
    return 3 * x
"""


def test_a_file(tmp_path):
    path = tmp_path / "k.py"
    path.write_text(FILE)
    v = classify_file(path)
    assert (v.label, v.code, v.reference, v.line) == ("Type-I", "RND101", "reference", 10)
    assert v.column == 5
    assert classify_file(path, ref="wrong").code == "RND201"
    assert classify_file(path, specs=["x=randn(2,2):fp16"]).outputs[0].dtype == "float16"
    same = [classify_file(path, seed=3).to_dict()["outputs"] for _ in range(2)]
    assert same[0] == same[1]
    path.write_text(FILE.replace("make_inputs", "made"))
    with pytest.raises(RenderError, match="no inputs for double"):
        classify_file(path)


def test_the_result_as_json_has_the_promised_keys():
    d = classify(doubling(), X, ref=twice, output=2 * X).to_dict()
    assert {"label", "code", "paper_rule", "subtype"} <= d["verdict"].keys()
    out = d["outputs"][0]
    assert {"name", "shape", "dtype", "elements", "outside_reference", "outside_device", "worst_usage"} <= out.keys()
    assert {"median_relative_width", "max_relative_width"} <= out["bound"].keys()
    assert {"cause", "line", "share"} <= d["budget"][0].keys()
    assert {"stock_equivalent_s", "interval_s", "peak_rss_mb"} <= d["timing"].keys()
    assert d["versions"]["render"]
    assert d["assumptions"]
    assert d["exit_code"] == 0
