"""Demotion of the eight packaged fp32 kernels: the search against all choices, and certificates on fresh inputs.

    python benchmarks/companions/demotion.py [--exhaustive] [--json PATH]

Per kernel: values, choices, evaluations of the search, bits saved by it and by the best of all choices
(`--exhaustive`), and the largest error over the tolerance: certified over the box, and seen in fresh inputs of the box
against the file's own reference in float64 with the inputs as they are.
"""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from interval_ops.formats.model import FORMATS
from render.companions.called import Called, called
from render.companions.demotion.boxes import Box
from render.companions.demotion.certify import Bench
from render.companions.demotion.search import exhaustive, search
from render.entry.execution import Entry
from render.entry.outputs import flatten

FEW = 1 << 13
"""Choices up to which bf16 is searched beside fp16."""
SHARE = 0.05
"""Evaluations that the search may use, of all choices."""


@dataclass(frozen=True)
class Subject:
    """One kernel: the tolerance (absolute and relative alike), and the box of its inputs."""

    name: str
    tol: float
    box: dict[str, tuple[float, float]]


SUBJECTS = (
    Subject("black_scholes", 5e-2, {"s": (20, 25), "k": (20, 30), "t": (1, 3)}),
    Subject("matmul", 1e-2, {"a": (0, 1), "b": (0, 1), "bias": (0, 1)}),
    Subject("nearest_neighbour", 5e-3, {"lat": (40, 60), "lon": (60, 90)}),
    Subject("kmeans_distance", 1e-2, {"x": (0, 1), "centres": (0, 1)}),
    Subject("hotspot", 3e-3, {"t": (20, 30), "p": (0, 1)}),
    Subject("gaussian_row", 4e-3, {"a": (1, 2)}),
    Subject("backprop_layer", 1e-2, {"x": (0, 1), "w": (-0.1, 0.1), "bias": (0, 0.5)}),
    Subject("reduction", 5e-3, {"x": (0, 1), "w": (0, 1)}),
)


@dataclass(frozen=True)
class Found:
    name: str
    values: int
    choices: int
    evaluations: int
    saved: int
    best: int | None
    certified: float
    seen: float
    violations: int


def target(name: str) -> Called:
    return called(f"kernels/fp32/{name}.py")


def measured(subject: Subject, all_choices: bool, fresh: int = 20) -> Found:
    """One kernel's row; `fresh`: inputs of the box that the certificate is held against."""
    what, box = target(subject.name), Box(subject.box)
    bench = Bench(what, box.draw(what.inputs(0), 0), subject.tol, subject.tol, "any", box)
    sites = bench.sites(("fp16", "bf16"))
    if 3 ** len(sites) > FEW:
        sites = bench.sites(("fp16",))
    choices = math.prod(1 + len(s.formats) for s in sites)
    best = search(bench, sites, int(SHARE * choices))
    used = bench.evaluations
    top = exhaustive(bench, sites).saved if all_choices else None
    seen, violations = checked(bench, dict(best.choice), subject, fresh)
    return Found(subject.name, len(sites), choices, used, best.saved, top, best.usage, seen, violations)


def checked(bench: Bench, choice: dict[Any, str], subject: Subject, fresh: int) -> tuple[float, int]:
    """(largest error over tolerance, elements beyond the certified one) on fresh inputs of the box."""
    entry, usage, seen, wrong = bench.entry(choice), bench(choice).usage, 0.0, 0
    for seed in range(1, fresh + 1):
        inputs = Box(subject.box).draw(bench.inputs, seed)
        ((_, y),) = Entry(entry.fn, inputs, "any", 0, {"interval": False}).given()
        wide = inputs.upcast()
        ((_, e),) = flatten(bench.called.module.reference(*wide.args))
        exact = e.double().numpy()
        allowed = subject.tol + subject.tol * np.abs(exact)
        ratio = np.abs(y.double().numpy() - exact) / allowed
        seen, wrong = max(seen, float(ratio.max())), wrong + int((ratio > usage + FORMATS["fp32"].u).sum())
    return seen, wrong


def lowest(subject: Subject) -> str:
    """Everything as it is, in fp16, in bf16: certified / observed over the tolerance, on the file's own inputs."""
    what = target(subject.name)
    bench = Bench(what, what.inputs(0), subject.tol, subject.tol)
    sites = bench.sites()
    found = [bench({}), *(bench({s: fmt for s in sites if fmt in s.formats}) for fmt in ("fp16", "bf16"))]
    return f"{subject.name}: " + ", ".join(f"{c.usage:.2g} / {c.observed:.2g}" for c in found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--exhaustive", action="store_true")
    parser.add_argument("--lowest", action="store_true", help="all values in fp16, and in bf16, instead")
    parser.add_argument("--only", default="")
    parser.add_argument("--json")
    options = parser.parse_args()
    rows = []
    for subject in SUBJECTS:
        if options.lowest:
            print(lowest(subject), flush=True)
        elif options.only in subject.name:
            rows.append(measured(subject, options.exhaustive))
            print(rows[-1], flush=True)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump([asdict(r) for r in rows], file, indent=2)


if __name__ == "__main__":
    main()
