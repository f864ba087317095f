"""Interval matmul against two float64 GEMMs of the same size, which its bound cannot do without: CPU time of both.

python benchmarks/gemm_floor.py [--repeats N] [--json PATH|-]
"""

from __future__ import annotations

import argparse
from statistics import median
from typing import Any

import numpy as np
from cases import CASES
from measure import alternate, interval_run, ratio, write_json
from rich.console import Console
from rich.table import Table

TARGET = 8.0


def measure(name: str, repeats: int) -> dict[str, Any]:
    case = CASES[name]
    inputs = case.inputs()
    a, b = (tensor.double().numpy() for tensor in inputs)

    def gemms() -> None:
        np.matmul(a, b)
        np.matmul(np.abs(a), np.abs(b))

    _, samples = alternate({"gemms": gemms, "interval": lambda: interval_run(case.run, inputs)}, repeats)
    return {"case": name, "target": TARGET, "samples_s": samples, "ratio": ratio(samples, "interval", "gemms")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--json", metavar="PATH", help="also write the samples there, - for standard output")
    options = parser.parse_args()
    rows = [measure(name, options.repeats) for name in ("matmul 512", "matmul 1024")]
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
