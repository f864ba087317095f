"""Reports of many attacks, and the command that starts them."""

from __future__ import annotations

import dataclasses
import json

import torch
from typer.testing import CliRunner

from render.cli.app import app
from render.lab.adversary import campaign, catalogue, subjects
from render.lab.adversary.attack import AttackTally, Violation


def test_a_report_counts_by_kernel_rule_and_profile():
    report = campaign.run(["any", "ieee"], [subjects.rows("sum", "fp32", 4)], 0.0, runs=5, direct=8)
    brief = json.loads(json.dumps(report.as_dict()))
    assert set(brief["profiles"]) == {"any", "ieee"}
    assert brief["kernels"]["sum fp32 4"]["violations"] == 0
    assert brief["rules"]["reduce"]["checks"] == brief["kernels"]["sum fp32 4"]["checks"]
    assert brief["checks"] == sum(p["checks"] for p in brief["profiles"].values())


def test_missing_rules_are_skipped_with_their_reason():
    report = campaign.run(["sm_75"], [subjects.dots("fp32", "chained", "tf32x3")], 0.0, runs=2, direct=0)
    assert report.total.checks > 0
    report = campaign.run(["gfx90a"], [subjects.dots("fp32", "chained", "tf32x3")], 0.0, runs=2, direct=0)
    assert report.total.checks == 0
    assert "tf32x3" in next(iter(report.skipped.values()))


def test_launchers_that_ask_for_another_device_are_skipped_with_their_reason():
    (some,) = (s for s in catalogue.packaged() if s.name == "vector_add.py")

    def asks(*args, **keywords):
        torch.cuda.get_device_properties("cuda")
        return some.run(*args, **keywords)

    report = campaign.run(["xpu"], [dataclasses.replace(some, run=asks)], 0.0, runs=1, direct=0)
    assert report.total.checks == 0
    assert "Invalid device id" in next(iter(report.skipped.values()))


def test_far_rules_are_listed_and_reports_merge():
    one, two = campaign.Report(), campaign.Report()
    one.add("any", "k", ("fadd",), AttackTally(checks=10, approach=0.2))
    assert one.far == {"k": 0.2, "rule fadd": 0.2}
    two.add("any", "k", ("fadd",), AttackTally(checks=5, approach=0.9))
    merged = one.merged(two)
    assert merged.far == {}
    assert merged.total.checks == 15


def test_the_doctor_attacks(monkeypatch):
    monkeypatch.setattr(catalogue, "quick", lambda: [subjects.rows("sum", "fp32", 4)])
    result = CliRunner().invoke(app, ["doctor", "--soundness", "--device", "any"])
    assert result.exit_code == 0, result.output
    assert "sum fp32 4" in result.output
    assert "0 outside" in result.output


def test_a_violation_is_an_error(monkeypatch):
    found = Violation("kernel", "any", "normal", 1, {"dot": "spread"}, 0, (3,), 2.0, 0.0, 1.0)

    def run(*args, **kwargs):
        report = campaign.Report()
        report.add("any", "kernel", ("dot",), AttackTally(checks=10, violated=1, violations=[found]))
        return report

    monkeypatch.setattr(campaign, "run", run)
    result = CliRunner().invoke(app, ["doctor", "--soundness"])
    assert result.exit_code == 1
    assert "2.0 not in [0.0, 1.0]" in result.output
