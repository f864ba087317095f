"""What tells two or more verdicts apart: the rows of a table with a column for each."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from textwrap import wrap
from typing import TYPE_CHECKING

from render.report.text import number, place, shape

if TYPE_CHECKING:
    from render.result.verdict import OutputVerdict, Verdict

_WIDE = 48
_FACTS: tuple[tuple[str, Callable[[Verdict], str]], ...] = (
    ("verdict", lambda v: f"{v.headline} {v.code}"),
    ("kernel", lambda v: ", ".join(v.kernels)),
    ("grid", lambda v: str(v.grid) if v.grid else ""),
    ("reference", lambda v: v.reference),
    ("device", lambda v: v.device),
    ("place", lambda v: place(v.file, v.line or None) if v.file else ""),
    (
        "largest cause",
        lambda v: max(v.budget, key=lambda i: i.share).cause if v.budget and v.label != "Type-II" else "",
    ),
    ("versions", lambda v: ", ".join(f"{name} {version}" for name, version in v.versions.items())),
)
_FIGURES: tuple[tuple[str, Callable[[OutputVerdict], float]], ...] = (
    ("fails allclose", lambda o: o.allclose_mismatch),
    ("outside the bound", lambda o: max(o.outside_reference, o.outside_exact, o.outside_device or 0)),
    ("largest difference", lambda o: o.max_abs_diff),
    ("worst share of the bound, %", lambda o: 100 * o.worst_usage),
    ("median half width", lambda o: o.bound.median_half_width),
    ("largest half width", lambda o: o.bound.max_half_width),
)


def beside(verdicts: Sequence[Verdict]) -> Iterator[tuple[str, ...]]:
    """Facts that differ, all figures of each output, and how the second verdict's relate to the first's."""
    for name, fact in _FACTS:
        said = [fact(v) for v in verdicts]
        if name == "verdict" or len(set(said)) > 1:
            yield name, *said
    shared = set.intersection(*(set(v.assumptions) for v in verdicts))
    for own in zip_longest(*([a for a in v.assumptions if a not in shared] for v in verdicts), fillvalue=""):
        yield "assumes", *own
    for output in dict.fromkeys(o.name for v in verdicts for o in v.outputs):
        found = [next((o for o in v.outputs if o.name == output), None) for v in verdicts]
        yield output, *(shape(o.dtype, o.shape) if o else "not compared" for o in found)
        for name, figure in _FIGURES:
            numbers = [math.nan if o is None else figure(o) for o in found]
            words = ["" if math.isnan(x) else number(x, 4) for x in numbers]
            ratios = [_times(x, numbers[0]) for x in numbers[1:]]
            yield f"  {name}", *(word + ratio for word, ratio in zip(words, ["", *ratios], strict=True))


def _times(x: float, first: float) -> str:
    """The ratio to the first, where it says something."""
    if not (math.isfinite(x) and math.isfinite(first)) or first <= 0 or x <= 0 or x == first:
        return ""
    return f"  ({number(x / first, 3)}x)"


def columns(verdicts: Sequence[Verdict], names: Sequence[str]) -> str:
    """The table as text."""
    rows = [[wrap(cell, _WIDE) or [""] for cell in row] for row in (("", *names), *beside(verdicts))]
    widths = [max(len(line) for cell in column for line in cell) for column in zip(*rows, strict=True)]
    lines = (line for row in rows for line in zip_longest(*row, fillvalue=""))
    texts = ("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)
    return "".join(f"{text.rstrip()}\n" for text in texts)
