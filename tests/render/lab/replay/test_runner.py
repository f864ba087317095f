"""The runner on two synthetic cases: rows, isolation, and what is kept between runs."""

from __future__ import annotations

import json
import multiprocessing

import pytest

from render.lab.replay import pool
from render.lab.replay.rows import from_dict
from render.lab.replay.runner import replay_all
from render.lab.replay.select import select
from render.lab.replay.store import Store
from render.lab.replay.worker import ReplayPlan

PLAN = ReplayPlan()


def rows_of(corpus, *ids, **options):
    return {row.id: row for row, _ in replay_all(select(list(ids)), PLAN, 1, **options)}


def test_answers_and_axes(corpus):
    rows = rows_of(corpus, isolate=False)
    good, bad = rows["9001"], rows["9001-minus"]
    assert good.disagreements == [] and bad.disagreements == []
    assert (good.label, good.paper_rule, good.reference_axis, good.device_axis) == (
        "Type-I", "Type-I", "inside", "inside")  # fmt: skip
    assert (bad.label, bad.code, bad.reference_axis, bad.device_axis) == ("Type-II", "RND201", "outside", "none")
    assert good.source_label == "Type-I" and bad.source_label == "Type-II"
    assert good.programs == 4
    assert 0 < good.width < 1e-5 and good.published_width == 1e-6
    assert {e.side for e in good.extremes} == {"left", "right"}
    assert all(0 <= e.difference <= e.bound for e in good.extremes)


def test_isolated_equals_in_process(corpus):
    """A process of its own gives the same answers; peak memory and times are its own."""
    row, other = rows_of(corpus, "9001", isolate=False)["9001"], rows_of(corpus, "9001")["9001"]
    assert (row.label, row.code, row.width, row.baselines["paper"]) == (
        other.label, other.code, other.width, other.baselines["paper"])  # fmt: skip
    assert other.peak_rss_mb > 50


def test_row_survives_json(corpus):
    row = rows_of(corpus, isolate=False)["9001"]
    assert from_dict(json.loads(json.dumps(row.to_dict()))) == row


def test_cases_wait_for_memory(monkeypatch):
    monkeypatch.setattr(pool, "MEMORY", 100.0)
    needs = {"large": 180, "medium": 90, "small": 10, "giant": 900}

    def chosen(waiting, running, jobs=2):
        return pool._next(waiting, running, jobs, needs.__getitem__)

    assert chosen(["large", "medium", "small"], []) == "large"
    assert chosen(["medium", "small"], ["large"]) == "small"
    assert chosen(["medium"], ["large"]) is None
    assert chosen(["medium"], ["medium", "small"]) is None  # no job left
    assert chosen(["giant"], []) == "giant"  # what fits nowhere runs alone
    assert chosen([], []) is None


def test_results_are_kept_until_the_case_changes(corpus, tmp_path):
    store = Store(PLAN, tmp_path)
    folders = select([])
    first = list(replay_all(folders, PLAN, 1, store, isolate=False))
    again = list(replay_all(folders, PLAN, 1, store, isolate=False))
    assert [known for _, known in first] == [False, False]
    assert [known for _, known in again] == [True, True]
    assert {r.id: r for r, _ in again} == {r.id: r for r, _ in first}
    kernel = corpus / "issues" / "9001" / "kernel.py"
    kernel.write_text(kernel.read_text() + "\n")
    assert {r.id: known for r, known in replay_all(folders, PLAN, 1, store, isolate=False)} == {
        "9001": False, "9001-minus": True}  # fmt: skip
    store.forget(folders)
    assert store.known(folders) == {}


def test_interrupted_run_continues(corpus, tmp_path):
    """Whatever finished before the interruption is there afterwards."""
    store = Store(PLAN, tmp_path)
    run = replay_all(select([]), PLAN, 1, store, isolate=False)
    done, _ = next(run)
    with pytest.raises(KeyboardInterrupt):
        run.throw(KeyboardInterrupt)
    assert {row.id for row in store.known(select([])).values()} == {done.id}


def test_broken_file_counts_as_no_result(corpus, tmp_path):
    store = Store(PLAN, tmp_path)
    folders = select(["9001"])
    list(replay_all(folders, PLAN, 1, store, isolate=False))
    for file in store.folder.glob("*.json"):
        file.write_text("{")
    assert store.known(folders) == {}


def test_errors_and_crashes_end_one_case_only(corpus):
    (corpus / "issues" / "9001" / "kernel.py").write_text("raise RuntimeError('no kernel')\n")
    rows = rows_of(corpus, isolate=False)
    assert "no kernel" in rows["9001"].error and not rows["9001"].ok
    assert rows["9001-minus"].ok
    (corpus / "issues" / "9001" / "kernel.py").write_text("import os\nos.kill(os.getpid(), 9)\n")
    assert "SIGKILL" in rows_of(corpus, "9001")["9001"].error


def test_interruption_ends_what_runs(corpus, monkeypatch):
    (corpus / "issues" / "9001" / "kernel.py").write_text("import time\ntime.sleep(600)\n")

    def interrupted(connections):
        assert multiprocessing.active_children()
        raise KeyboardInterrupt

    monkeypatch.setattr(pool, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        next(pool.run_all(select(["9001"]), PLAN, 1))
    assert multiprocessing.active_children() == []
