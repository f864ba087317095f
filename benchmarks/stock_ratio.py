"""Interval run against the plain run of the stock interpreter: CPU time of both, peak memory, containment.

python benchmarks/stock_ratio.py [--case NAME ...] [--repeats N] [--json PATH|-] [--stock-only]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable
from statistics import geometric_mean, median
from typing import Any

import torch
from cases import CASES, Case
from measure import alternate, interval_run, peak_kilobytes, ratio, reset_peak, write_json
from rich.console import Console
from rich.table import Table
from stock import stock_interpreter

GEOMETRIC_TARGET = 0.1


def run_stock(case: Case, inputs: tuple[torch.Tensor, ...]) -> torch.Tensor:
    with stock_interpreter():
        return case.run(*inputs)


def outside(case: Case, inputs: tuple[torch.Tensor, ...]) -> int:
    """Elements whose float64 reference lies outside the envelope (0 is what a sound bound gives)."""
    exact = case.reference(*(tensor.double() for tensor in inputs)).numpy()
    _, envelope = interval_run(case.run, inputs)
    return int((~((envelope.lo <= exact) & (exact <= envelope.hi))).sum())


def peak_megabytes(case: Case, side: str) -> float:
    """Peak above the imports and inputs, in a fresh process; compiled kernels come from numba's cache."""
    command = [sys.executable, __file__, "--case", case.name, "--peak", side]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return int(done.stdout.split()[-1]) / 1024


def print_peak(case: Case, side: str) -> None:
    inputs = case.inputs()
    if side == "interval":
        import render.interpreter.session  # noqa: F401
    before = reset_peak()
    if side == "interval":
        interval_run(case.run, inputs)
    else:
        run_stock(case, inputs)
    print(peak_kilobytes() - before)


def measure(case: Case, repeats: int, stock_only: bool) -> dict[str, Any]:
    inputs = case.inputs()
    calls: dict[str, Callable[[], Any]] = {"stock": lambda: run_stock(case, inputs)}
    if not stock_only:
        calls["interval"] = lambda: interval_run(case.run, inputs)
    first, samples = alternate(calls, repeats)
    row: dict[str, Any] = {"case": case.name, "target": case.target, "first_use_s": first, "samples_s": samples}
    row["peak_mb"] = {side: peak_megabytes(case, side) for side in calls}
    if not stock_only:
        row["ratio"] = ratio(samples, "interval", "stock")
        row["outside"] = outside(case, inputs)
    return row


def table(rows: list[dict[str, Any]]) -> Table:
    out = Table(title="CPU time, interval run against the stock interpreter's plain run")
    for heading in ("case", "stock s", "interval s", "ratio", "target", "first use", "peak MB (stock)", "outside"):
        out.add_column(heading, justify="left" if heading == "case" else "right", no_wrap=True)
    for row in rows:
        samples, peak = row["samples_s"], row["peak_mb"]
        interval = "interval" in samples
        out.add_row(
            row["case"],
            f"{median(samples['stock']):.3f}",
            f"{median(samples['interval']):.3f}" if interval else "-",
            f"{row['ratio']:.3f}" if interval else "-",
            f"{row['target']:g}",
            f"{row['first_use_s']['interval']:.2f}" if interval else "-",
            f"{peak['interval']:.0f} ({peak['stock']:.0f})" if interval else f"- ({peak['stock']:.0f})",
            str(row["outside"]) if interval else "-",
        )
    return out


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", action="append", choices=CASES, help="only this case; repeatable")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", metavar="PATH", help="also write the samples there, - for standard output")
    parser.add_argument("--stock-only", action="store_true")
    parser.add_argument("--peak", choices=("stock", "interval"), help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    options = arguments()
    chosen = [CASES[name] for name in options.case or CASES]
    if options.peak:
        print_peak(chosen[0], options.peak)
        return
    console = Console(stderr=options.json == "-", width=None if sys.stdout.isatty() else 120)
    rows = []
    for case in chosen:
        console.print(f"[dim]{case.name} ...")
        rows.append(measure(case, options.repeats, options.stock_only))
    console.print(table(rows))
    if not options.stock_only:
        mean = geometric_mean(row["ratio"] for row in rows)
        console.print(f"geometric mean of the ratios {mean:.3f}, target {GEOMETRIC_TARGET:g}")
    if options.json:
        write_json(options.json, rows)


if __name__ == "__main__":
    main()
