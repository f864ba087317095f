"""Bounds of functions, and the double words behind them, as they were kept (`kept_bounds`)."""

import pytest
from kept_bounds import cases, moved


@pytest.mark.parametrize("name", cases("functions"))
def test_no_bound_has_moved(name: str) -> None:
    assert moved("functions", name) == ""


@pytest.mark.parametrize("name", cases("double_words"))
def test_no_word_has_moved(name: str) -> None:
    assert moved("double_words", name) == ""
