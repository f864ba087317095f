"""The sentences of a report, as plain text: the terminal and the web page show the same words."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from render.report.text import count, index, interval, number, percent, place, seconds, shape
from render.result import codes
from render.result.decision import EQUAL

if TYPE_CHECKING:
    from render.result.records import LineShare
    from render.result.scope import InputRecord
    from render.result.verdict import BudgetItem, Finding, OutputVerdict, TaintNote, Verdict


def header(verdict: Verdict) -> str:
    """Which versions ran which kernel, on which grid, for how long."""
    versions = verdict.versions
    parts = [f"render {versions.get('render', '')}".rstrip()]
    if "triton" in versions:
        parts[0] += f"  triton {versions['triton']}, on the CPU"
    if verdict.kernels:
        parts.append(f"{'kernel' if len(verdict.kernels) == 1 else 'kernels'} {', '.join(verdict.kernels)}")
    if verdict.grid:
        last = "last grid" if len(verdict.kernels) > 1 else "grid"
        parts.append(f"{last} {index(_trimmed(verdict.grid))}")
    elapsed = verdict.timing.get("total_s") or verdict.timing.get("interval_s")
    if elapsed:
        parts.append(seconds(elapsed))
    return "   ".join(parts)


def _trimmed(grid: tuple[int, ...]) -> tuple[int, ...]:
    """The grid as a user writes it: without the trailing ones."""
    while len(grid) > 1 and grid[-1] == 1:
        grid = grid[:-1]
    return grid


def fact(item: Finding | TaintNote) -> str:
    """What a memory finding or a taint says, with its size and first occurrence."""
    program, position = getattr(item, "program", None), getattr(item, "index", None)
    parts = [item.message]
    if item.count > 1:
        parts.append(count(item.count, "lane" if hasattr(item, "program") else "time"))
    if program is not None and program != ():  # () is the host
        first = f"first in program {index(program if isinstance(program, tuple) else (program,))}"
        parts.append(f"{first} at {index(position)}" if position else first)
    return ", ".join(parts)


def output_title(output: OutputVerdict, reference: str) -> str:
    title = f"{output.name}  {shape(output.dtype, output.shape)}"
    return f"{title}  vs  {reference}" if reference else title


def output_rows(output: OutputVerdict, lane: str = "") -> Iterator[tuple[str, str]]:
    """(name, sentence) of the facts about one output, most familiar first; `lane`: of what its values are."""
    n = output.elements
    if n:
        yield "allclose", _allclose(output)
        yield from _inside(output)
    if output.nonfinite_mismatch:
        yield "NaN/Inf", f"the pattern differs in {count(output.nonfinite_mismatch, 'element')}"
    if output.unstored:
        yield "not stored", f"{output.unstored} / {n} elements were never stored ({percent(output.unstored / n)})"
    if output.tainted:
        yield "tainted", f"{output.tainted} / {n} elements have no bound ({percent(output.tainted / n)})"
    if n:
        yield from _worst(output, lane)
        yield from _blamed(output)
    elif output.detail:  # shapes or dtypes that cannot be compared: there are no numbers to say it
        yield "", output.detail


def _allclose(output: OutputVerdict) -> str:
    tolerance = f"rtol {number(output.allclose_rtol, 3)} atol {number(output.allclose_atol, 3)}"
    if not output.allclose_mismatch:
        return f"passes, {tolerance}"
    share = percent(output.allclose_mismatch / output.elements)
    return f"fails on {output.allclose_mismatch} / {output.elements} elements ({share}), {tolerance}"


def _inside(output: OutputVerdict) -> Iterator[tuple[str, str]]:
    """How many elements of the reference, of its float64 value and of the device output lie in the bound.

    Elements without a bound are not counted: nothing is outside of no bound, but nothing is inside either.
    """
    known = output.elements - output.tainted
    if known <= 0:
        yield "in bound", "no element has a bound"
        return
    bounded = " elements that have a bound" if output.tainted else ""
    worst = "" if output.code == EQUAL else _usage(output.worst_usage)
    device = output.outside_device
    inside = f"{max(0, known - output.outside_reference)} / {known}{bounded}"
    yield "in bound", inside if device is not None else inside + worst
    if output.outside_exact or output.outside_reference:
        left = max(0, known - output.outside_exact)
        yield "exact ref", f"{left} / {known} in bound when the reference is recomputed in {exact(output)}"
    if device is not None:
        yield "device", f"{max(0, known - device)} / {known} of the device output in bound{worst}"


def _usage(worst: float) -> str:
    if math.isnan(worst):
        return ""
    if worst == math.inf:
        return ", the worst element misses a bound that is a single point"
    if worst > 1:
        return f", worst element lies {number(worst, 3)} half widths from the middle"
    return f", worst element uses {percent(worst)} of its bound"


def _worst(output: OutputVerdict, lane: str) -> Iterator[tuple[str, str]]:
    where = f" at {index(output.worst_index)}"
    outside = output.outside_reference or output.outside_exact or output.outside_device or output.nonfinite_mismatch
    gap = abs(output.got - output.ref) if outside else output.max_abs_diff
    if not outside and gap == 0:
        yield "worst |d|", "0, equal to the reference in every element"
        return
    yield "worst |d|", f"{number(gap, 3)}{where}"
    used = ""
    if math.isfinite(output.usage) and not math.isnan(output.low):
        words = f"outside, {number(output.usage, 3)}x" if output.usage > 1 else f"{percent(output.usage)} used"
        used = f"   [{words}]"
    bound = interval(output.low, output.high)
    yield "", f"  got {number(output.got)}{lane}   ref {number(output.ref)}   bound {bound}{used}"


def _blamed(output: OutputVerdict) -> Iterator[tuple[str, str]]:
    """Both sides against float64, where they differ by more than the usual tolerance or one of them is blamed."""
    found = output.sides
    if found is None or not (output.allclose_mismatch or found.wrong not in ("neither", "unknown")):
        return
    errors = [("kernel", found.kernel_error), ("reference", found.reference_error)]
    if found.device_error is not None:
        errors.insert(1, ("device", found.device_error))
    listed = ", ".join(f"{name} {number(error, 3)}" for name, error in errors)
    if found.exact_error is not None:
        own = number(found.exact_error, 2) if math.isfinite(found.exact_error) else "by an amount without a bound"
        listed += f", {exact(output)} itself {own}"
    yield "who errs", found.sentence
    yield "", f"  off from {exact(output)} by: {listed}"


def exact(output: OutputVerdict) -> str:
    """The precision of the exact reference."""
    return "float64" if output.exact_bits == 53 else f"{output.exact_bits} bits"


def given(item: InputRecord) -> tuple[str, str, str]:
    """(name, type and shape, first digits of the hash) of one input."""
    return item.name, shape(item.dtype, item.shape), f"sha256 {item.sha256[:12]}"


def drawn(verdict: Verdict) -> str:
    return (
        f"seed {verdict.scope.seed}; kernel source sha256 {verdict.scope.source[:12]}" if verdict.scope.source else ""
    )


def allowed(verdict: Verdict) -> str:
    """How much rounding may do, as the line of a test that every legal execution passes; "" where there is none."""
    known = [o.tolerance for o in verdict.outputs if o.tolerance is not None]
    exact = not any(t.atol or t.rtol for t in known)
    return "" if verdict.label != "Type-I" or len(known) < len(verdict.outputs) or exact else verdict.tolerance()


def place_note(code: str) -> str:
    """What to write under the carets: the title of codes that are a fact about that line, nothing for the others.

    Where the reference or the formula is in question, the line is only the place to start from.
    """
    entry = codes.CODES.get(code)
    return entry.title if entry is not None and entry.at_line else ""


def paper_rule(verdict: Verdict) -> str:
    """What the published rule alone would say, beside which of our cells spoke."""
    return (
        f"{verdict.paper_rule} (is the reference, as it was returned, in the bound?)   subtype {verdict.subtype or '-'}"
    )


def budget_basis(verdict: Verdict) -> str:
    """What the shares were taken from, and whether a run without the largest cause confirms it; "" without shares."""
    said = verdict.budget_basis.sentence
    if not verdict.budget or not said:
        return ""
    top = verdict.budget[0]
    if top.confirmed or verdict.budget_basis.method != "first order":
        return f"{said}; {top.cause}: confirmed by a run without it" if top.confirmed else said
    return f"{said}; not confirmed by a run"


def lane(verdict: Verdict) -> str:
    """What the values of the interpreter are where the profile's tensor cores round operands and these are not rounded:
    no legal execution of a device that must."""
    return " (operands not rounded)" if any(item.key == "operand" for item in verdict.budget) else ""


def diagnosis(verdict: Verdict) -> list[str]:
    """Of a bug: the repair that was found, what the outputs are instead, the numbers behind the worst element."""
    told = [*([verdict.guilty.sentence] if verdict.guilty else []), *verdict.resembles]
    behind = verdict.witness.inputs if told and verdict.witness is not None else ""
    return [*told, *([behind] if behind else [])]


def clean(v: Verdict) -> bool:
    """Nothing is wrong: no line to look at and no advice."""
    failing = any(o.allclose_mismatch for o in v.outputs)
    return v.label == "Type-I" and not failing and v.subtype not in ("downgrade", "degraded")


def steps(verdict: Verdict) -> tuple[str, ...]:
    """What to do, where anything is to be done and no repair was found, which is the advice then."""
    return () if clean(verdict) or verdict.guilty is not None else verdict.help


def differs(verdict: Verdict) -> str:
    """Why the outputs differ, if they do and rounding explains it; else ""."""
    found = verdict.differs
    return found.sentence if found is not None and found.seen is not None else ""


def printed_lines(item: BudgetItem) -> list[LineShare]:
    """The lines of a cause that are named: its largest, and the next two of the file if they own a tenth of it."""
    others = [x for x in item.lines[1:3] if x.share >= 0.1 * item.share and x.file == item.file]
    return [*item.lines[:1], *others]


def finer(verdict: Verdict) -> list[str]:
    """Where float64 was not enough for the reference's exact value; what the message says already is left out."""
    return [f.sentence for f in verdict.finer if f.sentence not in verdict.message]


