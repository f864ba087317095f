"""Widths of bounds on random points, against the published rule and against the worst execution found.

python benchmarks/tightness.py [--k K ...] [--size N] [--seed S] [--runs R] [--json PATH|-] [--page PATH]

Dots: "published" is Algorithm 1 of the RENDER paper as its package charges it: a relative error on either operand and
on the product (2^-23; 2^-10 for every fp32 dot) and 2^-23 of the sum of magnitudes per term. It is not sound for fp8
and for fp16 accumulators; there the ratio shows by how much it is too small. "order" is what the bound assumes: any,
or the one of Triton's lowering (`--sum-order tree`, k upwards for fp32 dots). "reached" is the share of our half-width
that the worst execution uses up, of a dozen orders on the modelled unit, or of the chain along k where the order is
known; "outside" counts executions that leave a bound. "at least", for chains of fma in any order: executions found by
a greedy search (`greedy.py`) lie that far apart, so no sound bound for any order can have a lower ratio (median of
five elements).

Rows: softmax and layer norm on the sm_90 profile, attacked by `render.lab.adversary` (`--runs` executions): the share
of the half-width that the worst execution uses up, in the worst element and in the median element. 1 / 30 = 0.033 means
that the bound is 30 times wider than the worst case found.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from executions import Unit, in_order, worst
from greedy import errors
from measure import write_json
from rich.console import Console
from rich.table import Table
from rows import Row, measure_rows

from interval_ops.dot.readings import truncate_tf32
from interval_ops.dot.rule import PendingDot
from interval_ops.formats.casting import round_value
from interval_ops.formats.model import FORMATS
from interval_ops.profiles.profile import describe, load_profile


@dataclass(frozen=True)
class Case:
    """A dot kind on a target: format of its operands, unit of its executions, published operand error, target ratio.

    `spread`: the left operand is an interval, that much relative to either side of the point that executions take.
    """

    target: str
    kind: str
    operand: str
    unit: Unit
    published: float = 2.0**-23
    aim: float | None = None
    order: str = "any"
    spread: float = 0.0

    @property
    def label(self) -> str:
        return self.kind + (f" +-{describe(self.spread)}" if self.spread else "")


CASES = [
    Case("sm_90", "fp16", "fp16", Unit(16, 25), aim=0.35),
    Case("sm_90", "bf16", "bf16", Unit(16, 25), aim=0.35),
    Case("sm_90", "tf32", "fp32", Unit(8, 25), 2.0**-10, 0.5),
    Case("sm_90", "ieee", "fp32", Unit(1, 0), 2.0**-10, 0.002),
    Case("sm_90", "ieee", "fp32", Unit(1, 0), 2.0**-10, 0.002, "tree"),
    Case("sm_90", "ieee", "fp32", Unit(1, 0), 2.0**-10, 0.002, "tree", 2.0**-24),
    Case("sm_90", "fp8", "fp8e4nv", Unit(32, 13, 13)),
    Case("sm_90", "fp16acc", "fp16", Unit(16, 25, 10, nearest=True, emin=-14)),
    Case("sm_80", "fp16", "fp16", Unit(8, 24)),
    Case("sm_80", "tf32", "fp32", Unit(4, 24), 2.0**-10, 0.5),
    Case("sm_89", "fp8", "fp8e4nv", Unit(16, 13, 13)),
    Case("sm_100", "fp8", "fp8e4nv", Unit(32, 25)),
    Case("sm_75", "fp16", "fp16", Unit(1, 0)),
]

INPUTS: dict[str, Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]] = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "positive": lambda rng, shape: rng.random(shape),
}


def published(a: np.ndarray, b: np.ndarray, eps: float) -> np.ndarray:
    """Half-width of Algorithm 1 around point operands."""
    magnitude = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64)
    charged = (1 + eps) ** 3
    return magnitude * (charged * (1 + (a.shape[1] - 1) * 2.0**-23) - 1)


@dataclass(frozen=True)
class Found:
    """What a greedy search reached: the width that any sound bound has, over the published one; the share of ours."""

    ratio: float
    reached: float


def searched(a: np.ndarray, b: np.ndarray, paper: np.ndarray, half: np.ndarray, elements: int = 5) -> Found:
    """Over the first `elements` of the diagonal: the median ratio, the largest share."""
    ratios, shares = [], []
    for i in range(min(elements, len(half))):
        down, up = errors(a[i].astype(np.float64) * b[:, i].astype(np.float64))
        ratios.append((down + up) / 2 / paper[i, i])
        shares.append(max(down, up) / half[i, i])
    return Found(float(np.median(ratios)), max(shares))


def measure(case: Case, inputs: str, k: int, size: int, seed: int) -> dict[str, Any]:
    rng, fmt = np.random.default_rng(seed), FORMATS[case.operand]
    a, b = (round_value(INPUTS[inputs](rng, shape), fmt) for shape in ((size, k), (k, size)))
    if case.kind == "fp16acc":
        a = round_value(a * 0.25, fmt)
    profile = load_profile(case.target).chosen(case.order)
    pending = PendingDot.start(None, (size, size), case.kind, profile)
    left, right = a[None], b[None]
    wide = np.abs(left.astype(np.float64)) * case.spread
    operand = (left - wide, left + wide) if case.spread else (left, left)
    lo, hi = (x[0] for x in pending.extend(operand, (right, right)).interval())
    read = (truncate_tf32(a), truncate_tf32(b)) if case.kind == "tf32" else (a, b)
    emin = FORMATS["tf32" if case.kind == "tf32" else case.operand].emin
    value = worst(*read, emin, case.unit, rng) if case.order == "any" else in_order(*read, case.unit)
    true = a.astype(np.float64) @ b.astype(np.float64)
    half = (hi - lo) / 2
    room = np.maximum(np.where(value > true, hi - true, true - lo), np.finfo(float).tiny)
    paper = published(a, b, case.published)
    found = searched(a, b, paper, half) if case.unit.block == 1 and case.order == "any" else None
    return {
        "target": case.target,
        "kind": case.label,
        "order": case.order,
        "inputs": inputs,
        "k": k,
        "half_width": float(np.median(half)),
        "published": float(np.median(paper)),
        "ratio": float(np.median(half / paper)),
        "reached": max(float(np.max(np.abs(value - true) / room)), found.reached if found else 0.0),
        "at_least": found.ratio if found else None,
        "outside": int(((value < lo) | (value > hi)).sum()),
        "outside_published": int((np.abs(value - true) > paper).sum()),
        "aim": case.aim,
    }


DOTS = ("target", "dot", "order", "inputs", "K", "half-width", "published", "ratio", "at least", "aim", "reached",
        "outside", "published's")  # fmt: skip
ROWS = ("kernel", "row", "order", "half-width", "worst reached", "median reached", "runs", "outside")


def dot_cells(row: dict[str, Any]) -> list[str]:
    aim = "" if row["aim"] is None else f"{row['aim']:g}"
    least = "" if row["at_least"] is None else f"{row['at_least']:.3g}"
    return [
        row["target"], row["kind"], row["order"], row["inputs"], str(row["k"]), f"{row['half_width']:.3g}",
        f"{row['published']:.3g}", f"{row['ratio']:.3g}", least, aim, f"{row['reached']:.2f}", str(row["outside"]),
        str(row["outside_published"]),
    ]  # fmt: skip


def row_cells(row: Row) -> list[str]:
    return [
        row.kernel, str(row.n), row.order, f"{row.half_width:.3g}", f"{row.worst:.3f}", f"{row.median:.3f}",
        str(row.runs), str(row.outside),
    ]  # fmt: skip


def shown(names: tuple[str, ...], cells: list[list[str]], title: str) -> Table:
    out = Table(*names, title=title)
    for line in cells:
        out.add_row(*line)
    return out


def markdown(names: tuple[str, ...], cells: list[list[str]]) -> str:
    lines = [names, ["---"] * len(names), *cells]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def between(path: str, name: str, table: str) -> None:
    """Puts a table between the markers of that name of a Markdown page, the text around it stays."""
    text = Path(path).read_text(encoding="utf-8")
    before, _, rest = text.partition(f"<!-- {name} -->\n")
    _, end, after = rest.partition(f"<!-- end {name} -->")
    if not end:
        raise SystemExit(f"{path} has no markers <!-- {name} --> and <!-- end {name} -->")
    Path(path).write_text(f"{before}<!-- {name} -->\n{table}\n{end}{after}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--k", type=int, nargs="+", default=[64, 512, 4096])
    parser.add_argument("--size", type=int, default=16, help="rows and columns of the result")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--runs", type=int, default=60, help="executions per kind of row")
    parser.add_argument("--json", metavar="PATH", help="also write the rows there, - for standard output")
    parser.add_argument("--page", metavar="PATH", help="write the tables into this Markdown page")
    options = parser.parse_args()
    dots = [
        measure(case, inputs, k, options.size, options.seed) for case in CASES for inputs in INPUTS for k in options.k
    ]
    rows = measure_rows(options.runs, options.seed)
    cells = [dot_cells(d) for d in dots], [row_cells(r) for r in rows]
    console = Console(stderr=options.json == "-")
    console.print(shown(DOTS, cells[0], "Bounds of dots on points (medians over outputs)"))
    console.print(shown(ROWS, cells[1], "Bounds of rows, attacked"))
    if options.json:
        write_json(options.json, [*dots, *(asdict(r) for r in rows)])
    if options.page:
        for name, names, found in (("dots", DOTS, cells[0]), ("rows", ROWS, cells[1])):
            between(options.page, name, markdown(names, found))


if __name__ == "__main__":
    main()
