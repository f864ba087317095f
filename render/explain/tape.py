"""What chosen programs did, operation by operation, and the walk back from one lane of a store to what it came from.

A lane depends on the lanes of the operands that its operation reads: the same lane of an elementwise operation, a row
and a column of a dot, the whole axis of a reduction, the chosen side of a select, wherever a reshape or a gather took
it from. Operations of another kind count with all lanes. Addresses, masks and conditions are not followed: the walk is
about values. The library spells `flip` and `sort` as sums of bits, so behind those every lane counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from render.explain.watching import Listener
from render.interpreter.builder import Builder
from render.interpreter.context import Context, Site
from render.interpreter.handle import Handle

MOVES = {"splat", "unsplat", "broadcast", "expand_dims", "reshape", "trans", "join", "split", "cat", "gather"}


@dataclass
class Node:
    """One operation; `args` as the builder got them, `axis` of a reduction, `active` lanes of a memory access."""

    op: str
    site: Site
    args: tuple[Any, ...]
    outs: list[Handle]
    axis: int = -1
    ptr: np.ndarray | None = None
    active: np.ndarray | None = None

    def hits(self, place: int) -> np.ndarray:
        """Lanes of a memory access that touch this address."""
        assert self.ptr is not None and self.active is not None
        return np.asarray((self.ptr == place) & self.active)

    @property
    def operands(self) -> list[Handle]:
        return [a for a in self.args if isinstance(a, Handle)]


class Tape(Listener):
    """Records the passes of one program each in some launches (`targets`: launch -> program); it runs first and alone.

    `nodes` and `pids` are kept per launch.
    """

    def __init__(self, targets: Mapping[int, int]) -> None:
        self.targets = dict(targets)
        self.nodes: dict[int, list[Node]] = {}
        self.pids: dict[int, tuple[int, ...]] = {}
        self._launches = -1

    def launched(self, ctx: Context) -> None:
        self._launches += 1
        self.first = self.targets.get(self._launches)

    def _wanted(self, ctx: Context) -> list[Node] | None:
        """Where to write down what happens now; None for other programs."""
        if len(ctx.linear) != 1 or int(ctx.linear[0]) != self.targets.get(self._launches):
            return None
        self.pids[self._launches] = tuple(int(i) for i in ctx.pids[0])
        return self.nodes.setdefault(self._launches, [])

    def op(self, ctx: Context, name: str, args: tuple[Any, ...], outs: list[Handle]) -> None:
        nodes = self._wanted(ctx)
        if nodes is not None and any(not any(o is a for a in args) for o in outs):
            nodes.append(Node(name, ctx.site(), args, outs))

    def reduced(self, ctx: Context, name: str, axis: int, parts: list[Handle], outs: list[Handle]) -> None:
        nodes = self._wanted(ctx)
        if nodes is not None:
            nodes.append(Node(name, ctx.site(), tuple(parts), outs, axis))

    def loaded(self, ctx: Context, ptr: Handle, mask: Handle | None, other: Handle | None, out: Handle) -> None:
        nodes = self._wanted(ctx)
        if nodes is not None:
            ptr_v, active = lanes(ptr, mask)
            args = () if other is None else (other,)
            nodes.append(Node("load", ctx.site(), args, [out], ptr=ptr_v, active=active))

    def stored(self, ctx: Context, ptr: Handle, value: Handle, mask: Handle | None, atomic: bool) -> None:
        nodes = self._wanted(ctx)
        if nodes is not None:
            ptr_v, active = lanes(ptr, mask)
            name = "atomic" if atomic else "store"
            nodes.append(Node(name, ctx.site(), (value,), [], ptr=ptr_v, active=active))


def lanes(ptr: Handle, mask: Handle | None) -> tuple[np.ndarray, np.ndarray]:
    """(addresses, active) of the first program's lanes, in the block's shape."""
    addresses = ptr.full(ptr.v)[0]
    return addresses, np.ones(addresses.shape, bool) if mask is None else np.array(mask.full(mask.v)[0])


Reached = tuple[Node, list[np.ndarray]]
"""An operation and, per result, which of its lanes are needed."""


def walk_back(nodes: list[Node], start: int, lanes_needed: np.ndarray) -> Iterator[Reached]:
    """Every operation that the needed lanes of store `start` depend on, the latest first."""
    needed: dict[int, np.ndarray] = {}
    _add(needed, nodes[start].args[0], lanes_needed)
    for node in reversed(nodes[:start]):
        wanted = [needed.get(id(o)) for o in node.outs]
        if all(w is None or not w.any() for w in wanted):
            continue
        full = [np.zeros(o.shape, bool) if w is None else w for o, w in zip(node.outs, wanted, strict=True)]
        yield node, full
        for o in node.outs:  # an earlier report about the same result is about its inside
            needed.pop(id(o), None)
        for handle, mask in sources(node, full):
            _add(needed, handle, mask)


def _add(needed: dict[int, np.ndarray], handle: Handle, mask: np.ndarray) -> None:
    if not mask.any():
        return
    mask = np.broadcast_to(mask, handle.shape)
    old = needed.get(id(handle))
    needed[id(handle)] = mask if old is None else old | mask


def sources(node: Node, wanted: list[np.ndarray]) -> Iterator[tuple[Handle, np.ndarray]]:
    """(operand, its needed lanes) of one operation."""
    operands = node.operands
    if node.op in MOVES:
        yield from _moved(node, wanted)
    elif node.op == "select":
        cond, x, y = operands
        chosen = np.broadcast_to(np.asarray(cond.full(cond.v)[0], bool), wanted[0].shape)
        yield x, wanted[0] & chosen
        yield y, wanted[0] & ~chosen
    elif node.op == "load":
        for other in operands:
            yield other, wanted[0] & ~node.active  # type: ignore[operator]
    elif node.op == "dot":
        a, b, acc = operands[:3]
        yield a, np.broadcast_to(np.expand_dims(wanted[0].any(axis=-1), -1), a.shape)
        yield b, np.broadcast_to(np.expand_dims(wanted[0].any(axis=-2), -2), b.shape)
        yield acc, wanted[0]
    elif node.axis >= 0:
        union = np.logical_or.reduce(wanted)
        for part in operands:
            yield part, _along(union, part.shape, node)
    else:
        yield from _elementwise(operands, wanted)


def _elementwise(operands: list[Handle], wanted: list[np.ndarray]) -> Iterator[tuple[Handle, np.ndarray]]:
    for handle in operands:
        same = [w for w in wanted if w.shape == handle.shape]
        if same:
            yield handle, np.logical_or.reduce(same)
        else:
            yield handle, np.broadcast_to(any(bool(w.any()) for w in wanted), handle.shape)


def _along(union: np.ndarray, shape: tuple[int, ...], node: Node) -> np.ndarray:
    """Lanes of a reduction's operand: the whole axis; of a scan: everything up to the lane."""
    if node.op == "reduce":
        return np.broadcast_to(np.expand_dims(union, node.axis), shape)
    step = 1 if node.op.startswith("reverse") else -1
    turned = np.flip(union, node.axis) if step == -1 else union
    reach = np.logical_or.accumulate(turned, axis=node.axis)
    return np.flip(reach, node.axis) if step == -1 else reach


