"""The terminal form of a verdict: attribution first, then the numbers, the line of the kernel and what to do next.

Labels, codes and words carry the meaning; colour only repeats it. Text is ASCII, so that it survives logs and pipes,
and is wrapped here (not padded by tables), so that no line ends in blanks.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from rich.console import Console, ConsoleOptions
from rich.text import Text

from render.report import explained, words
from render.report.frame import Frame, code_frame
from render.report.growth import growth
from render.report.text import count, place
from render.result import codes

if TYPE_CHECKING:
    from render.result.records import Power
    from render.result.verdict import Verdict

WIDTH = 80
_STYLES = {"Type-I": "bold green", "Type-II": "bold red", "Inconclusive": "bold yellow"}
_FEW, _ALL = 3, 10**9


def render(verdict: Verdict, console: Console, options: ConsoleOptions) -> Iterator[Text]:
    """What `rich.print(verdict)` shows."""
    del console
    yield from full(verdict, options.max_width)


def full(verdict: Verdict, width: int = WIDTH, verbose: bool = False, exit_code: int | None = None) -> Iterator[Text]:
    """The whole report, line by line; `verbose` lists every output, finding, note and cause."""
    few = _ALL if verbose else _FEW
    yield from _hanging("", words.header(verdict), width, style="dim", body="dim")
    yield Text()
    yield from _headline(verdict, width)
    yield from _outputs(verdict, width, 3 * few)
    yield from _section("why the outputs differ", _differs(verdict, width))
    yield from _section("where the bound comes from", _budget(verdict, width, 2 * few))
    yield from _section("what would change it (re-run)", _what_ifs(verdict, width))
    if verdict.power is not None:
        yield from _power(verdict.power, width)
    for line in growth(verdict.lines):
        yield Text(f"  {line}", no_wrap=True, overflow="ellipsis")
    yield from _section("memory", _facts(verdict.findings, "finding", width, few))
    yield from _section("not bounded", _facts(verdict.taints, "place", width, few))
    yield from _section("", _place_and_advice(verdict, width, few))
    for line in words.finer(verdict)[:few]:
        yield from _hanging("  exact value ", line, width)
    for line in words.unrounded(verdict)[:few]:
        yield from _hanging("  unrounded   ", line, width)
    yield from _hanging("  paper rule  ", words.paper_rule(verdict), width)
    if verdict.assumptions:
        yield from _hanging("  assumes     ", "; ".join(verdict.assumptions), width)
    yield summary([verdict], width, exit_code)


def brief(verdict: Verdict, width: int = WIDTH, exit_code: int | None = None) -> Iterator[Text]:
    """The quiet form: the verdict line and the summary."""
    yield from _headline(verdict, width)
    yield summary([verdict], width, exit_code)


def summary(verdicts: Sequence[Verdict], width: int = WIDTH, exit_code: int | None = None) -> Text:
    """The last line: how many of each label, and the exit code."""
    left, code = words.summary(verdicts)
    return _apart(left, f"exit {code if exit_code is None else exit_code}", width)


def _headline(verdict: Verdict, width: int) -> Iterator[Text]:
    label = verdict.label.upper()
    line = _apart(f"  {label}  {verdict.message}", verdict.code, width)
    line.stylize(_STYLES.get(verdict.label, "bold"), 2, 2 + len(label))
    yield line
    title = codes.title(verdict.code)
    if verdict.label == "Type-I" and title not in verdict.message:  # else the message has named what is wrong
        yield from _hanging("  ", title, width, body="dim")


def _apart(left: str, right: str, width: int) -> Text:
    """`left` and `right` at the two ends of a line of at most WIDTH characters; too long: one after the other."""
    gap = min(width, WIDTH) - len(left) - len(right)
    return Text(left + " " * gap + right if gap > 1 else f"{left}  {right}", overflow="fold")


def _hanging(label: str, value: str, width: int, style: str = "dim", body: str = "") -> Iterator[Text]:
    """`value` wrapped beside `label`; a value with line breaks keeps them."""
    room = max(20, width - len(label))
    lines = [part for line in value.splitlines() for part in _wrap(line, room) or [""]]
    for i, line in enumerate(lines or [""]):
        text = Text(label if i == 0 else " " * len(label), style=style)
        yield text.append(line, style=body or "not dim")


def _wrap(line: str, room: int) -> list[str]:
    return textwrap.wrap(line, room, break_on_hyphens=False, replace_whitespace=False)


def _section(title: str, lines: Iterable[Text]) -> Iterator[Text]:
    lines = list(lines)
    if lines:
        if title:
            yield Text(f"  {title}")
        yield from lines
        yield Text()


def _rest(n: int, noun: str) -> Iterator[Text]:
    if n > 0:
        yield Text(f"    ... and {count(n, f'more {noun}')} (-v shows all)", style="dim")


def _outputs(verdict: Verdict, width: int, most: int) -> Iterator[Text]:
    for output in verdict.outputs[:most]:
        yield from _hanging("  ", words.output_title(output, verdict.reference), width)
        yield Text()
        for name, value in words.output_rows(output):
            yield from _hanging(f"  {name:<10}  ", value, width)
        yield Text()
    yield from _section("", _rest(len(verdict.outputs) - most, "output"))


def _differs(verdict: Verdict, width: int) -> Iterator[Text]:
    if said := words.differs(verdict):
        yield from _hanging("    ", said, width)


def _budget(verdict: Verdict, width: int, most: int) -> Iterator[Text]:
    items = sorted(verdict.budget, key=lambda item: -item.share)
    rows = [words.budget_row(item) for item in items[:most]]
    column = max((len(cause) for _, cause, _ in rows), default=0)
    for share, cause, where in rows:
        fits = width >= 16 + column + len(where)
        yield from _hanging(f"    {share:>6}  ", f"{cause:<{column}}  {where}" if fits else f"{cause}  {where}", width)
    yield from _rest(len(items) - most, "cause")
    if said := words.budget_basis(verdict):
        yield from _hanging("            ", said, width)


def _what_ifs(verdict: Verdict, width: int) -> Iterator[Text]:
    for what, effect in explained.what_if_rows(verdict.counterfactuals, verdict.label):
        yield from _hanging("    ", f"{effect} with {what}", width)


def _power(power: Power, width: int) -> Iterator[Text]:
    for i, row in enumerate(explained.power_rows(power)):
        yield from _hanging("  power       " if i == 0 else " " * 14, row, width)
    yield Text()


def _facts(facts: Sequence, noun: str, width: int, most: int) -> Iterator[Text]:
    for fact in facts[:most]:
        where = f"  {place(fact.file, fact.line or None)}" if fact.file else ""
        yield from _hanging(f"    {fact.code}  ", words.fact(fact) + where, width)
    yield from _rest(len(facts) - most, noun)


def _place_and_advice(verdict: Verdict, width: int, most: int) -> Iterator[Text]:
    """`--> file:line:col`, the code frame where the file can be read, help and notes."""
    if verdict.file:
        yield Text(f"  --> {place(verdict.file, verdict.line or None, verdict.column or None)}", overflow="fold")
        frame = code_frame(verdict.file, verdict.line, verdict.column, verdict.end_column)
        if frame is not None:
            yield from _frame(frame, words.place_note(verdict.code), width, _STYLES.get(verdict.label, "bold"))
    for line in verdict.help:
        yield from _hanging("   help: ", line, width)
    for line in verdict.notes[:most]:
        yield from _hanging("   note: ", line, width)
    yield from _rest(len(verdict.notes) - most, "note")


def _frame(frame: Frame, note: str, width: int, style: str) -> Iterator[Text]:
    """The lines with carets; the note beside them only where it fits, for the headline has it already."""
    gutter = len(str(frame.line)) + 3
    for n, source in frame.lines:
        yield Text(f"{n:>{gutter}} | {source}".rstrip(), no_wrap=True, overflow="ellipsis")
    line = Text(f"{'':>{gutter}} | {' ' * frame.start}", no_wrap=True, overflow="ellipsis")
    carets = "^" * max(1, frame.end - frame.start)
    fits = len(line) + len(carets) + 1 + len(note) <= width
    yield line.append(f"{carets} {note}".rstrip() if fits else carets, style=style)
