"""Where one output element comes from: the program and line that stored it, and the elements behind its value.

An element that an earlier launch stored is shown with that launch, its program and its line.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from render.entry.execution import Execution
from render.explain.study import Study
from render.explain.trace import Hop, Trace, Writer, named, trace
from render.result.elements import Maker, Provenance, Source

SHOWN = 8
"""Elements of one tensor that a report lists."""


def provenance(study: Study, output: str, index: Sequence[int]) -> Provenance:
    """Raises RenderError as `trace` does."""
    found = trace(study, output, index)
    hop = found.hops[0]
    notes = _notes(found.writers)
    if not hop.met:
        notes.append("the store was not met again in a second run: the kernel is not deterministic")
    site = found.writers[-1][2]
    where = tuple(int(i) for i in index)
    return Provenance(
        output, where, hop.record.kernel, hop.pid, site.file, site.line, tuple(_sources(found, hop)), tuple(notes)
    )


def _notes(writers: list[Writer]) -> list[str]:
    launch, program, _ = writers[-1]
    others = {p for at, p, _ in writers if at == launch} - {program}
    if not others:
        return []
    return [
        f"{len(others)} other programs of this launch write to it too (the last one in the order of the grid is shown)"
    ]


def _sources(found: Trace, hop: Hop) -> list[Source]:
    """The loaded elements, by tensor."""
    places: dict[str, set[int]] = {}
    lines: dict[str, set[int]] = {}
    for reached in hop.reached:
        for a in np.unique(reached.outside).tolist():
            name = named(found.run, a)
            places.setdefault(name, set()).add(a)
            lines.setdefault(name, set()).add(reached.entry.site.line)
    return [
        Source(name, len(at), _indices(sorted(at)[:SHOWN], found.run, hop.record.args.get(name)),
               tuple(sorted(lines[name])), _makers(found, hop, sorted(at)[:SHOWN]))
        for name, at in places.items()
    ]  # fmt: skip


def _makers(found: Trace, hop: Hop, addresses: list[int]) -> tuple[Maker, ...]:
    """The stores of earlier launches that these elements come from, one entry per line."""
    programs: dict[tuple[int, str, int], set[int]] = {}
    for a in addresses:
        earlier = found.stores.writers(a, before=hop.launch)
        if earlier:
            launch, program, site = earlier[-1]
            programs.setdefault((launch, site.file, site.line), set()).add(program)
    launches = found.run.session.launches
    return tuple(Maker(at, launches[at].kernel, tuple(sorted(p)), file, line)
                 for (at, file, line), p in sorted(programs.items()))  # fmt: skip


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
