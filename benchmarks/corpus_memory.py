"""The corpus at full size against its promise: wall time, processor time and memory of all processes together.

python benchmarks/corpus_memory.py [--jobs N] [--json PATH|-] [ARGUMENT OF render replay ...]

Runs `render replay issues --fresh --no-baselines` and looks at the process tree every tenth of a second: the command
itself, the server that imports everything once, and the workers that it forks. Pages that several of them share count
once: "in all" is what each process has alone, plus the largest shared part of any. Libraries that other programs of
the machine have loaded as well are in it, so the figure is an upper bound of what the command adds to the machine.
(PSS, which also divides pages by users outside the tree, is given beside it.) Linux only.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

PROMISE_S, PROMISE_MB = 60.0, 2048.0
EVERY = 0.1


class Memory(NamedTuple):
    """MB of one process: alone, shared with others, proportional share."""

    private: float
    shared: float
    pss: float


class Moment(NamedTuple):
    """MB of the tree at one time."""

    total: float
    pss: float
    parts: tuple[Memory, ...]


def memory_of(pid: int) -> Memory | None:
    """None for a process that has ended."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except (OSError, ValueError):
        return None
    found: dict[str, float] = {}
    for line in text.splitlines()[1:]:
        name, number, *_ = line.split()
        found[name.rstrip(":")] = int(number) / 1024
    kinds = ("Private_Clean", "Private_Dirty", "Shared_Clean", "Shared_Dirty")
    alone, dirty, clean, written = (found.get(k, 0.0) for k in kinds)
    return Memory(alone + dirty, clean + written, found.get("Pss", 0.0))


def tree(pid: int) -> Iterator[int]:
    """The process and all its descendants."""
    yield pid
    try:
        children = [int(c) for t in Path(f"/proc/{pid}/task").iterdir() for c in (t / "children").read_text().split()]
    except OSError:
        return
    for child in children:
        yield from tree(child)


def together(parts: list[Memory]) -> Moment:
    """Pages alone, and those that are shared once."""
    shared = max((m.shared for m in parts), default=0.0)
    return Moment(sum(m.private for m in parts) + shared, sum(m.pss for m in parts), tuple(parts))


def watched(command: list[str]) -> tuple[float, Moment, int]:
    """(wall seconds, the moment with most memory, exit code) of a command."""
    began = time.perf_counter()
    running = subprocess.Popen(command)
    worst = together([])
    while running.poll() is None:
        now = together([m for pid in tree(running.pid) if (m := memory_of(pid)) is not None])
        worst = max(worst, now, key=lambda moment: moment.total)
        time.sleep(EVERY)
    return time.perf_counter() - began, worst, running.returncode


def summary(rows: list[dict[str, Any]], wall: float, worst: Moment, jobs: int) -> dict[str, Any]:
    return {
        "jobs": jobs, "cases": len(rows), "as_expected": sum(bool(r["ok"]) for r in rows), "wall_s": wall,
        "promised_wall_s": PROMISE_S, "cpu_s": sum(r["cpu_s"] or 0.0 for r in rows), "memory_mb": worst.total,
        "promised_memory_mb": PROMISE_MB, "pss_mb": worst.pss, "processes_mb": [m._asdict() for m in worst.parts],
        "largest": sorted(((r["peak_rss_mb"] or 0.0, r["id"]) for r in rows), reverse=True)[:3],
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--jobs", "-j", type=int, default=2)
    parser.add_argument("--json", metavar="PATH", help="write the figures; - for stdout")
    given, rest = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "replay.json")
        what = ["issues", *rest] if all(r.startswith("-") for r in rest) else rest
        command = [sys.executable, "-m", "render", "replay", *what, "--jobs", str(given.jobs), "--fresh"]
        wall, worst, code = watched([*command, "--no-baselines", "--json", path])
        rows = json.loads(Path(path).read_text())["cases"] if os.path.exists(path) else []
    found = {**summary(rows, wall, worst, given.jobs), "exit_code": code}
    print(f"{found['as_expected']} / {found['cases']} as expected; {wall:.1f} s wall (promised {PROMISE_S:.0f}), "
          f"{found['cpu_s']:.1f} s of processor time in the workers; in all {worst.total:.0f} MB "
          f"(promised {PROMISE_MB:.0f}), PSS {worst.pss:.0f} MB", file=sys.stderr)  # fmt: skip
    if given.json:
        text = json.dumps(found, indent=2)
        print(text) if given.json == "-" else Path(given.json).write_text(text + "\n")


if __name__ == "__main__":
    main()
