"""Interval matmul against two float64 GEMMs of the same size, which its bound cannot do without: CPU time of both.

python benchmarks/gemm_floor.py [--size N ...] [--repeats N] [--json PATH|-]

One thread on both sides: a GEMM's threads that wait for each other spin, and their CPU time would flatter the ratio.
"""

from __future__ import annotations

import argparse
from statistics import median
from typing import Any

import numpy as np
import torch
from cases import matmul
from measure import alternate, interval_run, ratio, write_json
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

TARGET = 7.0


def measure(size: int, dtype: torch.dtype, repeats: int) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(0)
    inputs = tuple(torch.randn((size, size), generator=generator).to(dtype) for _ in range(2))
    a, b = (tensor.double().numpy() for tensor in inputs)

    def gemms() -> None:
        np.matmul(a, b)
        np.matmul(np.abs(a), np.abs(b))

    with threadpool_limits(1):
        _, samples = alternate({"gemms": gemms, "interval": lambda: interval_run(matmul, inputs)}, repeats)
    name = f"matmul {size} {str(dtype).removeprefix('torch.')}"
    return {"case": name, "target": TARGET, "samples_s": samples, "ratio": ratio(samples, "interval", "gemms")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, action="append", help="512, 1024 and 2048 if none is given; repeatable")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--json", metavar="PATH", help="also write the samples there, - for standard output")
    options = parser.parse_args()
    sizes = options.size or [512, 1024, 2048]
    rows = [measure(size, dtype, options.repeats) for dtype in (torch.float16, torch.float32) for size in sizes]
    title = "CPU time, interval run against two GEMMs"
    table = Table("case", "two GEMMs s", "interval s", "ratio", "target", title=title)
    for row in rows:
        gemms, interval = (median(row["samples_s"][key]) for key in ("gemms", "interval"))
        table.add_row(row["case"], f"{gemms:.4f}", f"{interval:.3f}", f"{row['ratio']:.1f}", f"{row['target']:g}")
    Console(stderr=options.json == "-").print(table)
    if options.json:
        write_json(options.json, rows)


if __name__ == "__main__":
    main()
