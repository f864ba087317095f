"""A case of two models: compared as `render.compare_models` does, in the columns of a replay."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from render.lab.corpus.case import CorpusCase
from render.lab.replay.rows import ReplayRow, expected_of
from render.network.compare import compare_models
from render.network.records import NetworkVerdict


def of_models(case: CorpusCase, began: float) -> ReplayRow:
    """The row of a case with `kind = "network"`."""
    cpu = time.process_time()
    verdict = judged(case)
    wrong = list(disagreements(case, verdict))
    seconds, cpu_s = time.perf_counter() - began, time.process_time() - cpu
    outside = any(r.reference_out_target for r in verdict.leaves)
    return ReplayRow(
        **expected_of(case), label=verdict.label, code=verdict.code, message=verdict.message,
        paper_rule=verdict.paper_rule, reference_axis="outside" if outside else "inside", device_axis="none",
        source_label=verdict.label, source_code=verdict.code, ok=not wrong, disagreements=wrong, total_s=seconds,
        cpu_s=cpu_s, notes=verdict.notes,
    )  # fmt: skip


def judged(case: CorpusCase) -> NetworkVerdict:
    """Nothing of the ground truth passes here."""
    facts, (allowed, cudnn) = case.facts, _switches()
    try:
        module = case.load()
        torch.manual_seed(facts.seed)
        inputs = module.make_inputs(**facts.arguments)
        sides = [getattr(module, name) for name in (facts.entry, facts.reference.fn)]
        with _compiling(facts.network.switches):
            which = (facts.network.compiled == name for name in ("target", "reference"))
            given = [torch.compile(s) if compiled else s for s, compiled in zip(sides, which, strict=True)]
            return compare_models(*given, *inputs, device=case.profile, seed=facts.seed)
    finally:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = allowed, cudnn


def _switches() -> tuple[bool, bool]:
    return torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32


@contextmanager
def _compiling(switches: dict[str, Any]) -> Iterator[None]:
    if not switches:
        yield
        return
    from torch._inductor import config

    torch._dynamo.reset()
    with config.patch({"fx_graph_cache": False, **switches}):
        yield
    torch._dynamo.reset()


def disagreements(case: CorpusCase, verdict: NetworkVerdict) -> Iterator[str]:
    """Every axis on which the answer is not the one that `case.toml` expects."""
    want, names = case.facts.expected, case.facts.network
    operation = next((r.operation for r in verdict.leaves if r.operation), "")
    first = (verdict.first or "") if want.label == "Type-II" else names.first
    for name, got, allowed in (
        ("label", verdict.label, (want.label,)),
        ("code", verdict.code, tuple(want.codes) or (verdict.code,)),
        ("paper rule", verdict.paper_rule, (want.paper_rule,)),
        ("first module", first, (names.first,)),
        ("operation", operation, (names.operation or operation,)),
    ):
        if got not in allowed:
            yield f"{name}: {got or 'none'}, not {' or '.join(allowed)}"
