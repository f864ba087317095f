"""Into earlier launches: leaves with a bound that a launch before stored are replaced by what made them.

One more run per level, of everything up to that launch, which then records the programs in question. A leaf whose
re-run does not give its bound again, bit for bit, stays a leaf.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from render.execution import Entry as Call
from render.slice.graph import is_earlier, joined
from render.slice.model import NotSliceable, Slice
from render.slice.places import Place, places
from render.slice.recorder import Recorder
from render.slice.roots import Root, roots

LEVELS = 4
"""Launches that are followed backwards, one behind the other."""

LEAVES = 4096
"""Leaves of one launch that are followed."""


@dataclass(frozen=True, eq=False)
class _Leaf:
    number: int
    ends: tuple[float, float, float]
    place: Place


def follow(call: Call, found: Slice) -> Slice:
    """The slice with earlier launches in it, as far as they can be followed."""
    tried: set[int] = set()
    for _ in range(LEVELS):
        leaves = [x for x in _leaves(found) if x.place.name is not None and x.place.launch not in tried]
        if not leaves:
            return found
        launch = max(x.place.launch for x in leaves)
        tried.add(launch)
        mine = [x for x in leaves if x.place.launch == launch][:LEAVES]
        try:
            found = _replaced(call, found, launch, mine)
        except NotSliceable:
            continue
    return found


def _leaves(found: Slice) -> Iterator[_Leaf]:
    for node in found.nodes:
        if not is_earlier(node) or "writers" not in node.attrs:
            continue
        for k, at in enumerate(node.attrs["addresses"].tolist()):
            try:
                place = next(places(node.attrs["writers"], at, node.attrs["base"]), None)
            except NotSliceable:
                continue
            if place is not None:
                ends = (float(node.v[k]), float(node.lo[k]), float(node.hi[k]))
                yield _Leaf(node.start + k, ends, place)


def _replaced(call: Call, found: Slice, launch: int, leaves: list[_Leaf]) -> Slice:
    from render.slice.element import record

    recorder = Recorder({launch: np.unique(np.concatenate([x.place.programs for x in leaves]))})
    record(call, recorder)
    if recorder.full:
        return found
    cutter, made = roots(recorder, [(x.place.name, x.place.offset) for x in leaves])
    instead = {
        x.number: root.number
        for x, root in zip(leaves, made, strict=True)
        if isinstance(root, Root) and np.array_equal(root.ends, x.ends, equal_nan=True)
    }
    return joined(found, cutter.nodes, instead) if instead else found
