"""Integers that the bounds of floats leave open, on the host: what they pick and write as indices, and their sums."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from math import prod
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_flatten

from interval_ops.formats.model import FP64
from render.interpreter.hosted.call import EXACT, Bounds, Call, Result, Rule
from render.interpreter.hosted.moves import moved
from render.interpreter.memory.integers import INTEGERS

CANDIDATES = 32
"""So many places of one element are tried."""


def _turns(call: Call, opens: list[torch.Tensor]) -> Iterator[dict[int, torch.Tensor]]:
    """Indices in the place of open ones, until every element was all that it may be; none where that is too much."""
    between = [[end.astype(np.int64) for end in call.pair(t)] for t in opens]
    counts = [int((hi - lo).max(initial=0)) + 1 for lo, hi in between]
    if prod(counts) > CANDIDATES:
        return
    for turn in product(*map(range, counts)):
        yield {id(t): torch.from_numpy(np.minimum(lo + k, hi))
               for t, k, (lo, hi) in zip(opens, turn, between, strict=True)}  # fmt: skip


def _instead(chosen: dict[int, torch.Tensor], plain: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda t: chosen[id(t)] if id(t) in chosen else plain(t)


def picked(call: Call) -> Result:
    """Elements at places (index, gather and the like): the hull over all places that each may come from."""
    given = [t for t in tree_flatten((call.args[1:], call.kwargs))[0] if isinstance(t, torch.Tensor)]
    opens = [t for t in given if call.is_open(t)]
    if not opens:
        return moved(call)
    if any(t.dtype == torch.bool for t in given):
        return None
    found = []
    for chosen in _turns(call, opens):
        for end in (0, 1):
            found.append(call.run(_instead(chosen, call.at(end))).numpy())
    return Bounds(np.minimum.reduce(found), np.maximum.reduce(found)) if found else None


def scattered(call: Call) -> Result:
    """One number written to places along a dimension: for certain, perhaps, or not."""
    index, value = call.get("index"), call.get("value")
    if not call.is_open(index):
        return moved(call)
    if value is None or isinstance(value, torch.Tensor) or call.get("reduce") is not None:
        return None
    dim, pair = int(call.get("dim")), call.pair(index)
    nothing = torch.zeros(call.x.shape, dtype=torch.uint8)
    known = torch.from_numpy((pair[0] == pair[1]).astype(np.uint8))
    sure = nothing.scatter_reduce(dim, torch.from_numpy(pair[0].astype(np.int64)), known, "amax").numpy() > 0
    hits = [nothing.scatter(dim, chosen[id(index)], 1).numpy() > 0 for chosen in _turns(call, [index])]
    if not hits:
        return None
    may = np.logical_or.reduce(hits)
    low, high = (np.asarray(end, np.float64) for end in call.pair(call.x))
    one = float(value)
    return Bounds(*(np.where(sure, one, np.where(may, join(end, one), end)) for end, join in
                    ((low, np.minimum), (high, np.maximum))))  # fmt: skip


def of_integers(rule: Rule, corner: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Rule:
    """`rule`, and for two integers of which one is open the hull of `corner` of all ends; none where a type wraps."""

    def applied(call: Call) -> Result:
        given = call.args[:2]
        dtype = torch.result_type(*given)
        if dtype not in INTEGERS:
            return rule(call)
        pairs = call.operands(given, FP64)
        if pairs is None or call.get("alpha", 1) != 1:
            return None
        ends = [corner(a, b) for a, b in product(*pairs)]
        lo, hi = np.minimum.reduce(ends), np.maximum.reduce(ends)
        if dtype == torch.bool:  # a sum is one or the other
            return Bounds(np.minimum(lo, 1.0), np.minimum(hi, 1.0))
        info = torch.iinfo(dtype)
        fits = (lo >= max(-EXACT, info.min)) & (hi <= min(EXACT, info.max))
        return Bounds(lo, hi) if fits.all() else None

    return applied
