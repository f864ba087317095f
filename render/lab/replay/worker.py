"""One case from start to end, in whatever process this is called; the pool calls it in a fresh one."""

from __future__ import annotations

import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from render.lab.replay.rows import Extreme, Output, ReplayRow, RuleAnswer, axes_of, disagreements, expected_of, failed
from render.result.blockwise import blocks, part

if TYPE_CHECKING:
    from render.judgement.composition import Judged
    from render.lab.corpus.case import CorpusCase
    from render.lab.replay.judging import Replayed
    from render.result.decision import Case as OutputCase
    from render.result.verdict import Verdict


@dataclass(frozen=True)
class ReplayPlan:
    """What to do with each case besides judging it.

    The stock interpreter's run gets `stock_seconds` of processor time; `stock_triton` is a folder with an older Triton
    for kernels that the installed one no longer runs. `assumed` holds options of the session by name: what bounds may
    assume of the compiler.

    One thread per case: cases run side by side, and the rounding of a reference may depend on the number of threads.
    """

    baselines: bool = True
    stock: bool = False
    small: bool = False
    stock_seconds: float = 10.0
    assumed: tuple[tuple[str, str], ...] = ()
    stock_triton: str = ""


def replay(folder: Path, plan: ReplayPlan) -> ReplayRow:
    """The row of the case in `folder`; whatever goes wrong inside becomes the row's error."""
    from render.lab.corpus.case import load_case

    began = time.perf_counter()
    case = load_case(folder)
    from interval_ops.allocator import large_blocks_kept

    try:
        with large_blocks_kept():
            return _judged(case, plan, began)
    except Exception as error:  # a case that fails must not end the others
        where = traceback.extract_tb(error.__traceback__)[-1]
        text = f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})"
        return failed(case, text, time.perf_counter() - began)


def _judged(case: CorpusCase, plan: ReplayPlan, began: float) -> ReplayRow:
    import torch

    from render.lab.corpus import device_models
    from render.lab.replay.baselines import baselines
    from render.lab.replay.judging import judge
    from render.lab.replay.models import of_models

    torch.set_num_threads(1)
    if case.facts.kind == "network":
        return of_models(case, began)
    cpu = time.process_time()
    replayed = judge(case, plan.small, **dict(plan.assumed))
    judging_s, cpu_s = time.perf_counter() - began, time.process_time() - cpu
    peak = peak_mb()  # of the judgement; `whole_rss_mb` includes the simpler rules
    answers: dict[str, RuleAnswer] = {}
    if plan.baselines:
        answers = baselines(replayed)
    baselines_s = time.perf_counter() - began - judging_s
    verdict, source = replayed.verdict, replayed.source
    reference, device = axes_of(verdict)
    wrong = disagreements(case, verdict, source)
    timing = verdict.timing
    return ReplayRow(
        **expected_of(case), label=verdict.label, code=verdict.code, message=verdict.message,
        paper_rule=verdict.paper_rule, reference_axis=reference, device_axis=device, source_label=source.label,
        source_code=source.code, ok=not wrong, disagreements=wrong, interval_s=timing.get("interval_s"),
        interval_cpu_s=timing.get("interval_cpu_s"), whole_rss_mb=peak_mb(),
        model_s=replayed.model_s, reference_s=timing.get("reference_s"), exact_s=timing.get("exact_s"),
        budget_s=timing.get("budget_s"), witness="" if verdict.witness is None else verdict.witness.status,
        witness_s=timing.get("witness_s"), top_cause=verdict.budget[0].key if verdict.budget else "",
        baselines_s=baselines_s, total_s=judging_s, cpu_s=cpu_s, peak_rss_mb=peak,
        programs=replayed.programs, outputs=outputs_of(verdict), extremes=extremes_of(replayed.judged),
        baselines=answers, notes=[*verdict.notes, device_models.describe(case)], **_stock(case, plan, replayed),
    )  # fmt: skip


def _stock(case: CorpusCase, plan: ReplayPlan, replayed: Replayed) -> dict[str, Any]:
    """The stock interpreter's times, and those of further interval runs to set beside its further runs."""
    if not plan.stock:
        return {}
    from render.lab.replay.repeats import again
    from render.lab.replay.stock import measure

    found = measure(case, plan.stock_seconds, plan.small, plan.stock_triton)
    first = replayed.verdict.timing.get("interval_cpu_s")
    return {
        "stock_s": found.seconds, "stock_fraction": found.fraction, "stock_error": found.error,
        "stock_triton": found.triton, "stock_again_s": found.again,
        "interval_again_s": again(lambda: replayed.entry.run().cpu_seconds, first),
    }  # fmt: skip


def outputs_of(verdict: Verdict) -> list[Output]:
    return [
        Output(
            o.name, o.elements, o.outside_reference, o.outside_device, o.tainted,
            _finite(o.bound.median_relative_width), _finite(o.bound.median_half_width), _finite(o.worst_usage),
            _finite(o.max_abs_diff),
        )
        for o in verdict.outputs
    ]  # fmt: skip


def _finite(x: float) -> float | None:
    return float(x) if np.isfinite(x) else None


def extremes_of(judged: list[Judged]) -> list[Extreme]:
    """Of every output, the element furthest below E and the one furthest above it, with the bound on that side."""
    found = []
    for j in judged:
        if not j.case.mismatch and j.case.value.size:
            found += [e for side in ("left", "right") if (e := _extreme(j.case, side)) is not None]
    return found


def _extreme(case: OutputCase, side: str) -> Extreme | None:
    best, place = -np.inf, 0
    for at in blocks(case.value.size):
        difference, bound = _reach(part(case, at), side)
        score = np.where(np.isfinite(difference) & np.isfinite(bound), difference, -np.inf)
        i = int(np.argmax(score))
        if score[i] > best:
            best, place = float(score[i]), at.start + i
    if not np.isfinite(best):
        return None
    one = part(case, slice(place, place + 1))
    difference, bound = _reach(one, side)
    index = [int(i) for i in np.unravel_index(place, case.value.shape)]
    return Extreme(case.name, side, index, float(difference[0]), float(bound[0]), float(one.exact[0]))


def _reach(case: OutputCase, side: str) -> tuple[np.ndarray, np.ndarray]:
    """(how far the output lies to this side of E, how far the bound does)."""
    y, sign = (case.value if case.device is None else case.device), (-1.0 if side == "left" else 1.0)
    with np.errstate(invalid="ignore"):
        return sign * (y - case.exact), sign * ((case.lo if side == "left" else case.hi) - case.exact)


def peak_mb() -> float:
    """Highest resident size of this process so far, in MB."""
    import platform
    import resource

    status = Path("/proc/self/status")
    if status.exists():  # ru_maxrss of a forked process may start at its parent's peak
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if platform.system() == "Darwin" else 1024)
