"""What kernels over the features of the language give, as it was kept (`kept_bounds`)."""

import pytest
from kept_bounds import cases, moved

from render.result.versions import installed_triton

if installed_triton() < (3, 9):
    pytest.skip("kept with Triton 3.9", allow_module_level=True)


@pytest.mark.parametrize("name", cases("kernels"))
def test_no_bound_has_moved(name: str) -> None:
    assert moved("kernels", name) == ""


@pytest.mark.parametrize("name", cases("launches"))
def test_no_launch_has_moved(name: str) -> None:
    assert moved("launches", name) == ""


@pytest.mark.parametrize("name", cases("features"))
def test_no_feature_has_moved(name: str) -> None:
    assert moved("features", name) == ""


@pytest.mark.parametrize("name", cases("related"))
def test_nothing_related_has_moved(name: str) -> None:
    assert moved("related", name) == ""


@pytest.mark.parametrize("name", cases("combined"))
def test_nothing_combined_has_moved(name: str) -> None:
    assert moved("combined", name) == ""
