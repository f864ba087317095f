"""What a whole classification costs beside the interval run that it judges, and where: CPU time, one thread.

    python benchmarks/label_cost.py [--kernel TEXT] [--repeat N] [--json PATH|-]

Packaged kernels at medium sizes (about 10^5 to a little above 2^20 elements) are classified in one process: a first
time that compiles and loads what is used for the first time and stands apart, then N times; the cheapest one counts.
Each second of it belongs to the innermost step that was running:

    run         the interval run
    reference   y_ref, and E on widened inputs
    error       the error of E, R, what casts, inputs and careful forms do: the reference with errors beside it
    decide      the decision table and its masks
    bits        the reference in more bits
    unrounded   kernel and reference without rounding
    stability   digits lost
    witness     the second evaluation
    line        the guilty line: probes, repairs, where the worst element leaves the reference
    budget      shares of the bound and the run that confirms the largest
    study       undefined lanes, downgrades, coverage
    rest        everything else

Columns are multiples of `plain`, the interval run alone, without the recording that serves the shares of the bound.
`first` is the time up to the provisional label, `whole` that up to the checked verdict, which is what `classify` hands
out and the terminal shows; `-v`, HTML, JSON and `explain last` make one run more, to confirm the largest share.
"""
# ruff: noqa: E402

from __future__ import annotations

import os

for _name in ("OMP", "OPENBLAS", "MKL"):  # before numpy is there
    os.environ[f"{_name}_NUM_THREADS"] = "1"

import argparse
import importlib.util
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from importlib import import_module
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import torch
from measure import write_json

from interval_ops.allocator import large_blocks_kept
from render.classify import classify
from render.entry.execution import Entry, on_cpu
from render.entry.inputs import of_call
from render.result.verdict import Verdict

ROOT = Path(__file__).resolve().parent.parent
STEPS = {
    "run": ("render.judgement.steps:Judgement._run",),
    "reference": ("render.judgement.references:References.__init__", "render.reference.oracle:Oracle.exact"),
    "error": ("render.reference.oracle:Oracle._carried",),
    "decide": ("render.judgement.steps:compare", "render.judgement.steps:decide"),
    "bits": ("render.judgement.steps:finer",),
    "unrounded": ("render.judgement.steps:Judgement._formulas",),
    "stability": ("render.judgement.steps:Judgement._unstable",),
    "witness": ("render.judgement.steps:Judgement._second_opinion",),
    "line": ("render.judgement.steps:diagnosis",),
    "budget": ("render.judgement.steps:Judgement._budget",),
    "study": (
        "render.judgement.steps:undefined", "render.judgement.steps:downgrade", "render.judgement.steps:narrowed",
        "render.judgement.steps:coverage", "render.judgement.steps:nonfinite",
    ),
}  # fmt: skip
MEDIUM: dict[str, tuple[str, dict[str, Any]]] = {
    "matmul": ("matmul", {"m": 512, "n": 512, "k": 512}),
    "flash_attention": ("attention", {"z": 1, "h": 4, "n_ctx": 512, "head_dim": 64}),
    "fused_softmax": ("softmax", {"rows": 512, "cols": 1000}),
    "layer_norm": ("layer_norm", {"rows": 512, "cols": 1000}),
    "cross_entropy": ("cross_entropy", {"rows": 512, "classes": 1000}),
    "gelu": ("gelu", {"n": 500_000}),
    "rms_norm": ("rms_norm", {"rows": 512, "cols": 1000}),
    "swiglu": ("swiglu", {"rows": 512, "cols": 1000}),
    "rotary": ("rotary", {"n_ctx": 4096, "dim": 128}),
    "dropout": ("seeded_dropout", {"n": 500_000}),
    "matmul_split_k": ("matmul_split_k", {"m": 256, "n": 256, "k": 1024}),
    "vector_add": ("vector_add", {"n": 1_050_000}),  # above 2^20: garbage is looked for between steps
}


