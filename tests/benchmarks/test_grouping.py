"""Executions that group the terms of a plateau are legal ones, and find more than the greedy search does."""

from __future__ import annotations

import importlib
import math
import sys
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from support import rng, round_fraction

from interval_ops.formats.casting import round_value
from interval_ops.formats.model import FORMATS

BF16 = FORMATS["bf16"]


@pytest.fixture(scope="module")
def grouping() -> ModuleType:
    sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
    try:
        return importlib.import_module("grouping")
    finally:
        sys.path.pop(0)


def results(terms: tuple[Fraction, ...]) -> set[Fraction]:
    """Of every order and grouping, each addition rounded once."""
    if len(terms) == 1:
        return {terms[0]}
    whole, out = range(len(terms)), set[Fraction]()
    for size in range(1, len(terms) // 2 + 1):
        for part in combinations(whole, size):
            left, right = (tuple(terms[i] for i in whole if (i in part) == mine) for mine in (True, False))
            out |= {round_fraction(x + y, BF16) for x in results(left) for y in results(right)}
    return out


@pytest.mark.parametrize("seed", range(12))
def test_a_result_is_that_of_some_order_and_grouping(grouping: ModuleType, seed: int) -> None:
    x = round_value(rng(seed).standard_normal(5) * 2.0 ** rng(seed + 1).integers(-4, 5, 5), BF16).astype(np.float64)
    legal = results(tuple(map(Fraction, x.tolist())))
    assert {Fraction(r) for r in grouping.executions(x, 8, 50)} <= legal


def test_every_term_is_used_once(grouping: ModuleType) -> None:
    x = rng(5).integers(-50, 50, 200).astype(np.float64)
    assert set(grouping.executions(x, 24, 2000)) == {x.sum()}


def test_groups_that_improve_together_find_more_than_the_best_one_first(grouping: ModuleType) -> None:
    x = rng(3).standard_normal(64) * 2.0 ** rng(4).integers(-4, 4, 64)
    x = round_value(np.concatenate([x, -x * (1 + 2.0**-10)]), BF16).astype(np.float64)
    greedy = max(importlib.import_module("greedy").errors(x, 8))
    found = max(abs(math.fsum((r, *(-x).tolist()))) for r in grouping.executions(x, 8, 100_000))
    assert found > greedy
