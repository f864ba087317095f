"""Many inputs at once: processes that are forked from this one and so have the functions without pickling them."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from render.companions.dual_delta.trial import Sample, Trial

_FEW = 16
"""Inputs per process below which another process does not pay."""
_trial: Trial | None = None


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def runner(trial: Trial, count: int, jobs: int | None) -> Iterator[Any]:
    """A function from numbers of inputs to their samples, in order. One process where the platform cannot fork."""
    wanted = min(cores() if jobs is None else jobs, max(1, count // _FEW))
    if wanted < 2 or "fork" not in multiprocessing.get_all_start_methods():
        yield lambda numbers: map(trial, numbers)
        return
    global _trial
    _trial = trial
    pool = multiprocessing.get_context("fork").Pool(wanted, _alone)
    try:
        yield lambda numbers: _ordered(pool, numbers, wanted)
    finally:
        pool.terminate()
        pool.join()
        _trial = None


def _ordered(pool: Any, numbers: Sequence[int], jobs: int) -> Iterator[Sample]:
    yield from pool.imap(_sample, numbers, max(1, min(16, len(numbers) // (4 * jobs))))


def _alone() -> None:
    """One thread each: the processes are the parallelism, and a fork has none of its parent's threads."""
    import torch

    torch.set_num_threads(1)


def _sample(number: int) -> Sample:
    assert _trial is not None
    return _trial(number)
