"""Writes docs/speed.md: what an interval run costs beside the stock interpreter, matrix products and other forms.

python benchmarks/speed_page.py [--repeats N] > docs/speed.md
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from statistics import geometric_mean, median
from typing import Any

import cores
import gemm_floor
import loops
import stock_ratio
import torch
from cases import CASES
from measure import machine
from threadpoolctl import threadpool_limits

HEAD = """# What an interval run costs

CPU time, one thread on both sides, first use (compilation, caches) left out: ratios, not clocks. Written by
`python benchmarks/speed_page.py --repeats {repeats} > docs/speed.md`. Measured with {packages} on {processor}.
"""

CORES = """Wall time, the least of the repeats: the only table here that a busy machine spoils. Own time is the CPU time
of the launching thread, which does what cannot be shared (Python, above all in products of many small steps) and its
part of the rest: its ratio is what wall time would gain on cores that nobody else uses.
"""


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] + ["---:"] * (len(heads) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def line(row: dict[str, Any], run: str, other: str, goal: str) -> list[str]:
    times = [f"{median(row['samples_s'][side]):.3f}" for side in (run, other)]
    return [row["case"], *times, f"{row['ratio']:.2f}", goal]


def stock(repeats: int) -> str:
    rows = []
    for case in CASES.values():
        print(case.name, file=sys.stderr)
        rows.append(stock_ratio.measure(case, repeats, False))
    mean = geometric_mean(row["ratio"] for row in rows)
    lines = [[*line(row, "interval", "stock", f"{row['target']:g}"), str(row["outside"])] for row in rows]
    text = table(["case", "interval run, s", "stock, s", "ratio", "aim", "references outside"], lines)
    return f"## Beside the stock interpreter's plain run\n\n{text}\nGeometric mean of the ratios: {mean:.3f}.\n"


def matmul(repeats: int) -> str:
    rows = []
    for dtype in (torch.float16, torch.float32):
        for size in (512, 1024, 2048):
            print("matmul", size, dtype, file=sys.stderr)
            rows.append(gemm_floor.measure(size, dtype, repeats))
    lines = [line(row, "interval", "gemms", f"{row['target']:g}") for row in rows]
    return "## Beside two float64 matrix products\n\n" + table(
        ["case", "interval run, s", "two products, s", "ratio", "aim"], lines
    )


def forms(repeats: int) -> str:
    rows = []
    for pair in loops.PAIRS.values():
        print(pair.name, file=sys.stderr)
        rows.append(loops.measure(pair, repeats))
    lines = [line(row, "run", "other", f"{row['target']:g}") for row in rows]
    return "## Loops, programs that part, size\n\n" + table(
        ["interval run / what it is compared with", "run, s", "other, s", "ratio", "aim"], lines
    )


def several(repeats: int) -> str:
    rows = []
    for case in cores.LARGE.values():
        print(case.name, "on two threads", file=sys.stderr)
        one, two, same = cores.measure(case, 2, repeats)
        figures = (one.wall, two.wall, one.wall / two.wall, one.cpu, two.cpu, one.own / two.own)
        rows.append([case.name, *(f"{x:.2f}" for x in figures), f"{case.target:g}", "yes" if same else "no"])
    heads = [
        "case",
        "wall, 1 thread, s",
        "2, s",
        "ratio",
        "CPU, 1 thread, s",
        "2, s",
        "own time, ratio",
        "aim",
        "same bits",
    ]
    return f"## Two threads beside one\n\n{table(heads, rows)}\n{CORES}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--note", default="", help="what else a reader should know of this measurement")
    options = parser.parse_args()
    repeats = options.repeats
    found = machine()
    packages = ", ".join(f"{name} {found[name]}" for name in ("numpy", "numba", "torch", "triton"))
    with threadpool_limits(1):
        parts = [matmul(repeats), forms(repeats), stock(repeats), several(repeats)]
    head = HEAD.format(repeats=repeats, packages=packages, processor=found["processor"])
    print("\n".join([head + (f"{options.note}\n" if options.note else ""), *parts]), end="")


if __name__ == "__main__":
    main()
