"""Bounds of conversions as they were kept (`kept_bounds`)."""

import pytest
from kept_bounds import cases, moved


@pytest.mark.parametrize("name", cases("formats"))
def test_no_bound_has_moved(name: str) -> None:
    assert moved("formats", name) == ""
