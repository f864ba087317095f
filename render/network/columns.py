"""A layer that both sides have, judged some columns or rows at a time, so that E and bounds of all are never held.

What one pass over whole arrays would fetch from memory ten times stays in cache, and of a layer to a large vocabulary
nobody holds more than a part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from render.interpreter.memory import Envelope
from render.network.capture import Key, Model
from render.network.judge import LIMIT, Sight, WidthSample
from render.network.layered import ConvolutionTwin, LayerTwin, LinearTwin
from render.network.pairs import Pair
from render.network.records import LeafRecord
from render.network.stepped import StepTwin
from render.network.walks import MOVES, UNIT
from render.reference.figures import some


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


def _parts(sight: Sight, twin: LayerTwin, device: Any, every: bool) -> list[Sight] | None:
    """All columns, each known; None where one is to be judged with the whole layer."""
    parts: list[Sight] = []
    for at, found in twin.parts("target"):
        part = sight.part(partial(twin.cut, at=at))
        part.of_reference((found.value.numpy(), found.moved(UNIT).numpy(), False))
        part.stability(own=False)
        if part.record.eta_target > LIMIT or len(part.hollow()):
            return None
        if part.record.eta_reference > LIMIT and (own := found.of_other()) is not None:
            part.of_own((own.numpy(), None, False))
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
        part.let_go()
        parts.append(part)
    return parts


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


def _gather(sight: Sight, parts: Sequence[Sight]) -> None:
    """The whole record, of those of its parts."""
    record, found = sight.record, [p.record for p in parts]
    each: dict[str, Callable[..., float]] = {
        "eta_target": max, "eta_reference": max, "target_out_target": sum, "unbounded": sum,
    }  # fmt: skip
    for name, merge in each.items():
        setattr(record, name, merge(getattr(r, name) for r in found))
    record.kind = next((r.kind for r in found if r.kind != LeafRecord.kind), record.kind)
    sight.followed = True
    known = [p.widths for p in parts if p.widths is not None]
    if known:
        whole = (
            some(np.concatenate([np.atleast_1d(x) for x in xs if x is not None])) for xs in zip(*known, strict=True)
        )
        WidthSample(*whole).into(record)


__all__ = ["in_columns", "layer_twins", "own_in_columns"]
