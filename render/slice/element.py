"""From an output element to its slice: which programs made it, one run of those alone, the cut, and its check.

The stored bounds of the re-run must be those of the run that was judged, bit for bit. Where they are not (programs of
the launch that read what others wrote), all programs run again, and if that does not help the element is not sliceable.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from render.errors import RenderError
from render.execution import Entry as Call
from render.execution import Execution, Tensor
from render.interpreter.memory.reading import load_quietly
from render.interpreter.memory.registry import address
from render.interpreter.types import elem_of, float_format
from render.slice.check import check
from render.slice.cut import Cutter
from render.slice.model import LEAF, NotSliceable, Slice
from render.slice.moves import lanes_of
from render.slice.recorder import Enough, Entry, Recorder, recording

Ends = tuple[float, float, float]

PROGRAMS = 1024
"""Programs of one launch that are run again for one element."""


@dataclass(frozen=True)
class _Place:
    """Where an element lies: bytes into the storage of an argument, or (name None) of an output of the entry."""

    launch: int
    programs: np.ndarray
    name: str | None
    offset: int


def slice_of(call: Call, run: Execution, output: str, index: Sequence[int]) -> Slice:
    """The slice of `output[index]` of a finished run. Raises NotSliceable, and RenderError for an unknown element."""
    tensor = _output(run, output)
    where = tuple(int(i) for i in index)
    if "builder" in call.options:
        raise NotSliceable("the session", "it runs with a builder of its own")
    if not hasattr(run.session, "writers"):
        raise NotSliceable("the session", "it keeps no record of stores")
    last = NotSliceable("the host", f"no kernel stored {output}{list(where)}")
    for place in _places(run, tensor, where):
        for run_all in (False, True):
            found = _cut(call, run, tensor, where, place, run_all)
            if found is None:
                break
            if same(found, tensor, where):
                check(found)
                return found
            why = "run again, the element has another value or bound: another program or the host changes it"
            last = NotSliceable("the run", why)
    raise last


def same(found: Slice, tensor: Tensor, where: tuple[int, ...]) -> bool:
    """Whether the slice ends in the bound and value that were judged."""
    ours = (found.v, found.lo, found.hi)
    theirs = (tensor.value[where], tensor.lo[where], tensor.hi[where])
    return bool(np.array_equal(ours, theirs, equal_nan=True))


def _output(run: Execution, name: str) -> Tensor:
    for found in run.outputs:
        if found.name == name:
            return found
    names = ", ".join(o.name for o in run.outputs)
    raise RenderError("RND903", f"no output {name!r}", f"there are: {names}")


def _address(tensor: Tensor, where: tuple[int, ...]) -> int:
    t = tensor.tensor
    return address(t) + sum(i * s for i, s in zip(where, t.stride(), strict=True)) * t.element_size()


def _places(run: Execution, tensor: Tensor, where: tuple[int, ...]) -> Iterator[_Place]:
    """Every launch that may have stored the element, the last one first.

    Memory that was given back may come again under the same address: a span counts only with the storage's own start.
    """
    at, base = _address(tensor, where), tensor.tensor.untyped_storage().data_ptr()
    for launch in reversed(range(len(run.session.writers))):
        spans = [s for s in run.session.writers[launch].of(at) if s[0].name is None or s[0].base == base]
        if not spans:
            continue
        programs = np.unique(np.concatenate([p for _, p in spans]))
        if len(programs) > PROGRAMS:
            raise NotSliceable("the launch", f"{len(programs)} programs may have written this element")
        span = spans[-1][0]
        yield _Place(launch, programs, span.name, at - span.base)


def record(call: Call, recorder: Recorder) -> Execution | None:
    """Runs the entry until everything is recorded; the run, if it came to its end."""
    options = {**call.options, "printer": lambda text: None, "builder": recording(recorder)}
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(Enough):
        return replace(call, options=options).run()
    return None


def _cut(
    call: Call, run: Execution, tensor: Tensor, where: tuple[int, ...], place: _Place, run_all: bool
) -> Slice | None:
    """The slice, checked for nothing yet; None if none of the programs stored the element."""
    recorder = Recorder({place.launch: place.programs}, run_all)
    again = record(call, recorder)
    if recorder.launch < place.launch:
        raise NotSliceable("the run", "the launch was not met again: the entry does not do the same twice")
    offset = place.offset
    if place.name is None:
        if again is None:
            raise NotSliceable("store", "its address comes from memory, and another launch follows")
        offset = _address(_output(again, tensor.name), where)
    cutter = Cutter(recorder)
    events = _events(cutter, place.name, offset)
    if not events:
        return None
    v, lo, hi = ends = _left(recorder, *events[-1])
    root, programs = _root(cutter, events, ends)
    kernel = run.session.launches[place.launch].kernel
    notes = tuple(cutter.notes)
    return Slice(tensor.name, where, kernel, programs, tuple(cutter.nodes), root, v, lo, hi, notes, run.session.profile)


def _events(cutter: Cutter, name: str | None, offset: int) -> list[tuple[Entry, np.ndarray]]:
    """Stores and atomics that hit the element, oldest first, with the lanes that did."""
    found = []
    for entry in cutter.stores:
        origin = entry.attrs["origin"]
        if name is not None and (origin is None or origin.name != name):
            continue
        at = offset + (origin.base if name is not None else 0)
        hit = np.flatnonzero(((entry.attrs["ptr"] == at) & entry.attrs["active"]).reshape(-1))
        if hit.size:
            found.append((entry, hit))
    return found


def _left(recorder: Recorder, entry: Entry, hit: np.ndarray) -> Ends:
    """(value, lower, upper) that lies in memory where this store hit."""
    assert recorder.context is not None
    at = entry.attrs["ptr"].reshape(-1)[hit[-1:]]
    elem = elem_of(entry.args[0].dtype.scalar) if entry.args else None
    if elem is None:
        raise NotSliceable("atomic", "it stores no value", entry.site.file, entry.site.line)
    memory = recorder.context.memory
    got = load_quietly(memory, at, np.ones(1, bool), elem, entry.attrs["origin"], entry.site)
    return float(got.v[0]), float(got.pair[0][0]), float(got.pair[1][0])


def _root(cutter: Cutter, events: list[tuple[Entry, np.ndarray]], ends: Ends) -> tuple[int, tuple[int, ...]]:
    """The number of the stored value, and the programs that made it."""
    plain = [i for i, (entry, _) in enumerate(events) if entry.op == "store"]
    last = plain[-1] if plain else -1
    used = events[max(last, 0) :]
    wanted = []
    for entry, hit in used:
        if entry.op == "atomic" and (not entry.args or entry.attrs["kind"] not in ("add", "max", "min")):
            raise NotSliceable(f"atomic {entry.attrs['kind']}", "its result depends on the order of the programs",
                               entry.site.file, entry.site.line)  # fmt: skip
        (value,) = entry.args
        lanes = hit if value.v.shape[0] == entry.attrs["ptr"].shape[0] else hit % lanes_of(value)
        wanted.append((value, lanes if entry.op == "atomic" else lanes[-1:]))
    for value, lanes in wanted:
        cutter.need(value, lanes)
    cutter.back()
    cutter.forward()
    numbers = [cutter.numbers_of(value, lanes) for value, lanes in wanted]
    programs = _programs(cutter, used)
    if used[-1][0].op == "store":
        return int(numbers[-1][0]), programs
    return _atomic(cutter, used, numbers, last >= 0, ends), programs


def _programs(cutter: Cutter, used: list[tuple[Entry, np.ndarray]]) -> tuple[int, ...]:
    owners = {id(e): p for p in cutter.recorder.passes for e in p.entries}
    found = set()
    for entry, hit in used:
        rows = np.unravel_index(hit, entry.attrs["ptr"].shape)[0]
        found |= {int(owners[id(entry)].linear[r]) for r in np.unique(rows)}
    return tuple(sorted(found))


def _atomic(
    cutter: Cutter, used: list[tuple[Entry, np.ndarray]], numbers: list[np.ndarray], stored: bool, ends: Ends
) -> int:
    """A node for what atomics of one kind made of an element: base and contributions, in no order."""
    first, hit = used[1 if stored else 0]
    kinds = {e.attrs["kind"] for e, _ in used if e.op == "atomic"}
    if len(kinds) > 1:
        raise NotSliceable("atomic", "several kinds of atomics update this element", first.site.file, first.site.line)
    if not stored:
        before = first.attrs["before"]
        shape = first.attrs["ptr"].shape
        v, lo, hi = (
            np.broadcast_to(a, shape).reshape(-1)[hit[:1]].astype(np.float64) for a in (before.v, *before.pair)
        )
        name = first.attrs["origin"].name if first.attrs["origin"] is not None else "unnamed memory"
        source = "input" if lo[0] == hi[0] else "memory"
        base = cutter.add_values(LEAF, {"source": source, "name": name}, first, (), v, lo, hi)
        numbers = [base, *numbers]
    terms = np.concatenate(numbers)[None, :]
    kind = {"add": "atomic_sum"}.get(kinds.pop(), "") or first.attrs["kind"]
    fmt = float_format(first.args[0].dtype)
    (root,) = cutter.add_values(kind, {"fmt": fmt.name}, first, (terms,), *(np.full(1, end) for end in ends))
    return int(root)
