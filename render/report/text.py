"""Numbers, places and counts as words: one spelling for every view."""

from __future__ import annotations

import math
from collections.abc import Sequence

from render.result.places import relative
from render.result.progress import seconds as seconds


def number(x: float, digits: int = 7) -> str:
    """x with `digits` significant digits; `nan`, `inf` as such."""
    return f"{x:.{digits}g}"


def interval(lo: float, hi: float) -> str:
    """[lo, hi] as `mid +/- half`, or as both ends where one of them is infinite; `anything` for the top interval."""
    if math.isnan(lo) or math.isnan(hi):
        return "anything (no bound)"
    if lo == hi:
        return number(lo)
    half = (hi - lo) / 2
    if not math.isfinite(half):
        return f"[{number(lo)}, {number(hi)}]"
    middle = lo + half
    if middle == 0:
        return f"0 +/- {number(half, 3)}"
    digits = 3 + max(0, math.ceil(math.log10(abs(middle) / half))) if half else 17
    return f"{number(middle, min(max(digits, 4), 17))} +/- {number(half, 3)}"


def percent(share: float) -> str:
    """A share of one as a percentage with one decimal; never rounds something to nothing, or nearly all to all."""
    if math.isnan(share):
        return "n/a"
    if 0 < share < 0.0005:
        return "<0.1 %"
    if 0.9995 <= share < 1:
        return ">99.9 %"
    if share > 1:
        return f"{100 * share:.3g} %" if math.isfinite(share) else "inf"
    return f"{100 * share:.1f} %"


def index(position: Sequence[int] | None) -> str:
    if position is None:
        return ""
    return f"({', '.join(str(i) for i in position)})" if len(position) != 1 else f"({position[0]},)"


def shape(dtype: str, extents: Sequence[int]) -> str:
    return f"{dtype.removeprefix('torch.')}[{', '.join(str(n) for n in extents)}]"


def place(file: str | None, line: int | None = None, column: int | None = None) -> str:
    """file:line:col, the file relative to the working directory where it lies below it."""
    if not file:
        return ""
    parts = [relative(file)]
    if line is not None:
        parts.append(str(line))
        if column is not None:
            parts.append(str(column))
    return ":".join(parts)


def count(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"
