"""Choices are carried out in the source, certified by runs of it, and hold on inputs that they never saw."""

import ast
import json

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from benchmarks.companions.demotion import SUBJECTS, Subject, checked, measured, target
from render.cli import app
from render.companions.called import called
from render.companions.demotion.boxes import Box, box
from render.companions.demotion.certify import Bench, Certified
from render.companions.demotion.proposal import propose
from render.companions.demotion.search import exhaustive, search
from render.companions.demotion.sites import Spot, rewritten
from render.entry.execution import Entry
from render.result.errors import RenderError

OPTIONS = SUBJECTS[0]


def bench(name="black_scholes", tol=1e-2, seed=0):
    what = target(name)
    return Bench(what, what.inputs(seed), tol, tol)


def test_sites_are_fp32_tensors_only():
    found = {s.name: s.kind for s in bench().sites()}
    assert list(found) == ["s", "k", "t", "root", "d1", "d2", "n1", "n2", "discount", "call"]
    assert found["s"] == "load" and found["d1"] == "operation"
    found = {s.name: s.kind for s in bench("matmul").sites(("fp16", "tf32"))}
    assert found["total"] == "accumulator" and "dot" in found.values()
    assert not found.keys() & {"row", "column", "inner", "offsets", "mask", "start"}


def test_the_rewritten_source_says_what_was_chosen():
    b = bench("matmul")
    sites = {s.name: s for s in b.sites(("fp16", "tf32"))}
    dot = next(s for s in sites.values() if s.kind == "dot")
    text = b.text({sites["total"]: "fp16", dot: "tf32", sites["a"]: "fp16"})
    kernel = ast.unparse(ast.parse(text).body[4])
    assert "total = tl.zeros((BLOCK, BLOCK), dtype=tl.float32).to(tl.float16)" in kernel
    assert "tl.dot(a.to(tl.float32), b.to(tl.float32), input_precision='tf32')).to(tl.float16)" in kernel
    assert "total + tl.dot" in kernel and "inner[None, :]).to(tl.float16)" in kernel
    assert text.split("def matmul(")[1] == b.source.split("def matmul(")[1]  # the launcher stays as it is
    assert b.text({}) == b.source


def test_edits_nest_and_keep_what_is_not_ascii():
    source = (
        "import triton\nimport triton.language as tl\n\n\n@triton.jit\ndef f(X, B: tl.constexpr):\n"
        '    """Größe, ∑."""\n    é = tl.load(X)  # ∑\n    y = tl.exp(tl.log(é))\n    y *= é\n    tl.store(X, y)\n'
    )
    text = rewritten(
        source,
        {Spot("f", "é", "load", (8,), ("fp8e5",)): "fp8e5", Spot("f", "y", "op", (9,), ()): "bf16"},
    )
    body = text.splitlines()
    assert body[7] == "    é = (tl.load(X)).to(tl.float8e5).to(tl.float32)  # ∑"
    assert body[8] == "    y = (tl.exp((tl.log((é).to(tl.float32))).to(tl.float32))).to(tl.bfloat16)"
    assert body[9] == "    y = (y * (é)).to(tl.bfloat16)"


ONLINE = """import torch, triton
import triton.language as tl


@triton.jit
def kernel(x, y, n, B: tl.constexpr):
    r = tl.program_id(0)
    m = -float("inf")
    s = 0.0
    for at in range(0, n, B):
        v = tl.load(x + r * n + at + tl.arange(0, B))
        top = tl.maximum(m, tl.max(v, 0))
        s = s * tl.exp(m - top) + tl.sum(tl.exp(v - top), 0)
        m = top
    for at in range(0, n, B):
        v = tl.load(x + r * n + at + tl.arange(0, B))
        tl.store(y + r * n + at + tl.arange(0, B), tl.exp(v - m) / s)


def softmax(x):
    y = torch.empty_like(x)
    kernel[(x.shape[0],)](x, y, x.shape[1], 16)
    return y


def make_inputs(seed=0):
    return (torch.randn(4, 64, generator=torch.Generator().manual_seed(seed)),)
"""


