"""Inline SVG pictures of bound usage. No script, no network; text and axes use `currentColor`, so that they are
readable on light and dark backgrounds. What lies outside the bound is marked by a cross and a word, never by colour
alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from html import escape
from itertools import pairwise
from typing import NamedTuple

from render.report.text import number, percent
from render.result.usage import Usage

INSIDE, OUTSIDE, UNKNOWN = "#3b82c4", "#d1495b", "#8a8a8a"
LETTER = 6.2
"""Width of a letter of the pictures' size, on the wide side."""


class Bin(NamedTuple):
    lo: float
    hi: float
    elements: int

    @property
    def outside(self) -> bool:
        return self.lo >= 1.0


def bins(usage: Usage) -> list[Bin]:
    """The bins of usage up to 1, and one for what lies outside."""
    inside = [Bin(lo, hi, n) for (lo, hi), n in zip(pairwise(usage.edges), usage.counts, strict=True)]
    return [*inside, *([Bin(1.0, math.inf, usage.outside)] if usage.outside else [])]


def histogram(usage: Usage, width: int = 460, height: int = 170) -> str:
    """Histogram of bound usage; the counts are on a logarithmic scale where they differ by more than 50x."""
    bars = bins(usage)
    if not bars:
        return ""
    counts = [b.elements for b in bars if b.elements]
    log_y = max(counts) > 50 * min(counts)
    left, right, top, bottom = 46, 24, 20, 34
    step = (width - left - right) / len(bars)
    floor = height - bottom
    parts = [_text(left, 12, f"elements{' (log scale)' if log_y else ''}, largest bar {max(counts)}")]
    for i, b in enumerate(bars):
        parts.append(_bar(b, left + i * step, step, floor, _height(b.elements, max(counts), log_y) * (floor - top)))
    parts.append(f'<path d="M{left} {top}V{floor}H{width - right}" fill="none" stroke="currentColor"/>')
    parts.extend(_ticks(bars, left, step, floor))
    parts.append(_text(left, height - 4, f"share of the bound used{' (log scale)' if usage.log else ''}"))
    return _svg(width, height, "Histogram of bound usage", parts)


def _height(n: int, largest: int, log: bool) -> float:
    if not n:
        return 0.0
    return math.log(1 + n) / math.log(1 + largest) if log else n / largest


def _bar(b: Bin, x: float, step: float, floor: float, h: float) -> str:
    if not b.elements:
        return ""
    h = max(h, 1.5)
    what = "outside the bound" if b.outside else f"{number(100 * b.lo, 3)} to {number(100 * b.hi, 3)} % of the bound"
    mark = _text(x + step / 2, floor - h - 4, "outside", anchor="middle") if b.outside else ""
    return (
        f'<rect x="{x + 0.5:.1f}" y="{floor - h:.1f}" width="{max(step - 1, 1):.1f}" height="{h:.1f}" '
        f'fill="{OUTSIDE if b.outside else INSIDE}"><title>{b.elements} elements, {what}</title></rect>{mark}'
    )


def _ticks(bins: list[Bin], left: float, step: float, floor: float) -> Iterator[str]:
    edges = [(left + i * step, b.lo) for i, b in enumerate(bins) if not b.outside]
    last = next((left + i * step for i, b in enumerate(bins) if b.outside), left + len(bins) * step)
    edges.append((last, 1.0))
    every = max(1, round(len(edges) / 6 / 4) * 4) if len(edges) > 6 else 1
    for i, (x, value) in enumerate(edges):
        if (len(edges) - 1 - i) % every == 0:
            yield f'<path d="M{x:.1f} {floor}v4" stroke="currentColor"/>'
            yield _text(x, floor + 15, number(100 * value, 3) + " %", anchor="middle")


