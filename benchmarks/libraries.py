"""Every case of datasets/libraries: one warm process per library, verdicts, and time against the stock interpreter.

python benchmarks/libraries.py [--library NAME ...] [--device NAME] [--no-stock] [--limit S] [--page PATH]

Results are kept as .render/libraries/<device>/<library>.json; the page is written from whatever is there.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
CASES = ROOT / "datasets" / "libraries"
KEPT = Path(".render/libraries")
STOCK_LIMIT = 20.0
"""Seconds for the stock interpreter in one case."""


@dataclass(frozen=True)
class Times:
    """CPU seconds of the second run on each side (None: the stock interpreter cannot run it), and of getting ready."""

    interval: float
    stock: float | None
    startup: float
    why: str = ""


def apart(measure: Callable[[], float], limit: float) -> tuple[float | None, str]:
    """(what `measure` gives in a fork, "" or why it gave nothing): the stock interpreter may write anywhere."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(max(1, int(limit)))
        try:
            text = repr(measure())
        except BaseException as error:
            text = f"{type(error).__name__}: {error}".split("\n")[0][:100]
        os.write(writer, text.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as said:
        text = said.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return None, "too slow" if number == signal.SIGALRM else f"crashed with signal {number}"
    try:
        return float(text), ""
    except ValueError:
        return None, text


def timed(case: Any, device: str, limit: float) -> Times:
    """Both runs on the same inputs, as the second of two: what is compiled or imported once is not counted."""
    import torch
    from stock import stock_interpreter

    from render.entry.execution import Entry, on_cpu
    from render.entry.inputs import from_mapping
    from render.interpreter.session import Session

    began = time.process_time()
    with on_cpu(device):
        torch.manual_seed(0)
        given = from_mapping(case.fn, case.inputs())
    with Session(device=device, threads=1):
        given.clone()
    startup = time.process_time() - began
    entry = Entry(case.fn, given, device)
    entry.run()
    began = time.process_time()
    entry.run()
    interval = time.process_time() - began

    def plain() -> float:
        with on_cpu(device), stock_interpreter():
            for _ in range(2):
                torch.manual_seed(0)
                inputs = given.clone()
                began = time.process_time()
                case.fn(*inputs.args, **inputs.kwargs)
        return time.process_time() - began

    stock, why = apart(plain, limit)
    return Times(interval, stock, startup, why)


def one(folder: Path, device: str, limit: float, stock: bool) -> None:
    """In a process of its own: all cases of a library."""
    from render.entry.execution import on_cpu
    from render.entry.target import load_module
    from render.interpreter.compat import import_scope
    from render.lab.suite.find import find
    from render.lab.suite.options import SuiteOptions
    from render.lab.suite.runner import run

    found = find([str(folder)])
    rows = []
    for row in run(found, SuiteOptions(device=device, limit=limit)):
        print(f"{row.label:<12} {row.code:<7} {row.seconds:6.2f} s  {row.test}", flush=True)
        rows.append(row.to_dict() | {"test": row.test.split("::", 1)[-1]})
    keep(folder.name, device, rows)
    if not stock:
        return
    with on_cpu(device), import_scope():
        cases = {case.name: case for file in found for case in load_module(file.path).cases()}
    for row in rows:
        if row["label"] in ("error", "skipped") or row["test"] not in cases:
            continue
        try:
            times = timed(cases[row["test"]], device, min(limit, STOCK_LIMIT))
        except Exception as error:
            row["untimed"] = f"{type(error).__name__}: {error}".split("\n")[0][:100]
            continue
        row |= {"warm_s": times.interval, "stock_s": times.stock, "startup_s": times.startup, "untimed": times.why}
        keep(folder.name, device, rows)


def keep(library: str, device: str, rows: list[dict[str, Any]]) -> None:
    target = KEPT / device / f"{library}.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps({"library": library, "device": device, "rows": rows}, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = sorted(path.parent.name for path in CASES.glob("*/cases.py"))
    parser.add_argument("--library", action="append", choices=known, help="only this one; repeatable")
    parser.add_argument("--device", default="any")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds for one case")
    parser.add_argument("--no-stock", action="store_true")
    parser.add_argument("--page", metavar="PATH", help="write the page from all results that are kept")
    parser.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        one(options.one, options.device, options.limit, not options.no_stock)
        return
    for name in [] if options.page and not options.library else options.library or known:
        command = [sys.executable, __file__, "--one", str(CASES / name), "--device", options.device]
        command += ["--limit", str(options.limit), *(["--no-stock"] if options.no_stock else [])]
        print(f"== {name}", flush=True)
        subprocess.run(command, check=False)
    if options.page:
        from libraries_page import page

        Path(options.page).write_text(page(KEPT, CASES / "findings.toml"), encoding="utf-8")


if __name__ == "__main__":
    main()
