"""Dots without any rounding, for many values at once: sums of products in float64, rounded outward (`floats`).

Only where the figures are those of exact arithmetic (`unrounded`) and each value is one dot on an accumulator of zeros,
as the scores of an attention are: then all that a unit may make of it is its sum. Chains of dots, and units that round,
have their formula (`chains`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from render.witness import floats as f
from render.witness.document import Operation
from render.witness.unrounded import EXACT_DOT
from render.witness.values import Ends

if TYPE_CHECKING:
    from render.witness.evaluate import Evaluator

MANY = 256
"""Terms of an operation from which on it is evaluated so."""
PIECE = 1 << 16
"""Products that are held at once."""


def evaluate(e: Evaluator, op: Operation, rows: np.ndarray) -> Ends | None:
    """The ends of these values of a dot or fold; None where they are no sums of the products of one dot each."""
    if (found := factors(e, op, rows)) is None:
        return None
    left, right = found
    many = max(1, PIECE // left.shape[1])
    parts = [_sums(e, left[at : at + many], right[at : at + many]) for at in range(0, len(left), many)]
    lo, hi = (np.concatenate(ends) for ends in zip(*parts, strict=True))
    known = np.isfinite(lo) & np.isfinite(hi)
    return np.where(known, lo, np.nan), np.where(known, hi, np.nan)


def factors(e: Evaluator, op: Operation, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """The numbers of their factors, a row for each value; None where there are few, or `evaluate` has nothing."""
    found = _factors(e, op, rows) if _exact(e, op) else None
    return None if found is None or found[0].size < MANY else found


def _exact(e: Evaluator, op: Operation) -> bool:
    """Whether the figures of its unit are those of exact arithmetic."""
    model = e.rules["dots"][op.attrs["kind"]]
    return all(model.get(key) == value for key, value in EXACT_DOT.items())


def _factors(e: Evaluator, op: Operation, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """`factors`, however many; None where more goes into a value than a dot on zeros."""
    if op.op == "dot":
        acc, left, right = (o[rows] for o in op.operands)
        return (left, right) if left.ndim == 2 and left.shape[1] and _zeros(e, op, acc) else None
    for sums, others in (op.operands, op.operands[::-1]):
        sums, others = sums[rows], others[rows]
        if bool(e.chained(op, 0, sums).all()) and _zeros(e, op, others):
            inner = e.ops[e.owner[sums[0]]]
            one = inner.op == "dot" and bool((e.owner[sums] == e.owner[sums[0]]).all())
            return _factors(e, inner, sums - inner.start) if one else None
    return None


def _zeros(e: Evaluator, op: Operation, numbers: np.ndarray) -> bool:
    """Whether these are zeros, and no sums that the unit goes on with."""
    if bool(e.chained(op, 0, numbers).any()):
        return False
    return not any(end.any() for end in e.values.ends(numbers))


def _sums(e: Evaluator, left: np.ndarray, right: np.ndarray) -> Ends:
    """Sums of the products of each row, a piece of it after the other."""
    total: Ends | None = None
    for at in range(0, left.shape[1], PIECE):
        x, y = (_same(e.values.ends(side[:, at : at + PIECE])) for side in (left, right))
        part = _folded(f.mul(x, y))
        total = part if total is None else f.add(total, part)
    assert total is not None
    return total


def _same(x: Ends) -> Ends:
    """Points with one array for both ends."""
    return (x[0], x[0]) if np.array_equal(*x) else x


def _folded(x: Ends) -> Ends:
    """The sum along each row, halves onto each other: every addition rounds outward once."""
    lo, hi = x
    while lo.shape[1] > 1:
        half, odd = divmod(lo.shape[1], 2)
        one, other = ((lo[:, at], hi[:, at]) for at in (slice(0, half), slice(half, 2 * half)))
        added = f.add(one, other)
        rest = (lo[:, 2 * half :], hi[:, 2 * half :])
        lo, hi = (np.concatenate(ends, axis=1) for ends in zip(added, rest, strict=True)) if odd else added
    return lo[:, 0], hi[:, 0]


__all__ = ["MANY", "evaluate", "factors"]
