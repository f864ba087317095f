"""`render replay` end to end on two synthetic cases: table, JSON, exit codes, lint."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from render.cli import app
from render.lab.replay import judging
from render.lab.replay.select import select
from render.lab.replay.store import digest
from render.lab.replay.worker import ReplayPlan, replay

runner = CliRunner()
KEYS = {"id", "label", "code", "paper_rule", "expected_label", "ok", "interval_s", "stock_s", "peak_rss_mb",
        "median_relative_width", "reference_axis", "device_axis", "source_label", "baselines"}  # fmt: skip


def test_table_json_and_resume(corpus):
    first = runner.invoke(app, ["replay", "-j", "1", "--json", "out.json"])
    assert first.exit_code == 0, first.output
    assert "9001-minus" in first.output and "1 / 1 as expected on every axis" in first.output
    assert "elements; outside the bound 0 of the reference" in first.output
    found = json.loads(Path("out.json").read_text())
    assert [c["id"] for c in found["cases"]] == ["9001", "9001-minus"]
    assert all(set(c) >= KEYS for c in found["cases"])
    assert found["summary"]["ok"] == 2 and found["summary"]["failed"] == []
    again = runner.invoke(app, ["replay", "-j", "1", "--json", "-"])
    assert again.exit_code == 0
    assert json.loads(again.stdout)["cases"] == found["cases"]  # nothing ran: not even the times differ
    assert again.stderr.count("from an earlier run") == 2


def test_exit_1_if_an_answer_is_not_the_expected_one(corpus):
    toml = corpus / "issues" / "9001" / "case.toml"
    toml.write_text(toml.read_text().replace("RND108", "RND101"))
    done = runner.invoke(app, ["replay", "9001", "-j", "1", "--no-baselines"])
    assert done.exit_code == 1
    assert "code: RND108, not RND101" in done.output


def test_assumptions_reach_the_session_and_the_store(corpus, monkeypatch):
    """A result under other assumptions is another result; what was assumed stands among the options of the session."""
    seen = []
    honest = judging.Options
    monkeypatch.setattr(judging, "Options", lambda **given: seen.append(given["session"]) or honest(**given))
    (folder,) = select(["9001"], "")
    chosen = (("sum_order", "tree"), ("triton_version", "3.9"))
    plans = [ReplayPlan(baselines=False, assumed=assumed) for assumed in ((), chosen)]
    rows = [replay(folder, plan) for plan in plans]
    assert seen == [{}, dict(chosen)]
    assert [row.error for row in rows] == ["", ""]
    assert digest(folder, plans[0]) != digest(folder, plans[1])


def test_assumptions_are_taken_from_the_command_line(corpus):
    words = ["replay", "9001", "-j", "1", "--no-baselines"]
    for more in ([], ["--sum-order", "tree", "--triton-version", "3.9"], ["--fp-contraction", "off"]):
        done = runner.invoke(app, [*words, *more])
        assert "from an earlier run" not in done.output
        assert (done.exit_code == 0) == ("off" not in more), done.output
    assert "code: RND106, not RND108" in done.output  # what is not fused is not explained by fusing


@pytest.mark.parametrize(
    "args",
    [["9002"], ["-k", "and"], ["-k", "nothing-like-this"], ["--no-such-option"], ["--triton-version", "2.1"],
     ["--sum-order", "sorted"]],
)  # fmt: skip
def test_exit_2_for_usage(corpus, args):
    assert runner.invoke(app, ["replay", *args]).exit_code == 2


def test_lint_of_good_cases(corpus):
    done = runner.invoke(app, ["replay", "--lint"])
    assert done.exit_code == 0, done.output
    assert "2 cases checked, 0 problems" in done.output


def test_lint_names_every_problem(corpus):
    case = corpus / "issues" / "9001"
    toml = (case / "case.toml").read_text()
    toml = toml.replace('"multiply-add"', '"no-such-model"').replace('codes = ["RND108"]', 'codes = ["RND999"]')
    (case / "case.toml").write_text(toml.replace('profile = "any"', 'profile = "sm_1"'))
    (case / "kernel.py").write_text("import os\nimport torch\n\ndef reference(x, y):\n    return x\n")
    done = runner.invoke(app, ["replay", "--lint", "9001"])
    assert done.exit_code == 1
    for text in ("no-such-model", "RND999", "sm_1", "imports os", "defines no multiply_add", "defines no make_inputs"):
        assert text in done.output, text


def test_lint_of_unreadable_facts(corpus):
    (corpus / "issues" / "9001" / "case.toml").write_text('id = "9001"\nunknown = 1\n')
    done = runner.invoke(app, ["replay", "--lint", "issues"])
    assert done.exit_code == 1 and "case.toml" in done.output


@pytest.mark.parametrize(("words", "message"), [((), "add --stock"), (("--stock",), "no Triton in")])
def test_a_folder_without_an_older_triton_is_refused(corpus, tmp_path, words, message):
    done = runner.invoke(app, ["replay", "9001", *words, "--stock-triton", str(tmp_path)])
    assert done.exit_code == 2
    assert message in done.output
