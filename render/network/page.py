"""A verdict on two models in words: one line per border, with how far the sides are apart as a bar along the depth."""

from __future__ import annotations

import html
import math
from collections.abc import Iterator
from pathlib import Path

from render.network.records import LeafRecord, NetworkVerdict

BAR = 20
FEW = 40
_LOW, _HIGH = -9.0, 0.0
"""Decades of relative difference from which to where the bar grows."""


def lines(verdict: NetworkVerdict, width: int = 100, verbose: bool = False) -> Iterator[str]:
    """The report; equal borders are counted unless all are wanted."""
    del width
    yield f"{verdict.label}: {verdict.message}  [{verdict.code} {verdict.title}]"
    moved = [r for r in verdict.leaves if r.differing or r.label != "Type-I"]
    shown = verdict.leaves if verbose else moved
    if shown:
        longest = max(len(r.at) for r in shown)
        yield ""
        yield f"  {'border':<{longest}}  {'difference':<{BAR + 9}}  code    eta target/ref  apart     paper rule"
    first = next((i for i, r in enumerate(shown) if r.label == "Type-II"), 0)
    start = 0 if verbose or len(shown) <= FEW else max(0, min(first - FEW // 2, len(shown) - FEW))
    for r in shown[start : start + FEW] if not verbose else shown:
        mark = ">" if r.label == "Type-II" else "?" if r.label == "Inconclusive" else " "
        eta = f"{r.eta_target:.2g} / {r.eta_reference:.2g}"
        figures = f"{r.difference:<8.2g}  {r.code}  {eta:<14}  {r.apart:<8.2g}  {r.paper_rule}"
        yield f"{mark} {r.at:<{longest}}  {bar(r):<{BAR}} {figures}"
    if len(shown) > FEW and not verbose:
        yield f"  {len(shown) - FEW} more borders that differ"
    equal = len(verdict.leaves) - len(moved)
    yield f"  {len(moved)} of {len(verdict.leaves)} borders differ, {equal} equal in every bit"
    for r in moved:
        if r.label != "Type-I" or r.operation:
            yield f"  {r.at}: {r.detail}"
            for kind, value in r.bands.items():
                yield f"     {kind}: {value:.3g}"
        for taint in r.taints[:2]:
            yield f"  {r.at}: not bounded: {taint}"
    for note in verdict.notes:
        yield f"  note: {note}"
    yield f"  paper rule (is the reference in the target's bound everywhere): {verdict.paper_rule}"
    for text in (f"rounding of {verdict.device}", *verdict.assumptions):
        yield f"  assumes: {text}"


def bar(r: LeafRecord) -> str:
    """The decades of the relative difference above 1e-9."""
    if not r.difference:
        return ""
    decade = min(max(math.log10(r.difference), _LOW), _HIGH) if math.isfinite(r.difference) else _HIGH
    return "#" * max(1, round(BAR * (decade - _LOW) / (_HIGH - _LOW)))


def page(verdict: NetworkVerdict) -> str:
    """One self-contained web page: the report, and the growth along depth as a picture."""
    text = html.escape("\n".join(lines(verdict, verbose=True)))
    title = html.escape(f"{verdict.label}: {verdict.message}")
    return (
        f"<!doctype html><meta charset='utf-8'><title>{title}</title>"
        "<style>body{font:15px system-ui;margin:2em}pre{font-size:12px;overflow:auto}</style>"
        f"<h1 style='font-size:1.2em'>{title}</h1>{picture(verdict)}<pre>{text}</pre>"
    )


def picture(verdict: NetworkVerdict) -> str:
    """Relative difference (logarithmic) by border in the order of the run, as SVG; a cross where one leaves."""
    found = verdict.leaves
    wide, high, left = max(600, 8 * len(found)), 220, 46
    step = (wide - left - 10) / max(len(found), 1)

    def y(value: float) -> float:
        decade = math.log10(value) if value and math.isfinite(value) else _LOW if not value else _HIGH
        decade = min(max(decade, _LOW), _HIGH)
        return 10 + (high - 40) * (_HIGH - decade) / (_HIGH - _LOW)

    parts = [f"<svg xmlns='http://www.w3.org/2000/svg' width='{wide}' height='{high}' font-size='10'>"]
    for decade in range(int(_LOW), 1, 3):
        at = y(10.0**decade)
        parts.append(f"<line x1='{left}' x2='{wide}' y1='{at}' y2='{at}' stroke='#ddd'/>")
        parts.append(f"<text x='2' y='{at + 3}'>1e{decade}</text>")
    colours = {"Type-I": "#2a7", "Type-II": "#c22", "Inconclusive": "#c90"}
    for i, r in enumerate(found):
        x = left + step * (i + 0.5)
        name = html.escape(f"{r.at}: {r.label} {r.code}, {r.difference:.3g}")
        cross, dash = f"{x - 4},{y(r.difference) - 4}l8,8m0,-8l-8,8", f"{x - 2.5},{y(r.difference)}h5"
        path, width = (cross, 2) if r.label == "Type-II" else (dash, 5)
        shape = f"<path d='M{path}' stroke='{colours[r.label]}' stroke-width='{width}'>"
        parts.append(f"{shape}<title>{name}</title></path>")
    parts.append(
        f"<text x='{left}' y='{high - 8}'>relative difference of every border, in the order of the run</text></svg>"
    )
    return "".join(parts)


def write(verdict: NetworkVerdict, path: str | Path) -> None:
    Path(path).write_text(page(verdict), encoding="utf-8")
