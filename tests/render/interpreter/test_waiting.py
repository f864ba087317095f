"""Whether an atomic may have changed memory, against what Python makes of the two numbers."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest

from render.interpreter.waiting import changed

DOES: dict[str, Any] = {
    "xchg": lambda old, new: new, "add": operator.add, "and": operator.and_, "or": operator.or_, "xor": operator.xor,
    "max": max, "min": min,
}  # fmt: skip


@pytest.mark.parametrize("kind", DOES)
def test_single_lanes(kind: str) -> None:
    for old in range(-3, 4):
        for new in range(-3, 4):
            assert changed(kind, np.array([old]), np.array([new]), None, None) == (DOES[kind](old, new) != old)


def test_a_comparison_changes_memory_where_it_holds() -> None:
    old, new, cmp = np.array([0, 1, 2]), np.array([9, 9, 2]), np.array([1, 0, 2])
    assert not changed("cas", old, new, cmp, None), "two do not hold, the third puts back what was there"
    assert changed("cas", old, new, np.array([0, 0, 0]), None)


def test_lanes_that_are_off_change_nothing_and_unknown_kinds_may() -> None:
    assert not changed("add", np.zeros(2), np.array([0.0, 1.0]), None, np.array([True, False]))
    assert changed("umax", np.zeros(1), np.zeros(1), None, None)
