"""The greedy executions are legal, err in one direction, and stay inside the bounds of sums in any order."""

from __future__ import annotations

import importlib
import math
import sys
from fractions import Fraction
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from support import rng, round_fraction

from interval_ops.dot.rule import PendingDot
from interval_ops.formats.model import FORMATS
from interval_ops.profiles.profile import load_profile


@pytest.fixture(scope="module")
def greedy() -> ModuleType:
    sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
    try:
        return importlib.import_module("greedy")
    finally:
        sys.path.pop(0)


def terms(k: int, positive: bool = False) -> tuple[np.ndarray, np.ndarray]:
    x = rng(k).random((2, k)) if positive else rng(k).standard_normal((2, k))
    a, b = x.astype(np.float32)
    return a, b


def test_every_step_is_an_fma_rounded_once(greedy: ModuleType) -> None:
    a, b = terms(300)
    sums = (rng(1).standard_normal(300) * 2.0 ** rng(2).integers(-20, 20, 300)).astype(np.float32)
    for x, y, s in zip(a, b, sums, strict=True):
        exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(s))
        assert greedy.add(float(s), float(x) * float(y), 24) == round_fraction(exact, FORMATS["fp32"])


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("k", [1, 2, 33, 300])
def test_executions_stay_inside_the_bounds(greedy: ModuleType, k: int, positive: bool) -> None:
    a, b = terms(k, positive)
    x, y = a[None, None], b[None, :, None]
    lo, hi = PendingDot.start(None, (1, 1), "ieee", load_profile("ieee")).extend((x, x), (y, y)).interval()
    found = list(greedy.executions(a.astype(np.float64) * b.astype(np.float64)))
    assert lo.item() <= min(found) <= max(found) <= hi.item()


def test_errors_go_one_way_and_beat_random_orders(greedy: ModuleType) -> None:
    a, b = terms(300)
    p = a.astype(np.float64) * b.astype(np.float64)
    down, up = greedy.errors(p)
    random = []
    for seed in range(20):
        s = 0.0
        for k in rng(seed).permutation(300):
            s = greedy.add(s, p[k], 24)
        random.append(abs(math.fsum((s, *(-p).tolist()))))
    assert min(down, up) > 4 * max(random)


def test_every_term_is_used_once(greedy: ModuleType) -> None:
    """Integers have no rounding: whatever the order and the pairs, the result is their sum."""
    p = rng(5).integers(-50, 50, 200).astype(np.float64)
    assert set(greedy.executions(p)) == {p.sum()}