def test_what_a_loop_carries_from_a_number_and_from_another_name(tmp_path):
    path = tmp_path / "online.py"
    path.write_text(ONLINE)
    what = called(path)
    b = Bench(what, what.inputs(0), 1e-2, 1e-2)
    sites = {s.name: s for s in b.sites(("fp16",))}
    assert {n: s.kind for n, s in sites.items()} == {"m": "accumulator", "s": "accumulator", "v": "load"}
    assert sites["m"].also == ("top",)
    text = b.text({sites["m"]: "fp16"})
    assert 'm = tl.full((), -float("inf"), tl.float32).to(tl.float16)' in text and "m = (top).to(tl.float16)" in text
    found = b(dict.fromkeys(sites.values(), "fp16"))
    assert found.usage < 1 and found.why == ""


def test_the_certificate_is_that_of_the_rewritten_kernel():
    """Demoting d1 also demotes `d1 * 0.7071`: a model of single roundings would not see that."""
    b = bench()
    d1 = next(s for s in b.sites() if s.name == "d1")
    found = b({d1: "fp16"})
    y = b.entry({d1: "fp16"}).run().outputs[0]
    assert y.value.dtype == np.float64 or y.value.dtype == np.float32
    error = np.abs(y.value - b.exact[0])
    assert found.observed == float((error / (b.atol + b.rtol * np.abs(b.exact[0]))).max())
    assert found.observed <= found.usage and b.evaluations == 1 and b({d1: "fp16"}) is found and b.evaluations == 1


def test_half_precision_functions_get_their_arguments_back_in_fp32():
    b = bench()
    found = b(dict.fromkeys(b.sites(), "bf16"))
    assert np.isfinite(found.usage) and not found.why


@pytest.mark.parametrize(
    "subject",
    [SUBJECTS[0], SUBJECTS[4], *(pytest.param(s, marks=pytest.mark.slow) for s in SUBJECTS)],
    ids=lambda s: s.name,
)
def test_certified_errors_hold_on_fresh_inputs_of_the_box(subject: Subject):
    """All values at once in each format, and two single ones: never beyond the certificate."""
    what, over = target(subject.name), Box(subject.box)
    b = Bench(what, over.draw(what.inputs(0), 0), subject.tol, subject.tol, "any", over)
    sites = b.sites()
    for choice in ({}, {sites[0]: "fp16"}, {sites[-1]: "bf16"}, dict.fromkeys(sites[:3], "fp16")):
        assert np.isfinite(b(choice).usage), b(choice).why
        seen, violations = checked(b, choice, subject, 3)
        assert violations == 0 and seen <= b(choice).usage


@pytest.mark.slow
@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda s: s.name)
def test_proposals_hold_on_many_fresh_inputs(subject: Subject):
    found = measured(subject, all_choices=False)
    assert found.violations == 0 and found.certified <= 1 and found.saved > 0
    assert found.evaluations <= max(0.05 * found.choices, 1 + 3 * found.values)


@pytest.mark.slow
def test_the_search_reaches_the_best_of_all_choices():
    for subject in SUBJECTS:
        if subject.name in ("gaussian_row", "kmeans_distance", "reduction"):
            found = measured(subject, all_choices=True)
            assert found.saved == found.best and found.evaluations <= 0.05 * found.choices


def fake(costs: dict[str, float], calls: list):
    """Errors that add: what a choice costs is known without a kernel."""

    def evaluate(choice):
        calls.append(choice)
        usage = 0.01 + sum(costs[s.name] * (1 if f == "fp16" else 3) for s, f in choice.items())
        return Certified(tuple(choice.items()), usage, usage, usage)

    return evaluate


@pytest.mark.parametrize("seed", range(6))
def test_search_against_all_choices_of_a_model(seed):
    g = np.random.default_rng(seed)
    sites = [Spot("k", f"x{i}", "operation", (i,), ("fp16", "fp8e5")) for i in range(7)]
    costs = {s.name: float(c) for s, c in zip(sites, g.lognormal(-2, 1.2, 7), strict=True)}
    calls: list = []
    best = search(fake(costs, calls), sites, 200)
    top = exhaustive(fake(costs, []), sites)
    assert best.passes and len(calls) <= 210
    assert best.saved >= 0.9 * top.saved