def _moved(node: Node, wanted: list[np.ndarray]) -> Iterator[tuple[Handle, np.ndarray]]:
    """The same movement applied to lane numbers shows where each lane came from."""
    method = getattr(Builder, f"create_{node.op}")
    data = node.operands[:1] if node.op == "gather" else node.operands
    probes: dict[int, Handle] = {}
    base = 0
    for h in data:
        if id(h) not in probes:
            size = int(np.prod(h.shape, dtype=np.int64))
            numbers = np.arange(base, base + size, dtype=np.int64).reshape(1, *h.shape)
            probes[id(h)] = Handle(numbers, h.dtype, h.shape)
            base += size
    out = method(_NoContext(), *(probes.get(id(a), a) if isinstance(a, Handle) else a for a in node.args))
    outs = [out] if isinstance(out, Handle) else list(out)
    hit = np.zeros(base, bool)
    for o, mask in zip(outs, wanted, strict=True):
        hit[np.broadcast_to(o.full(o.v)[0], mask.shape)[mask]] = True
    for h in data:
        first = int(probes[id(h)].v.min()) if probes[id(h)].v.size else 0
        size = probes[id(h)].v.size
        yield h, hit[first : first + size].reshape(h.shape)


class _NoContext:
    """Stands in for the builder while lane numbers are moved: nothing is reported."""

    class ctx:
        @staticmethod
        def taint(*_: Any) -> frozenset[int]:
            return frozenset()
