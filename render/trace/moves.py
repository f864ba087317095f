"""Where each lane of a moved block came from: the movement itself, applied to lane numbers.

A lane of a handle is its flat number in (programs, *block), programs being 1 where all of them share the value.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from render.interpreter.builder import Builder
from render.interpreter.handle import Handle
from render.interpreter.unordered import Unordered
from render.ops.rule import Shape
from render.ops.table import RULES
from render.trace.model import ABSENT

if TYPE_CHECKING:
    from render.trace.recorder import Recorded

MOVES = frozenset(op for op, rule in RULES.items() if rule.shape is Shape.PASSTHROUGH)
"""Movements that are methods of the builder; its own bring their movement along in an attribute `move`."""


class _NoContext:
    """Stands in for the builder while lane numbers are moved: nothing is reported."""

    class ctx:
        unordered = Unordered()

        @staticmethod
        def expect(shape: tuple[int, ...]) -> None:
            """No block is made in a launch."""

        @staticmethod
        def taint(*_: Any) -> frozenset[int]:
            return frozenset()


def lanes_of(h: Handle) -> int:
    """How many lanes the handle has."""
    found: int = h.computed.shape[0] * math.prod(h.shape)
    return found


def at_lanes(h: Handle, array: np.ndarray, lanes: np.ndarray) -> np.ndarray:
    """Entries of one of the handle's arrays at these lanes."""
    shape = (h.computed.shape[0], *h.shape)
    if array.shape == shape and array.flags.c_contiguous:
        found: np.ndarray = array.reshape(-1)[lanes]
        return found
    whole = np.broadcast_to(array, shape)
    return whole[np.unravel_index(lanes, whole.shape)]


def numbers(h: Handle, first: int = 0) -> Handle:
    """A handle of the same shape that holds its own lane numbers, from `first` on."""
    at = np.arange(first, first + lanes_of(h), dtype=np.int64).reshape(h.computed.shape[0], *h.shape)
    return Handle(at, h.dtype, h.shape)


def moved(entry: Recorded, out: int, wanted: np.ndarray) -> list[np.ndarray]:
    """For each operand of the movement, the lanes that the wanted lanes of result `out` came from, or ABSENT."""
    if entry.op in _DIRECT and len(entry.args) == 1:
        return [_direct(entry.op, entry.args[0], entry.outs[out], wanted)]
    return moved_by_doing(entry, out, wanted)


_DIRECT = frozenset(["splat", "broadcast", "expand_dims", "reshape"])


def _direct(op: str, h: Handle, out: Handle, wanted: np.ndarray) -> np.ndarray:
    """Of movements that keep the order of the lanes or repeat them: no other lane has to be looked at."""
    if op in ("reshape", "expand_dims"):
        return wanted
    per_program = math.prod(out.shape)
    if op == "splat":
        return wanted // per_program if out.computed.shape[0] > 1 else np.zeros_like(wanted)
    left, came = wanted, np.zeros_like(wanted)
    step = 1
    for n, m in zip(reversed(out.shape), reversed(h.shape), strict=True):  # from the last axis, which varies fastest
        if m > 1:
            came = came + left % n * step
        left, step = left // n, step * m
    found: np.ndarray = came + left * step
    return found


def moved_by_doing(entry: Recorded, out: int, wanted: np.ndarray) -> list[np.ndarray]:
    """`moved` for every movement: the movement itself, applied to lane numbers."""
    data = entry.args[:1] if entry.op == "gather" else entry.args
    first, probes = 0, {}
    starts = []
    for h in data:
        starts.append(first)
        if id(h) not in probes:
            probes[id(h)] = numbers(h, first)
        first += lanes_of(h)
    if "move" in entry.attrs:
        found = entry.attrs["move"](*(probes[id(h)].v for h in data))
    else:
        left = list(map(id, data))  # an operand may be its own index, which is taken as it is
        given = [probes[left.pop(0)] if left and id(a) == left[0] else a for a in entry.attrs["given"]]
        made = getattr(Builder, f"create_{entry.op}")(_NoContext(), *given)
        handle = made if isinstance(made, Handle) else made[out]
        found = handle.full(handle.v)
    came = np.ascontiguousarray(found).reshape(-1)[wanted]
    return [
        np.where((came >= start) & (came < start + lanes_of(h)), came - start, ABSENT)
        for h, start in zip(data, starts, strict=True)
    ]
