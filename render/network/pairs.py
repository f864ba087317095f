"""Which border of the target belongs to which of the reference: by the user's map, by name, then by order.

What has no counterpart (a fused layer, a module that one side has alone) is no border: its work belongs to the region
between those that have, and is judged where that ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

import torch

from render.network.capture import Crossing, Key, ModuleRun, Tensors
from render.network.spill import rest
from render.reference import figures


@dataclass
class Pair:
    """One border on both sides: what the target and what the reference had there.

    `sure` False: nothing but order and shapes says that they belong together.
    """

    key: Key
    other: Key
    maker: str
    target: Tensors
    reference: Tensors
    sure: bool = True

    def __post_init__(self) -> None:
        self.equal = [same(a, b) for a, b in zip(self.target, self.reference, strict=True)]
        self.rest()

    def rest(self) -> None:
        """Its tensors are not read for a while."""
        rest(sum(t.nbytes for t in (*self.target, *self.reference)))

    def at(self, side: str) -> Tensors:
        """What one side had, "target" or "reference"."""
        return self.target if side == "target" else self.reference

    @property
    def all_equal(self) -> bool:
        return all(self.equal)


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Equal in every bit but the sign of zero and of NaN, dtype aside."""
    if a.is_floating_point() != b.is_floating_point() or a.is_complex() != b.is_complex():
        return False
    if not a.is_floating_point():
        return torch.equal(a, b) if a.dtype == b.dtype else torch.equal(a.to(torch.int64), b.to(torch.int64))
    return figures.alike(figures.flat(a), figures.flat(b))


def fits(a: Crossing | None, b: Crossing | None) -> bool:
    return a is not None and b is not None and [t.shape for t in a.tensors] == [t.shape for t in b.tensors]


def names(
    target: ModuleRun, reference: ModuleRun, match: Mapping[str, str] | None
) -> tuple[dict[str, str], frozenset[str]]:
    """The reference's module for each of the target's, and of which nothing but order and shapes say so; ValueError for
    a name in `match` that no module has."""
    mine, theirs = _modules(target), _modules(reference)
    given = dict(match or {})
    for name, known, side in [(n, mine, "target") for n in given] + [(n, theirs, "reference") for n in given.values()]:
        if name not in known:
            raise ValueError(f"the {side} runs no module {name!r}")
    named = {n: n for n in mine if n in theirs}
    held = {} if "" in mine and len(named) == len(mine) else _held(mine, theirs)  # which holds less than all of mine
    named = held if len(held) >= len(named) else named  # which has "" besides
    found = given | {a: b for a, b in named.items() if a not in given and b not in given.values()}
    found.setdefault("", "")
    left = [n for n in mine if n not in found]
    free = [n for n in theirs if n not in found.values()]
    guessed = dict(_by_order(left, free, target, reference))
    return found | guessed, frozenset(guessed)


def _modules(trace: ModuleRun) -> list[str]:
    return list(dict.fromkeys(key.name for key in trace.crossings))


def _held(mine: list[str], theirs: list[str]) -> dict[str, str]:
    """Names where one side's model is a module of the other's: under a prefix, as wrappers and autocast bring it."""
    inside = [{n: n[len(p) + 1 :] for n in mine if n.startswith(f"{p}.") and n[len(p) + 1 :] in theirs}
              for p in mine if p]  # fmt: skip
    outside = [{n: f"{p}.{n}" for n in mine if n and f"{p}.{n}" in theirs} for p in theirs if p]
    return max([*inside, *outside], key=len, default={})


def _by_order(left: list[str], free: list[str], target: ModuleRun, reference: ModuleRun) -> list[tuple[str, str]]:
    """Modules of other names whose first calls have tensors of the same shapes, in the same order."""

    def form(trace: ModuleRun, name: str) -> tuple[object, ...]:
        ends = (trace.crossings.get(Key(name, 0, way)) for way in ("in", "out"))
        return tuple(tuple(tuple(t.shape) for t in c.tensors) if c else () for c in ends)

    a, b = ([form(t, n) for n in given] for t, given in ((target, left), (reference, free)))
    blocks = SequenceMatcher(None, a, b, autojunk=False).get_matching_blocks()
    return [(left[m.a + i], free[m.b + i]) for m in blocks for i in range(m.size)]


def paired(target: ModuleRun, reference: ModuleRun, match: Mapping[str, str] | None) -> dict[Key, Pair]:
    """The borders that both sides have, in the target's order, by the target's key."""
    other, guessed = names(target, reference, match)
    found: dict[Key, Pair] = {}
    for crossings, theirs in ((target.crossings, reference.crossings), (target.state, reference.state)):
        for key, mine in crossings.items():
            if key.name not in other:
                continue
            across = Key(other[key.name], key.call, key.way)
            counterpart = theirs.get(across)
            if fits(mine, counterpart):
                assert counterpart is not None
                sure = key.name not in guessed
                found[key] = Pair(key, across, mine.maker, mine.tensors, counterpart.tensors, sure)
    return found


def doubtful(pairs: Mapping[Key, Pair], open_: Iterable[Key], classes: Sequence[Mapping[str, type]]) -> set[Key]:
    """Borders that are none, of those that leave or were not looked at: of modules that were guessed, and what goes
    into modules of different classes, where the two sides have nothing in common.

    A layer that stands for several has another operand than the one it is matched with, though the results are one. A
    border less makes a region larger and hides nothing.
    """

    def another(pair: Pair) -> bool:
        a, b = (side.get(key.name) for side, key in zip(classes, (pair.key, pair.other), strict=True))
        return pair.key.way == "in" and pair.key.name != "" and a is not b

    asked = (key for key in open_ if not pairs[key].sure or another(pairs[key]))
    far = {key for key in asked if any(map(unlike, pairs[key].target, pairs[key].reference))}
    guessed = {key.name for key in far if not pairs[key].sure}
    return {k for k in far if another(pairs[k])} | {k for k, p in pairs.items() if not p.sure and k.name in guessed}


def apart(pair: Pair) -> bool:
    """Whether the sides differ by so much that it would be seen in any larger region as well."""
    sides = ((_real(a), _real(b)) for a, b in zip(pair.target, pair.reference, strict=True))
    return any(float((a - b).norm()) > FAR * float(a.norm()) for a, b in sides)


FAR = 2.0**-3
"""Of all that is there; a fault that is smaller could be lost beside the rounding of a region that grows."""


def _real(t: torch.Tensor) -> torch.Tensor:
    return (torch.view_as_real(t.detach().resolve_conj()) if t.is_complex() else t.detach()).double()


def unlike(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors have little to do with each other: correlated by less than half."""
    x, y = (_real(t).flatten() for t in (a, b))
    x, y = x - x.mean(), y - y.mean()
    size = float((x @ x) * (y @ y)) ** 0.5
    return bool(size > 0 and float(x @ y) < size / 2)
