"""Pairs of ends: what makes a point is asked and kept in one place."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import numpy as np
import pytest

from interval_ops.bounds import each, exact, is_point

ROOT = Path(__file__).resolve().parents[2]
OWN = ("interval_ops/bounds.py", "render/exact/", "render/witness/")
"""The place itself, and pairs of single numbers, where one object for both ends is a short cut and says nothing."""


def test_a_point_is_moved_once_and_stays_one() -> None:
    calls: list[np.ndarray] = []

    def move(end: np.ndarray) -> np.ndarray:
        calls.append(end)
        return end.reshape(2, 1)

    moved = each(exact(np.array([1.0, np.nan])), move)
    assert is_point(moved) and len(calls) == 1 and moved[0].shape == (2, 1)


def test_equal_ends_make_no_point() -> None:
    pair = np.ones(3), np.ones(3)
    low, high = each(pair, lambda end: end + 1.0)
    assert not is_point(pair) and low is not high and (low == high).all()


def _lower(node: ast.expr) -> str:
    """The text of an end, with the names of an upper end read as those of the lower one."""
    names = re.sub(
        r"(?<![a-z])(t?)hi(gh)?(?![a-z])", lambda end: end[1] + ("low" if end[2] else "lo"), ast.unparse(node)
    )
    return names.replace("[1]", "[0]")


def compared(source: str) -> list[int]:
    """Lines on which both ends of one pair are compared by identity."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Is | ast.IsNot)
        and ast.unparse(node.left) != ast.unparse(node.comparators[0])
        and _lower(node.left) == _lower(node.comparators[0])
    ]  # fmt: skip


@pytest.mark.parametrize(
    "source",
    ["x[0] is x[1]", "p[0][0] is p[0][1]", "lo is not hi", "a._lo is a._hi", "cond_lo is cond_hi", "low is high"],
)
def test_a_comparison_of_ends_would_be_seen(source: str) -> None:
    assert compared(source) == [1]


def test_only_one_place_compares_ends_by_identity() -> None:
    found = {
        str(path.relative_to(ROOT)): lines
        for top in ("interval_ops", "render")
        for path in (ROOT / top).rglob("*.py")
        if not str(path.relative_to(ROOT)).startswith(OWN) and (lines := compared(path.read_text()))
    }
    assert not found
