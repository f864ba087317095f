"""Where one output element comes from: the program and line that stored it, and the input elements behind its value.

Two runs, values only. The first keeps the addresses of all stores and finds the last one that hit the element; in the
second that program runs first, alone, with a tape, and the walk back over the tape ends at the loads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from render.errors import RenderError
from render.execution import Execution
from render.explain.records import Provenance, Source
from render.explain.study import Study
from render.explain.tape import Node, Reached, Tape, walk_back
from render.explain.watching import Listener, watched
from render.interpreter.context import Context, Site
from render.interpreter.handle import Handle
from render.interpreter.memory.registry import address

SHOWN = 8
"""Elements of one tensor that a report lists."""


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

    def writers(self, place: int) -> list[tuple[int, int, Site]]:
        """(launch, program, line) of every store to this address, in order."""
        found = []
        for event in self.events:
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
class Trace:
    """The walk back from one element: operations from the store to the loads, and the run that holds their memory."""

    writers: list[tuple[int, int, Site]]
    reached: list[Reached]
    pid: tuple[int, ...]
    run: Execution
    record: Any
    met: bool

    def tensor_of(self, node: Node) -> str:
        """The tensor that a load reads first."""
        assert node.ptr is not None and node.active is not None
        return _named(self.run, int(node.ptr[node.active].flat[0])) if node.active.any() else ""


def trace(study: Study, output: str, index: Sequence[int]) -> Trace:
    """Raises RenderError for an output or element that does not exist, or that no kernel stored."""
    stores = Stores()
    run = study.run({"interval": False, "builder": watched(stores)})
    index = tuple(int(i) for i in index)
    writers = stores.writers(_place(run, output, index))
    if not writers:
        raise RenderError("RND205", f"no kernel stored {output}{list(index)}", "it is what the host left there")
    launch, program, _ = writers[-1]
    tape = Tape(program, launch)
    again = study.run({"interval": False, "builder": watched(tape)})
    place = _place(again, output, index)
    start = _last_store(tape.nodes, place)
    reached = [] if start is None else list(walk_back(tape.nodes, start, tape.nodes[start].hits(place)))
    record = again.session.launches[launch]
    return Trace(writers, reached, tape.pid or (program,), again, record, start is not None)


def provenance(study: Study, output: str, index: Sequence[int]) -> Provenance:
    """Raises RenderError as `trace` does."""
    found = trace(study, output, index)
    notes = _notes(found.writers)
    if not found.met:
        notes.append("the store was not met again in a second run: the kernel is not deterministic")
    site = found.writers[-1][2]
    sources = tuple(_sources(found.reached, found.run, found.record))
    where = tuple(int(i) for i in index)
    return Provenance(output, where, found.record.kernel, found.pid, site.file, site.line, sources, tuple(notes))


def _notes(writers: list[tuple[int, int, Site]]) -> list[str]:
    launch, program, _ = writers[-1]
    others = {p for at, p, _ in writers if at == launch} - {program}
    if not others:
        return []
    return [
        f"{len(others)} other programs of this launch write to it too (the last one in the order of the grid is shown)"
    ]


def _place(run: Execution, output: str, index: tuple[int, ...]) -> int:
    """Byte address of an element."""
    for found in run.outputs:
        if found.name == output:
            tensor = found.tensor
            if len(index) != tensor.dim() or any(not -n <= i < n for i, n in zip(index, tensor.shape, strict=True)):
                raise RenderError("RND903", f"{output} has shape {list(tensor.shape)}, not an element {list(index)}")
            steps = (i % n * s for i, n, s in zip(index, tensor.shape, tensor.stride(), strict=True))
            return address(tensor) + sum(steps) * tensor.element_size()
    names = ", ".join(o.name for o in run.outputs)
    raise RenderError("RND903", f"no output {output!r}", f"there are: {names}")


def _last_store(nodes: list[Node], place: int) -> int | None:
    for i in range(len(nodes) - 1, -1, -1):
        node = nodes[i]
        if node.op in ("store", "atomic") and bool(node.hits(place).any()):
            return i
    return None


def _sources(reached: list[Reached], run: Execution, record: Any) -> list[Source]:
    """The loaded elements, by tensor."""
    places: dict[str, set[int]] = {}
    lines: dict[str, set[int]] = {}
    for node, wanted in reached:
        if node.op != "load":
            continue
        assert node.ptr is not None and node.active is not None
        addresses = np.unique(node.ptr[wanted[0] & node.active])
        for a in addresses.tolist():
            name = _named(run, a)
            places.setdefault(name, set()).add(a)
            lines.setdefault(name, set()).add(node.site.line)
    return [
        Source(name, len(found), _indices(sorted(found)[:SHOWN], run, record.args.get(name)),
               tuple(sorted(lines[name])))
        for name, found in places.items()
    ]  # fmt: skip


def _named(run: Execution, place: int) -> str:
    storage = run.session.memory.find(place)
    return (storage.name if storage is not None else None) or "unnamed memory"


def _indices(addresses: list[int], run: Execution, described: Any) -> tuple[tuple[int, ...], ...]:
    """Indices into the tensor as the launch got it; offsets in bytes where its shape is not known."""
    found = []
    for a in addresses:
        storage = run.session.memory.find(a)
        offset = a - storage.base - storage.start if storage is not None else a
        if isinstance(described, tuple) and len(described) == 3:
            dtype, shape, strides = described
            size = getattr(torch, dtype.removeprefix("torch.")).itemsize
            found.append(_unravel(offset // size, shape, strides))
        else:
            found.append((offset,))
    return tuple(found)


def _unravel(offset: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, ...]:
    index = [0] * len(shape)
    for dim in sorted(range(len(shape)), key=lambda d: -strides[d]):
        if strides[dim] > 0:
            index[dim] = min(offset // strides[dim], max(shape[dim] - 1, 0))
            offset -= index[dim] * strides[dim]
    return tuple(index)
