"""The blocks of a report in a terminal: attribution first, then the numbers, the line of the kernel and what to do.

Labels, codes and words carry the meaning; colour only repeats it. Text is ASCII, so that it survives logs and pipes,
and is wrapped here (not padded by tables), so that no line ends in blanks.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from rich.console import Console, ConsoleOptions
from rich.text import Text

from render.report import words
from render.report.blocks import Block, Closing, Headline, Listing, Quote, Table
from render.report.compose import as_far, compose
from render.report.screen import screen
from render.report.text import count

if TYPE_CHECKING:
    from render.result.verdict import Verdict

WIDTH = 80
_STYLES = {"Type-I": "bold green", "Equal": "bold green", "Type-II": "bold red", "Inconclusive": "bold yellow"}
_FEW = {"output": 9, "budget": 6, "memory": 3, "taints": 3, "note": 3, "finer": 3, "unrounded": 3}
"""How many rows of a kind (outputs: how many of them) are shown unless all are asked for."""
_NOUNS = {"output": "output", "budget": "cause", "memory": "finding", "taints": "place", "note": "note"}
_LABELS = {"help": "   help: ", "note": "   note: "}
_NAMES = {
    "power": "power",
    "finer": "exact value",
    "unrounded": "unrounded",
    "paper": "paper rule",
    "more": "more with",
}
_FOOT = ("finer", "unrounded", "paper", "assumes", "more")


def render(verdict: Verdict, console: Console, options: ConsoleOptions) -> Iterator[Text]:
    """What `rich.print(verdict)` shows."""
    del console
    yield from full(verdict, options.max_width)


def full(verdict: Verdict, width: int = WIDTH, verbose: bool = False, exit_code: int | None = None) -> Iterator[Text]:
    """The whole report, line by line; `verbose` shows every row and every block."""
    yield from _Printer(width, verbose, exit_code).blocks(compose(verdict))


def plain_text(verdict: Verdict) -> str:
    """The whole report, for `str(verdict)`."""
    return "\n".join(line.plain for line in full(verdict, 100, verbose=True))


def brief_text(verdict: Verdict) -> str:
    """The first screen, for reports of others."""
    return "\n".join(line.plain for line in short(verdict, 100))


def short(verdict: Verdict, width: int = WIDTH, exit_code: int | None = None) -> Iterator[Text]:
    """The first screen: about a dozen lines without blank ones between them."""
    yield from _Printer(width, False, exit_code, dense=True).blocks(screen(verdict))


def brief(verdict: Verdict, width: int = WIDTH, exit_code: int | None = None) -> Iterator[Text]:
    """The quiet form: the verdict line and the summary."""
    kept = [block for block in as_far(verdict) if isinstance(block, Headline | Closing)]
    yield from _Printer(width, False, exit_code).blocks(kept)


def summary(verdicts: Sequence[Verdict], width: int = WIDTH, exit_code: int | None = None) -> Text:
    """The last line: how many of each label, and the exit code."""
    left, code = words.summary(verdicts)
    return _apart(left, f"exit {code if exit_code is None else exit_code}", width)


class _Printer:
    """Prints blocks; `open` says that a blank line is due before the next block of another kind."""

    def __init__(self, width: int, verbose: bool, exit_code: int | None, dense: bool = False) -> None:
        self.width, self.verbose, self.exit_code, self.dense = width, verbose, exit_code, dense

    def blocks(self, blocks: Iterable[Block]) -> Iterator[Text]:
        last, outputs = "", 0
        for block in blocks:
            kind = block.kind if isinstance(block, Table | Listing) else type(block).__name__
            if isinstance(block, Table) and block.detail and not self.verbose:
                continue
            outputs += kind == "output"
            if kind == "output" and outputs > self._most(kind):
                continue
            lines = list(self._block(block))
            if not lines:
                continue
            if last == "output" and kind != "output":
                yield from self._rest(outputs - self._most("output"), "output", blank=True)
            if last and not self.dense and _apart_from(last, kind):
                yield Text()
            yield from lines
            last = kind

    def _block(self, block: Block) -> Iterator[Text]:
        if isinstance(block, Headline):
            yield from self._headline(block)
        elif isinstance(block, Table):
            yield from _LAYOUTS.get(block.kind, _Printer._section)(self, block)
        elif isinstance(block, Quote):
            yield from self._quote(block)
        elif isinstance(block, Listing):
            yield from (Text(f"  {line}", no_wrap=True, overflow="ellipsis") for line in block.lines)
        elif isinstance(block, Closing):
            code = block.exit_code if self.exit_code is None else self.exit_code
            left = f"{block.summary}   more: {block.versions}" if self.dense else block.summary
            yield _apart(left, f"exit {code}", self.width)

    def _most(self, kind: str) -> int:
        return 10**9 if self.verbose else _FEW.get(kind, 10**9)

    def _rest(self, n: int, kind: str, blank: bool = False) -> Iterator[Text]:
        if n > 0 and kind in _NOUNS:
            yield from [Text()] if blank else []
            yield Text(f"    ... and {count(n, f'more {_NOUNS[kind]}')} (-v shows all)", style="dim")

    def _hanging(self, label: str, value: str, style: str = "dim", body: str = "") -> Iterator[Text]:
        """`value` wrapped beside `label`; a value with line breaks keeps them."""
        room = max(20, self.width - len(label))
        lines = [part for line in value.splitlines() for part in _wrap(line, room) or [""]]
        for i, line in enumerate(lines or [""]):
            text = Text(label if i == 0 else " " * len(label), style=style)
            yield text.append(line, style=body or "not dim")

    def _headline(self, block: Headline) -> Iterator[Text]:
        label = block.label.upper()
        lead = f"  {label}  "
        beside = len(lead) + len(block.code) + 2
        fits = beside + len(block.message) <= self.width
        room = max(20, (self.width if fits else min(self.width, WIDTH)) - beside)
        for i, part in enumerate(_wrap(block.message, room) or [""]):
            line = Text(" " * len(lead) + part) if i else _apart(lead + part, block.code, self.width)
            line.stylize(_STYLES.get(block.label, "bold") if not i else "", 2, len(lead) - 2)
            yield line
        if block.title:
            yield from self._hanging("  ", block.title, body="dim")

    def _header(self, block: Table) -> Iterator[Text]:
        yield from self._hanging("", block.rows[0][0], style="dim", body="dim")

    def _output(self, block: Table) -> Iterator[Text]:
        yield from self._hanging("  ", block.title)
        yield Text()
        for name, value in block.rows:
            yield from self._hanging(f"  {name:<10}  ", value)

    def _section(self, block: Table) -> Iterator[Text]:
        """A title, and one row per line: short cells in front, the rest as a sentence."""
        if block.title:
            yield Text(f"  {block.title}")
        most = self._most(block.kind)
        for row in block.rows[:most]:
            first = f"{row[0]}  " if len(row) > 1 else ""
            yield from self._hanging(f"    {first}", "  ".join(cell for cell in row[1 if first else 0 :] if cell))
        yield from self._rest(len(block.rows) - most, block.kind)
        if block.note:
            yield from self._hanging(" " * 12, block.note)

    def _table(self, block: Table) -> Iterator[Text]:
        """Shares, causes and places in columns, where they fit."""
        yield Text(f"  {block.title}")
        most = self._most(block.kind)
        column = max((len(row[1]) for row in block.rows[:most]), default=0)
        for share, cause, where in block.rows[:most]:
            fits = self.width >= 16 + column + len(where)
            line = f"{cause:<{column}}  {where}" if fits else f"{cause}  {where}"
            yield from self._hanging(f"    {share:>6}  ", line)
        yield from self._rest(len(block.rows) - most, block.kind)
        if block.note:
            yield from self._hanging(" " * 12, block.note)

    def _why(self, block: Table) -> Iterator[Text]:
        for (line,) in block.rows:
            yield from self._hanging("    ", line)

    def _compared(self, block: Table) -> Iterator[Text]:
        """Sides in columns under the name of the output, which stands above them where it leaves no room for them."""
        table = [("  " * (i > 0) + row[0], *row[1:]) for i, row in enumerate(block.rows)]
        if sum(widths := _widths(table)) + 3 * len(widths) > self.width:
            yield from self._hanging("  ", block.rows[0][0])
            table[0] = ("", *table[0][1:])
            widths = _widths(table)
        for row in table:
            line = "   ".join(cell.ljust(n) for cell, n in zip(row, widths, strict=True) if n).rstrip()
            yield Text(f"  {line}", no_wrap=True, overflow="ellipsis")

    def _limits(self, block: Table) -> Iterator[Text]:
        yield from self._hanging("  judged  ", block.rows[0][0])

    def _allowed(self, block: Table) -> Iterator[Text]:
        yield from self._hanging("  rounding may do  ", block.rows[0][0])

    def _changes(self, block: Table) -> Iterator[Text]:
        yield Text(f"  {block.title}")
        for what, effect in block.rows:
            yield from self._hanging("    ", f"{effect} with {what}")

    def _labelled(self, block: Table) -> Iterator[Text]:
        most = self._most(block.kind)
        for (line,) in block.rows[:most]:
            yield from self._hanging(_LABELS[block.kind], line)
        yield from self._rest(len(block.rows) - most, block.kind)

    def _named(self, block: Table) -> Iterator[Text]:
        """Lines beside their name; those after the first where power tells more are set below it."""
        for i, (line,) in enumerate(block.rows[: self._most(block.kind)]):
            name = _NAMES[block.kind] if i == 0 or block.kind != "power" else ""
            yield from self._hanging(f"  {name:<12}", line)

    def _assumes(self, block: Table) -> Iterator[Text]:
        yield from self._hanging("  assumes     ", "; ".join(line for (line,) in block.rows))

    def _quote(self, block: Quote) -> Iterator[Text]:
        """The lines with carets; the note beside them only where it fits, for the headline has it already."""
        yield Text(f"  --> {block.place}", overflow="fold")
        if not block.lines:
            return
        gutter = len(str(block.lines[-1][0])) + 3
        for n, source in block.lines:
            yield Text(f"{n:>{gutter}} | {source}".rstrip(), no_wrap=True, overflow="ellipsis")
        if not block.end:
            return
        line = Text(f"{'':>{gutter}} | {' ' * block.start}", no_wrap=True, overflow="ellipsis")
        carets = "^" * max(1, block.end - block.start)
        fits = len(line) + len(carets) + 1 + len(block.note) <= self.width
        style = _STYLES.get(block.label, "bold")
        yield line.append(f"{carets} {block.note}".rstrip() if fits else carets, style=style)


_LAYOUTS: dict[str, Callable[[_Printer, Table], Iterator[Text]]] = {
    "header": _Printer._header,
    "output": _Printer._output,
    "budget": _Printer._table,
    "shares": _Printer._table,
    "changes": _Printer._changes,
    "why": _Printer._why,
    "rest": _Printer._why,
    "scope": _Printer._limits,
    "compared": _Printer._compared,
    "allowed": _Printer._allowed,
    "assumes": _Printer._assumes,
    **dict.fromkeys(_LABELS, _Printer._labelled),
    **dict.fromkeys(_NAMES, _Printer._named),
}


def _apart_from(last: str, kind: str) -> bool:
    """Is there a blank line between blocks of these kinds?"""
    together = {("Headline", "output"), ("Headline", "Closing"), ("Quote", "help"), ("Quote", "note"), ("help", "note")}
    foot = (*_FOOT, "Closing")
    return (last, kind) not in together and not (last in foot and kind in foot)


def _apart(left: str, right: str, width: int) -> Text:
    """`left` and `right` at the two ends of a line of at most WIDTH characters; too long: one after the other."""
    gap = min(width, WIDTH) - len(left) - len(right)
    return Text(left + " " * gap + right if gap > 1 else f"{left}  {right}", overflow="fold")


def _widths(rows: Sequence[tuple[str, ...]]) -> list[int]:
    return [max(map(len, column)) for column in zip(*rows, strict=True)]


def _wrap(line: str, room: int) -> list[str]:
    """No line begins with the sign of a percentage."""
    parts = textwrap.wrap(line.replace(" %", "\xa0%"), room, break_on_hyphens=False, replace_whitespace=False)
    return [part.replace("\xa0%", " %") for part in parts]
