"""Products as they were kept (`kept_bounds`), by tiles and by numpy."""

import pytest
from kept_bounds import cases, moved

from interval_ops.matrix import product
from interval_ops.matrix.tile import is_fast


@pytest.mark.parametrize("fast", [False, *([True] if is_fast() else [])])
@pytest.mark.parametrize("name", cases("matrix"))
def test_no_product_has_moved(name: str, fast: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(product, "FAST", fast)
    assert moved("matrix", name) == ""
