"""Decisions that bounds leave open, taken one way: an order, a mask, the bits of a float.

A sort, a comparison or a cast of numbers with bounds gives integers that are open. Where these are indices, or become
shapes, there may be no bound of what follows that holds every way; so in a run of its own they are taken as the values
decide (`turn` 0), or in another way that bounds allow. Bounds are then those of the legal executions that decide so:
what lies in them lies in the bound of all of them. That nothing else may come out does not follow, and who asks
(`render.judgement.choices`) takes no such run for a proof of a bug.

Turns 1 and 2 lower every other operand, or element of a row by its rank, to its lower end and raise those between to
their upper ones, so that whatever is next to each other changes places where it may; later ones draw an end for each.
In a run without any rounding (`EXACT`) the bounds are what is known of exact values: these decide, not the values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_leaves, tree_map

from interval_ops.bounds import Pair
from render.interpreter.hosted.call import Bounds, Exact, Found, is_wide
from render.interpreter.memory import Envelope
from render.interpreter.memory.host_side import EXACTLY
from render.interpreter.memory.integers import INTEGERS
from render.ops.aten import Form, of_form

_RANKED = of_form(Form.ORDER, Form.CHOICE)
EXACT = -1
BRANCHES = 64
"""So many open comparisons of Python's are decided otherwise; then as the values do, or a loop would never end."""


