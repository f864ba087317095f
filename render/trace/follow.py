"""Into earlier launches: leaves with a bound that a launch before stored are replaced by what made them.

One more run per level, of everything up to that launch, which then records the programs in question. A leaf whose
re-run does not give its bound again, bit for bit, stays a leaf.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from render.entry.execution import FAILURES
from render.entry.execution import Entry as Call
from render.trace.graph import is_earlier, joined
from render.trace.model import NotSliceable, Slice
from render.trace.places import Place, places
from render.trace.recorder import Recorder
from render.trace.roots import Root, roots

LEVELS = 4
"""Runs that are made to follow slices backwards, launch by launch."""

LEAVES = 4096
"""Leaves of one launch that are followed."""


@dataclass(frozen=True, eq=False)
class _Leaf:
    number: int
    ends: tuple[float, float, float]
    place: Place

    @property
    def target(self) -> tuple[str | None, int]:
        return self.place.name, self.place.offset


def follow(call: Call, found: Sequence[Slice], known: Recorder | None = None) -> list[Slice]:
    """The slices with earlier launches in them, as far as they can be followed.

    One run per level serves all slices; none is needed for launches of which `known` holds all programs.
    """
    slices = list(found)
    tried: list[set[int]] = [set() for _ in slices]
    runs = 0
    while runs < LEVELS:
        wanted = [_by_launch(one, done) for one, done in zip(slices, tried, strict=True)]
        launch = max((launch for leaves in wanted for launch in leaves), default=None)
        if launch is None:
            break
        mine = [leaves.get(launch, []) for leaves in wanted]
        for done, leaves in zip(tried, mine, strict=True):
            done |= {launch} if leaves else set()
        recorder = known
        if known is None or not known.holds(launch):
            recorder, runs = _recorded(call, mine, launch), runs + 1
        if recorder is not None:
            slices = _replaced(recorder.of(launch), slices, mine)
            if recorder is not known:
                recorder.close()
    return slices


def _by_launch(found: Slice, tried: set[int]) -> dict[int, list[_Leaf]]:
    """The leaves that an earlier launch stored, by launch."""
    out: dict[int, list[_Leaf]] = {}
    for leaf in _leaves(found):
        if leaf.place.name is not None and leaf.place.launch not in tried:
            out.setdefault(leaf.place.launch, []).append(leaf)
    return {launch: leaves[:LEAVES] for launch, leaves in out.items()}


def _recorded(call: Call, wanted: Sequence[list[_Leaf]], launch: int) -> Recorder | None:
    """None where there is more than a recording keeps, programs wait, or the entry does not do the same twice."""
    from render.trace.element import record

    programs = np.unique(np.concatenate([x.place.programs for leaves in wanted for x in leaves]))
    recorder = Recorder({launch: programs})
    with contextlib.suppress(*FAILURES):  # of a host that reads what the programs left out would have stored
        record(call, recorder)
    return None if recorder.full or recorder.waits or recorder.launch < launch else recorder


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


def _replaced(recorder: Recorder, slices: list[Slice], wanted: Sequence[list[_Leaf]]) -> list[Slice]:
    """The slices with these leaves cut out of the recording; as they are where that fails."""
    targets = list(dict.fromkeys(x.target for leaves in wanted for x in leaves))  # many are those of several slices
    try:
        cutter, made = roots(recorder, targets)
    except NotSliceable:
        return slices
    found, of = [], dict(zip(targets, made, strict=True))
    for one, leaves in zip(slices, wanted, strict=True):
        instead = {
            x.number: root.number
            for x in leaves
            if isinstance(root := of[x.target], Root) and np.array_equal(root.ends, x.ends, equal_nan=True)
        }
        found.append(joined(one, cutter.nodes, instead) if instead else one)
    return found
