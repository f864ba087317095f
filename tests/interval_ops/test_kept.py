"""Passes over flat arrays as they were kept (`kept_bounds`)."""

import pytest
from kept_bounds import cases, moved


@pytest.mark.parametrize("name", cases("scans"))
def test_no_figure_has_moved(name: str) -> None:
    assert moved("scans", name) == ""
