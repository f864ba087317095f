"""Which elements of a host operation's results depend on memory that nothing has written.

The operation itself is asked: it runs on copies in which the unwritten elements hold one number and then another, and
what differs depends on them. So `baddbmm(empty, a, b, beta=0)`, `where(mask, x, 0)` and a row of a sum that was written
are told from what is computed of nothing, whatever the operation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import torch
from torch.utils._pytree import tree_flatten, tree_map

from render.interpreter.hosted.call import Known
from render.interpreter.hosted.overloads import OverloadRule, host_site
from render.interpreter.memory import Envelope
from render.interpreter.memory.records import NO_TAINT

if TYPE_CHECKING:
    from render.interpreter.context import Site
    from render.interpreter.memory import Memory

FILLERS = 4


class Void(NamedTuple):
    """What an operation computed of nothing: `why`, and the flags of results (None: of all) and of arguments by id."""

    why: frozenset[int]
    results: list[np.ndarray] | None = None
    arguments: Mapping[int, np.ndarray] = {}

    def flags(self, tensor: torch.Tensor, place: int | None = None) -> np.ndarray | None:
        """Of the result at this place, or of an argument that was written; None: it has none of it."""
        if self is WHOLE:
            return None
        if self.results is None:
            return np.ones(tuple(tensor.shape), np.bool_)
        if place is None:
            return self.arguments.get(id(tensor))
        return self.results[place] if place < len(self.results) else None


WHOLE = Void(NO_TAINT)


def void_of(
    memory: Memory, op: OverloadRule, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], known: Known
) -> Void:
    """What comes of those elements of the operands that nothing has written; to be asked before the operation runs."""
    empty = [k for k, e in known.items() if not e.written.all()]
    if not empty:
        return WHOLE
    why = NO_TAINT.union(*(known[k].void for k in empty))
    found = _asked(func, args, kwargs, known)
    if found is not None and not any(flags.any() for flags in (*found[0], *found[1].values())):
        return WHOLE
    if not why and not op.moves:  # what is only moved is met where it arrives
        first = next(t for t in tree_flatten((args, kwargs))[0] if id(t) in empty)
        why = of_nothing(memory, func, first, known[id(first)])
    return Void(why) if found is None else Void(why, *found)


def of_nothing(memory: Memory, func: Any, tensor: torch.Tensor, known: Envelope) -> frozenset[int]:
    """The finding, and its taint, that an operation computes with what nothing has written of a tensor."""
    lanes, site = int((~known.written).sum()), cast("Site", host_site())
    return frozenset((memory.computed_of_nothing(tensor, lanes, func._schema.name, site),))


def filled(known: Known) -> dict[int, Envelope]:
    """The envelopes with a point in the place of what nothing has written, for rules: results that do not depend on it
    have the bounds of any."""
    return {
        k: e if e.written.all() or e.lo.shape != e.written.shape
        else replace(e, lo=np.where(e.written, e.lo, 0.0), hi=np.where(e.written, e.hi, 0.0))
        for k, e in known.items()
    }  # fmt: skip


def _asked(
    func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], known: Known
) -> tuple[list[np.ndarray], dict[int, np.ndarray]] | None:
    """Which elements of results, and of the arguments afterwards, differ; None where that cannot be tried."""
    if kwargs.get("generator") is not None or func.namespace != "aten":
        return None
    given = [t for t in tree_flatten((args, kwargs))[0] if _is(t)]
    state, runs = torch.get_rng_state(), []
    try:
        for which in range(FILLERS):
            torch.set_rng_state(state)
            copies = {id(t): _filled(t, known.get(id(t)), which) for t in given}
            put = lambda t, c=copies: c[id(t)] if _is(t) else t  # noqa: E731
            out = func(*tree_map(put, args), **tree_map(put, kwargs))
            runs.append(([t for t in tree_flatten(out)[0] if _is(t)], copies))
    except (ArithmeticError, LookupError, NotImplementedError, RuntimeError, TypeError, ValueError):  # no index, say
        return None
    finally:
        torch.set_rng_state(state)
    if any(len({t.shape for t in same}) > 1 for same in zip(*(outs for outs, _ in runs), strict=True)):
        return None
    results = [_differ(same) for same in zip(*(outs for outs, _ in runs), strict=True)]
    if not func._schema.is_mutable:
        return results, {}
    return results, {k: _differ(tuple(c[k] for _, c in runs)) for k in runs[0][1]}


def _is(t: Any) -> bool:
    return isinstance(t, torch.Tensor)


def _filled(t: torch.Tensor, envelope: Envelope | None, which: int) -> torch.Tensor:
    """A copy, its unwritten elements NaN, the largest or the least number of its type, or one."""
    t = t.detach().clone()
    if envelope is None or envelope.written.all():
        return t
    if t.dtype == torch.bool:
        filler: float = which > 0
    elif t.is_floating_point():
        filler = (float("nan"), torch.finfo(t.dtype).max, torch.finfo(t.dtype).min, 1.0)[which]
    else:
        filler = (0, torch.iinfo(t.dtype).max, torch.iinfo(t.dtype).min, 1)[which]
    t[torch.from_numpy(~np.broadcast_to(envelope.written, tuple(t.shape)))] = filler
    return t


def _differ(same: tuple[torch.Tensor, ...]) -> np.ndarray:
    first = same[0]
    flags = torch.zeros(first.shape, dtype=torch.bool)
    for other in same[1:]:
        flags |= ~((first == other) | ((first != first) & (other != other)))
    return flags.numpy()
