"""A storage that a larger one covers hands on its bounds, and what was stored where."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from interval_ops.formats.model import FP32
from render.interpreter.memory.registry import Storage, _adopt
from render.interpreter.memory.shadow import Shadow

WHOLE = torch.zeros(16)


def storage(first: int, count: int) -> Storage:
    part = WHOLE[first : first + count]
    return Storage(part.data_ptr(), 4 * count, part)


@pytest.mark.parametrize("first", [0, 4])
@pytest.mark.parametrize("ranged", [False, True])
def test_bounds_and_the_range_of_kernels_move_to_where_they_are(first: int, ranged: bool) -> None:
    old, new = storage(first, 8), storage(0, 16)
    old.name, old.kernel_range = "X", (4, 12) if ranged else None
    held = old.shadows["fp32"] = Shadow.make(FP32, 8)
    held.lo[:], held.hi[:], held.stamp[:] = np.arange(8), np.arange(8) + 1, 7
    _adopt(new, old)
    assert new.name == "X" and new.kernel_range == ((4 + 4 * first, 12 + 4 * first) if ranged else None)
    got = new.shadows["fp32"]
    assert np.array_equal(got.lo[first : first + 8], np.arange(8)) and (got.stamp[first : first + 8] == 7).all()
    assert np.array_equal(got.hi[first : first + 8], np.arange(8) + 1) and len(got.stamp) == 16


def test_what_lies_before_or_between_its_elements_is_not_taken() -> None:
    inside, before = storage(4, 8), storage(0, 8)
    before.shadows["fp32"] = Shadow.make(FP32, 8)
    _adopt(inside, before)
    assert not inside.shadows and inside.kernel_range is None
