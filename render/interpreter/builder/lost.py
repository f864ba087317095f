"""Lanes in which an instruction gives nothing: the taint stays with them, and goes where no one looks at them.

`where(n < 32, x >> n, 0)`, padded lanes that divide by zero and are masked off at the store, the half of a triangle
that nothing has written and that a `where` leaves out: such values are fine, and the handle knows which of its lanes
are not. An operation that is not written here hands the taint on for all lanes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from render.interpreter.context import Site
from render.interpreter.handle import NO_TAINT, Handle, Lost

WITHOUT_RULE, ANYTHING = "RND302", "RND316"
"""A lane that no rule gives, and what becomes of it in memory: any number of its type."""


def mark(out: Handle, lanes: np.ndarray, why: frozenset[int]) -> Handle:
    """`out`, new, with these lanes lost for the reason `why`."""
    out.lost = Lost(np.broadcast_to(lanes, out.v.shape), why - out.taint) if why - out.taint else None
    out.taint = out.taint | why
    return out


def folded(out: Handle, x: Handle, axis: int) -> Handle:
    """`out`, new, of which each lane is made of all those of `x` along the axis."""
    if x.lost is not None and out is not x:
        lanes = np.broadcast_to(x.lost.lanes, (x.lost.lanes.shape[0], *x.shape)).any(axis=axis + 1)
        out.lost = Lost(np.broadcast_to(lanes, np.broadcast_shapes(lanes.shape, out.v.shape)), x.lost.why)
    return out


def firm(h: Handle) -> frozenset[int]:
    """The taints of all lanes of the handle."""
    return h.taint if h.lost is None else h.taint - h.lost.why


def lanewise(create: Callable[..., Handle]) -> Callable[..., Handle]:
    """A builder method whose lanes depend on the same lanes of its operands: what one has lost, the result has."""

    @wraps(create)
    def run(self: object, *operands: object) -> Handle:
        out = create(self, *operands)
        for h in operands:
            if isinstance(h, Handle) and h.lost is not None:
                _join(out, [h for h in operands if isinstance(h, Handle)])
                break
        return out

    return run


def _join(out: Handle, operands: list[Handle]) -> None:
    parts = [h.lost for h in (*operands, out) if h.lost is not None]
    why = NO_TAINT.union(*(part.why for part in parts)) - NO_TAINT.union(*map(firm, operands))
    lanes = np.zeros((1,) * out.v.ndim, np.bool_)
    for part in parts:
        lanes = lanes | part.lanes
    out.lost = Lost(np.broadcast_to(lanes, out.v.shape), why) if why else None


def chosen(out: Handle, cond: Handle, x: Handle, y: Handle, surely: np.ndarray, possibly: np.ndarray) -> Handle:
    """`out`, selected from `x` and `y`: lost where a lane that is lost may have been chosen, or the condition is."""
    if x.lost is None and y.lost is None and cond.lost is None:
        return out
    lanes, left, gone = np.zeros((1,) * out.v.ndim, np.bool_), NO_TAINT, NO_TAINT
    if cond.lost is not None:
        lanes, left = cond.lost.lanes, cond.lost.why
    for h, taken in ((x, possibly), (y, ~surely)):
        if h.lost is not None:
            mine = h.lost.lanes & taken
            met = bool(mine.any())
            lanes, left, gone = lanes | mine, left | (h.lost.why if met else NO_TAINT), gone | h.lost.why
    whole = firm(cond) | firm(x) | firm(y)
    out.taint = out.taint - (gone - left - whole)
    if left - whole:
        out.lost = Lost(np.broadcast_to(lanes, out.v.shape), left - whole)
    return out


def only(h: Handle) -> frozenset[int]:
    """The taints of lost lanes alone."""
    return NO_TAINT if h.lost is None else h.lost.why


def kept(ctx: Any, seen: np.ndarray | None, h: Handle) -> Lost | None:
    """The lanes of a store that memory keeps as anything at all, and the taints that stand for why: of lanes that lack
    a rule alone. None where no lane is lost, or the taint says something else besides."""
    if h.lost is None or not ctx.interval:
        return None
    told = [ctx.memory.taints.all[t] for t in h.lost.why]
    lanes = h.lost.lanes if seen is None else h.lost.lanes & seen
    if not lanes.any() or any(t.code != WITHOUT_RULE for t in told):
        return None
    why = (ctx.memory.taint(ANYTHING, t.op, Site(t.file, t.line), t.message) for t in told)
    return Lost(lanes, frozenset(why))


def active(mask: np.ndarray | None, *handles: Handle | None) -> frozenset[int]:
    """The taints of the handles in the lanes of `mask` (None: in all)."""
    out = NO_TAINT
    for h in handles:
        if h is None:
            continue
        unseen = h.lost is not None and mask is not None and not (h.lost.lanes & mask).any()
        out = out | (firm(h) if unseen else h.taint)
    return out
