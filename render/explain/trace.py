"""The walk back from one output element over what the programs did, through as many launches as needed.

Values only, unless bounds are asked for. A first run keeps the addresses of all stores and finds the last one that hit
the element. Then that program runs first, alone, with a tape, and the walk back over the tape ends at its loads. Where
the caller wants to know what made one of the loaded elements and an earlier launch stored it, that program is taped as
well, in one more run: addresses differ from run to run, so what is compared comes from the same one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from render.entry.execution import Execution
from render.explain.study import Study
from render.explain.tape import Node, Reached, Tape, walk_back
from render.explain.watching import Listener, watched
from render.interpreter.context import Context, Site
from render.interpreter.handle import Handle
from render.result.errors import RenderError

DEPTH = 8
"""Launches that a walk goes through at most; each one costs a run."""

Writer = tuple[int, int, Site]
"""Launch number, program number, line."""
Follow = Callable[["Hop"], int | None]
"""The address of a loaded element whose maker is asked for."""


@dataclass
class _Event:
    launch: int
    linear: np.ndarray
    ptr: np.ndarray
    mask: np.ndarray | None
    site: Site


@dataclass
class Stores(Listener):
    """The addresses of every store, in order."""

    events: list[_Event] = field(default_factory=list)
    launches: int = -1

    def launched(self, ctx: Context) -> None:
        self.launches += 1

    def stored(self, ctx: Context, ptr: Handle, value: Handle, mask: Handle | None, atomic: bool) -> None:
        active = None if mask is None else mask.full(mask.v)
        self.events.append(_Event(self.launches, ctx.linear, ptr.full(ptr.v), active, ctx.site()))

    def writers(self, place: int, before: int | None = None) -> list[Writer]:
        """Every store to this address (of launches before number `before`), in order."""
        found = []
        for event in self.events:
            if before is not None and event.launch >= before:
                break
            hit = event.ptr == place
            if event.mask is not None:
                hit = hit & event.mask
            rows = np.flatnonzero(hit.reshape(hit.shape[0], -1).any(axis=1))
            if not rows.size:
                continue
            shared = hit.shape[0] == 1 and len(event.linear) > 1
            programs = event.linear if shared else event.linear[rows]
            found += [(event.launch, int(p), event.site) for p in programs]
        return list(dict.fromkeys(found))


@dataclass(frozen=True)
class Hop:
    """One program on the way: its operations from the store that was asked about back to its loads.

    `record` is what the session knows of the launch, `met` whether the store was met again.
    """

    launch: int
    pid: tuple[int, ...]
    record: Any
    reached: list[Reached]
    met: bool


@dataclass(frozen=True)
class Trace:
    """The hops, the launch of the element's own store first, and the run that holds their memory."""

    writers: list[Writer]
    hops: list[Hop]
    run: Execution
    stores: Stores

    def tensor_of(self, node: Node) -> str:
        """The tensor that a load reads first."""
        assert node.ptr is not None and node.active is not None
        return named(self.run, int(node.ptr[node.active].flat[0])) if node.active.any() else ""


def trace(study: Study, output: str, index: Sequence[int], follow: Follow | None = None, bounds: bool = False) -> Trace:
    """Raises RenderError for an output or element that does not exist, or that no kernel stored."""
    stores = Stores()
    run = study.run({"interval": False, "builder": watched(stores)})
    index = tuple(int(i) for i in index)
    writers = stores.writers(place_of(run, output, index))
    if not writers:
        raise RenderError("RND905", f"no kernel stored {output}{list(index)}", "it is what the host left there")
    launch, program, _ = writers[-1]
    targets = {launch: program}
    while True:
        tape, stores = Tape(targets), Stores()
        again = study.run({"interval": bounds, "builder": watched(Several(tape, stores))})
        hops, earlier = _walk(tape, stores, again, launch, place_of(again, output, index), follow)
        if earlier is None or len(targets) == DEPTH:
            return Trace(writers, hops, again, stores)
        targets[earlier[0]] = earlier[1]


def _walk(
    tape: Tape, stores: Stores, run: Execution, launch: int, place: int, follow: Follow | None
) -> tuple[list[Hop], Writer | None]:
    """(hops as far as there is a tape, the writer that should be taped next)."""
    hops: list[Hop] = []
    while True:
        nodes = tape.nodes.get(launch, [])
        start = _last_store(nodes, place)
        reached = [] if start is None else list(walk_back(nodes, start, nodes[start].hits(place)))
        pid = tape.pids.get(launch, (tape.targets[launch],))
        hops.append(Hop(launch, pid, run.session.launches[launch], reached, start is not None))
        wanted = None if follow is None else follow(hops[-1])
        earlier = [] if wanted is None else stores.writers(wanted, before=launch)
        if wanted is None or not earlier:
            return hops, None
        launch, place = earlier[-1][0], wanted
        if launch not in tape.targets:
            return hops, earlier[-1]
        if tape.targets[launch] != earlier[-1][1]:  # another program of a launch that is taped: one is enough
            return hops, None


class Several(Listener):
    """Passes everything on to several listeners; the first of them decides which program runs first."""

    def __init__(self, leading: Listener, *others: Listener) -> None:
        self.leading, self.all = leading, (leading, *others)

    def launched(self, ctx: Context) -> None:
        for listener in self.all:
            listener.launched(ctx)
        self.first = self.leading.first

    def op(self, *report: Any) -> None:
        for listener in self.all:
            listener.op(*report)

    def reduced(self, *report: Any) -> None:
        for listener in self.all:
            listener.reduced(*report)

    def loaded(self, *report: Any) -> None:
        for listener in self.all:
            listener.loaded(*report)

    def stored(self, *report: Any) -> None:
        for listener in self.all:
            listener.stored(*report)


def place_of(run: Execution, output: str, index: tuple[int, ...]) -> int:
    """Byte address of an element."""
    for found in run.outputs:
        if found.name == output:
            tensor = found.tensor
            if len(index) != tensor.dim() or any(not -n <= i < n for i, n in zip(index, tensor.shape, strict=True)):
                raise RenderError("RND903", f"{output} has shape {list(tensor.shape)}, not an element {list(index)}")
            steps = (i % n * s for i, n, s in zip(index, tensor.shape, tensor.stride(), strict=True))
            return found.address + sum(steps) * tensor.element_size()
    names = ", ".join(o.name for o in run.outputs)
    raise RenderError("RND903", f"no output {output!r}", f"there are: {names}")


def _last_store(nodes: list[Node], place: int) -> int | None:
    for i in range(len(nodes) - 1, -1, -1):
        node = nodes[i]
        if node.op in ("store", "atomic") and bool(node.hits(place).any()):
            return i
    return None


def named(run: Execution, place: int) -> str:
    """The tensor at an address."""
    storage = run.session.memory.find(place)
    return (storage.name if storage is not None else None) or "unnamed memory"
