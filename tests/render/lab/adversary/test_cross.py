"""The cross product of kernels and profiles: every pair once, the same whether interrupted or not."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from interval_ops.profiles.profile import profile_names
from render.lab.adversary import catalogue, cross, subjects
from render.lab.adversary.attack import AttackTally, Violation

FEW = [subjects.rows("sum", "fp32", 4), subjects.dots("fp32", "chained", "tf32x3")]
EFFORT = cross.Effort(runs=2, lanes=4, seed=3)


def test_every_pair_once():
    found = cross.pairs(FEW, ["any", "ieee"], 1)
    assert len({(p.name, p.profile) for p in found}) == len(found) == 6
    assert sum(p.kernel is None for p in found) == 2
    assert len({p.seed(1) for p in found}) == 6


def test_a_run_goes_on_where_it_stopped(tmp_path):
    whole = cross.run(tmp_path / "whole", FEW, ["ieee", "gfx90a"], EFFORT)
    path = tmp_path / "parts"
    assert len(cross.run(path, FEW, ["ieee", "gfx90a"], EFFORT, limit=0.0)) <= 1
    text = path.read_text()
    path.write_text(text + '{"name": "cut sh')  # interrupted while writing
    seen: list[tuple[int, int]] = []
    again = cross.run(path, FEW, ["ieee", "gfx90a"], EFFORT, lambda done, all_, left, line: seen.append((done, all_)))
    assert seen[-1] == (6, 6) and len(seen) == 6 - len(text.splitlines())
    strip = [{k: v for k, v in line.items() if k != "seconds"} for line in again]
    assert strip == [{k: v for k, v in line.items() if k != "seconds"} for line in whole]


def test_a_greater_effort_is_another_run(tmp_path):
    path = tmp_path / "pairs"
    cross.run(path, FEW[:1], ["ieee"], EFFORT)
    cross.run(path, FEW[:1], ["ieee"], cross.Effort(runs=3, lanes=4, seed=3))
    assert [line["effort"]["runs"] for line in cross.read(path)] == [2, 2, 3, 3]
    cross.run(path, FEW[:1], ["ieee"], EFFORT)  # less than what is there
    assert len(list(cross.read(path))) == 4


def test_the_report_counts_what_was_written(tmp_path):
    report = cross.report(cross.run(tmp_path / "pairs", FEW, ["ieee", "gfx90a"], EFFORT))
    # Two profiles, two executions and the values of the interval run, 128 sums.
    assert report.kernels["sum fp32 4"].checks == 2 * (2 + 1) * 128
    assert report.total.checks == sum(t.checks for t in report.profiles.values())
    assert "tf32x3" in report.skipped["gfx90a: dot fp32 chained tf32x3 fp32 32"]
    assert report.rules["fadd"].runs > 0


def test_violations_survive_the_file():
    found = AttackTally(3, 1, 1.5, [Violation("k", "any", "normal", 1, {"a": "b"}, 0, (1, 2), 2.0, 0.0, 1.0)], 1)
    line = json.loads(json.dumps(cross.as_line(cross.Attacked(FEW[0], "any"), EFFORT, 0.5, [(("reduce",), found)])))
    back = cross.tally_of(line["parts"][0])
    assert back.violated == 1 and back.violations[0].value == 2.0
    assert cross.report([line]).total.violated == 1
    assert line["effort"] == asdict(EFFORT)


@pytest.mark.slow
@pytest.mark.parametrize("profile", profile_names())
def test_every_kernel_meets_every_profile(profile, tmp_path):
    lines = cross.run(tmp_path / "pairs", catalogue.every(), [profile], cross.Effort(runs=3, lanes=64, seed=5))
    report = cross.report(lines)
    assert report.total.violated == 0, report.total.violations[:3]
    assert len(lines) == len(catalogue.every()) + 1
