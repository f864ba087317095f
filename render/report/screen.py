"""The first screen of a verdict: label, why, both sides against the exact value, the line, what to do. At most a dozen
lines; everything else stands in the whole report (`compose`)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from render.report import words
from render.report.blocks import Block, Closing, Quote, Table
from render.report.compose import as_far, headline, quote
from render.report.text import count, index, number, place, shape
from render.result import codes

if TYPE_CHECKING:
    from render.result.verdict import OutputVerdict, Verdict

OUTPUTS = 2
"""Outputs with rows of their own: the ones that the verdict is about come first."""
NAMED = 20
"""Characters of a reference's name that its row has room for; a longer one is called the reference."""
ASKED = ("changes", "power", "growth", "origins")
"""Kinds of blocks that exist only where somebody asked for them."""
_WORSE = {"Type-II": 0, "Inconclusive": 1, "Type-I": 2}


def screen(verdict: Verdict) -> list[Block]:
    """The blocks of the first screen, from the same words as the whole report."""
    return list(_blocks(verdict))


def _blocks(v: Verdict) -> Iterator[Block]:
    head = headline(v)
    yield replace(head, title=", ".join(x for x in (head.title, _owner(v)) if x))
    if why := tuple((line,) for line in _why(v)):
        yield Table("why", "", why)
    outputs = sorted((o for o in v.outputs if o.elements), key=lambda o: (_WORSE.get(o.label, 1), -_off(o)))
    for output in outputs[:OUTPUTS]:
        yield _compared(output, v.reference, words.lane(v))
    if rest := outputs[OUTPUTS:]:
        labels = sorted({o.label for o in rest}, key=lambda name: _WORSE.get(name, 1))
        yield Table("rest", "", ((f"{count(len(rest), 'more output')}: {', '.join(labels)}",),))
    if limit := v.scope.sentence:
        yield Table("scope", "", ((limit,),))
    if v.headline != "Equal" and (line := words.allowed(v)):
        yield Table("allowed", "", ((line,),))
    if v.file and not words.clean(v) and v.subtype != "reference":  # of the kernel's lines none is at fault there
        full = quote(v, v.file)
        marked = (full.start, full.end) if v.label != "Type-I" and v.guilty is None else (0, 0)
        yield Quote(full.place, full.label, "", full.lines[-1:], *marked)
    if steps := words.steps(v):
        yield Table("help", "", ((steps[0],),))
    if v.changed:
        yield Table("note", "", ((v.changed,),))
    yield from (block for block in as_far(v) if getattr(block, "kind", "") in ASKED)
    summary, exit_code = words.summary([v])
    yield Closing(summary, exit_code, "render explain last")


def _owner(v: Verdict) -> str:
    """The line that owns the bound of a Type-I; other labels quote theirs."""
    return (
        place(v.file, v.line or None, v.column or None) if words.clean(v) and v.file and v.headline != "Equal" else ""
    )


def _off(output: OutputVerdict) -> float:
    return output.usage if math.isfinite(output.usage) else math.inf


def _why(v: Verdict) -> Iterator[str]:
    """Why the outputs differ, or what a bug is: the repair that was found, what the outputs are instead, the numbers
    behind the element; else the first fact that the headline has not told."""
    if v.label == "Type-I":
        said = v.headline == "Equal" or codes.told(v.code)
        yield from (line for line in (words.differs(v),) if line and not said)
        return
    if told := words.diagnosis(v):
        yield from [*told[:2], *told[2:][-1:]]
        return
    facts = [*map(words.fact, v.findings), *map(words.fact, v.taints)]
    facts += [o.detail for o in v.outputs if o.detail and o.label == v.label]
    yield from [fact for fact in facts[:1] if fact not in v.message]


def _compared(output: OutputVerdict, reference: str, lane: str) -> Table:
    """An output: what each side has where they differ most, how much of it is in the bound, its largest error."""
    title = f"{output.name} {shape(output.dtype, output.shape)}"
    same = not output.max_abs_diff and output.got == output.ref
    here = "" if same else f"at {index(output.worst_index)}"
    title += ", equal in every element" if same else ""
    title += f", the kernel's{lane}" if lane else ""
    found = output.sides
    head = (title, here, "in bound", f"max error vs {words.exact(output)}" if found is not None else "")
    columns = [row if here else (row[0], "", *row[2:]) for row in _rows(output, reference)]
    return Table("compared", "", (head, *columns))


def _rows(output: OutputVerdict, reference: str) -> Iterator[tuple[str, str, str, str]]:
    """Sides, their values there, their elements in the bound, their largest error against the exact value."""
    known, found = output.elements - output.tainted, output.sides
    device = output.outside_device
    got, ref = number(output.got), number(output.ref)
    own = number(found.kernel_error, 3) if found is not None else ""
    yield "kernel", got if device is None else "", _own(output) if known else "no bound", own
    if device is not None:
        error = found.device_error if found is not None else None
        yield "device", got, _share(known - device, known), "" if error is None else number(error, 3)
    inside = _share(known - max(output.outside_reference, output.outside_exact), known)
    name = reference if 0 < len(reference) <= NAMED else "reference"
    yield name, ref, inside, number(found.reference_error, 3) if found is not None else ""


def _own(output: OutputVerdict) -> str:
    """The kernel's bound where something lies outside of it: how wide it is there."""
    outside = output.outside_device or output.outside_exact or output.outside_reference
    if not outside or math.isnan(output.low):
        return "its own"
    half = (output.high - output.low) / 2
    return "its own, one value" if not half else f"its own, +/- {number(half, 3)}"


def _share(inside: int, known: int) -> str:
    return f"{max(0, inside)} / {known}" if known > 0 else "no bound"
