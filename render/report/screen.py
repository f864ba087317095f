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
from render.report.text import count, index, interval, number, place, shape

if TYPE_CHECKING:
    from render.result.verdict import OutputVerdict, Verdict

OUTPUTS = 2
"""Outputs with rows of their own: the ones that the verdict is about come first."""
ASKED = ("changes", "power", "growth", "origins")
"""Kinds of blocks that exist only where somebody asked for them."""
_WORSE = {"Type-II": 0, "Inconclusive": 1, "Type-I": 2}


def screen(verdict: Verdict) -> list[Block]:
    """The blocks of the first screen, from the same words as the whole report."""
    return list(_blocks(verdict))


def _blocks(v: Verdict) -> Iterator[Block]:
    head = headline(v)
    yield replace(head, title=", ".join(x for x in (head.title, _owner(v)) if x))
    if why := _why(v):
        yield Table("why", "", ((why,),))
    outputs = sorted((o for o in v.outputs if o.elements), key=lambda o: (_WORSE.get(o.label, 1), -_off(o)))
    for output in outputs[:OUTPUTS]:
        yield Table("compared", _title(output, v.reference, words.lane(v)), tuple(_rows(output)))
    if rest := outputs[OUTPUTS:]:
        labels = sorted({o.label for o in rest}, key=lambda name: _WORSE.get(name, 1))
        yield Table("rest", "", ((f"{count(len(rest), 'more output')}: {', '.join(labels)}",),))
    if limit := v.scope.sentence:
        yield Table("scope", "", ((limit,),))
    if v.headline != "Equal" and (line := words.allowed(v)):
        yield Table("allowed", "", ((line,),))
    if v.file and not _clean(v):
        full = quote(v, v.file)
        yield Quote(full.place, full.label, "", full.lines[-1:], full.start, full.end)
    if v.help and not _clean(v):
        yield Table("help", "", ((v.help[0],),))
    if v.changed:
        yield Table("note", "", ((v.changed,),))
    yield from (block for block in as_far(v) if getattr(block, "kind", "") in ASKED)
    summary, exit_code = words.summary([v])
    yield Closing(summary, exit_code, "render explain last")


def _clean(v: Verdict) -> bool:
    """Nothing is wrong: no line to look at and no advice."""
    failing = any(o.allclose_mismatch for o in v.outputs)
    return v.label == "Type-I" and not failing and v.subtype not in ("downgrade", "degraded")


def _owner(v: Verdict) -> str:
    """The line that owns the bound of a Type-I; other labels quote theirs."""
    return place(v.file, v.line or None, v.column or None) if _clean(v) and v.file and v.headline != "Equal" else ""


def _off(output: OutputVerdict) -> float:
    return output.usage if math.isfinite(output.usage) else math.inf


def _why(v: Verdict) -> str:
    """One sentence: why the outputs differ, or the first fact behind a bug."""
    if v.label == "Type-I":
        return "" if v.headline == "Equal" else words.differs(v)
    facts = [words.fact(item) for item in v.findings] + [words.fact(item) for item in v.taints]
    return facts[0] if facts else next((o.detail for o in v.outputs if o.detail and o.label == v.label), "")


def _title(output: OutputVerdict, reference: str, lane: str) -> str:
    """What is compared, and where it differs most; `lane`: what the kernel's values are no execution of."""
    title = f"{output.name} {shape(output.dtype, output.shape)}" + (f" and {reference}" if reference else "")
    if not output.max_abs_diff and output.got == output.ref:
        return f"{title}: equal in every element{lane}"
    outside = output.outside_device or output.outside_exact or output.outside_reference
    told = f"got {number(output.got)}{lane}, reference {number(output.ref)}"
    if outside and not math.isnan(output.low):
        told += f", bound {interval(output.low, output.high)}"
    return f"{title}: worst at {index(output.worst_index)}, {told}"


def _rows(output: OutputVerdict) -> Iterator[tuple[str, str, str]]:
    """Sides, their elements in the bound, their largest error against the exact value."""
    known, found = output.elements - output.tainted, output.sides
    yield "", "in bound", f"worst error against the exact value ({words.exact(output)})" if found is not None else ""
    yield "kernel", "its own" if known else "no bound", number(found.kernel_error, 3) if found is not None else ""
    if output.outside_device is not None:
        error = found.device_error if found is not None else None
        yield "device", _share(known - output.outside_device, known), "" if error is None else number(error, 3)
    inside = _share(known - max(output.outside_reference, output.outside_exact), known)
    yield "reference", inside, number(found.reference_error, 3) if found is not None else ""


def _share(inside: int, known: int) -> str:
    return f"{max(0, inside)} / {known}" if known > 0 else "no bound"
