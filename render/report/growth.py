"""The lines of a kernel with the width that each gives its results, and what it adds to the operands'."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from render.result.places import relative
from render.result.records import AROUND, LineWidth, SourceLine


def growth(widths: Sequence[LineWidth], source: Sequence[SourceLine]) -> Iterator[str]:
    """The source of each file with the width of each line and what the line adds to it."""
    for file in dict.fromkeys(w.file for w in widths):
        here = {w.line: w for w in widths if w.file == file}
        text = {x.line: x.text for x in source if x.file == file}
        yield f"growth of the bound in {relative(file)} (median relative width, and what the line adds)"
        last = 0
        for n in range(max(1, min(here) - AROUND), max(here) + AROUND + 1):
            if n not in here and not any(abs(n - k) <= AROUND for k in here):
                continue
            if last and n > last + 1:
                yield f"  {'':>9} {'':>8}  {'...':>5}"
            last = n
            yield f"  {_columns(here.get(n))}  {n:>5} | {text.get(n, '')}".rstrip()
        yield ""


def _columns(width: LineWidth | None) -> str:
    if width is None:
        return f"{'':>9} {'':>8}"
    if width.relative == 0:
        return f"{'exact':>9} {'':>8}"
    times = width.relative / width.operands if width.operands else math.inf
    shown = "new" if times == math.inf else f"x {times:.2g}" if 1.05 < times < 100 else f"x {times:.0f}"
    shown = shown if times > 1.05 else ""
    return f"{width.relative:>9.1e} {shown:>8}"
