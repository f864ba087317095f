"""Runs a choice of cases: reuses what is known, starts the largest first, reports each as it finishes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

from render.lab.corpus.case import load_case
from render.lab.replay.pool import run_all
from render.lab.replay.rows import ReplayRow, failed
from render.lab.replay.store import Store
from render.lab.replay.worker import ReplayPlan, replay

PROCESS_MB = 100.0
BYTES_PER_ELEMENT = 19.0
"""As measured on the corpus; imports are shared. A wrong guess costs time or memory, never a result."""


def size_of(folder: Path) -> int:
    """Elements of all tensors of the case: the larger ones start first, so that no long one is left for the end."""
    return sum(math.prod(shape) for shape in load_case(folder).facts.shapes.values())


def need_of(folder: Path) -> float:
    """MB that the case is likely to need at its peak: its tensors, each with bounds, and what every process adds."""
    return PROCESS_MB + size_of(folder) * BYTES_PER_ELEMENT / 2**20


def replay_all(
    folders: list[Path], plan: ReplayPlan, jobs: int, store: Store | None = None, isolate: bool = True
) -> Iterator[tuple[ReplayRow, bool]]:
    """(row, whether it was known before) of every case, known ones first, then as they finish.

    `isolate` False runs them one after the other in this process; then peak memory is that of all cases so far.
    """
    known = store.known(folders) if store is not None else {}
    for folder in folders:
        if folder in known:
            yield known[folder], True
    left = sorted((f for f in folders if f not in known), key=size_of, reverse=True)
    for folder, row in _isolated(left, plan, jobs) if isolate else ((f, replay(f, plan)) for f in left):
        if store is not None:
            store.put(folder, row)
        yield row, False


def _isolated(folders: list[Path], plan: ReplayPlan, jobs: int) -> Iterator[tuple[Path, ReplayRow]]:
    for folder, row, error in run_all(folders, plan, jobs, need_of):
        yield folder, row if row is not None else failed(load_case(folder), error)