@dataclass
class Clock:
    """CPU seconds per step; a step inside another interrupts it."""

    spent: dict[str, float] = field(default_factory=dict)
    label: float = 0.0
    _stack: list[str] = field(default_factory=lambda: ["rest"])
    _since: float = 0.0

    def turn(self) -> None:
        now = time.process_time()
        self.spent[self._stack[-1]] = self.spent.get(self._stack[-1], 0.0) + now - self._since
        self._since = now

    def timed(self, step: str, call: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(call)
        def inner(*args: Any, **kwargs: Any) -> Any:
            self.turn()
            self._stack.append(step)
            try:
                return call(*args, **kwargs)
            finally:
                self.turn()
                self._stack.pop()

        return inner

    def measured(self, call: Callable[[], Verdict]) -> tuple[Verdict, dict[str, float]]:
        self.spent, self._since = {}, time.process_time()
        verdict = call()
        self.turn()
        return verdict, self.spent

    def heard(self, verdict: Verdict) -> None:
        if verdict.stage == "provisional":
            self.turn()
            self.label = sum(self.spent.values())


@contextmanager
def watched(clock: Clock) -> Iterator[None]:
    """Every step reports to the clock inside."""
    before = []
    for step, names in STEPS.items():
        for name in names:
            module, _, path = name.partition(":")
            owner: Any = import_module(module)
            *outer, last = path.split(".")
            for part in outer:
                owner = getattr(owner, part)
            before.append((owner, last, getattr(owner, last)))
            setattr(owner, last, clock.timed(step, getattr(owner, last)))
    try:
        yield
    finally:
        for owner, last, plain in before:
            setattr(owner, last, plain)


def loaded(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, ROOT / "kernels" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def subject(name: str, heard: Callable[[Verdict], None] | None = None) -> tuple[Callable[[], Verdict], Entry]:
    """(classify, the interval run alone)."""
    entry, sizes = MEDIUM[name]
    module = loaded(name)
    torch.manual_seed(0)
    with on_cpu():
        made = module.make_inputs(**sizes)
    args, named = ((), made) if isinstance(made, dict) else (made, {})
    fn = getattr(module, entry)
    return lambda: classify(fn, *args, ref=module.reference, on_stage=heard, **named), Entry(
        fn, of_call(fn, args, named)
    )


def alone(entry: Entry, repeat: int) -> float:
    times = []
    for _ in range(repeat):
        began = time.process_time()
        with large_blocks_kept():
            entry.run()
        times.append(time.process_time() - began)
    return min(times)


def measure(name: str, repeat: int, clock: Clock) -> dict[str, Any]:
    call, entry = subject(name, clock.heard)
    first = sum(clock.measured(call)[1].values())
    runs = [(*clock.measured(call), clock.label) for _ in range(repeat)]
    verdict, best, label = min(runs, key=lambda r: sum(r[1].values()))
    return {"kernel": name, "label": verdict.label, "code": verdict.code, "first_use_s": first, "plain_s":
            alone(entry, repeat + 1), "first_label_s": label, "again_s": best}  # fmt: skip


def line(row: dict[str, Any], columns: list[str]) -> str:
    plain, again = row["plain_s"], row["again_s"]
    found = [row["first_label_s"], sum(again.values()), *(again.get(step, 0.0) for step in columns)]
    cells = " | ".join(f"{x / plain:.2f}" for x in found)
    return f"| {row['kernel']} | {row['code']} | {row['first_use_s']:.2f} | {plain:.3f} | {cells} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernel", default="", help="only what has this in its name")
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--json", metavar="PATH", help="also write the figures there, - for standard output")
    options = parser.parse_args()
    torch.set_num_threads(1)
    columns = [*STEPS, "rest"]
    print("| kernel | code | first use s | plain s | first | whole | " + " | ".join(columns) + " |")
    print("|---|---|" + "---:|" * (len(columns) + 4))
    rows, clock = [], Clock()
    with watched(clock):
        for name in (name for name in MEDIUM if options.kernel in name):
            rows.append(measure(name, options.repeat, clock))
            print(line(rows[-1], columns), flush=True)
    for what, found in (("first label", lambda r: r["first_label_s"]), ("whole", lambda r: sum(r["again_s"].values()))):
        ratios = [found(r) / r["plain_s"] for r in rows]
        print(f"\n{what} / plain: geometric mean {geometric_mean(ratios):.2f}, largest {max(ratios):.2f}")
    if options.json:
        write_json(options.json, rows)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