def unrounded(verdict: Verdict) -> list[str]:
    """What the comparison without rounding says, an output a line; outputs that agree in everything share one."""
    same = [u for u in verdict.unrounded if not u.differing and u.compared == u.elements]
    if same and len(same) == len(verdict.unrounded) > 1:
        return [f"kernel and reference agree in every element of {len(same)} outputs: the same function"]
    return [u.sentence for u in verdict.unrounded]


def budget_row(item: BudgetItem) -> tuple[str, str, str]:
    """(share, cause, place) of one cause of width; several lines with their shares where the first does not own it."""
    where = place(item.file, item.line or None)
    others = printed_lines(item)[1:]
    if others:
        rest = ", ".join(f"line {x.line} {percent(x.share)}" for x in others)
        where = f"{where} {percent(item.lines[0].share)}, {rest}"
    return percent(item.share), item.cause, where


def summary(verdicts: Sequence[Verdict]) -> tuple[str, int]:
    """(counts of kernels, or of several verdicts, and of labels; the exit code of them all)."""
    labels = Counter(verdict.label for verdict in verdicts)
    one = count(max(1, len(verdicts[0].kernels)), "kernel") if len(verdicts) == 1 else count(len(verdicts), "verdict")
    parts = [one, f"{labels['Type-I']} Type-I", f"{labels['Type-II']} Type-II"]
    if labels["Inconclusive"]:
        parts.append(f"{labels['Inconclusive']} Inconclusive")
    return ", ".join(parts), codes.combined(verdict.exit_code for verdict in verdicts)
