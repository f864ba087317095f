"""A layer that both sides have, judged some columns or rows at a time, so that E and bounds of all are never held.

What one pass over whole arrays would fetch from memory ten times stays in cache, and of a layer to a large vocabulary
nobody holds more than a part.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from render.interpreter.memory import Envelope
from render.network.capture import Key, Model
from render.network.joined import SumPart
from render.network.judge import LIMIT, Sight, WidthSample
from render.network.layered import At, ConvolutionTwin, LayerTwin, LinearTwin
from render.network.pairs import Pair
from render.network.passed import Passed
from render.network.records import LeafRecord
from render.network.stepped import NormedPart, StepTwin
from render.network.walks import MOVES, UNIT
from render.reference.figures import etas, flat, judged, some


def layer_twins(reference: Model, pairs: Mapping[Key, Pair], keys: Iterable[Key]) -> dict[Key, LayerTwin]:
    """Those results of twins that can be judged in parts."""
    theirs = reference.modules()
    made: dict[Key, LayerTwin] = {}
    for key in keys:
        module, entry, out = theirs.get(pairs[key].other.name), pairs.get(key._replace(way="in")), pairs[key]
        twin = (LinearTwin.of(module, entry, out) or ConvolutionTwin.of(module, entry, out)
                or StepTwin.of(module, entry, out, MOVES))  # fmt: skip
        made |= {} if twin is None else {key: twin}
    return made


def in_columns(sight: Sight, twin: LayerTwin, device: Any, every: bool) -> bool:
    """Whether all is known now, but the reference's error from its own E where the operands differ by much; False: the
    layer is to be judged whole.

    `every`: bounds are wanted whatever the exact values say.
    """
    try:
        parts = _parts(sight, twin, device, every)
    finally:
        twin.let_go()
    if parts is None:
        return False
    _gather(sight, parts)
    return True


class PartRecord(NamedTuple):
    """What is known of a part: errors of both sides, elements beyond the target's bound, bounds that say nothing."""

    eta_target: float
    eta_reference: float
    target_out_target: int
    unbounded: int
    kind: str
    widths: WidthSample | None


def _parts(sight: Sight, twin: LayerTwin, device: Any, every: bool) -> list[PartRecord] | None:
    """All columns, each known; None where one is to be judged with the whole layer."""
    parts: list[PartRecord] = []
    for at, found in twin.parts("target"):
        part = _at_once(sight, twin, at, found, device) if every and not sight.slopes else None
        part = part or _by_steps(sight.part(partial(twin.cut, at=at)), found, device, every)
        if part is None:
            return None
        parts.append(part)
    return parts


def _at_once(sight: Sight, twin: LayerTwin, at: At, found: Any, device: Any) -> PartRecord | None:
    """A part in which nothing is large or outside, in one pass over its elements; None of others."""
    sides = (sight.pair.target[sight.place], sight.pair.reference[sight.place])
    y, z = (flat(twin.cut(t, at)) for t in sides)
    if isinstance(found, (NormedPart, SumPart)):
        return _in_one_pass(sight, found.passed(y, z, sight.units, device))
    bounds = found.bounds(device)
    if bounds is None:
        return None
    exact, moved = (t.numpy().reshape(-1) for t in (found.value, found.moved(UNIT)))
    lo, hi = (np.ascontiguousarray(np.broadcast_to(e, found.value.shape), np.float64).reshape(-1) for e in bounds.pair)
    seen = judged(y, z, exact, moved, (lo, hi), sight.units)
    if seen.target > LIMIT or seen.reference_out or not seen.finite:
        return None
    reference = seen.reference
    if reference > LIMIT and (own := found.of_other()) is not None:
        wide, shift = own.numpy().reshape(-1), found.other_moved()
        shift = moved if shift is None else shift.numpy().reshape(-1)
        reference = etas(wide, z, wide, moved, wide, shift, sight.units, math.inf).reference
        if reference > LIMIT:
            return None
    widths = sight.widths_of(*map(some, (y, exact, moved, lo, hi)))
    return PartRecord(seen.target, reference, seen.target_out, seen.unbounded, LeafRecord.kind, widths)


def _in_one_pass(sight: Sight, seen: Passed | None) -> PartRecord | None:
    if seen is None or seen.target > LIMIT or seen.reference_out or not seen.finite:
        return None
    reference = seen.reference if seen.reference <= LIMIT else seen.own
    if reference > LIMIT:
        return None
    y, exact, moved, lo, hi = seen.sample
    widths = sight.widths_of(y, exact, moved, lo, hi)
    return PartRecord(seen.target, reference, seen.target_out, seen.unbounded, LeafRecord.kind, widths)


def _by_steps(part: Sight, found: Any, device: Any, every: bool) -> PartRecord | None:
    part.of_reference((found.value.numpy(), found.moved(UNIT).numpy(), False))
    part.stability(own=False)
    if part.record.eta_target > LIMIT or len(part.hollow()):
        return None
    if part.record.eta_reference > LIMIT and (own := found.of_other()) is not None:
        shift = found.other_moved()
        part.of_own((own.numpy(), None if shift is None else shift.numpy(), False))
        part.stability(own=True)
        if part.record.unstable:
            return None
        part.own = None
    if every or not part.settled():
        bounds = found.bounds(device)
        if bounds is None:
            return None
        part.of_bound("target", Envelope(bounds.lo, bounds.hi, np.ones(1, np.bool_), True, frozenset()), ())
    if part.asks_reference():
        return None
    r = part.record
    return PartRecord(r.eta_target, r.eta_reference, r.target_out_target, r.unbounded, r.kind, part.widths)


def own_in_columns(sight: Sight, twin: LayerTwin) -> None:
    """The reference's error from its own E; whole where it is large, for more is asked then."""
    parts: list[Sight] = []
    for at, found in twin.parts("reference"):
        part = sight.part(partial(twin.cut, at=at))
        part.exact, part.moved = None, found.moved(UNIT).numpy()
        part.of_own((found.value.numpy(), None, False))
        part.stability(own=True)
        parts.append(part)
    sight.record.eta_reference = max(p.record.eta_reference for p in parts)
    if any(p.record.unstable for p in parts):
        for take, side in ((sight.of_reference, "target"), (sight.of_own, "reference")):
            value, moved = (x.numpy() for x in twin.exact(UNIT, side))
            take((value, moved, False))
        sight.stability(own=True)


def _gather(sight: Sight, parts: Sequence[PartRecord]) -> None:
    """The whole record, of those of its parts."""
    record = sight.record
    each: dict[str, Callable[..., float]] = {
        "eta_target": max, "eta_reference": max, "target_out_target": sum, "unbounded": sum,
    }  # fmt: skip
    for name, merge in each.items():
        setattr(record, name, merge(getattr(p, name) for p in parts))
    record.kind = next((p.kind for p in parts if p.kind != LeafRecord.kind), record.kind)
    sight.followed = True
    known = [p.widths for p in parts if p.widths is not None]
    if len(known) == 1:
        known[0].into(record)
    elif known:
        whole = (
            some(np.concatenate([np.atleast_1d(x) for x in xs if x is not None])) for xs in zip(*known, strict=True)
        )
        WidthSample(*whole).into(record)


__all__ = ["in_columns", "layer_twins", "own_in_columns"]
