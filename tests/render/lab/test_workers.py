"""Units in processes: each has one outcome, also where a process dies at it."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import NamedTuple

from render.lab import workers

LIGHT = ("json",)


class Job(NamedTuple):
    number: int
    folder: str
    killed: int = 0
    """How many processes die at this unit."""


def work(job: Job) -> int:
    runs = Path(job.folder) / str(job.number)
    with runs.open("a") as file:
        file.write(".")
    if len(runs.read_text()) <= job.killed:
        os.kill(os.getpid(), signal.SIGKILL)
    if job.number == 13:
        raise ValueError("an unlucky number")
    return job.number * 10


def outcomes(jobs: list[Job], processes: int = 2) -> dict[int, workers.Done[int]]:
    found = list(workers.run(work, jobs, processes, LIGHT))
    assert len(found) == len({done.unit for done in found}) == len(jobs)
    return {done.unit: done for done in found}


def test_every_unit_is_done_once(tmp_path):
    found = outcomes([Job(n, str(tmp_path)) for n in range(8)])
    assert [found[n].result for n in range(8)] == [n * 10 for n in range(8)]
    assert all((tmp_path / str(n)).read_text() == "." for n in range(8))


def test_a_killed_process_costs_its_unit_one_attempt(tmp_path):
    found = outcomes([Job(n, str(tmp_path), killed=int(n in (0, 3))) for n in range(6)])
    assert [found[n].result for n in range(6)] == [n * 10 for n in range(6)]
    assert found[3].attempts == 2 and (tmp_path / "3").read_text() == ".."
    assert found[1].attempts == 1 and (tmp_path / "1").read_text() == "."


def test_a_unit_that_kills_is_given_up(tmp_path):
    found = outcomes([Job(0, str(tmp_path), killed=99), Job(1, str(tmp_path))])
    assert found[0].result is None and "SIGKILL" in found[0].error and found[0].attempts == workers.ATTEMPTS
    assert found[1].result == 10


def test_an_exception_is_an_outcome(tmp_path):
    found = outcomes([Job(13, str(tmp_path)), Job(1, str(tmp_path))], processes=1)
    assert "ValueError: an unlucky number" in found[0].error and "test_workers.py" in found[0].error
    assert found[1].result == 10


def test_closing_ends_the_processes(tmp_path):
    running = workers.run(work, [Job(n, str(tmp_path)) for n in range(50)], 1, LIGHT)
    next(running)
    running.close()
    assert len(list(tmp_path.iterdir())) < 50
