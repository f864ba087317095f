"""Every place of a run where NaN or infinity is made, also those of which nothing arrives at an output.

One run with values only. A lane counts where it is NaN or infinite and no operand behind it is: lane by lane for
elementwise operations, else any operand lane excuses the result; movements and literals make nothing. What a kernel
stored and loads again was counted where it was made. With all outputs finite, each of these was masked (by a `where`, a
minimum, exp(-inf), a store mask).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from render.explain.nonfinite import is_float
from render.explain.study import Study
from render.interpreter.context import Context
from render.interpreter.events import GIVEN, Listener, listened
from render.interpreter.handle import Handle
from render.result.records import Origin
from render.trace.moves import MOVES
from render.trace.nodes import JOINED
from render.trace.step import title

_TESTS = (("nan", np.isnan, np.isnan), ("inf", np.isinf, lambda v: ~np.isfinite(v)))


def appearances(study: Study) -> list[Origin]:
    """One entry per kind, operation and line, in the order in which they were met."""
    seen = Appearances()
    study.run({"interval": False, "builder": listened(seen)})
    finite = all(np.isfinite(case.value).all() for case in study.cases)
    reach = "masked" if finite else "elsewhere"
    return [replace(found, reach=reach) for found in seen.found.values()]


class Appearances(Listener):
    def __init__(self) -> None:
        self.found: dict[tuple[str, str, str, int], Origin] = {}
        self.launches = -1

    def launched(self, ctx: Context) -> None:
        super().launched(ctx)
        self.launches += 1

    def event(self, op: str, args: Sequence[Any], outs: Sequence[Handle], attrs: Any = None) -> None:
        if op in ("load", "atomic"):
            self._loaded(args[0], args[1 if op == "load" else 3], outs[0])
        elif op not in GIVEN and op not in MOVES and not (isinstance(attrs, dict) and "move" in attrs):
            operands = [a for a in args if isinstance(a, Handle)]
            self._note(title(op), operands[1:] if op == "select" else operands, outs, op not in JOINED)

    def _loaded(self, ptr: Handle, mask: Handle | None, out: Handle) -> None:
        if not is_float(out) or np.isfinite(out.v).all():
            return
        active = np.ones(out.v.shape, bool) if mask is None else np.broadcast_to(mask.full(mask.v), out.v.shape)
        for kind, test, _ in _TESTS:
            bad = test(out.v) & active
            if not bad.any():
                continue
            storage = self.context.memory.find(int(np.broadcast_to(ptr.full(ptr.v), bad.shape)[bad].flat[0]))
            if storage is None or storage.kernel_range is None:
                memory = (storage.name if storage is not None else None) or "unnamed memory"
                self._count(kind, "load", bad, memory)

    def _note(self, name: str, operands: list[Handle], outs: Sequence[Handle], lanewise: bool) -> None:
        for out in outs:
            if not is_float(out) or np.isfinite(out.v).all():
                continue
            for kind, test, harmful in _TESTS:
                bad = test(out.full(out.v))
                for h in operands:
                    if bad.any() and is_float(h):
                        there = harmful(h.full(h.v))
                        bad = bad & ~(there if lanewise and h.shape in (out.shape, ()) and h.shape else there.any())
                if bad.any():
                    self._count(kind, name, bad, "")

    def _count(self, kind: str, name: str, bad: np.ndarray, memory: str) -> None:
        ctx = self.context
        site = ctx.site()
        key = (kind, name, site.file, site.line)
        old = self.found.get(key)
        if old is None:
            row = int(np.argwhere(bad)[0][0]) if bad.shape[0] > 1 else 0
            pid = tuple(int(i) for i in ctx.pids[min(row, len(ctx.pids) - 1)])
            kernel = ""
            old = Origin(kind, name, site.file, site.line, pid, "", memory, kernel, self.launches)
        self.found[key] = replace(old, lanes=old.lanes + int(np.count_nonzero(bad)))