def test_a_kernel_that_breaks_the_tolerance_itself():
    what = target("black_scholes")
    found = propose(what, what.inputs(0), 1e-9, 1e-9)
    assert not found.base.certified.passes and found.choice == {} and "nothing can be demoted" in found.report()


def test_boxes_know_inputs_by_their_memory():
    """Two inputs with the same values, one of them in the box."""
    what = target("nearest_neighbour")
    given = what.inputs(0)
    same = type(given)((given.args[0], given.args[0].clone()), given.kwargs, given.names)
    wide, narrow = (Bench(what, b.draw(same, 1), 1e-3, 1e-3, "any", b) for b in (Box({"lat": (40, 60)}), Box({})))
    assert wide({}).error > 0 and narrow({}).error > 0


@pytest.mark.parametrize("spec", ["s=1", "nothing=0:1", "s=2:1", "s=a:b"])
def test_boxes_that_cannot_be_read(spec):
    with pytest.raises(RenderError):
        box(target("black_scholes").inputs(0), [spec])


def test_a_condition_that_depends_on_the_inputs_has_no_certificate(tmp_path):
    path = tmp_path / "relu.py"
    path.write_text(
        "import torch, triton\nimport triton.language as tl\n\n\n@triton.jit\ndef k(X, Y, B: tl.constexpr):\n"
        "    i = tl.arange(0, B)\n    x = tl.load(X + i)\n    y = tl.where(x > 0, x * x, 2.0 + x)\n"
        "    tl.store(Y + i, y)\n\n\ndef relu(x):\n    y = torch.empty_like(x)\n    k[(1,)](x, y, 16)\n    return y\n"
        "\n\ndef make_inputs():\n    return torch.rand(16)\n"
    )
    from render.companions.called import called

    what = called(path)
    for ends in ((-1, 1), (0.5, 1)):
        over = Box({"x": ends})
        found = Bench(what, over.draw(what.inputs(0), 0), 1e-2, 1e-2, "any", over)({})
        assert not found.passes and "of a float (line 9)" in found.why


def test_the_command(tmp_path):
    line = ["demote", "kernels/fp32/kmeans_distance.py", "--atol", "1e-2", "--rtol", "1e-2", "--evaluations", "20"]
    line += ["-o", str(tmp_path / "out.py"), "--plot", str(tmp_path / "out.png"), "--json", str(tmp_path / "out.json")]
    run = CliRunner().invoke(app, line)
    assert run.exit_code == 0 and "error certified" in run.stdout
    said = json.loads((tmp_path / "out.json").read_text())
    assert said["best"]["certified"] <= 1 and said["best"]["choice"] and said["evaluations"] <= 25
    assert 0 < said["best"]["probabilistic"] <= said["best"]["certified"]
    from render.companions.called import called

    again = called(tmp_path / "out.py")  # the file runs, and computes the same function within the tolerance
    inputs = again.inputs(0)
    ((_, y),) = Entry(again.fn, inputs, "any", 0, {"interval": False}).given()
    torch.testing.assert_close(y, again.module.reference(*inputs.args), rtol=1e-2, atol=1e-2)
    assert CliRunner().invoke(app, ["demote", "kernels/matmul.py", "--formats", "fp12"]).exit_code == 2
    assert CliRunner().invoke(app, [*line[:2], "--atol", "0", "--rtol", "0"]).exit_code == 2


@pytest.mark.slow
def test_the_command_over_a_box():
    line = ["demote", "kernels/fp32/kmeans_distance.py", "--atol", "1e-2", "--rtol", "1e-2"]
    boxed = CliRunner().invoke(app, [*line, "--box", "x=0:1", "--box", "centres=0:1", "--evaluations", "8"])
    assert boxed.exit_code == 0 and "all inputs in x=0:1" in boxed.stdout
