"""Explanations as rows of text: shares in detail, what would change a verdict, how much its bound would notice."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from render.report.text import percent, place

if TYPE_CHECKING:
    from render.result.records import Counterfactual, Origin, Power
    from render.result.verdict import BudgetItem, Outputs, Verdict

_DEVICE = "--device "
_FLAGS = {"counterfactuals": "--counterfactuals", "power": "--power", "lines": "--lines"}


def shares(budget: Sequence[BudgetItem]) -> Iterator[tuple[str, ...]]:
    """(share, cause, what is more to say of it), and its lines where there are several."""
    for item in budget:
        told = "; ".join(_more_of(item))
        lines = item.lines if len(item.lines) > 1 else ()
        if told or lines:
            yield percent(item.share), item.cause, told
        yield from ((percent(x.share), "", place(x.file, x.line or None) or "arguments") for x in lines)


def _more_of(item: BudgetItem) -> Iterator[str]:
    """Its shares at the worst and the median element and of the typical error, where they differ; what a run gave."""
    if item.worst is not None and item.median is not None and abs(item.worst - item.median) >= 0.01:
        yield f"worst element {percent(item.worst)}, median {percent(item.median)}"
    if item.typical is not None and abs(item.typical - item.share) >= 0.01:
        yield f"of the typical error {percent(item.typical)}"
    if 1.05 < item.shrink < math.inf:
        yield f"without it the bound is {item.shrink:.2g}x narrower (re-run)"


def widths(outputs: Outputs) -> Iterator[tuple[str, ...]]:
    """(output, width of its bound)."""
    for output in outputs:
        if math.isfinite(width := output.bound.median_relative_width):
            yield output.name, f"median relative width {width:.2g}, worst usage {percent(output.worst_usage)}"


def origin(item: Origin) -> tuple[str, ...]:
    """(NaN, inf or infinite bound; what made it; where)."""
    what = f"read from {item.memory}" if item.memory else item.operands or item.op
    fate = "" if item.reach == "output" else f", {item.reach}, {item.lanes} lanes"
    return item.kind, f"{what} (program {item.program}{fate})", place(item.file, item.line)


def second_opinion(verdict: Verdict) -> str:
    """The second opinion, where it can be asked again."""
    if verdict.witness is None or not verdict.witness.document:
        return ""
    return f"{verdict.witness.sentence}; evaluate it again with: render explain --check REPORT"


def more(verdict: Verdict) -> str:
    """What was not asked for."""
    missing = [flag for name, flag in _FLAGS.items() if not getattr(verdict, name)]
    return f"render classify ... {' '.join(missing)}" if missing else ""


def what_if_rows(items: tuple[Counterfactual, ...], label: str) -> Iterator[tuple[str, str]]:
    """(what is changed, what that does), devices with the same answer on one row."""
    groups: dict[tuple[str, str], list[str]] = {}
    for item in items:
        effect = item.effect
        if item.label not in ("", label):
            effect += f", and the verdict becomes {item.label} {item.code}".rstrip()
        alone = "" if item.what.startswith(_DEVICE) else item.key
        groups.setdefault((effect, alone), []).append(item.what)
    for (effect, alone), names in groups.items():
        listed = ", ".join(name.removeprefix(_DEVICE) for name in names)
        yield listed if alone else _DEVICE + listed, effect


def power_rows(power: Power) -> Iterator[str]:
    """How many seeded faults the bound notices, what it misses, what others notice, and the smallest one per output."""
    outside, inside = power.count("outside"), power.count("inside")
    noticed = f"{outside} of {outside + inside} seeded faults that change the result would leave this bound"
    yield f"{power.share:.2f}: {noticed}" if not math.isnan(power.share) else "no seeded fault changed the result"
    missed = Counter((m.what, place(m.file, m.line) if m.file else "") for m in power.missed)
    yield from (f"missed: {what}" + (f"  {where}" if where else "") for what, where in missed)
    apart = [(power.count("memory"), "noticed by the memory check"), (power.count("crash"), "did not run to the end"),
             (power.count("same"), "changed nothing"), (power.skipped, "not run for lack of time")]  # fmt: skip
    if any(n for n, _ in apart):
        yield "besides: " + ", ".join(f"{n} {what}" for n, what in apart if n)
    for name, fault in power.smallest_fault.items():
        found = "not even a factor of two" if fault is None else f"a relative error of 2^{round(math.log2(fault))}"
        yield f"smallest fault noticed in {name}: {found}"
    if power.zeros_fit:
        yield f"zeros would fit in {', '.join(power.zeros_fit)}"
