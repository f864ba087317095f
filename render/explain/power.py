"""Discriminating power: how many seeded faults of this very kernel would leave this very bound?

share = #(mutants of which an output leaves T) / #(mutants that change an output by more than one rounding)

Mutants are made from the syntax tree of the user's jitted functions (`render.interpreter.mutation`), executed values
only, and held against the original bound T; zeros instead of an output are one mutant more. Those that the memory
check notices (an address outside, an element never stored) or that crash are listed apart: they say nothing of T.

Below `LOW` a Type-I is hollow: more than half of the faults that change the result would be called round-off too, so
being in bound is no evidence for the kernel. The share of a handful of mutants is luck, so fewer than `ENOUGH` leave
the verdict alone. Zeros that fit are enough by themselves.
"""

from __future__ import annotations

import ast
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any

import numpy as np

from interval_ops.formats.casting import round_value
from render.entry.execution import Execution, Tensor
from render.explain.portion import allowed, launches_allowed
from render.explain.study import Study
from render.interpreter.context import Change, is_user_file
from render.interpreter.mutation import Fault, faults, mutate
from render.result.decision import Case, Decision, compare, fits_zero
from render.result.defects import caught
from render.result.options import Progress
from render.result.records import Mutant, Power

PACE, START = 5e7, 2.5e6
"""Counted lanes in a second; what a run takes besides its lanes, in lanes."""
LOW = 0.5
ENOUGH = 4
Function = tuple[str, int]
"""File and first line of a jitted function."""


def power(study: Study, run: Execution, seconds: float, progress: Progress | None = None) -> Power:
    """Runs as many mutants as `seconds` allow, the kinds of fault in turn.

    Work is counted, at `PACE`: how many run, and with them the verdict, is the same on every machine.
    """
    began = time.perf_counter()
    base, todo = inventory(study)
    mutants = [m for case in study.cases for m in _zeros(case)]
    each = (base.work + START) / PACE
    for i, (function, fault) in enumerate(todo):
        if (i + 1) * each > seconds:
            break
        if progress is not None:
            progress(i, len(todo), fault.what)
        mutants.append(_judge(study, base, function, fault))
    else:
        i = len(todo)
    seen = [m.outcome for m in mutants]
    changed = seen.count("outside") + seen.count("inside")
    return Power(
        share=seen.count("outside") / changed if changed else float("nan"),
        mutants=tuple(mutants),
        smallest_fault={case.name: smallest_fault(case) for case in study.cases if case.fmt is not None},
        zeros_fit=tuple(case.name for case in study.cases if _fits_zero(case)),
        skipped=len(todo) - i,
        seconds=time.perf_counter() - began,
    )


def hollow(found: Power) -> Decision | None:
    """The decision that replaces a Type-I of which the bound has too little power."""
    if found.zeros_fit:
        return Decision("Inconclusive", "RND301", f"zeros would fit in the bound of {', '.join(found.zeros_fit)}")
    outside, inside = found.count("outside"), found.count("inside")
    if outside + inside < ENOUGH or found.share >= LOW:
        return None
    detail = f"only {outside} of {outside + inside} seeded faults that change the result would leave the bound"
    return Decision("Inconclusive", "RND301", detail)


# what can be changed
def inventory(study: Study, zeros: bool = False) -> tuple[Execution, list[tuple[Function, Fault]]]:
    """The value-only run without a fault, and every fault of the user's functions that it used, kinds in turn.

    `zeros`: those too that `power` knows without a run.
    """
    trees: dict[Function, ast.Module] = {}

    def collect(jit_fn: Any, tree: ast.Module) -> None:
        if is_user_file(jit_fn.fn.__code__.co_filename):
            trees.setdefault(_key(jit_fn), tree)

    run = study.run({"interval": False, "change": collect})
    launched = {(launch.file, launch.kernel) for launch in run.session.launches}
    by_kind: dict[str, list[tuple[Function, Fault]]] = {}
    for key, tree in trees.items():
        for fault in faults(tree, (key[0], tree.body[0].name) in launched):  # type: ignore[attr-defined]
            if zeros or fault.kind != "zero":
                by_kind.setdefault(fault.kind, []).append((key, fault))
    rounds = zip_longest(*by_kind.values())
    return run, [item for turn in rounds for item in turn if item is not None]


def _key(jit_fn: Any) -> Function:
    code = jit_fn.fn.__code__
    return code.co_filename, code.co_firstlineno


