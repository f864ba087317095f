"""A verdict on two models in words: one line per border, with how far the sides are apart as a bar along the depth."""

from __future__ import annotations

import html
import math
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path

from render.network.records import LeafRecord, NetworkVerdict
from render.result.document import document

WIDTH = 80
BAR = 20
FEW = 5
"""Borders of a first screen, around the first that leaves."""
_LOW, _HIGH = -9.0, 0.0
"""Decades of relative difference from which to where the bar grows."""
_CAPTION = (
    "Relative difference of every border, in the order of the run, from equal at the bottom; a cross where a module "
    "computes something else than the reference's."
)


def lines(verdict: NetworkVerdict, width: int = WIDTH, verbose: bool = False) -> Iterator[str]:
    """The report; of a first screen what decides, `verbose` all that was measured and assumed."""
    yield from _headline(verdict, width)
    moved = [r for r in verdict.leaves if r.differing or r.label != "Type-I"]
    shown, most = (verdict.leaves, len(verdict.leaves)) if verbose else (moved, FEW)
    first = next((i for i, r in enumerate(shown) if r.label == "Type-II"), 0)
    start = max(0, min(first - most // 2, len(shown) - most))
    yield from _table(shown[start : start + most], verbose)
    if len(shown) > most:
        yield f"    {len(shown) - most} more borders differ (-v shows all)"
    equal = len(verdict.leaves) - len(moved)
    yield f"  {len(moved)} of {len(verdict.leaves)} borders differ, {equal} are equal in every bit"
    for r in moved if verbose else ():
        if r.label != "Type-I" or r.operation:
            yield f"  {r.at}: {r.detail}"
            yield from (f"     {kind}: {value:.3g}" for kind, value in r.bands.items())
        yield from (f"  {r.at}: not bounded: {taint}" for taint in r.taints[:2])
    for note in verdict.notes if verbose else verdict.notes[:1]:
        yield from _wrapped("   note: ", note, width)
    if verbose:
        yield f"  paper rule (is the reference in the target's bound everywhere): {verdict.paper_rule}"
        yield from (f"  assumes: {text}" for text in (f"rounding of {verdict.device}", *verdict.assumptions))
    yield f"{'' if verbose else 'more: -v':<{WIDTH - 7}} exit {verdict.exit_code}"


def _headline(v: NetworkVerdict, width: int) -> Iterator[str]:
    """Label and code; which module leaves, and why."""
    told, detail = _told(v)
    lead = f"  {v.label.upper()}  "
    head, *rest = textwrap.wrap(told, min(width, WIDTH) - len(lead) - len(v.code) - 2) or [""]
    yield f"{lead}{head}".ljust(min(width, WIDTH) - len(v.code)) + v.code
    yield from (" " * len(lead) + line for line in rest)
    if detail:
        yield from _wrapped("    ", detail, width)


def _told(v: NetworkVerdict) -> tuple[str, str]:
    """The sentence of the verdict, and what it rests on where a module leaves."""
    where, _, detail = v.message.partition(": ") if v.first is not None else ("", "", v.message)
    told = f"{f'module {v.first}' if v.first else where}: {v.title.replace('the kernel', 'it')}" if where else detail
    if v.label == "Type-I":
        told += ": round-off explains every difference" if v.code != "RND100" else ": equal in every bit"
    return told, detail if where else ""


def _wrapped(lead: str, text: str, width: int) -> Iterator[str]:
    yield from textwrap.wrap(text, width, initial_indent=lead, subsequent_indent=" " * len(lead))


def _table(shown: Sequence[LeafRecord], verbose: bool) -> Iterator[str]:
    """A border a line."""
    if not shown:
        return
    longest = max(max(len(r.at) for r in shown), len("border"))
    more = "eta target/ref  apart     paper rule" if verbose else ""
    yield f"    {'border':<{longest}}  {'relative difference':<{BAR + 9}}  code{more and '    ' + more}"
    for r in shown:
        mark = ">" if r.label == "Type-II" else "?" if r.label == "Inconclusive" else " "
        eta = f"{r.eta_target:.2g} / {r.eta_reference:.2g}"
        more = f"  {eta:<14}  {r.apart:<8.2g}  {r.paper_rule}" if verbose else ""
        yield f"  {mark} {r.at:<{longest}}  {bar(r):<{BAR}} {r.difference:<8.2g}  {r.code}{more}"


def bar(r: LeafRecord) -> str:
    """The decades of the relative difference above 1e-9."""
    if not r.difference:
        return ""
    decade = min(max(math.log10(r.difference), _LOW), _HIGH) if math.isfinite(r.difference) else _HIGH
    return "#" * max(1, round(BAR * (decade - _LOW) / (_HIGH - _LOW)))


def page(verdict: NetworkVerdict) -> str:
    """One self-contained web page: the report, and the growth along depth as a picture."""
    text = html.escape("\n".join(lines(verdict, verbose=True)))
    title = f"{verdict.label}: {_told(verdict)[0]}"
    body = (
        f"<h1>{html.escape(title)}</h1><div class='growth'>{picture(verdict)}</div><p>{_CAPTION}</p><pre>{text}</pre>"
    )
    return document(title, body, ".growth { overflow-x: auto; }\n")


def picture(verdict: NetworkVerdict) -> str:
    """Relative difference (logarithmic) by border in the order of the run, as SVG; a cross where one leaves."""
    found = verdict.leaves
    wide, high, left = max(600, 8 * len(found)), 220, 46
    step = (wide - left - 10) / max(len(found), 1)

    def y(value: float) -> float:
        decade = math.log10(value) if value and math.isfinite(value) else _LOW if not value else _HIGH
        decade = min(max(decade, _LOW), _HIGH)
        return 10 + (high - 40) * (_HIGH - decade) / (_HIGH - _LOW)

    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{wide}' height='{high}' font-size='10' fill='currentColor'>"
    ]
    for decade in range(int(_LOW), 1, 3):
        at = y(10.0**decade)
        parts.append(f"<line x1='{left}' x2='{wide}' y1='{at}' y2='{at}' stroke='currentColor' stroke-opacity='0.2'/>")
        parts.append(f"<text x='2' y='{at + 3}'>1e{decade}</text>")
    colours = {"Type-I": "#2a7", "Type-II": "#c22", "Inconclusive": "#c90"}
    for i, r in enumerate(found):
        x = left + step * (i + 0.5)
        name = html.escape(f"{r.at}: {r.label} {r.code}, {r.difference:.3g}")
        cross, dash = f"{x - 4},{y(r.difference) - 4}l8,8m0,-8l-8,8", f"{x - 2.5},{y(r.difference)}h5"
        path, width = (cross, 2) if r.label == "Type-II" else (dash, 5)
        shape = f"<path d='M{path}' stroke='{colours[r.label]}' stroke-width='{width}' fill='none'>"
        parts.append(f"{shape}<title>{name}</title></path>")
    return "".join([*parts, "</svg>"])


def write(verdict: NetworkVerdict, path: str | Path) -> None:
    Path(path).write_text(page(verdict), encoding="utf-8")
