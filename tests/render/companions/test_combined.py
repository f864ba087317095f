"""The table on its own, and the four implementations that it was made for."""

from dataclasses import replace
from itertools import product

import pytest
import torch
from typer.testing import CliRunner

import render
from render.cli import app
from render.companions.combined import POWERLESS, Fields, combined, decided
from render.companions.dual_delta import dual_delta
from render.result.errors import RenderError
from tests.render.companions import products

EVERY = [
    Fields(*values)
    for values in product(("inside", "outside", "unbounded"), (0.5, 100.0), (True, False),
                          ("equivalent", "worse", "better", "undecided"), ("ok", "short", "n/a"), (True, False),
                          (True, False), (True, False))
]  # fmt: skip


def test_statistics_never_turn_outside_into_round_off():
    assert {decided(f).label for f in EVERY if f.bound == "outside"} == {""}


def test_without_a_bound_only_the_estimate_decides():
    for f in EVERY:
        if f.bound == "unbounded":
            assert (decided(f).label == "Type-I") == (f.powerless and f.own)
            assert decided(f) == decided(replace(f, accuracy="equivalent", accumulator="ok"))


def test_nothing_makes_a_bug_of_round_off():
    assert "Type-II" not in {decided(f).label for f in EVERY}


@pytest.mark.parametrize(
    ("fields", "label", "word"),
    [
        (Fields("outside", 1, True, "equivalent", "ok"), "", "suspect the reference"),
        (Fields("outside", 1, True, "worse", "short"), "", "a bug"),
        (Fields("unbounded", 1, True, "equivalent", "ok"), "", "no bound"),
        (Fields("inside", 1, True, "equivalent", "ok"), "", "strong"),
        (Fields("inside", 99, True, "equivalent", "ok"), "", "the equivalence of the errors carries it"),
        (Fields("inside", 99, True, "undecided", "ok"), "", "more inputs"),
        (Fields("inside", 99, True, "worse", "short"), "Type-I", "too short"),
        (Fields("inside", 1, False, "worse", "ok"), "Type-I", "systematically"),
        (Fields("inside", 99, False, "worse", "ok"), "Type-I", "systematically"),
        (Fields("inside", 99, False, "worse", "ok", reproduced=False), "Inconclusive", "a bug may hide"),
        (Fields("inside", 99, True, "worse", "ok"), "Inconclusive", "a bug may hide"),
        (Fields("inside", 1, True, "better", "ok"), "", "nothing contradicts"),
    ],
)
def test_rows(fields, label, word):
    row = decided(fields)
    assert row.label == label and word in row.advice
    assert (row.code, row.subtype) == {"": ("", ""), "Type-I": ("RND111", "degraded"),
                                       "Inconclusive": (POWERLESS, "")}[label]  # fmt: skip


def draw(seed):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(32, 4096, generator=g).half(), torch.randn(4096, 32, generator=g).half()


def weighed(fn):
    verdict = render.classify(fn, *draw(0), ref=products.reference)
    return combined(verdict, dual_delta(fn, products.reference, lambda a, b: a @ b, draw, n=8, jobs=1))


@pytest.mark.parametrize(
    ("name", "label", "subtype", "named"),
    [
        ("single", "Type-I", None, ""),
        pytest.param("split_single", "Type-I", None, "", marks=pytest.mark.slow),
        ("split_half", "Type-I", "degraded", "low-precision partials (fp16)"),
        ("half_acc", "Type-I", "probabilistic", "fp16 accumulator"),
        ("dropped", "Type-II", None, ""),
    ],
)
def test_four_implementations_of_one_product(name, label, subtype, named):
    """K = 4096: fp32 accumulation, split-K with partials of both precisions, an fp16 accumulator, a dropped k."""
    found = weighed(getattr(products, name))
    assert found.label == label and (found.subtype == subtype or found.subtype not in ("degraded", "probabilistic"))
    assert (found.code == "RND120") == (subtype == "probabilistic")
    assert named in found.message and "elementwise" not in found.message
    kinds = {e.name: e.kind for e in found.evidence}
    assert kinds["companions/bound"] == "proof" and kinds["companions/dual_delta"] == "measurement"
    assert kinds["companions/band"] == "estimate" and kinds.get("companions/vrr", "index") == "index"
    assert render.load is not None and type(found).__name__ == "Verdict"


def test_a_verdict_reads_back_with_its_evidence(tmp_path):
    found = weighed(products.split_half)
    found.save(tmp_path / "v.json")
    again = render.load(tmp_path / "v.json")
    assert again.evidence == found.wait().evidence and (again.label, again.code) == ("Type-I", "RND111")
    with pytest.raises(RenderError, match="cannot be run again"):
        combined(again)


def test_the_command():
    line = ["evidence", "kernels/fused_softmax.py", "-n", "4"]
    run = CliRunner().invoke(app, line)
    assert run.exit_code == 0 and "proof" in run.stdout and "measurement" in run.stdout