def plant(function: Function, fault: Fault) -> Change:
    return lambda jit_fn, tree: mutate(tree, fault) if _key(jit_fn) == function else None


# what becomes of it
def _judge(study: Study, base: Execution, function: Function, fault: Fault) -> Mutant:
    mutant = Mutant(fault.kind, fault.what, function[0], fault.line, "same")
    try:
        limits = {"steps": allowed(base), "most": launches_allowed(base)}
        run = study.run({"interval": False, "change": plant(function, fault), **limits})
    except Exception as error:  # whatever a broken kernel raises: it does not run to its end
        caught(error, "a seeded fault")
        return replace(mutant, outcome="crash")
    if memory_notices(base, run):
        return replace(mutant, outcome="memory")
    before = {o.name: o for o in base.outputs}
    after = {o.name: o for o in run.outputs}
    if before.keys() != after.keys():
        return replace(mutant, outcome="crash")
    return _outcome(mutant, [_compare(c, before[c.name].value, after[c.name].value) for c in study.cases])


def _outcome(mutant: Mutant, seen: Sequence[tuple[int, bool]]) -> Mutant:
    outside = sum(n for n, _ in seen)
    outcome = "outside" if outside else "inside" if any(changed for _, changed in seen) else "same"
    return replace(mutant, outcome=outcome, elements=outside)


def _compare(case: Case, before: np.ndarray, after: np.ndarray) -> tuple[int, bool]:
    """(elements outside T, does anything change by more than one rounding of the output's format?)"""
    if before.shape != after.shape:
        return after.size, True
    before, after = (np.asarray(x, np.float64) for x in (before, after))
    same = (before == after) | (np.isnan(before) & np.isnan(after))
    if case.fmt is None or case.mismatch:
        return int((~same).sum()), bool(not same.all())
    with np.errstate(invalid="ignore", over="ignore"):
        outside = ~same & ~np.isnan(case.lo) & (np.isnan(after) | (after < case.lo) | (after > case.hi))
        step = 2 * case.fmt.u * np.abs(before) + 2 * case.fmt.half_subnormal
        changed = ~same & ~(np.abs(after - before) <= step)
    return int(outside.sum()), bool(changed.any())


def memory_notices(base: Execution, run: Execution) -> bool:
    if _defects(run) - _defects(base):
        return True
    before = {o.name: o for o in base.outputs}
    return any(_unstored(o) > _unstored(before[o.name]) for o in run.outputs if o.name in before)


def _unstored(tensor: Tensor) -> int:
    """Elements that no kernel stored: all of them where none wrote the tensor's memory."""
    if not tensor.tracked:
        return tensor.value.size
    return 0 if tensor.unstored is None else int(np.count_nonzero(tensor.unstored))


def _defects(run: Execution) -> set[tuple[Any, ...]]:
    """Memory findings by place; a never-written read counts if it reaches an output."""
    reached = frozenset[int]().union(*(o.taints for o in run.outputs))
    return {(f.code, f.file, f.line, f.tensor, f.kind) for f in run.session.findings
            if f.code != "RND208" or f.taint is None or f.taint in reached}  # fmt: skip


# faults of the output itself
def _zeros(case: Case) -> Iterator[Mutant]:
    if case.mismatch or not case.value.any():
        return
    zero = Mutant("zero", f"{case.name} is all zeros", None, 0, "same")
    yield _outcome(zero, [_compare(case, case.value, np.zeros(case.value.shape))])


def _fits_zero(case: Case) -> bool:
    return not case.mismatch and fits_zero(case, compare(case))


def smallest_fault(case: Case) -> float | None:
    """The smallest 2^-k, down to the format's precision, such that T notices y (1 + 2^-j) for every j <= k.

    y is what the kernel stores, and the faulty value is rounded to the output's format before it is held against T.
    None: a factor of two goes unnoticed.
    """
    assert case.fmt is not None
    found = None
    for k in range(case.fmt.p + 1):
        with np.errstate(invalid="ignore", over="ignore"):
            scaled = np.asarray(case.value, np.float64) * (1 + 2.0**-k)
            faulty = scaled if case.fmt.p >= 53 else round_value(scaled, case.fmt, "rtne", "saturate")
        if not _compare(case, case.value, faulty.astype(np.float64))[0]:
            break
        found = 2.0**-k
    return found
