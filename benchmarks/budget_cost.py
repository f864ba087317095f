"""What an error budget costs beside the run that it explains, in processor time.

    python benchmarks/budget_cost.py [--kernel TEXT] [--full] [--repeat N]

Every packaged kernel and every case of the corpus (small sizes; --full: published ones) is classified in one process,
by turns without and with its budget: a first time that compiles and loads what is used for the first time and is not
counted, then N times each. `run` is the cheapest run without a budget, so nothing is recorded in it; `recording` is
what the cheapest run with one takes longer, because it is recorded on the way where it is small; `after` is the
cheapest of what follows it for the shares: the slices, the first-order sweep (and one recording where the run was too
large for it). `ratio` is (recording + after) / run; the limit is 2. `re-run` is the whole run without the largest cause
that confirms it, a counterfactual, and `all` the ratio with it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from functools import partial
from math import exp, log
from pathlib import Path
from typing import Any

from render.classify import classify_file
from render.judgement import causes
from render.lab.corpus.case import load_case
from render.lab.corpus.judge import judge
from render.result.verdict import Verdict

ROOT = Path(__file__).resolve().parent.parent


def subjects(text: str, small: bool) -> Iterator[tuple[str, Callable[[bool], Verdict]]]:
    for path in sorted((ROOT / "kernels").glob("*.py")):
        if text in path.stem and not path.stem.startswith("_"):
            yield path.stem, lambda budget, path=path: classify_file(path, budget=budget)  # type: ignore[misc]
    for folder in ("issues", "twins"):
        for path in sorted((ROOT / "datasets" / folder).glob("*/case.toml")):
            name = f"{folder}/{path.parent.name}"
            if text in name:
                yield name, partial(_case, path.parent, small)


def _case(folder: Path, small: bool, budget: bool) -> Verdict:
    return judge(load_case(folder), small=small, budget=budget)


class Watch:
    """Times the confirming re-run, which is made when a verdict is to be explained."""

    def __init__(self) -> None:
        self.spent = 0.0
        self._confirm = causes.confirm

    def __call__(self, *args: Any) -> Any:
        began = time.process_time()
        try:
            return self._confirm(*args)
        finally:
            self.spent += time.process_time() - began


def measured(call: Callable[[bool], Verdict], repeat: int) -> tuple[float, float, float, float, Verdict]:
    """(run alone, recorded run, shares, re-run) in seconds of processor time, the cheapest of each."""
    watch = causes.confirm = Watch()
    call(False)
    verdict = call(True).wait()
    times = []
    for _ in range(repeat):
        alone = call(False).timing["interval_cpu_s"] or 0.0
        watch.spent = 0.0
        verdict = call(True).wait()
        after = verdict.timing.get("budget_cpu_s") or 0.0
        times.append((alone, verdict.timing["interval_cpu_s"] or 0.0, after, watch.spent))
    alone, recorded, after, again = (min(column) for column in zip(*times, strict=True))
    causes.confirm = watch._confirm
    return alone, recorded, after, again, verdict


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernel", default="", help="only what has this in its name")
    parser.add_argument("--full", action="store_true", help="published sizes of the corpus")
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    print("| | label | run ms | recording ms | after ms | ratio | re-run ms | all | from |")
    print("|---|---|---:|---:|---:|---:|---:|---:|---|")
    ratios, whole = [], []
    for name, call in subjects(options.kernel, not options.full):
        run, recorded, after, again, verdict = measured(call, options.repeat)
        if not after or not run or not verdict.budget_basis.method:
            continue
        extra = max(recorded - run, 0.0)
        ratios.append((extra + after) / run)
        whole.append((extra + after + again) / run)
        times = " | ".join(f"{1e3 * t:.1f}" for t in (run, extra, after))
        print(
            f"| {name} | {verdict.label} | {times} | {ratios[-1]:.2f} | {1e3 * again:.1f} | {whole[-1]:.2f} "
            f"| {verdict.budget_basis.method} |",
            flush=True,
        )
    for what, found in (("shares", ratios), ("shares and re-run", whole)):
        if found:
            mean = exp(sum(map(log, found)) / len(found))
            over = sum(r > 2 for r in found)
            print(f"\n{what}, {len(found)}: geometric mean {mean:.2f}, largest {max(found):.2f}, {over} above 2.")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
