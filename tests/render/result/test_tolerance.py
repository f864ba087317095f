"""A tolerance says what it lets through."""

from __future__ import annotations

from render.result.tolerance import Tolerance


def test_an_exact_comparison_lets_nothing_through() -> None:
    assert Tolerance(0.0, 0.0, "torch.equal(a, b)", 0.5, 0.5).misses == ""


def test_zeros_are_named_where_they_pass() -> None:
    assert "zeros instead of 25 %" in Tolerance(0.1, 0.0, "line", 0.01, 0.25).misses
    assert "relative error of 0.01" in Tolerance(0.1, 0.0, "line", 0.01, 0.0).misses
    assert "zeros" not in Tolerance(0.0, 0.1, "line", 0.01, 0.0).misses
