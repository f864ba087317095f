"""A Type-II that rests on the bound carries a witness; a changed witness is rejected, a wrong engine is found out."""

from __future__ import annotations

import copy
import functools
import json
import math
import operator
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from render.interpreter.builder.floats import Arithmetic
from render.interpreter.handle import Handle
from render.interpreter.hosted.call import Bounds, Exact
from render.interpreter.hosted.table import RULES
from render.report.witnessed import recheck
from render.result.errors import RenderError
from render.witness.check import rechecked
from render.witness.document import digest, packed, runs, unpacked, unrun
from tests.kernels.bugs import BUGS
from tests.verdicts import classify, classify_file

B = 32


@triton.jit
def scaling(X, Out, factor, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(X + i, mask=i < n)
    tl.store(Out + i, tl.exp(x * factor) + x, mask=i < n)


def scaled(x, factor=1.001):
    out = torch.empty_like(x)
    scaling[(triton.cdiv(x.numel(), B),)](x, out, factor, x.numel(), B)
    return out


def reference(x):
    return torch.exp(x) + x


@triton.jit
def multiplying(X, Y, Out, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(Out + i, tl.load(X + i) * tl.load(Y + i))


@triton.jit
def counting(Out, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(Out + i, i + 1)


@triton.jit
def tallied(X, At, Out, n, MORE: tl.constexpr, KIND: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(X + i, mask=i < n, other=0) + MORE
    at = Out + tl.load(At + i, mask=i < n, other=0)
    if KIND == "add":
        tl.atomic_add(at, x, mask=i < n)
    elif KIND == "max":
        tl.atomic_max(at, x, mask=i < n)
    elif KIND == "xor":
        tl.atomic_xor(at, x, mask=i < n)
    else:
        tl.atomic_or(at, x, mask=i < n)


def multiplied(x, y):
    out = torch.empty_like(x)
    multiplying[(1,)](x, y, out, B)
    return out


def host_scaled(x):
    return scaled(x) * 1.0


@pytest.fixture(scope="module")
def verdict():
    return classify(scaled, torch.randn(3 * B), ref=reference, budget=False)


def test_a_bug_has_an_agreeing_witness(verdict):
    assert (verdict.label, verdict.code, verdict.witness.status) == ("Type-II", "RND201", "agrees")
    assert any(note.startswith("witness:") for note in verdict.notes)
    assert rechecked(verdict.witness.document).agrees


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("kind", ["add", "max", "xor", "or"])
def test_integers_that_atomics_made_are_exact(kind, dtype):
    x, at = torch.arange(0, 1600, 16, dtype=dtype), torch.arange(100, dtype=torch.int32) % 7

    def one(x, at, more=1):
        out = torch.zeros(7, dtype=x.dtype)
        tallied[(4,)](x, at, out, len(x), more, kind, 32)
        return out

    def every(x, at):
        joined = {"add": operator.add, "max": max, "xor": operator.xor, "or": operator.or_}[kind]
        return torch.tensor([functools.reduce(joined, x[at == i].tolist()) for i in range(7)], dtype=x.dtype)

    wrong = classify(one, x, at, ref=every)
    assert (wrong.label, wrong.code, wrong.witness.status) == ("Type-II", "RND201", "agrees")
    right = classify(functools.partial(one, more=0), x, at, ref=every)
    assert (right.label, right.code) == ("Type-I", "RND100")


def test_round_off_has_none():
    found = classify(scaled, torch.randn(B), ref=lambda x: torch.exp(x * 1.001) + x, budget=False)
    assert (found.label, found.witness) == ("Type-I", None)


def test_it_survives_json_in_a_fresh_process_without_torch(verdict, tmp_path):
    report = tmp_path / "report.json"
    report.write_text(json.dumps(verdict.to_dict()))
    code = (
        "import sys; from render.cli import main; sys.argv = ['render', 'explain', '--check', sys.argv[1]]\n"
        "try: main()\nfinally: assert not {'torch', 'triton', 'numba'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(report)], capture_output=True, text=True)
    assert (done.returncode, "holds" in done.stdout) == (0, True), done.stderr


def tampered(document, change, sign):
    changed = copy.deepcopy(dict(document))
    change(changed)
    if sign:
        changed["digest"] = digest(changed)
    return changed


def leaf(d):
    node = next(n for n in d["nodes"] if n["op"] == "leaf" and n["attrs"]["source"] == "input")
    node["low"] = (float.fromhex(node["low"]) + 0.5).hex()


def claim(d):
    d["claim"] = {"side": "reference", "low": d["bound"]["low"], "high": d["bound"]["high"]}


def operand(d):
    next(n for n in d["nodes"] if n["op"] == "fadd")["operands"][0]["runs"] = "0"


def error(d):
    d["rules"]["functions"]["exp fp32"]["r"] = 1.0


def forward(d):
    next(n for n in d["nodes"] if n["op"] == "fadd")["operands"][0]["runs"] = "99999"


def lines(d):
    del d["nodes"][0]


@pytest.mark.parametrize("sign", [False, True])
@pytest.mark.parametrize("change", [leaf, claim, operand, error, forward, lines])
def test_a_tampered_witness_is_rejected(verdict, change, sign):
    assert not rechecked(tampered(verdict.witness.document, change, sign)).agrees


def test_a_witness_of_another_verdict_is_rejected(verdict):
    report = json.loads(json.dumps(verdict.to_dict()))
    assert recheck(report)[0]
    report["outputs"][0]["exact"] += 1.0
    with pytest.raises(RenderError, match="does not belong"):
        recheck(report)


def _no_claim(report):
    del report["witness"]["document"]["claim"]


def _text_for_a_witness(report):
    report["witness"] = ["?"]


def _text_for_a_document(report):
    report["witness"]["document"] = "?"


def _no_outputs(report):
    report["outputs"] = None


def _endless_run(report):
    node = next(n for n in report["witness"]["document"]["nodes"] if n.get("operands"))
    node["operands"][0]["runs"] = " ".join(["0:0:9999999"] * 300)


def _no_notes(report):
    report["witness"]["document"]["notes"] = 3


@pytest.mark.parametrize(
    "change", [_no_claim, _text_for_a_witness, _text_for_a_document, _no_outputs, _endless_run, _no_notes]
)
def test_a_malformed_report_is_one_clear_line(verdict, change, tmp_path, capsys, monkeypatch):
    from render.cli import application

    report = json.loads(json.dumps(verdict.to_dict()))
    change(report)
    document = report["witness"].get("document") if isinstance(report["witness"], dict) else None
    if isinstance(document, dict):
        document["digest"] = digest(document)
    path = tmp_path / "report.json"
    path.write_text(json.dumps(report))
    monkeypatch.setattr(sys, "argv", ["render", "explain", "--check", str(path)])
    with pytest.raises(SystemExit) as stop:
        application()(prog_name="render")
    said = capsys.readouterr().err.splitlines()
    assert stop.value.code == 2 and said[0].startswith("error[RND901]") and len(said) <= 3


def test_a_wrong_rule_of_the_engine_is_our_own_defect():
    """A product without its exact value: the reference in float64 is outside this bound, and inside the witness's."""

    x = torch.rand(2, B)

    def create(self, x, y):
        v = x.v * y.v
        wide = v.astype(np.float64)
        return Handle(v, x.dtype, x.shape, wide, wide + np.abs(wide) * 2.0**-40)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Arithmetic, "create_fmul", create)
        found = classify(multiplied, x[0], x[1], ref=torch.mul, budget=False)
    assert (found.label, found.code) == ("Inconclusive", "RND306")
    assert found.witness.status == "disagrees" and "does not confirm it" in found.message
    assert {o.code for o in found.outputs} == {"RND306"}


def test_a_bound_without_the_legal_rounding_is_found_out():
    """The exact product alone: a device that rounds it is outside, and the witness reaches it."""

    def create(self, x, y):
        exact = x.v.astype(np.float64) * y.v
        return Handle(x.v * y.v, x.dtype, x.shape, exact, np.nextafter(exact, np.inf))

    x = torch.rand(2, B)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Arithmetic, "create_fmul", create)
        found = classify(multiplied, x[0], x[1], ref=torch.mul, output=x[0] * x[1], budget=False)
    assert (found.label, found.code) == ("Inconclusive", "RND306")
    assert "reaches the value" in found.witness.why


def test_host_code_has_a_witness():
    found = classify(host_scaled, torch.randn(B), ref=reference, budget=False)
    assert (found.label, found.code, found.witness.status) == ("Type-II", "RND201", "agrees")


def test_a_bound_without_a_second_evaluation_accuses_nobody(monkeypatch):
    monkeypatch.setattr("render.trace.host.LIMIT", 0)
    found = classify(host_scaled, torch.randn(B), ref=reference, budget=False)
    assert (found.label, found.code, found.witness.status) == ("Inconclusive", "RND308", "none")
    assert "too many elements" in found.message and "RND201 rests on the bound alone" in found.message
    assert "defect of RENDER" in found.message and any("report" in text for text in found.help)
    assert {(o.label, o.code, o.sides.wrong) for o in found.outputs} == {("Inconclusive", "RND308", "unknown")}


def test_the_witness_of_one_output_is_enough(monkeypatch):
    """The integer beside the float has one."""
    monkeypatch.setattr("render.trace.host.LIMIT", 0)

    def both(x):
        n = torch.empty(B, dtype=torch.int32)
        counting[(1,)](n, B)
        return host_scaled(x), n

    def right(x):
        return reference(x), torch.arange(B, dtype=torch.int32)

    found = classify(both, torch.randn(B), ref=right, budget=False)
    assert (found.label, found.code, found.witness.output) == ("Type-II", "RND201", "out1")


def test_a_device_output_in_a_coarser_format_is_judged_with_its_rounding():
    x = torch.randn(B)
    good = scaled_reference(x)
    found = classify(scaled, x, ref=lambda x: torch.exp(x * 1.001) + x, output=good.half(), budget=False)
    assert found.label == "Type-I"
    bad = good.half()
    bad[3] *= 1.01
    found = classify(scaled, x, ref=lambda x: torch.exp(x * 1.001) + x, output=bad, budget=False)
    assert (found.code, found.witness.status) == ("RND202", "agrees")


def scaled_reference(x):
    return torch.exp(x * 1.001) + x


def test_numbers_survive_their_encoding():
    for numbers in ([], [5], [5, 5, 5], [0, 1, 2, 9, 8, 7, 7], [-1, 4, -1, 4]):
        assert unrun(runs(numbers)).tolist() == numbers
    values = [0.0, 0.1, 0.1, -1e-320, float("inf"), 3.0]
    assert unpacked(packed(values)).tolist() == values


QUICK = [b for b in BUGS if b.kernel in ("vector_add", "matmul", "swiglu", "matmul_split_k") and "RND201" in b.codes]


@pytest.mark.parametrize("bug", QUICK, ids=str)
def test_planted_bugs_are_confirmed(bug, tmp_path):
    found = classify_file(str(bug.write(tmp_path)), device="any", budget=False)
    assert (found.code, found.witness.status) == ("RND201", "agrees")


@pytest.mark.slow
@pytest.mark.parametrize("bug", [b for b in BUGS if b not in QUICK], ids=str)
def test_all_planted_bugs_are_confirmed(bug, tmp_path):
    found = classify_file(str(bug.write(tmp_path)), device="any", budget=False)
    assert found.witness is None or found.witness.status == "agrees"


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_a_device_that_returns_no_number_is_confirmed(bad):
    x = torch.randn(B)
    seen = scaled_reference(x)
    seen[5] = bad
    found = classify(scaled, x, ref=scaled_reference, output=seen, budget=False)
    assert (found.code, found.witness.status, found.witness.index) == ("RND204", "agrees", (5,))


@pytest.mark.parametrize("order", ["any", "tree"])
def test_a_known_order_of_sums_never_makes_a_false_alarm_of_our_own(order):
    """Elementwise steps do not depend on it."""
    x = torch.rand(2, B)
    found = classify(multiplied, x[0], x[1], ref=lambda a, b: a * b * 1.001, budget=False, session={"sum_order": order})
    assert (found.code, found.witness.status) == ("RND201", "agrees")


DOCUMENTS = sorted((Path(__file__).parent / "documents").glob("*.json"))


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: p.stem)
def test_a_witness_that_was_saved_with_another_arithmetic_is_checked_again(path):
    """Written when the evaluation still used mpmath, and float64 for many terms: its last bits differ."""
    saved = json.loads(path.read_text())
    found = rechecked(saved)
    assert found.agrees and found.intact
    for key, value in (("agrees", False), ("enclosure", ["0x1p+40", "0x1p+41"]), ("enclosure", None)):
        wrong = {**saved, key: value}
        wrong["digest"] = digest(wrong)
        assert not rechecked(wrong).intact


# what the host gave
def weighed(x):
    out = torch.empty_like(x)
    multiplying[(1,)](x, torch.linspace(0.1, 0.9, len(x)), out, len(x))
    return out


def stepped(x):
    return x * (0.1 + torch.arange(len(x)) * (0.8 / (len(x) - 1)))


BROKEN = {
    "a point": lambda right, call: Exact(),
    "off": lambda right, call: Bounds(*(end * (1 + 1e-5) for end in (right(call).lo, right(call).hi))),
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_wrong_rule_of_the_host_accuses_nobody(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The witness takes the table with our bounds, so it agrees; torch's own float64 does not."""
    right, x = RULES["linspace"], torch.randn(B, generator=torch.Generator().manual_seed(0))
    assert classify(weighed, x, ref=stepped).label == "Type-I"
    monkeypatch.setitem(RULES, "linspace", lambda call: BROKEN[how](right, call))
    found = classify(weighed, x, ref=stepped)
    assert (found.label, found.code) == ("Inconclusive", "RND306")
    assert "host in float64" in found.message


@pytest.mark.parametrize("factor", [1.01, 1 + 2**-12])
def test_a_table_that_is_wrong_is_a_bug_all_the_same(factor: float) -> None:
    x = torch.randn(B, generator=torch.Generator().manual_seed(0))
    found = classify(weighed, x, ref=lambda x: stepped(x) * factor)
    assert (found.label, found.code) == ("Type-II", "RND201")


NUMBERS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "divisor": lambda h: h / (h.abs().max().item() + 1.0),
    "in place": lambda h: h.clone().mul_(math.sqrt((h * h).sum().item())),
    "filled": lambda h: h * torch.full_like(h, h.max().item()),
    "factor of a sum": lambda h: torch.add(h, h, alpha=h.max().item()),
    "factor of a product": lambda h: torch.addcmul(h, h, h, value=h.max().item()),
    "slope": lambda h: torch.nn.functional.leaky_relu(h, h.abs().mean().item()),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_that_left_torch_is_followed_through_what_uses_it(name: str) -> None:
    """The right program is round-off, the wrong one a bug with a witness."""
    x = torch.randn(B, generator=torch.Generator().manual_seed(3))
    ones = torch.full((B,), 0.7)

    def given(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        multiplying[(1,)](x, ones, out, len(x))
        return out

    found = [
        classify(lambda x, f=f: NUMBERS[name](given(x)) * f, x, ref=lambda x: NUMBERS[name](x * ones))
        for f in (1.0, 1.02)
    ]
    assert [(v.label, v.code) for v in found[1:]] == [("Type-II", "RND201")] and found[0].label == "Type-I"
    assert found[1].witness is not None and found[1].witness.status == "agrees"


def test_a_host_in_float64_takes_what_a_kernel_moved_as_it_is() -> None:
    """Of elements without bounds it has no array of ends, and no step of it is without a rule."""
    x = torch.randn(B, generator=torch.Generator().manual_seed(3)).bfloat16()

    def moved(x: torch.Tensor, factor: float = 1.0) -> torch.Tensor:
        one, two = torch.empty_like(x), torch.empty_like(x)
        multiplying[(1,)](x, torch.ones_like(x), one, len(x))
        multiplying[(1,)](torch.tanh(one), torch.full_like(x, factor), two, len(x))
        return two

    assert classify(moved, x, ref=torch.tanh).label == "Type-I"
    found = classify(lambda x: moved(x, 1.5), x, ref=torch.tanh)
    assert (found.label, found.code) == ("Type-II", "RND201")


DECIDED: dict[str, Callable[[torch.Tensor, float], torch.Tensor]] = {
    "select": lambda h, c: torch.where(h > 0, h, 0.2 * c * h),
    "mask": lambda h, c: h * (h < 0.5).float() * c,
    "largest": lambda h, c: h * h.reshape(8, -1)[h.reshape(8, -1).argmax(0), 0].mean() * c,
    "order": lambda h, c: h[h.argsort()] * c,
}


@triton.jit
def copying(X, Out, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(Out + i, tl.load(X + i))


@pytest.mark.parametrize("name", DECIDED)
def test_a_host_that_decides_by_what_a_kernel_moved_is_run_in_float64(name: str) -> None:
    x = torch.randn(B, generator=torch.Generator().manual_seed(3))

    def moved(x: torch.Tensor, c: float = 1.0) -> torch.Tensor:
        one, two = torch.empty_like(x), torch.empty_like(x)
        copying[(1,)](x, one, len(x))
        multiplying[(1,)](DECIDED[name](one, c), torch.full_like(x, 0.7), two, len(x))
        return two

    def reference(x: torch.Tensor) -> torch.Tensor:
        return DECIDED[name](x, 1.0) * 0.7

    assert classify(moved, x, ref=reference).label == "Type-I"
    found = classify(lambda x: moved(x, 1.0002), x, ref=reference)
    assert found.label == "Type-II" and found.code in ("RND201", "RND211"), found
