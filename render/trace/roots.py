"""From places in memory to value numbers: the stores that hit them, cut together in one walk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from render.interpreter.memory.atomics import COMMUTING, FREE
from render.interpreter.types import float_format
from render.trace.cut import Cutter
from render.trace.integers import bounds, is_integer
from render.trace.model import LEAF, NotSliceable
from render.trace.moves import at_lanes, lanes_of
from render.trace.recorder import Recorded, Recorder

Ends = tuple[float, float, float]
Event = tuple[Recorded, np.ndarray]


@dataclass(frozen=True)
class Root:
    """The number of a stored value, (value, lower, upper) as the launch left it, and the programs that made it."""

    number: int
    ends: Ends
    programs: tuple[int, ...]


def puts(entry: Recorded) -> bool:
    """Whether the operation leaves its value, whatever was there; where programs exchange in any order is tainted."""
    return entry.op == "store" or entry.attrs["kind"] in ("xchg", "store")


@dataclass
class _Plan:
    ends: Ends
    used: list[Event]
    stored: bool
    wanted: list[tuple[object, np.ndarray]]


def roots(
    recorder: Recorder, targets: Sequence[tuple[str | None, int]]
) -> tuple[Cutter, list[Root | NotSliceable | None]]:
    """For every (storage name, byte offset; or None, address): its root, why not, or None if nothing stored there."""
    cutter = Cutter(recorder)
    plans: list[_Plan | NotSliceable | None] = []
    for name, offset in targets:
        try:
            plans.append(_plan(cutter, name, offset))
        except NotSliceable as error:
            plans.append(error)
    for plan in plans:
        if isinstance(plan, _Plan):
            for value, lanes in plan.wanted:
                cutter.need(value, lanes)  # type: ignore[arg-type]
    cutter.collect()
    cutter.forward()
    return cutter, [_root(cutter, p) if isinstance(p, _Plan) else p for p in plans]


def _plan(cutter: Cutter, name: str | None, offset: int) -> _Plan | None:
    events = _events(cutter, name, offset)
    if not events:
        return None
    plain = [i for i, (entry, _) in enumerate(events) if puts(entry)]
    used = events[plain[-1] if plain else 0 :]
    wanted: list[tuple[object, np.ndarray]] = []
    for entry, hit in used:
        if not puts(entry) and (not entry.args or entry.attrs["kind"] not in _free(entry)):
            why = "its result depends on the order of the programs"
            raise NotSliceable(f"atomic {entry.attrs['kind']}", why, entry.site.file, entry.site.line)
        (value,) = entry.args
        lanes = hit if value.computed.shape[0] == entry.attrs["ptr"].shape[0] else hit % lanes_of(value)
        wanted.append((value, lanes[-1:] if puts(entry) else lanes))
    return _Plan(_left(*events[-1]), used, bool(plain), wanted)


def _events(cutter: Cutter, name: str | None, offset: int) -> list[Event]:
    """Stores and atomics that hit the place, oldest first, with the lanes that did."""
    found = []
    for entry in cutter.stores:
        origin = entry.attrs["origin"]
        if name is not None and (origin is None or entry.attrs["name"] != name):
            continue
        at = offset + (origin.base if name is not None else 0)
        first, last = cutter.span(entry)
        if not first <= at <= last:
            continue
        hit = np.flatnonzero(((entry.attrs["ptr"] == at) & entry.attrs["active"]).reshape(-1))
        if hit.size:
            found.append((entry, hit))
    return found


def _left(entry: Recorded, hit: np.ndarray) -> Ends:
    """What the launch left where this store or atomic hit last."""
    if not entry.args:
        raise NotSliceable("atomic", "it stores no value", entry.site.file, entry.site.line)
    if entry.op == "atomic":
        got, shape = entry.attrs["after"], entry.attrs["ptr"].shape
        ends = [np.broadcast_to(a, shape).reshape(-1)[hit[-1]] for a in (got.v, *got.pair)]
    else:
        (value,) = entry.args
        lanes = hit[-1:] if value.computed.shape[0] == entry.attrs["ptr"].shape[0] else hit[-1:] % lanes_of(value)
        ends = [at_lanes(value, a, lanes)[0] for a in (value.v, *bounds(value))]
    return float(ends[0]), float(ends[1]), float(ends[2])


def _root(cutter: Cutter, plan: _Plan) -> Root | NotSliceable:
    numbers = [cutter.numbers_of(value, lanes) for value, lanes in plan.wanted]  # type: ignore[arg-type]
    programs = _programs(cutter, plan.used)
    if puts(plan.used[-1][0]):
        return Root(int(numbers[-1][0]), plan.ends, programs)
    try:
        return Root(_atomic(cutter, plan, numbers), plan.ends, programs)
    except NotSliceable as error:
        return error


def _free(entry: Recorded) -> frozenset[str]:
    """Kinds of atomics on what this one updates that no order of programs changes, but by rounding."""
    return COMMUTING if is_integer(entry.args[0]) else FREE


def _programs(cutter: Cutter, used: list[Event]) -> tuple[int, ...]:
    owners = cutter.owners
    found = set()
    for entry, hit in used:
        rows = np.unravel_index(hit, entry.attrs["ptr"].shape)[0]
        found |= {int(owners[id(entry)].linear[r]) for r in np.unique(rows)}
    return tuple(sorted(found))


def _atomic(cutter: Cutter, plan: _Plan, numbers: list[np.ndarray]) -> int:
    """A node for what atomics of one kind made of an element: base and contributions, in no order."""
    first, hit = plan.used[1 if plan.stored else 0]
    kinds = {e.attrs["kind"] for e, _ in plan.used if not puts(e)}
    if len(kinds) > 1:
        raise NotSliceable("atomic", "several kinds of atomics update this element", first.site.file, first.site.line)
    if not plan.stored:
        before = first.attrs["before"]
        shape = first.attrs["ptr"].shape
        v, lo, hi = (
            np.broadcast_to(a, shape).reshape(-1)[hit[:1]].astype(np.float64) for a in (before.v, *before.pair)
        )
        addresses = first.attrs["ptr"].reshape(-1)[hit[:1]]
        ((name, base, _),) = cutter.storages(addresses, np.arange(1))
        attrs = cutter.memory_leaf(lo[0] != hi[0], name, base, addresses)
        numbers = [cutter.add_values(LEAF, attrs, first, (), v, lo, hi), *numbers]
    terms = np.concatenate(numbers)[None, :]
    kind = kinds.pop()
    if is_integer(first.args[0]):  # exact, and taken by value as other integers are
        _, low, high = plan.ends
        if low != high:
            raise NotSliceable(
                "atomic", "the bounds of floats leave the integer open", first.site.file, first.site.line
            )
        (root,) = cutter.add_values(LEAF, {"source": "integer"}, first, (), *(np.full(1, end) for end in plan.ends))
        return int(root)
    fmt = float_format(first.args[0].dtype)
    op = "atomic_sum" if kind == "add" else kind
    (root,) = cutter.add_values(op, {"fmt": fmt.name}, first, (terms,), *(np.full(1, end) for end in plan.ends))
    return int(root)
