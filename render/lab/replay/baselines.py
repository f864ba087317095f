"""Simpler rules on the same inputs and the same device output, each computed, none tuned.

- paper: is every y_ref inside our envelope?
- high_precision: does the mismatch vanish when kernel and reference run again one float format wider?
- allclose, assert_close: do the outputs agree within torch's default tolerances?
- flash_attention: is max|y - E| at most twice max|y_ref - E|?

Passing is Type-I, failing Type-II. y is the device output; where a case has none, what the interpreter computed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from render.entry.outputs import flatten, match, stored_arguments
from render.entry.target import returned_names
from render.judgement.composition import Judged
from render.judgement.measure import tolerances
from render.lab.corpus.case import IssueTolerance
from render.lab.replay.rows import RuleAnswer
from render.result.blockwise import blocks, flat

if TYPE_CHECKING:
    from render.lab.replay.judging import Replayed

ALLCLOSE = (1e-5, 1e-8)
"""rtol, atol of torch.allclose."""

NEEDS_DEVICE = "needs the device: the fault is in what the compiler made of the kernel"


def label(passes: bool) -> str:
    return "Type-I" if passes else "Type-II"


def mismatched(actual: np.ndarray, expected: np.ndarray, rtol: float, atol: float) -> int:
    """Elements with |actual - expected| > atol + rtol |expected|; equal infinities match, NaN matches nothing."""
    wrong = 0
    for x, y in _pairs(actual, expected):
        with np.errstate(invalid="ignore", over="ignore"):
            close = (np.abs(x - y) <= atol + rtol * np.abs(y)) & np.isfinite(y)
        wrong += int(np.count_nonzero(~(close | (x == y))))
    return wrong


def largest(actual: np.ndarray, expected: np.ndarray) -> float:
    """max |actual - expected|, infinite where one side is NaN or they differ in an infinity."""
    found = 0.0
    for x, y in _pairs(actual, expected):
        with np.errstate(invalid="ignore"):
            gap = np.where(x == y, 0.0, np.abs(x - y))
        found = max(found, float(np.where(np.isnan(gap), np.inf, gap).max())) if x.size else found
    return found


def _pairs(x: np.ndarray, y: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Both arrays, of one shape, piece by piece."""
    for at in blocks(x.size):
        yield flat(x, at), flat(y, at)


def seen(judged: Judged) -> np.ndarray:
    """The output under judgement: the device's, else the one that the interpreter computed."""
    return judged.case.value if judged.case.device is None else judged.case.device


def tolerance_answer(judged: Sequence[Judged], default: bool) -> RuleAnswer:
    """allclose (`default` False: fixed tolerances) or assert_close (tolerances of the dtypes) over all outputs."""
    wrong, gap = 0, 0.0
    for j in judged:
        rtol, atol = tolerances(j.ours.tensor.dtype, j.ref_dtype) if default else ALLCLOSE
        if j.case.mismatch:
            return RuleAnswer("Type-II", note=j.case.mismatch)
        wrong += mismatched(seen(j), j.case.ref, rtol, atol)
        gap = max(gap, largest(seen(j), j.case.ref))
    return RuleAnswer(label(not wrong), max_abs_diff=gap, mismatched=wrong)


def flash_answer(judged: Sequence[Judged]) -> RuleAnswer:
    """max|y - E| <= 2 max|y_ref - E| for every output; says nothing where y_ref has another dtype than the kernel."""
    ratios = []
    for j in judged:
        if j.case.mismatch:
            return RuleAnswer("Type-II", note=j.case.mismatch)
        if j.ref_dtype != j.ours.tensor.dtype:
            return RuleAnswer(note="not applicable: the reference has another dtype")
        ours, theirs = largest(seen(j), j.case.exact), largest(j.case.ref, j.case.exact)
        ratios.append((ours <= 2 * theirs, ours, theirs))
    bad = [r for r in ratios if not r[0]]
    _, ours, theirs = max(bad or ratios, key=lambda r: r[1])
    return RuleAnswer(label(not bad), note=f"{ours:.3g} against 2 * {theirs:.3g}", max_abs_diff=ours)


