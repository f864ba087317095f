"""Truth values, counts and signs of what bounds leave open or decide, on the host.

A number that may be NaN is true or false, and of either sign.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np
import torch

from interval_ops.bounds import Pair
from render.interpreter.hosted.call import Bounds, Call, Exact, Found, Result
from render.interpreter.memory.integers import INTEGERS


def _settled(lo: Any, hi: Any) -> Found:
    """Truth values by (surely, possibly)."""
    if np.array_equal(lo, hi):
        return Exact()
    return Bounds(np.asarray(lo, np.float64), np.asarray(hi, np.float64))


def _truth(pair: Pair) -> tuple[np.ndarray, np.ndarray]:
    """(surely, possibly) other than zero."""
    lo, hi = pair
    return np.asarray((lo > 0) | (hi < 0)), np.asarray(~((lo == 0) & (hi == 0)))


def _instead(at: dict[int, torch.Tensor]) -> Callable[[Any], Any]:
    return lambda x: at.get(id(x), x)


def by_truth(call: Call) -> Result:
    """logical_and, any, count_nonzero and the like: of all that the truth values of the operands may be.

    Reductions rise with each truth value, so that two cases of one operand enclose all; of two operands each element
    meets its four.
    """
    given = [t for t in call.args[:2] if isinstance(t, torch.Tensor)]
    if any(t.is_complex() for t in given):
        return None
    truths = [_truth(call.pair(t)) for t in given]
    found = []
    for chosen in product((0, 1), repeat=len(given)):
        at = {id(t): torch.from_numpy(np.array(truth[k])) for t, truth, k in zip(given, truths, chosen, strict=True)}
        found.append(call.run(_instead(at)).numpy().astype(np.float64))
    return _settled(np.minimum.reduce(found), np.maximum.reduce(found))


def of_masks(call: Call) -> Result:
    """`~`, `&`, `|` and `^` of truth values."""
    given = call.args[: 1 if "not" in call.op._schema.name else 2]
    if not all(isinstance(t, torch.Tensor) and t.dtype == torch.bool for t in given):
        return None
    return by_truth(call)


def negative(call: Call) -> Result:
    """signbit: of what may be zero the sign of that is open."""
    lo, hi = call.pair(call.x)
    if call.x.dtype in INTEGERS:
        return _settled(hi < 0, lo < 0)
    return _settled(hi < 0, ~(lo > 0))


def infinite(call: Call) -> Result:
    """isposinf and isneginf."""
    lo, hi = call.pair(call.x)
    if "neg" in call.op._schema.name:
        lo, hi = -hi, -lo
    return _settled(lo == np.inf, ~(hi < np.inf))


def with_sign(call: Call) -> Result:
    """copysign: the magnitude of one number with the sign of another; both signs where that may be zero."""
    x, other = call.args[:2]
    if not isinstance(x, torch.Tensor) or not x.is_floating_point():
        return None
    lo, hi = (np.asarray(end, np.float64) for end in call.pair(x))
    most = np.maximum(np.abs(lo), np.abs(hi))
    least = np.where((lo <= 0) & (hi >= 0), 0.0, np.minimum(np.abs(lo), np.abs(hi)))
    if isinstance(other, torch.Tensor):
        low, high = call.pair(other)
        plus, minus = ~(high < 0), ~(low > 0)
        if id(other) not in call.known:  # a number as it is, with the sign of its zero
            plus, minus = ~np.signbit(low), np.signbit(low)
    else:
        plus, minus = np.array(not np.signbit(other)), np.array(bool(np.signbit(other)))
    return Bounds(np.where(minus, -most, least), np.where(plus, most, -least))


def fraction(call: Call) -> Result:
    """frac: x less its whole part, which is exact; [0, 1] of its sign where a whole number may lie between."""
    lo, hi = (np.asarray(end, np.float64) for end in call.pair(call.x))
    same = np.trunc(lo) == np.trunc(hi)
    low = np.where(same, lo - np.trunc(lo), np.where(lo < 0, -1.0, 0.0))
    high = np.where(same, hi - np.trunc(hi), np.where(hi > 0, 1.0, 0.0))
    open_ = ~np.isfinite(lo) | ~np.isfinite(hi)
    return Bounds(np.where(open_, np.nan, low), np.where(open_, np.nan, high))


def placed(call: Call) -> Result:
    """searchsorted and bucketize: the place rises with the number, and falls with boundaries that stay in order."""
    x = call.get("self")
    edges = call.get("sorted_sequence", call.get("boundaries"))
    if not isinstance(x, torch.Tensor) or call.get("sorter") is not None:
        return None
    (low, high), (below, above) = call.pair(edges), call.pair(x)
    if not (high[..., :-1] <= low[..., 1:]).all():
        return None

    def among(one: np.ndarray, others: np.ndarray) -> np.ndarray:
        at = {id(x): one, id(edges): others}
        doubles = {key: torch.from_numpy(end.astype(np.float64)) for key, end in at.items()}
        found: np.ndarray = call.run(_instead(doubles)).numpy().astype(np.float64)
        return found

    loose = np.isnan(below) | np.isnan(above)
    lo, hi = among(below, high), among(above, low)
    return _settled(np.where(loose, 0.0, lo), np.where(loose, float(edges.shape[-1]), hi))


def counted(call: Call) -> Result:
    """bincount of open integers: those that are certain, and those that may be."""
    if call.get("weights") is not None or call.x.dtype not in INTEGERS or not call.x.numel():
        return None
    lo, hi = (np.asarray(end).astype(np.int64).reshape(-1) for end in call.pair(call.x))
    least = int(call.get("minlength", 0) or 0)
    count = max(int(hi.max()) + 1, least)
    if lo.min() < 0 or max(int(lo.max()) + 1, least) != count or count > 1 << 20:
        return None
    sure = np.bincount(lo[lo == hi], minlength=count)
    starts, stops = np.bincount(lo, minlength=count + 1), np.bincount(hi + 1, minlength=count + 1)
    return _settled(sure, np.cumsum(starts - stops)[:count])


def alike_for_all(
    name: str, boxes: Sequence[tuple[np.ndarray, np.ndarray]], answer: bool, rtol: float = 1e-5, atol: float = 1e-8,
    equal_nan: bool = False,
) -> bool:  # fmt: skip
    """Whether `torch.equal` or `torch.allclose` answers the same for all numbers in two boxes."""
    (a, b), (c, d) = boxes
    if a.shape != c.shape:
        return name == "equal"
    with np.errstate(all="ignore"):
        least, most = np.maximum(np.maximum(c - b, a - d), 0.0), np.maximum(b - c, d - a)
        if name == "equal":
            return bool((least > 0).any() if not answer else (most == 0).all())
        small = np.where((c <= 0) & (d >= 0), 0.0, np.minimum(np.abs(c), np.abs(d)))
        large = np.maximum(np.abs(c), np.abs(d))
        room = 1 + 2.0**-6  # of what torch rounds in a narrow type
        sure = most * room <= atol + rtol * small
        never = least > (atol + rtol * large) * room
    return bool(sure.all() if answer else never.any())
