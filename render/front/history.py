"""The steps behind a tensor, and running them again.

`history` is a backward slice over the tape. Where two tensors are compared, what both rest on (`shared`) is given: its
results are taken as they are, as inputs. `Replay` runs the rest again in the order of its steps, on fresh memory, by
whatever session or mode is open, so a classification sees it as any other entry function.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import count
from types import FunctionType, MappingProxyType
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_map

from render.front.scalars import ReadElement, Recipe, Untold
from render.front.steps import Cell, DecidedByPython, Given, Holder, HostOperation, Launched, Region, TapeStep
from render.interpreter.arguments import KernelCall
from render.interpreter.host import ALLOCATIONS
from render.interpreter.hosted.overloads import HostSite, operation
from render.interpreter.memory.unwritten import fill_fresh
from render.interpreter.session import innermost


def history(cell: Cell, until: int, given: Mapping[Cell, Given] = MappingProxyType({})) -> dict[int, TapeStep]:
    """The steps, by time, that what `cell` held at `until` rests on; what is `given` rests on nothing."""
    found: dict[int, TapeStep] = {}
    serial = count()
    heap: list[tuple[int, int, TapeStep]] = []

    def need(target: Cell, before: int) -> None:
        if target in given:
            found[given[target].time] = given[target]
            return
        for step in reversed(target.steps):
            if step.time > before or step.time in found:
                if step.time in found and step.whole:
                    return
                continue
            found[step.time] = step
            heapq.heappush(heap, (-step.time, next(serial), step))
            if step.whole:
                return

    need(cell, until)
    while heap:
        _, _, step = heapq.heappop(heap)
        for target in (*step.reads, *(() if step.whole else step.writes)):
            need(target, step.time - 1)
    return found


def behind(place: Region, until: int) -> set[Cell]:
    """The storages that it rests on, its own among them."""
    return {place.cell}.union(*(step.writes for step in history(place.cell, until).values()))


def launches(steps: Iterable[TapeStep]) -> bool:
    return any(isinstance(step, Launched) for step in steps)


def moves(step: HostOperation) -> bool:
    """Whether its results are elements of its operands."""
    return hasattr(step.func, "_schema") and operation(step.func).moves


@dataclass(frozen=True)
class Apart:
    """Two tensors to compare: the steps of each side alone, by time, and the storages that both start from, with what
    they held."""

    left: Mapping[int, TapeStep]
    right: Mapping[int, TapeStep]
    start: Mapping[Cell, torch.Tensor]


def apart(left: Cell, right: Cell, until: int) -> Apart:
    """The two histories without what they share."""
    one, two = _with_choices_given(left, right, until)
    shared = _resting({time: step for time, step in sorted(one.items()) if time in two})
    if not _separable(shared, {**one, **two}):
        shared = {time: step for time, step in shared.items() if isinstance(step, Given)}
    mine, its = ({t: s for t, s in side.items() if t not in shared} for side in (one, two))
    replay = Replay(shared.values())
    held = replay.run({step: step.data for step in shared.values() if isinstance(step, Given)})
    wanted = {left, right}.union(*(step.reads + step.writes for step in (*mine.values(), *its.values())))
    start = {cell: _flat(base) for cell, base in held.items() if cell in wanted}
    for side in (mine, its):
        for time in [t for t, s in side.items() if isinstance(s, Given)]:
            given = side.pop(time)
            assert isinstance(given, Given)
            start |= {given.writes[0]: given.data} if not given.pointers else {}
            if given.pointers:
                side[time] = given
    return Apart(mine, its, start)


def _with_choices_given(left: Cell, right: Cell, until: int) -> tuple[dict[int, TapeStep], dict[int, TapeStep]]:
    """The two histories; where both rest on the same launches, because one side is computed by what the kernel chose
    (which elements a dropout kept, the indices of a top-k), that choice is given."""
    one, two = history(left, until), history(right, until)
    alone = [s for side, other in ((one, two), (two, one)) for t, s in side.items() if t not in other]
    if launches(alone):
        return one, two
    given: dict[Cell, Given] = {}
    for step in alone:
        for cell in step.reads if isinstance(step, HostOperation) else ():
            before = {} if cell.dtype.is_floating_point or cell in given else history(cell, step.time - 1)
            if launches(before.values()) and not any(step.time <= s.time <= until for s in cell.steps):
                data = _flat(Replay(before.values()).run({})[cell]).clone()
                given[cell] = Given(-1 - len(given), (), (cell,), step.site, True, data=data, made=True)
    return history(left, until, given), history(right, until, given)


def _resting(shared: Mapping[int, TapeStep]) -> dict[int, TapeStep]:
    """Without what holds addresses: these are others in every run."""
    found: dict[int, TapeStep] = {}
    moving: set[Cell] = set()
    for time, step in shared.items():
        if (isinstance(step, Given) and step.pointers) or moving.intersection(step.reads):
            moving.update(step.writes)
        else:
            found[time] = step
    return found


def _separable(shared: Mapping[int, TapeStep], everything: Mapping[int, TapeStep]) -> bool:
    """Whether nothing that is shared writes to a storage after a step that is not shared used it, and nothing given
    later replaces what either side has used before."""
    last: dict[Cell, int] = {}
    for time, step in shared.items():
        for cell in step.writes:
            last[cell] = max(last.get(cell, 0), time)
    alone = (step for time, step in everything.items() if time not in shared)
    return all(step.time > last.get(cell, 0) for step in alone for cell in (*step.reads, *step.writes))


def _flat(x: torch.Tensor) -> torch.Tensor:
    """All elements of the storage of x."""
    return torch.as_strided(x, (x.untyped_storage().nbytes() // x.itemsize,), (1,), 0)


class Replay:
    """Runs steps again; `run` takes the flat contents of given storages and gives every storage's present tensor."""

    def __init__(self, steps: Iterable[TapeStep]) -> None:
        self.steps = sorted(steps, key=lambda step: step.time)

    def run(self, contents: Mapping[Any, torch.Tensor]) -> dict[Cell, torch.Tensor]:
        """`contents`: flat elements by storage, or by the step that gave them; they are written to."""
        bases = _Bases({k: v for k, v in contents.items() if isinstance(k, Cell)})
        for step in self.steps:
            if isinstance(step, Given):
                data = contents.get(step, step.data).clone()
                for i, cell, offset in step.pointers:
                    start = bases[cell].data_ptr() - int(bases[cell].storage_offset()) * bases[cell].itemsize
                    data[i] = start + offset
                bases.put(step.writes[0], data)
            elif isinstance(step, HostOperation):
                self._operate(step, bases)
            elif isinstance(step, Launched):
                self._launch(step, bases)
            elif isinstance(step, DecidedByPython):
                _at(step.site)(partial(step.number.value, bases.at))
        return dict(bases.tensors)

    def _operate(self, step: HostOperation, bases: _Bases) -> None:
        args, kwargs = tree_map(bases.filled, (step.args, step.kwargs))
        with torch.no_grad():
            out = _at(step.site)(lambda: step.func(*args, **kwargs))
        returned = [x for x in tree_flatten(out)[0] if isinstance(x, torch.Tensor)]
        for place, x in zip(step.made, returned, strict=True):
            if place is not None and place.cell in step.writes and place.cell.steps[0] is step:
                if hasattr(step.func, "_schema") and operation(step.func).name in ALLOCATIONS:
                    fill_fresh(x)
                bases.put(place.cell, x, place)

    def _launch(self, step: Launched, bases: _Bases) -> None:
        session = innermost()
        assert session is not None, "a launch is run again inside of a session"
        bound = step.call.bound
        twin = type(bound)(bound.signature, type(bound.arguments)({n: bases.filled(v) for n, v in step.args.items()}))
        session._launch(step.kernel, step.grid, KernelCall(twin, step.call.options))


