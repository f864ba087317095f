"""How long Triton's own interpreter takes for the same kernel on the same inputs, in a process of its own.

It runs one program of the grid after the other, on one thread; processor time is taken, so that other work on the
machine changes little. A run that would last too long is stopped between two programs and the time is extrapolated from
the share of programs that were done; `fraction` says so. Programs of one grid may cost very different amounts (those of
causal attention do), so they run in an order that is spread over it. Values are not looked at.

Newer Tritons left things out that kernels in the field use (block pointers, in 3.9). Where the installed one refuses a
kernel for that, an older one in a folder of its own can run it; the result says which.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from render.lab.corpus.case import CorpusCase


ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


@dataclass(frozen=True)
class Stock:
    """`seconds` of processor time for the whole run, extrapolated where `fraction` < 1; None where none ran it.

    `again` is the time of further runs in the same process (`repeats.again`). `error` is what the installed Triton said
    where it did not run the kernel, `triton` the version of the one that did.
    """

    seconds: float | None
    fraction: float = 1.0
    programs: int = 0
    error: str = ""
    triton: str = ""
    again: float | None = None


REFUSED = 1
"""Exit status of a Python that ends with an exception; a crash, as writes outside of memory cause, has another."""


SAYS = "stock: "
"""Begins the lines with results among whatever the user's file prints."""


class TimeIsUp(BaseException):
    """The time is up. Derives from BaseException so that no handler in a launcher takes it."""


def measure(case: CorpusCase, limit: float, small: bool = False, older: str = "") -> Stock:
    """The stock interpreter's plain run of the case; after `limit` processor seconds it is extrapolated.

    `older`: a folder with another Triton, tried where the installed one refuses the kernel.
    """
    found, status = _run_apart(case, limit, small, "")
    if status != REFUSED or not older:
        return found
    again, _ = _run_apart(case, limit, small, older)
    return found if again.seconds is None else replace(again, error=found.error)


def _run_apart(case: CorpusCase, limit: float, small: bool, front: str) -> tuple[Stock, int | None]:
    """The result of a process of its own and its exit status (None: no end); `front` goes before all other packages."""
    command = [sys.executable, "-m", "render.lab.replay.stock", str(case.path), str(limit), str(int(small))]
    root = str(Path(__file__).resolve().parents[3])
    path = os.pathsep.join(filter(None, (front, root, os.environ.get("PYTHONPATH", ""))))
    environment = {**os.environ, **ONE_THREAD, "TRITON_INTERPRET": "1", "PYTHONPATH": path}
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60 * limit + 600)
    except subprocess.TimeoutExpired:  # a program that waits for another one, say
        return Stock(None, error="it does not come to an end"), None
    said = [line for line in done.stdout.splitlines() if line.startswith(SAYS)]
    if not said:
        return Stock(None, error=(done.stderr.strip().splitlines() or ["?"])[-1]), done.returncode
    return Stock(**json.loads(said[-1].removeprefix(SAYS))), 0  # a repetition that crashes leaves the first run's time


def stride(total: int) -> int:
    """A step coprime to `total`, about its golden section: multiples of it visit all places, evenly from the start."""
    step = max(1, round(total * 0.618))
    while math.gcd(step, total) > 1:
        step += 1
    return step


class StopWatch:
    """Counts the programs of each launch and ends the run when the time is up."""

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self.done = self.total = 0
        self.began = time.process_time()

    def next_program(self, grid: tuple[int, int, int]) -> tuple[int, int, int]:
        """The program to run now: each once, in an order that is spread over the grid from the start."""
        if self.done >= self.total:
            self.total += grid[0] * grid[1] * grid[2]
            self.stride, self.place = stride(grid[0] * grid[1] * grid[2]), 0
        if self.done and time.process_time() - self.began > self.limit:
            raise TimeIsUp
        self.done += 1
        x, rest = divmod(self.place, grid[1] * grid[2])
        self.place = (self.place + self.stride) % (grid[0] * grid[1] * grid[2])
        return x, *divmod(rest, grid[2])

    def result(self) -> Stock:
        spent = time.process_time() - self.began
        finished = self.done >= self.total
        fraction = 1.0 if finished else self.done / self.total
        import triton

        return Stock(spent / fraction, fraction, self.total, triton=triton.__version__)


def run(case: CorpusCase, limit: float, small: bool) -> Iterator[Stock]:
    """The first run, then the same with the time of further ones, if it was short.

    In this process, which must have been started with TRITON_INTERPRET=1.
    """
    import torch

    torch.set_num_threads(1)
    from render.entry.execution import on_cpu
    from render.lab.replay.repeats import again

    module = case.load()
    inputs = case.inputs(module, small)

    def once() -> Stock:
        given = inputs.clone()
        torch.manual_seed(case.facts.seed)
        with _watched(limit) as watch:
            case.entry(module)(*given.args, **given.kwargs)
        return watch.result()

    with on_cpu():
        first = once()
        yield first
        if first.fraction == 1.0:
            yield replace(first, again=again(lambda: once().seconds or 0.0, first.seconds))


@contextlib.contextmanager
def _watched(limit: float) -> Iterator[StopWatch]:
    """Programs that are launched in this scope are counted, and those beyond the limit left out."""
    from triton.runtime import interpreter

    builder: Any = interpreter.interpreter_builder
    plain, watch = builder.set_grid_idx, StopWatch(limit)

    def set_grid_idx(x: int, y: int, z: int) -> None:
        plain(*watch.next_program(builder.grid_dim))

    builder.set_grid_idx = set_grid_idx
    try:
        with contextlib.suppress(TimeIsUp):
            yield watch
    finally:
        builder.set_grid_idx = plain


def main() -> None:
    from dataclasses import asdict

    from render.lab.corpus.case import load_case

    folder, limit, small = sys.argv[1:]
    for found in run(load_case(Path(folder)), float(limit), bool(int(small))):
        print(SAYS + json.dumps(asdict(found)), flush=True)


if __name__ == "__main__":
    main()
