"""What one recorded operation reads: for each wanted lane of a result, the lanes of its operands."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from interval_ops.formats.casting import holds
from interval_ops.formats.model import FORMATS
from render.interpreter.events import GIVEN
from render.interpreter.handle import Handle
from render.ops.library import CONVERSIONS
from render.ops.rule import Shape
from render.ops.table import CASTS
from render.trace import integers, joins
from render.trace.model import ABSENT, NotSliceable
from render.trace.moves import MOVES, at_lanes, lanes_of, moved
from render.trace.nodes import NODES
from render.trace.recorder import Recorded
from render.trace.step import Link, Step, aligned, where

if TYPE_CHECKING:
    from render.trace.walk import Walk


def step_of(walk: Walk, entry: Recorded, out: int, wanted: np.ndarray) -> Step:
    """Raises NotSliceable for an operation that is not known."""
    op = entry.op
    if op in GIVEN:
        return Step([])
    if op in MOVES or "move" in entry.attrs:
        return Step(list(zip(_data(entry), moved(entry, out, wanted), strict=True)))
    if integers.is_integer(entry.outs[0]) and op in integers.CUTS:
        return _same(entry, wanted, integers.CUT)
    if op in integers.OPERATIONS and integers.is_integer(entry.args[0]):
        return _same(entry, wanted, f"int {op}")
    if op == "int_cast" and integers.is_integer(entry.outs[0]):
        return _same(entry, wanted, "from_truth")
    if rule := _RULES.get(op):
        return rule(walk, entry, out, wanted)
    if op not in NODES:
        raise NotSliceable(op, "it is not known which values its result depends on", *where(entry))
    return _same(entry, wanted, op)


def _data(entry: Recorded) -> tuple[Handle, ...]:
    return entry.args[:1] if entry.op == "gather" else entry.args


def _same(entry: Recorded, wanted: np.ndarray, op: str, **attrs: Any) -> Step:
    out = entry.outs[0]
    return Step([(h, aligned(h, out, wanted)) for h in entry.args], op, {**entry.attrs, **attrs})


def _cast(walk: Walk, entry: Recorded, out: int, wanted: np.ndarray) -> Step:
    step = _same(entry, wanted, "cast")
    return Step(step.links) if holds(FORMATS[entry.attrs["dst"]], FORMATS[entry.attrs["src"]]) else step


def _from_integer(walk: Walk, entry: Recorded, out: int, wanted: np.ndarray) -> Step:
    truth = entry.args[0].dtype.scalar.is_int1()
    return _same(entry, wanted, "from_truth" if truth else "from_integer")


def _bits(walk: Walk, entry: Recorded, out: int, wanted: np.ndarray) -> Step:
    """Bits of an exact value are exact; those of a bounded one are tainted anyway."""
    walk.note("bits reinterpreted as a number are taken as the run has them")
    return Step([], reads=[(h, aligned(h, entry.outs[0], wanted)) for h in entry.args])


def _select(walk: Walk, entry: Recorded, out: int, wanted: np.ndarray) -> Step:
    cond, x, y = entry.args
    h = entry.outs[0]
    at, at_x, at_y = (aligned(a, h, wanted) for a in (cond, x, y))
    if id(cond) in walk.recorder.soft:
        return Step([(cond, at), (x, at_x), (y, at_y)], "select", {})
    truth = at_lanes(cond, cond.v, at).astype(bool)
    return Step([(x, np.where(truth, at_x, ABSENT)), (y, np.where(truth, ABSENT, at_y))])


def _load(walk: Walk, entry: Recorded, out: int, wanted: np.ndarray) -> Step:
    h = entry.outs[0]
    ptr, active = entry.attrs["ptr"], entry.attrs["active"]
    full = np.unravel_index(wanted, (h.computed.shape[0], *h.shape))
    addresses, on = ptr[full], active[full]
    links = [(o, np.where(on, ABSENT, aligned(o, h, wanted))) for o in entry.args]
    low, high = integers.bounds(h)
    stored = on if walk.through_memory else on & (at_lanes(h, low, wanted) != at_lanes(h, high, wanted))
    if stored.any():
        links += _earlier(walk, entry, addresses, stored)
    return Step(links, attrs={"addresses": np.where(on, addresses, 0)})


def _earlier(walk: Walk, entry: Recorded, addresses: np.ndarray, bounded: np.ndarray) -> list[Link]:
    """What recorded stores put at these addresses before, if the last of them was a plain store."""
    links: list[Link] = []
    open_ = bounded.copy()
    place, first, last = walk.stored
    lowest, highest = int(addresses[bounded].min()), int(addresses[bounded].max())
    near = np.flatnonzero((place < walk.place[id(entry)]) & (last >= lowest) & (first <= highest))
    for k in near[::-1].tolist():
        store = walk.stores[k]
        ptr, active = store.attrs["ptr"], store.attrs["active"]
        hit = active & np.isin(ptr, addresses[open_])
        if not hit.any():
            continue
        value = store.args[0] if store.args else None
        places = np.flatnonzero(hit.reshape(-1))
        order = np.argsort(ptr.reshape(-1)[places], kind="stable")
        known = ptr.reshape(-1)[places][order]
        at = np.searchsorted(known, addresses, side="right") - 1
        found = open_ & (at >= 0) & (known[np.maximum(at, 0)] == addresses)
        if store.op == "store" and value is not None:
            lanes = places[order][np.maximum(at, 0)]
            lanes = lanes if value.computed.shape[0] == ptr.shape[0] else lanes % lanes_of(value)
            links.append((value, np.where(found, lanes, ABSENT)))
        open_ &= ~found
        if not open_.any():
            break
    return links


def _fadd(walk: Walk, entry: Recorded, out: int, wanted: np.ndarray) -> Step:
    if "fold" not in entry.attrs:
        return _same(entry, wanted, "fadd")
    step = _same(entry, wanted, "fold")
    links = step.links if entry.attrs["fold"] == 1 else step.links[::-1]
    return Step(links, "fold", {k: v for k, v in entry.attrs.items() if k != "fold"})


def _order(walk: Walk, entry: Recorded, out: int, wanted: np.ndarray) -> Step:
    raise NotSliceable(entry.op, "what it returns depends on the order of the programs", *where(entry))


_RULES: dict[str, Callable[[Walk, Recorded, int, np.ndarray], Step]] = {
    **dict.fromkeys(CASTS, _cast),
    "si_to_fp": _from_integer,
    "ui_to_fp": _from_integer,
    "bitcast": _bits,
    "fadd": _fadd,
    "select": _select,
    "load": _load,
    **{f"library {name}": _bits for name, rule in CONVERSIONS.items() if rule.shape is Shape.BITS},
    "reduce": joins.reduced,
    "scan": joins.scanned,
    "recurrence": joins.recurrence,
    "welford": joins.welford,
    "ranked": joins.ranked,
    "dot": joins.dot,
    "scaled": joins.scaled,
    "returned": _order,
}