class _Bases:
    """The present tensor of every storage."""

    def __init__(self, tensors: dict[Cell, torch.Tensor]) -> None:
        self.tensors = tensors
        self._places: dict[Cell, Region] = {}

    def __getitem__(self, cell: Cell) -> torch.Tensor:
        return self.tensors[cell]

    def put(self, cell: Cell, tensor: torch.Tensor, place: Region | None = None) -> None:
        self.tensors[cell] = tensor
        self._places.pop(cell, None)
        if place is not None:
            self._places[cell] = place

    def filled(self, x: Any) -> Any:
        """Tensors for places."""
        if isinstance(x, Region):
            return self.at(x)
        if isinstance(x, Holder):
            return x.filled(self.filled)
        if isinstance(x, float | Untold | ReadElement | Recipe):
            return self._number(x)
        if isinstance(x, tuple | list):
            parts = [self.filled(v) for v in x]
            return type(x)(*parts) if hasattr(x, "_fields") else type(x)(parts)
        return x

    def _number(self, x: float | Untold | ReadElement | Recipe) -> Any:
        """A number as the open session knows it."""
        session = innermost()
        if isinstance(x, ReadElement | Recipe):
            return x.value(self.at)
        value = x.number if isinstance(x, Untold) else x
        if session is not None:
            (session.tell_unknown if isinstance(x, Untold) else session.tell_literal)(value)
        return value

    def at(self, place: Region) -> torch.Tensor:
        base, known = self.tensors[place.cell], self._places.get(place.cell)
        if known is not None and known.same_elements(place):
            return base
        if place.dtype != place.cell.dtype:
            base = _flat(base).view(place.dtype)
        return torch.as_strided(base, place.size, place.stride, place.offset)


def rerun(steps: Sequence[TapeStep], at: Region, contents: Mapping[Cell, torch.Tensor]) -> torch.Tensor:
    """The tensor at a place after these steps."""
    held = Replay(steps).run(contents)
    return _Bases(held).at(at)


@cache
def _at(site: HostSite) -> Callable[[Callable[[], Any]], Any]:
    """A function that calls from the line where the step was written: rules and reports name that line."""
    code = (lambda run: run()).__code__.replace(co_filename=site.file, co_firstlineno=max(site.line, 1))
    named: Callable[[Callable[[], Any]], Any] = FunctionType(code, {})
    return named
