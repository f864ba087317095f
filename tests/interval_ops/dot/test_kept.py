"""Bounds of matrix products as they were kept (`kept_bounds`)."""

import pytest
from kept_bounds import cases, moved


@pytest.mark.parametrize("name", cases("dot"))
def test_no_bound_has_moved(name: str) -> None:
    assert moved("dot", name) == ""
