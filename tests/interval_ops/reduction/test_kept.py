"""Bounds of reductions and scans as they were kept (`kept_bounds`)."""

import pytest
from kept_bounds import cases, moved


@pytest.mark.parametrize("name", cases("reduction"))
def test_no_bound_has_moved(name: str) -> None:
    assert moved("reduction", name) == ""