def heatmap(usage: Usage, side: int = 288) -> str:
    """Map of a 2-D output: the darker a tile, the more of the bound its worst element uses; a cross means outside."""
    if not usage.grid:
        return ""
    rows, columns = len(usage.grid), len(usage.grid[0])
    th, tw = usage.tile
    cell = max(6.0, min(24.0, side / max(rows, columns)))
    left, top = 8, 20
    what = "element" if th == tw == 1 else f"{th} x {tw} tile"
    title = f"largest usage per {what}, {usage.shape[0]} x {usage.shape[1]} output"
    width, height = max(left + columns * cell, left + LETTER * len(title), 242) + 8, top + rows * cell + 46
    parts = [_text(left, 12, title)]
    values = [value for row in usage.grid for value in row]
    largest = max((value for value in values if 0 <= value <= 1), default=0.0)
    for i, row in enumerate(usage.grid):
        for j, value in enumerate(row):
            parts.append(_tile(value, largest, left + j * cell, top + i * cell, cell, (i * th, j * tw)))
    parts.append(
        f'<rect x="{left}" y="{top}" width="{columns * cell:.1f}" height="{rows * cell:.1f}" fill="none" '
        'stroke="currentColor" stroke-opacity="0.5"/>'
    )
    kinds = [any(0 <= v <= 1 for v in values), any(v > 1 for v in values), any(v < 0 for v in values)]
    parts.extend(_legend(left, top + rows * cell + 10, largest, *kinds))
    return _svg(width, height, "Bound usage per tile", parts)


def _tile(value: float, largest: float, x: float, y: float, cell: float, corner: tuple[int, int]) -> str:
    box = f'x="{x:.1f}" y="{y:.1f}" width="{cell:.1f}" height="{cell:.1f}"'
    where = f"from ({corner[0]}, {corner[1]})"
    if value < 0:
        return f'<rect {box} fill="{UNKNOWN}" fill-opacity="0.35"><title>{where}: no bound</title></rect>'
    if value > 1.0:
        d = cell * 0.25
        cross = (
            f"M{x + d:.1f} {y + d:.1f}l{cell - 2 * d:.1f} {cell - 2 * d:.1f}m0 {2 * d - cell:.1f}l{2 * d - cell:.1f} "
            f"{cell - 2 * d:.1f}"
        )
        return (
            f'<rect {box} fill="{OUTSIDE}"><title>{where}: outside ({percent(value)})</title></rect>'
            f'<path d="{cross}" stroke="#ffffff" stroke-width="1.2"/>'
        )
    shade = 0.05 + 0.95 * (value / largest if largest else 0.0)
    words = f"{where}: {number(100 * value, 3)} %"
    return f'<rect {box} fill="{INSIDE}" fill-opacity="{shade:.2f}"><title>{words}</title></rect>'


def _legend(x: float, y: float, largest: float, inside: bool, outside: bool, unknown: bool) -> Iterator[str]:
    for i in range(5 if inside else 0):
        box = f'x="{x + 12 * i}" y="{y}" width="12" height="10"'
        yield f'<rect {box} fill="{INSIDE}" fill-opacity="{0.05 + 0.2375 * i:.2f}"/>'
    if inside:
        yield _text(x + 66, y + 9, f"0 to {percent(largest)} of the bound")
        y += 16
    if outside:
        yield _tile(2.0, 1.0, x, y, 10.0, (0, 0))
        yield _text(x + 16, y + 9, "outside")
        x += 80
    if unknown:
        yield f'<rect x="{x}" y="{y}" width="10" height="10" fill="{UNKNOWN}" fill-opacity="0.35"/>'
        yield _text(x + 16, y + 9, "no bound")


def _text(x: float, y: float, words: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="currentColor">{escape(words)}</text>'


def _svg(width: float, height: float, title: str, parts: list[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" role="img" font-family="sans-serif" font-size="11" '
        f'style="max-width:100%;height:auto">'
        f"<title>{escape(title)}</title>{''.join(parts)}</svg>"
    )
