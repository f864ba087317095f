"""Sweeps: nothing lost, nothing twice, whatever dies in the middle; and the same with Ray, where it is installed."""

from __future__ import annotations

import os
import signal
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest

from render.lab import workers
from render.sweep import cluster
from render.sweep.engine import sweep
from render.sweep.store import KeptUnit, SweepStore

LIGHT = ("json",)


@dataclass(frozen=True)
class Job:
    number: int
    folder: str
    killed: int = 0
    """How many processes die at this unit."""

    @property
    def key(self) -> str:
        return f"job {self.number}"

    @property
    def told(self) -> dict[str, Any]:
        return asdict(self)


def work(job: Job) -> list[dict[str, Any]]:
    runs = Path(job.folder) / str(job.number)
    with runs.open("a") as file:
        file.write(".")
    if len(runs.read_text()) <= job.killed:
        os.kill(os.getpid(), signal.SIGKILL)
    return [{"number": job.number, "label": "Type-I"}]


def answered(job: Job) -> tuple[list[dict[str, Any]], str, int]:
    return work(job), "", 1


def local(units: Any) -> Any:
    return workers.run(work, units, 2, LIGHT)


def numbers(entries: list[KeptUnit]) -> list[int]:
    return sorted(row["number"] for entry in entries for row in entry.rows)


def jobs(folder: Path, n: int, killed: tuple[int, ...] = ()) -> list[Job]:
    folder.mkdir(exist_ok=True)
    return [Job(i, str(folder), int(i in killed)) for i in range(n)]


def test_a_killed_process_loses_and_repeats_nothing(tmp_path):
    store = SweepStore(tmp_path / "s" / "kept.sqlite")
    found = [swept.entry for swept in sweep(jobs(tmp_path / "runs", 9, (0, 4, 8)), store, local)]
    assert numbers(found) == list(range(9))
    assert Counter(entry.attempts for entry in found) == {1: 6, 2: 3}
    assert numbers(list(store.known(f"job {i}" for i in range(20)).values())) == list(range(9))


def test_an_interrupted_sweep_goes_on(tmp_path):
    units = jobs(tmp_path / "runs", 8)
    store = SweepStore(tmp_path / "kept.sqlite")
    first = sweep(units, store, local)
    begun = [next(first).entry.key for _ in range(3)]
    first.close()
    again = list(sweep(units, SweepStore(tmp_path / "kept.sqlite"), local))
    assert {s.entry.key for s in again if s.known} == set(begun)
    assert numbers([s.entry for s in again]) == list(range(8))


def test_a_failure_is_tried_again_and_a_result_is_not(tmp_path):
    store = SweepStore(tmp_path / "kept.sqlite")
    store.put(KeptUnit("a", {}, [], "killed", 3))
    assert store.known("a") == {}
    store.put(KeptUnit("a", {}, [{"n": 1}]))
    store.put(KeptUnit("a", {}, [{"n": 2}]))
    store.put(KeptUnit("a", {}, [], "killed"))
    assert store.known("a")["a"].rows == [{"n": 1}]
    store.forget("a")
    assert store.known("a") == {}


def test_units_of_one_key_are_one(tmp_path):
    units = jobs(tmp_path / "runs", 2) * 3
    found = list(sweep(units, SweepStore(tmp_path / "kept.sqlite"), local))
    assert numbers([s.entry for s in found]) == [0, 1]
    assert all((tmp_path / "runs" / str(i)).read_text() == "." for i in range(2))


def test_an_execution_that_says_it_twice_counts_once(tmp_path):
    def twice(units: Any) -> Any:
        for done in local(units):
            yield from (done, done)

    found = list(sweep(jobs(tmp_path / "runs", 3), SweepStore(tmp_path / "kept.sqlite"), twice))
    assert numbers([s.entry for s in found]) == [0, 1, 2]


@pytest.mark.slow
def test_a_cluster_loses_and_repeats_nothing(tmp_path):
    """Several processes of a local Ray cluster; one is killed in the middle, with its unit."""
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    try:
        units = jobs(tmp_path / "runs", 12, killed=(0, 5))
        store = SweepStore(tmp_path / "kept.sqlite")
        found = list(sweep(units, store, lambda left: cluster.execute(ray, answered, left)))
        assert numbers([s.entry for s in found]) == list(range(12))
        assert not any(s.entry.error for s in found)
        tried = {i: len((tmp_path / "runs" / str(i)).read_text()) for i in range(12)}
        assert tried[0] == tried[5] == 2
        assert all(s.known for s in sweep(units, store, lambda left: cluster.execute(ray, answered, left)))
    finally:
        ray.shutdown()
