"""From a verdict to the blocks of its report; `words` and `details` have the sentences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from render.report import details, words
from render.report.blocks import Block, Closing, Headline, Listing, Picture, Quote, Table
from render.report.frame import frame
from render.report.growth import growth
from render.report.text import place
from render.result import codes

if TYPE_CHECKING:
    from render.result.verdict import Finding, TaintNote, Verdict

WIDE = ("RND206", "RND211")
"""Bugs that are about the width of the bound; of no other one does its width explain anything."""


def compose(verdict: Verdict) -> list[Block]:
    """The whole report, with all that can be told; of a provisional verdict that."""
    return as_far(verdict if verdict.stage == "provisional" else verdict.wait())


def as_far(verdict: Verdict) -> list[Block]:
    """The blocks of what is known already."""
    return list(_blocks(verdict))


def _blocks(v: Verdict) -> Iterator[Block]:
    yield Table("header", "", ((words.header(v),),))
    yield headline(v)
    told = words.diagnosis(v)
    yield from _rows("diagnosis", "what is wrong", _lines(*told))
    equal = v.headline == "Equal"
    for output in v.outputs:
        yield Table("output", words.output_title(output, v.reference), tuple(words.output_rows(output, words.lane(v))))
        if not equal:  # where in its bound a value lies that both have says nothing
            yield Picture(output.name, output.uses)
    yield from _rows("differs", "why the outputs differ", _lines("" if equal else words.differs(v)))
    budget = sorted(v.budget, key=lambda item: -item.share)
    if v.label != "Type-II" or v.code in WIDE:
        rows, basis = map(words.budget_row, budget), words.budget_basis(v)
        yield from _rows("budget", "where the bound comes from", rows, basis, detail=equal)
        yield from _rows("shares", "shares of the bound in detail", details.shares(budget), detail=True)
        yield from _rows("widths", "width of the bound", details.widths(v.outputs), detail=True)
    changes = details.what_if_rows(v.counterfactuals, v.label)
    yield from _rows("changes", "what would change it (re-run)", changes)
    if v.power is not None:
        yield from _rows("power", "power", _lines(*details.power_rows(v.power)))
    if v.lines:
        yield Listing("growth", tuple(growth(v.lines, v.source)))
    yield from _rows("memory", "memory", map(_fact, v.findings))
    yield from _rows("taints", "not bounded", map(_fact, v.taints))
    yield from _rows("origins", "where NaN and inf are made", map(details.origin, v.origins), detail=True)
    yield from _rows("allowed", "a test that every legal execution passes", _lines(words.allowed(v)))
    if v.file and not equal:
        yield quote(v, v.file)
    yield from _rows("help", "what to do", _lines(*words.steps(v)))
    yield from _rows("note", "notes", _lines(v.changed, *(note for note in v.notes if note not in told)))
    yield from _rows("scope", "what limits the verdict", _lines(v.scope.sentence))
    yield from _rows("inputs", "inputs", map(words.given, v.scope.inputs), words.drawn(v), detail=True)
    yield from _rows("second", "second opinion", _lines(details.second_opinion(v)), detail=True)
    yield from _rows("finer", "exact value of the reference", _lines(*words.finer(v)))
    yield from _rows("unrounded", "without any rounding", _lines(*words.unrounded(v)))
    yield from _rows("paper", "paper rule", _lines(words.paper_rule(v)))
    yield from _rows("assumes", "assumptions", _lines(*v.assumptions))
    yield from _rows("defects", "caught inside RENDER", _lines(*(d.sentence for d in v.defects)), detail=True)
    yield from _rows("more", "more with", _lines(details.more(v)), detail=True)
    summary, exit_code = words.summary([v])
    yield Closing(summary, exit_code, ", ".join(f"{name} {version}" for name, version in v.versions.items()))


def _rows(
    kind: str, title: str, rows: Iterable[tuple[str, ...]], note: str = "", detail: bool = False
) -> Iterator[Table]:
    if found := tuple(rows):
        yield Table(kind, title, found, note, detail)


def _lines(*lines: str) -> Iterator[tuple[str]]:
    yield from ((line,) for line in lines if line)


def headline(v: Verdict) -> Headline:
    if v.stage == "provisional":
        return Headline(v.headline, v.message, v.code, "provisional: checks that can change it are still to come")
    title = codes.title(v.code)
    told = v.label != "Type-I" or codes.told(v.code) or title in v.message  # the message has named what is wrong
    return Headline(v.headline, v.message, v.code, "" if told else title)


def _fact(item: Finding | TaintNote) -> tuple[str, str, str]:
    return item.code, words.fact(item), place(item.file, item.line or None)


def quote(v: Verdict, file: str) -> Quote:
    where = place(file, v.line or None, v.column or None)
    found = frame(v.source, file, v.line, v.column, v.end_column)
    note = words.place_note(v.code)
    return Quote(where, v.label, note, *found) if found is not None else Quote(where, v.label, note)
