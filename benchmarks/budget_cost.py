"""What an error budget costs beside the run that it explains, in processor time.

    python benchmarks/budget_cost.py [--kernel TEXT] [--full] [--repeat N]

Every packaged kernel and every case of the corpus (small sizes; --full: published ones) is classified N + 1 times in
one process; the first time compiles and is not counted, of the others the one with the cheapest run and the one with
the cheapest budget. `ratio` is budget / interval run; the limit is 2. The budget is: one recording of the programs that
made two elements of each output, their slices, the first-order sweep, and one run without the largest cause.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from math import exp, log
from pathlib import Path

from render.classify import classify_file
from render.corpus.case import load_case
from render.corpus.judge import judge
from render.verdict import Verdict

ROOT = Path(__file__).resolve().parent.parent


def subjects(text: str, small: bool) -> Iterator[tuple[str, Callable[[], Verdict]]]:
    for path in sorted((ROOT / "kernels").glob("*.py")):
        if text in path.stem and not path.stem.startswith("_"):
            yield path.stem, lambda path=path: classify_file(path)  # type: ignore[misc]
    for folder in ("issues", "twins"):
        for path in sorted((ROOT / "datasets" / folder).glob("*/case.toml")):
            name = f"{folder}/{path.parent.name}"
            if text in name:
                yield name, lambda path=path: judge(load_case(path.parent), small=small)  # type: ignore[misc]


def measured(call: Callable[[], Verdict], repeat: int) -> tuple[float, float, Verdict]:
    """(run, budget) in seconds of processor time, the cheapest of each."""
    verdict = call()
    times = []
    for _ in range(repeat):
        verdict = call()
        times.append((verdict.timing["interval_cpu_s"] or 0.0, verdict.timing.get("budget_cpu_s") or 0.0))
    return min(t[0] for t in times), min(t[1] for t in times), verdict


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernel", default="", help="only what has this in its name")
    parser.add_argument("--full", action="store_true", help="published sizes of the corpus")
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    print("| | label | run ms | budget ms | ratio | from |\n|---|---|---:|---:|---:|---|")
    ratios = []
    for name, call in subjects(options.kernel, not options.full):
        run, budget, verdict = measured(call, options.repeat)
        if not budget or not run:
            continue
        ratios.append(budget / run)
        method = verdict.budget_basis.method
        print(
            f"| {name} | {verdict.label} | {1e3 * run:.1f} | {1e3 * budget:.1f} | {ratios[-1]:.2f} | {method} |",
            flush=True,
        )
    if ratios:
        mean = exp(sum(map(log, ratios)) / len(ratios))
        over = sum(r > 2 for r in ratios)
        print(f"\n{len(ratios)} budgets: geometric mean {mean:.2f}, largest {max(ratios):.2f}, {over} above 2.")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