@dataclass
class Choices:
    """One way to decide; `met` counts the integers and truth values that were open, by place."""

    turn: int = 0
    met: dict[tuple[str, int], int] = field(default_factory=dict)
    _branches: int = 0

    def at(self, place: Any, count: int = 1) -> None:
        key = (place.file, place.line)
        self.met[key] = self.met.get(key, 0) + count

    def truth(self, value: bool, place: Any) -> bool:
        """An open comparison of numbers in Python."""
        self.at(place)
        self._branches += 1
        return value if self.turn <= 0 or self._branches > BRANCHES else not value

    def within(self, value: np.ndarray, pair: Pair, lower: np.ndarray) -> np.ndarray:
        """A number within each bound: the value, or an end; `lower` says of which the lower one, in turn 1."""
        if not self.turn:
            return value
        if self.turn == EXACT:
            with np.errstate(invalid="ignore"):
                middle = 0.5 * pair[0] + 0.5 * pair[1]
            return np.where(np.isfinite(middle), middle, value)
        if self.turn > 2:
            lower = np.random.Generator(np.random.PCG64(self.turn)).random(value.shape) < 0.5
        lo, hi = pair if self.turn != 2 else pair[::-1]
        found = np.where(np.broadcast_to(lower, value.shape), lo, hi)
        return np.where(np.isfinite(found), found, value)

    def of_lanes(self, place: Any, value: np.ndarray, pair: Pair) -> np.ndarray:
        """The same of a block of a kernel, with a type of its own."""
        open_ = (pair[0] != pair[1]) | ((self.turn == EXACT) & (pair[0] != value))
        self.at(place, int(open_.sum()))
        lower = np.arange(value.shape[-1]) % 2 == 0
        if self.turn == EXACT and value.dtype.kind in "iub":  # between two there may be none
            found = np.where((value < pair[0]) | (value > pair[1]), pair[0], value)
        else:
            found = self.within(value, pair, lower)
        return np.where(open_, found, value).astype(value.dtype)

    def taken(
        self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], known: Mapping[int, Envelope],
        outputs: list[torch.Tensor], found: Sequence[Found], place: Any, drawn: torch.Tensor | None = None,
    ) -> Sequence[Found]:  # fmt: skip
        """What is known of the results of a host operation, which are written anew, once it has decided.

        `drawn`: the state of torch's generator before it, of an operation that draws: it draws the same again, of
        numbers of the same type (of others it draws others).
        """
        exact = self.turn == EXACT
        chosen = [
            t for t, one in zip(outputs, found, strict=True)
            if t.dtype in INTEGERS and (exact or not isinstance(one, Exact))
        ]  # fmt: skip
        given = [t for t in (*args, *kwargs.values()) if id(t) in known and t.is_floating_point()]
        if not chosen or not any(exact or is_wide(known[id(t)]) for t in given) or func._schema.is_mutable:
            return found
        self.at(place, sum(t.numel() for t in chosen))
        rows = _rows(func, args, kwargs)
        moved = {id(t): self._moved(t, known[id(t)], rows, k) for k, t in enumerate(given)}
        if drawn is not None:
            moved = {id(t): moved[id(t)].to(t.dtype) for t in given}
        elif exact:  # beside numbers of more digits than their type has
            others = [t for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor) and t.is_floating_point()]
            moved = {**{id(t): t.detach().double() for t in others}, **moved}
        args_, kwargs_ = tree_map(lambda x: moved.get(id(x), x), (args, kwargs))
        out = _again(func, args_, kwargs_, drawn) if self.turn else outputs
        results = [out] if isinstance(out, torch.Tensor) else list(out)
        for tensor, other in zip(outputs, results, strict=True):
            if tensor.dtype in INTEGERS and self.turn:
                tensor.resize_(other.shape).copy_(other)
        if rows is None or len(chosen) == len(outputs):
            return [Exact() if t.dtype in INTEGERS else one for t, one in zip(outputs, found, strict=True)]
        return self._in_order(args[0], known[id(args[0])], rows, outputs)

    def _moved(self, tensor: torch.Tensor, e: Envelope, rows: int | None, k: int) -> torch.Tensor:
        wide = tensor.detach().double().numpy()
        if rows is None or not tensor.dim():
            lower = np.array(k % 2 == 0)
        else:
            rank = np.argsort(np.argsort(-wide, rows, kind="stable"), rows)
            lower = rank % 2 == 0
        return torch.from_numpy(self.within(wide, _ends(tensor, e), lower)).to(
            torch.float64 if self.turn == EXACT else tensor.dtype
        )

    def _in_order(self, x: torch.Tensor, e: Envelope, dim: int, outputs: list[torch.Tensor]) -> list[Found]:
        """Values and places of a row, by these places."""
        index = next(t for t in outputs if t.dtype in INTEGERS)
        whole = index if index.dim() == x.dim() else index.unsqueeze(dim)
        lo, hi = (np.take_along_axis(end, whole.numpy(), dim).reshape(index.shape) for end in _ends(x, e))
        for t in outputs:
            if t.dtype not in INTEGERS:
                t.copy_(torch.gather(x, dim, whole).reshape(t.shape))
        return [Exact() if t.dtype in INTEGERS else Bounds(lo, hi) for t in outputs]


def _again(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], drawn: torch.Tensor | None) -> Any:
    if drawn is None:
        return func(*args, **kwargs)
    with torch.random.fork_rng(devices=()):
        torch.set_rng_state(drawn)
        return func(*args, **kwargs)


def _ends(x: torch.Tensor, e: Envelope) -> tuple[np.ndarray, np.ndarray]:
    """Both ends of each element; of what is known to be a point they are its value."""
    given = (x.detach().double().numpy(),) * 2 if e.lo is EXACTLY.lo else (e.lo, e.hi)
    lo, hi = (np.broadcast_to(np.asarray(end, np.float64), x.shape) for end in given)
    return lo, hi


def _rows(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int | None:
    """Along which dimension elements of one operand are ranked; None where operands are compared with each other."""
    name = func._schema.name.removeprefix("aten::")
    if name not in _RANKED or len([x for x in args if isinstance(x, torch.Tensor)]) != 1:
        return None
    places = [a.name for a in func._schema.arguments]
    if "dim" not in places:
        return None
    at = places.index("dim")
    given = kwargs.get("dim", args[at] if at < len(args) else func._schema.arguments[at].default_value)
    return int(given) % max(args[0].dim(), 1) if isinstance(given, int) else None
