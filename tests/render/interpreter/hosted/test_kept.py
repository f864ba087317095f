"""What the host's operations make of bounds, as it was kept (`kept_bounds`)."""

import pytest
from kept_bounds import cases, moved

from render.result.versions import installed_triton

if installed_triton() < (3, 9):
    pytest.skip("kept with Triton 3.9", allow_module_level=True)


@pytest.mark.filterwarnings("ignore:reduction")
@pytest.mark.parametrize("name", cases("hosted"))
def test_no_bound_has_moved(name: str) -> None:
    assert moved("hosted", name) == ""