def tolerance_of(given: IssueTolerance, dtype: torch.dtype) -> tuple[float, float]:
    """(rtol, atol) of the issue's own comparison, else assert_close's for the original output dtype."""
    if given.source == "allclose":
        return ALLCLOSE
    rtol, atol = tolerances(dtype)
    if given.source == "issue":
        return given.rtol or 0.0, given.atol or 0.0
    return rtol, atol


def re_executed(replayed: Replayed) -> list[tuple[np.ndarray, np.ndarray, torch.dtype]]:
    """(kernel, reference, original dtype) of every output, both run one format wider; the kernel is not edited."""
    from render.entry.execution import on_cpu
    from render.interpreter.lift import lifted_session, wide_values
    from render.lab.replay.widen import Widened, widened

    case, module = replayed.case, replayed.module
    entry, reference = case.entry(module), case.reference(module)
    inputs = replayed.inputs.clone()
    torch.manual_seed(case.facts.seed)
    with lifted_session(case.profile) as session:
        result = entry(*inputs.args, **inputs.kwargs)
    outputs = flatten(result, returned_names(entry)) or stored_arguments(inputs, session.envelope)
    again = widened(replayed.inputs)
    torch.manual_seed(case.facts.seed)
    with on_cpu(), Widened():
        theirs = flatten(_called(reference, again), default="ref")
    pairs, _ = match(outputs, theirs)
    found = []
    for pair in pairs:
        tensor = outputs[pair.kernel][1]
        expected = theirs[pair.reference][1].detach().double().numpy()
        found.append((wide_values(session, tensor), expected, tensor.dtype))
    return found


def _called(reference: Any, inputs: Any) -> Any:
    """The reference with the inputs that it takes: it may have fewer parameters than the launcher."""
    from render.entry.resolve import plans

    values = inputs.values
    return plans(reference, list(values), values, set())[0].call(reference, values)


def high_precision(replayed: Replayed) -> RuleAnswer:
    """The mismatch persists: Type-II; it vanishes: Type-I. Memory faults read zeros, programs run in their order."""
    if replayed.case.facts.device.kind == "fault":
        return RuleAnswer(note=NEEDS_DEVICE)
    began = time.perf_counter()
    try:
        outputs = re_executed(replayed)
    except Exception as error:  # one column of the table must not cost the others
        return RuleAnswer(
            note=f"could not run: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        )
    wrong, gap = 0, 0.0
    for actual, expected, dtype in outputs:
        if actual.shape != expected.shape:
            return RuleAnswer("Type-II", note="shapes differ")
        rtol, atol = tolerance_of(replayed.case.facts.tolerance, dtype)
        wrong += mismatched(actual, expected, rtol, atol)
        gap = max(gap, largest(actual, expected))
    return RuleAnswer(label(not wrong), seconds=time.perf_counter() - began, max_abs_diff=gap, mismatched=wrong)


def baselines(replayed: Replayed) -> dict[str, RuleAnswer]:
    """All of them by name, each compared with the ground truth of the issue."""
    verdict, judged = replayed.verdict, replayed.judged
    found = {
        "paper": RuleAnswer(verdict.paper_rule if verdict.paper_rule.startswith("Type") else ""),
        "high_precision": high_precision(replayed),
    }
    if judged:
        found["allclose"] = tolerance_answer(judged, default=False)
        found["assert_close"] = tolerance_answer(judged, default=True)
        found["flash_attention"] = flash_answer(judged)
    return {name: graded(answer, replayed.case.facts.label) for name, answer in found.items()}


def graded(answer: RuleAnswer, truth: str) -> RuleAnswer:
    """`answer` with `right` filled in where there is a label."""
    import msgspec

    return msgspec.structs.replace(answer, right=answer.label == truth if answer.label else None)
