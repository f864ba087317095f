"""How the bound grows through the kernel: the relative width of every result, per source line.

Recorded by a re-run with bounds. Width of a result: median over its elements of (hi - lo) / |mid|, points 0; elements
without a finite bound or with midpoint 0 (padding, above all) are left out. A line shows its widest operation, beside
the widest value that went into the line. A chain of dots is one pending sum, so its width is taken once, from its last
result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from render.explain.study import Study
from render.interpreter.context import Site
from render.interpreter.events import GIVEN, Listener, listened
from render.interpreter.handle import Handle
from render.result.records import LineWidth
from render.trace.step import title

_LIMIT = 1 << 16
"""Elements of one result that are looked at: every so-manyth of a larger one."""


def line_widths(study: Study) -> list[LineWidth]:
    """One entry per line that makes float results, in file order."""
    widths = Widths()
    study.run({"builder": listened(widths)})
    return widths.table()


def relative_width(h: Handle) -> float:
    """Median relative width; 0 for a point, NaN where no element has one."""
    if h.is_point:
        return 0.0
    lo, hi = (np.asarray(end, np.float64).reshape(-1) for end in h.pair)
    step = max(1, max(lo.size, hi.size) // _LIMIT)
    if lo.size == hi.size:
        lo, hi = lo[::step], hi[::step]
    with np.errstate(all="ignore"):
        width = hi - lo
        relative = width / np.abs(lo + width / 2)  # 0 / 0 for an exact zero: mostly padding
    known = relative[np.isfinite(relative)]
    return float(np.median(known)) if known.size else float("nan") if width.any() else 0.0


class Widths(Listener):
    def __init__(self) -> None:
        self._seen: dict[tuple[Site, str], list[tuple[float, float]]] = {}
        self._pending: dict[tuple[Site, str], Handle] = {}
        self._line: Site | None = None
        self._made: list[tuple[Handle, float]] = []

    def event(self, op: str, args: Sequence[Any], outs: Sequence[Handle], attrs: Any = None) -> None:
        if op not in GIVEN:
            accessed = op in ("load", "atomic")
            self._note(title(op), [] if accessed else [a for a in args if isinstance(a, Handle)], outs)

    def _note(self, name: str, operands: list[Handle], outs: Sequence[Handle]) -> None:
        floats = [o for o in outs if _is_float(o)]
        if not floats:
            return
        key = (self.context.site(), name)
        if key[0] != self._line:
            self._line, self._made = key[0], []
        if any(o.pend is not None for o in floats):
            # Asking for its width would end the chain; what came before it in the chain is part of it.
            self._pending[key] = next(o for o in floats if o.pend is not None)
            return
        before = max((self._entering(h) for h in operands if _is_float(h) and h.pend is None), default=0.0)
        after = max((relative_width(o) for o in floats), default=0.0)
        self._made += [(o, before) for o in floats]
        self._seen.setdefault(key, []).append((after, before))

    def _entering(self, h: Handle) -> float:
        """Width of an operand; of one that the same line has just made, the width of what went into that."""
        for made, before in self._made:
            if made is h:
                return before
        return relative_width(h)

    def table(self) -> list[LineWidth]:
        for key, handle in self._pending.items():
            self._seen.setdefault(key, []).append((relative_width(handle), 0.0))
        self._pending.clear()
        best: dict[Site, LineWidth] = {}
        for (site, name), pairs in self._seen.items():
            after, before = (_median([p[i] for p in pairs]) for i in (0, 1))
            found = LineWidth(site.file, site.line, name, after, before, len(pairs))
            old = best.get(site)
            if old is None or not found.relative <= old.relative:
                best[site] = found
        return sorted((b for s, b in best.items() if s.line), key=lambda b: (b.file, b.line))


def _median(values: list[float]) -> float:
    known = [v for v in values if not np.isnan(v)]
    return float(np.median(known)) if known else float("nan")


def _is_float(h: Handle) -> bool:
    scalar = h.dtype.scalar
    return not scalar.is_ptr() and bool(scalar.is_floating())
