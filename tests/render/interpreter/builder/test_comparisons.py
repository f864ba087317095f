"""Comparisons of floats whose bounds are open: sure, possible or neither, as all points of both boxes say."""

from __future__ import annotations

import operator
from itertools import product

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from render.interpreter.session import Session

INF = float("inf")
BOXES = [(0.0, 0.0), (-0.0, -0.0), (1.0, 1.0), (0.0, 1.0), (-1.0, 1.0), (1.0, 2.0), (2.0, 2.0), (-2.0, -1.0),
         (INF, INF), (1.0, INF), (-INF, INF), (-INF, -INF)]  # fmt: skip
GRID = [-INF, -3.0, -2.0, -1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0, INF]
NAN = float("nan")
LANES = 256


@triton.jit
def compared(X, Y, Out, OP: tl.constexpr, SAME: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(X + i)
    y = x if SAME else tl.load(Y + i)
    if OP == "eq":
        c = x == y
    elif OP == "ne":
        c = x != y
    elif OP == "lt":
        c = x < y
    elif OP == "le":
        c = x <= y
    elif OP == "gt":
        c = x > y
    else:
        c = x >= y
    tl.store(Out + i, tl.where(c, 7.0, 3.0))


def seen(op: str, xs: list[tuple[float, float]], ys: list[tuple[float, float]], same: bool, last: int):
    pad = [(0.0, 0.0)] * (LANES - len(xs))
    ends = [[np.array([b[side] for b in (*boxes, *pad)]) for side in (0, 1)] for boxes in (xs, ys)]
    x, y = (torch.from_numpy(e[last]).float() for e in ends)
    out = torch.zeros(LANES)
    with Session(device="any") as session:
        for t, (lo, hi) in zip((x, y), ends, strict=True):
            session.memory.carry(t, lo, hi, frozenset())
        compared[(1,)](x, y, out, op, same, LANES)
    found, n = session.envelope(out), len(xs)
    assert not found.taints
    return found.lo[:n], found.hi[:n], out.numpy()[:n]


def expected(op: str, pairs: list[list[tuple[float, float]]]) -> tuple[np.ndarray, np.ndarray]:
    truths = [[getattr(operator, op)(a, b) for a, b in some] for some in pairs]
    return np.array([7.0 if all(t) else 3.0 for t in truths]), np.array([7.0 if any(t) else 3.0 for t in truths])


def points(box: tuple[float, float]) -> list[float]:
    """All that the boxes of this table tell apart."""
    return [p for p in GRID if box[0] <= p <= box[1]]


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("op", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_two_boxes(op: str, last: int) -> None:
    both = list(product(BOXES, repeat=2))
    lo, hi, v = seen(op, [a for a, _ in both], [b for _, b in both], False, last)
    low, high = expected(op, [list(product(points(a), points(b))) for a, b in both])
    assert np.array_equal(lo, low) and np.array_equal(hi, high)
    assert v.tolist() == [7.0 if getattr(operator, op)(a[last], b[last]) else 3.0 for a, b in both]


@pytest.mark.parametrize("op", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_a_number_and_itself(op: str) -> None:
    """Equal, whatever it is; where it may be NaN, not even that. (A bound without ends counts as one.)"""
    known = [b for b in BOXES if b != (-INF, INF)]
    boxes = [*known, (NAN, NAN)]
    lo, hi, _ = seen(op, boxes, boxes, True, 0)
    low, high = expected(op, [[(a, a) for a in points(b)] for b in known])
    assert np.array_equal(lo[:-1], low) and np.array_equal(hi[:-1], high)
    of_nan = expected(op, [[(NAN, NAN), (1.0, 1.0)]])
    assert (lo[-1], hi[-1]) in ((of_nan[0][0], of_nan[1][0]), (expected(op, [[(NAN, NAN)]])[0][0],) * 2)
