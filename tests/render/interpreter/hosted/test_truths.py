"""Truth values, counts and signs on the host: held against every choice of points, and no wider than it has to be."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch

from render.interpreter.host import HostTracker
from render.interpreter.memory import Memory


def known(memory: Memory, lo: list[float], hi: list[float], dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """A tensor that a kernel wrote, of which the lower ends came out."""
    out = torch.tensor(lo, dtype=dtype)
    memory.carry(out, np.array(lo, np.float64), np.array(hi, np.float64), frozenset())
    return out


LO, HI = [-1.5, -0.25, 0.0, 0.25, 1.0, 1.75], [-1.25, 0.25, 0.0, 0.75, 1.0, 2.25]
OTHER_LO, OTHER_HI = [0.0, 1.0, -1.0, -0.5, 2.0, -3.0], [0.0, 2.0, 1.0, -0.5, 2.0, -2.0]
EDGES = torch.tensor([-1.4, 0.0, 0.5, 2.0])
OF_ONE: dict[str, Any] = {
    "not": torch.logical_not, "any": lambda x: x.any(), "all": lambda x: (x + 4).all(), "count": torch.count_nonzero,
    "signbit": torch.signbit, "frac": torch.frac, "isposinf": torch.isposinf, "isneginf": torch.isneginf,
    "bucketize": lambda x: torch.bucketize(x, EDGES),
    "searchsorted": lambda x: torch.searchsorted(EDGES, x, side="right"),
    "nanmedian": lambda x: x.nanmedian(-1).values, "isclose": lambda x: torch.isclose(x, x + 1e-7),
    "~": lambda x: ~(x > 0), "& |": lambda x: ((x > 0) & (x < 1)) | (x == 1.75),
    "^": lambda x: (x > 0) ^ (x > 0.5),
    "xor": lambda x: torch.logical_xor(x, x > 0.5), "product of masks": lambda x: (x > 0) * (x < 1),
}  # fmt: skip
OF_TWO: dict[str, Any] = {
    "copysign": torch.copysign, "and": torch.logical_and, "or": torch.logical_or, "xor": torch.logical_xor,
}  # fmt: skip


def _points(lo: list[float], hi: list[float]) -> list[torch.Tensor]:
    """Corners, middles, and what a jump does: zero of either sign, where it lies between."""
    each = [sorted({a, b, (a + b) / 2, *([0.0] if a <= 0 <= b else [])}) for a, b in zip(lo, hi, strict=True)]
    found = [torch.tensor(p) for p in product(*each)][::7]
    return found + [torch.where(p == 0, -p.abs(), p) for p in found[::5]]


def _ends(operation: Any, *boxes: tuple[list[float], list[float]]) -> tuple[np.ndarray, np.ndarray]:
    memory = Memory()
    tensors = [known(memory, lo, hi) for lo, hi in boxes]
    with HostTracker(memory):
        out = operation(*tensors)
    found = memory.envelope(out)
    if found is None:
        v = out.double().numpy()
        return v, v
    assert not found.taints
    return found.lo, found.hi


@pytest.mark.parametrize("name", OF_ONE)
def test_of_one_operand(name):
    operation = OF_ONE[name]
    lo, hi = _ends(operation, (LO, HI))
    for point in _points(LO, HI):
        seen = operation(point).double().numpy()
        assert ((lo <= seen) & (seen <= hi)).all(), (point, seen, lo, hi)


INF = np.inf
OPEN_LO, OPEN_HI = [-INF, -INF, -1.0, INF, -INF, 1.0], [-INF, -1.0, INF, INF, INF, 2.0]


@pytest.mark.parametrize(("which", "end"), [(torch.isposinf, INF), (torch.isneginf, -INF)])
def test_whether_a_number_is_infinite_is_open_where_an_end_is(which, end):
    low, high = _ends(which, (OPEN_LO, OPEN_HI))
    for k, (a, b) in enumerate(zip(OPEN_LO, OPEN_HI, strict=True)):
        assert bool(high[k]) is (a <= end <= b)
        assert bool(low[k]) is (a == b == end)


@pytest.mark.parametrize("name", OF_TWO)
def test_of_two_operands(name):
    operation = OF_TWO[name]
    lo, hi = _ends(operation, (LO, HI), (OTHER_LO, OTHER_HI))
    for x, y in product(_points(LO, HI)[::20], _points(OTHER_LO, OTHER_HI)):
        seen = operation(x, y).double().numpy()
        assert ((lo <= seen) & (seen <= hi)).all(), (x, y, seen, lo, hi)


def test_what_is_decided_is_exact():
    lo, hi = _ends(lambda x: torch.bucketize(x, EDGES), ([0.6, 1.0], [1.9, 1.1]))
    assert lo.tolist() == hi.tolist() == [3, 3]
    lo, hi = _ends(torch.frac, ([1.25, -2.5], [1.5, -2.25]))
    assert (lo.tolist(), hi.tolist()) == ([0.25, -0.5], [0.5, -0.25])
    lo, hi = _ends(lambda x: x.count_nonzero(), ([1.0, -1.0, 0.0], [2.0, -0.5, 3.0]))
    assert (int(lo), int(hi)) == (2, 3)


OF_INTEGERS: dict[str, Any] = {
    **{name: OF_ONE[name] for name in ("not", "any", "count", "signbit", "~", "bucketize", "searchsorted")},
    "isnan": torch.isnan, "isinf": torch.isinf, "isfinite": torch.isfinite, "bucketize by integers": lambda x: (
        torch.bucketize(x, torch.tensor([-1, 0, 2], dtype=torch.int32))),
}  # fmt: skip


@pytest.mark.parametrize("name", OF_INTEGERS)
def test_of_open_integers_the_hull_is_met(name):
    """Zero of an integer has no sign, and each of few numbers is tried: nothing wider than what comes out is needed."""
    low, high = [-2, -1, 0, 0, 1, 3], [-1, 0, 0, 2, 1, 4]
    memory = Memory()
    x = known(memory, low, high, torch.int32)
    with HostTracker(memory):
        found = memory.envelope(out := OF_INTEGERS[name](x))
    lo, hi = (found.lo, found.hi) if found else (out.double().numpy(),) * 2
    every = product(*(range(a, b + 1) for a, b in zip(low, high, strict=True)))
    seen = np.array([OF_INTEGERS[name](torch.tensor(p, dtype=torch.int32)).double().numpy() for p in every])
    assert found is None or not found.taints
    assert lo.tolist() == seen.min(axis=0).tolist() and hi.tolist() == seen.max(axis=0).tolist()


def test_open_integers_are_counted():
    memory = Memory()
    x = known(memory, [0, 1, 2, 2], [1, 1, 3, 2], torch.int64)
    with HostTracker(memory):
        out = torch.bincount(x, minlength=4)
    found = memory.envelope(out)
    assert (found.lo.tolist(), found.hi.tolist(), found.taints) == ([0, 1, 1, 0], [1, 2, 2, 1], frozenset())


def test_what_numbers_leave_open_has_no_length():
    memory = Memory()
    x = known(memory, [0, 1], [1, 3], torch.int64)
    with HostTracker(memory):
        out = torch.bincount(x)
    found = memory.envelope(out)
    assert found.taints
