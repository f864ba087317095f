"""Exact arithmetic has its precision."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from render.exact.points import precision


@pytest.fixture(autouse=True)
def bits() -> Iterator[None]:
    with precision():
        yield
