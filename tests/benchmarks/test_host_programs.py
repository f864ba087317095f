"""A few random host programs: nothing that torch makes of their inputs leaves the bounds."""

from __future__ import annotations

import warnings

import pytest
import torch

from benchmarks.host_programs import attacked, attacked_reference


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_nothing_leaves_the_bounds_of_random_programs(dtype: torch.dtype) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [attacked(seed, 10, dtype, 0.01) for seed in range(60)]
    ran = [one for one in found if one is not None]
    assert len(ran) > 50 and sum(checked for checked, _ in ran) > 800
    assert [line for _, left in ran for line in left] == []


def test_nothing_leaves_the_errors_of_random_references() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [attacked_reference(seed, 10) for seed in range(80)]
    ran = [one for one in found if one is not None]
    assert len(ran) > 50 and sum(checked for checked, _ in ran) > 800
    assert [line for _, left in ran for line in left] == []
