"""The walk back from one output element over what the programs did, through as many launches as needed.

Values only, unless bounds are asked for. A first run keeps the addresses of all stores and finds the last one that hit
the element. Then that program runs first, alone, and is recorded whole; the walk back (`render.trace.dependence`) ends
at its loads. Where the caller wants to know what made one of the loaded elements and an earlier launch stored it, that
program is recorded as well, in one more run: addresses differ from run to run, so what is compared comes from the same
one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any

import numpy as np

from render.entry.execution import Execution
from render.explain.study import Study
from render.interpreter.context import Context, Site
from render.interpreter.events import Listener, listened
from render.interpreter.handle import Handle
from render.result.errors import RenderError
from render.trace.dependence import Dependence, Reached
from render.trace.recorder import Recorder

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
        super().launched(ctx)
        self.launches += 1

    def event(self, op: str, args: Sequence[Any], outs: Sequence[Handle], attrs: Any = None) -> None:
        if op not in ("store", "atomic") or args[1] is None:
            return
        ptr, mask, ctx = args[0], args[-1], self.context
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


class Programs(Recorder):
    """Records one program each of some launches (`targets`: launch -> program), which runs first and alone."""

    first_alone = True

    def __init__(self, targets: Mapping[int, int]) -> None:
        super().__init__({}, run_all=True)
        self.targets = dict(targets)
        self.everything, self.limit = True, inf
        self.pids: dict[int, tuple[int, ...]] = {}

    def launched(self, ctx: Context) -> None:
        self.programs[self.launch + 1] = None
        super().launched(ctx)

    def order(self, usual: np.ndarray) -> np.ndarray:
        mine = usual == self.targets.get(self.launch, -1)
        return np.concatenate([usual[mine], usual[~mine]])

    def begin_pass(self, linear: np.ndarray) -> None:
        self._recording = linear.tolist() == [self.targets.get(self.launch, -1)]
        if self.on:
            self.pids[self.launch] = tuple(int(i) for i in self.context.pids[0])
            self.begin(linear)


@dataclass(frozen=True)
class Hop:
    """One program on the way: what it did from its loads to the store that was asked about, the last result first.

    `record` is what the session knows of the launch, `met` whether the store to `place` was met again.
    """

    launch: int
    pid: tuple[int, ...]
    record: Any
    reached: list[Reached]
    met: bool
    walk: Dependence
    place: int


@dataclass(frozen=True)
class Trace:
    """The hops, the launch of the element's own store first, and the run that holds their memory."""

    writers: list[Writer]
    hops: list[Hop]
    run: Execution
    stores: Stores

    def tensor_of(self, found: Reached) -> str:
        """The tensor that a load reads first; "" for another operation."""
        return named(self.run, int(found.outside[0])) if found.outside.size else ""


def trace(
    study: Study, output: str, index: Sequence[int], follow: Follow | None = None, bounds: bool = False,
    place: Callable[[Execution], int] | None = None, options: Mapping[str, Any] | None = None,
) -> Trace:  # fmt: skip
    """Raises RenderError for an output or element that does not exist, or that no kernel stored.

    `place` gives the address of another element in a run, which is made with further `options`.
    """
    stores, options = Stores(), dict(options or {})
    run = study.run({"interval": False, "builder": listened(stores), **options})
    index = tuple(int(i) for i in index)
    place = place or (lambda run: place_of(run, output, index))
    writers = stores.writers(place(run))
    if not writers:
        raise RenderError("RND905", f"no kernel stored {output}{list(index)}", "it is what the host left there")
    launch, program, _ = writers[-1]
    targets = {launch: program}
    while True:
        recorder, stores = Programs(targets), Stores()
        again = study.run({"interval": bounds, "builder": listened(recorder, stores), **options})
        hops, earlier = _walk(recorder, stores, again, launch, place(again), follow)
        if earlier is None or len(targets) == DEPTH:
            return Trace(writers, hops, again, stores)
        targets[earlier[0]] = earlier[1]


def _walk(
    recorder: Programs, stores: Stores, run: Execution, launch: int, place: int, follow: Follow | None
) -> tuple[list[Hop], Writer | None]:
    """(hops as far as there is a recording, the writer that should be recorded next)."""
    hops: list[Hop] = []
    while True:
        walk = Dependence(recorder.of(launch))
        reached = walk.behind(place)
        pid = recorder.pids.get(launch, (recorder.targets[launch],))
        hops.append(Hop(launch, pid, run.session.launches[launch], reached or [], reached is not None, walk, place))
        wanted = None if follow is None else follow(hops[-1])
        earlier = [] if wanted is None else stores.writers(wanted, before=launch)
        if wanted is None or not earlier:
            return hops, None
        launch, place = earlier[-1][0], wanted
        if launch not in recorder.targets:
            return hops, earlier[-1]
        if recorder.targets[launch] != earlier[-1][1]:  # another program of a recorded launch: one is enough
            return hops, None


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


def named(run: Execution, place: int) -> str:
    """The tensor at an address."""
    storage = run.session.memory.find(place)
    return (storage.name if storage is not None else None) or "unnamed memory"
