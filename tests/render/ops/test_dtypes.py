"""Formats of PyTorch's types are what torch itself says of them, of 8 bits what all their numbers say."""

from __future__ import annotations

import pytest
import torch

from interval_ops.formats.model import Format
from render.ops.dtypes import FORMAT_OF


@pytest.mark.parametrize(("dtype", "fmt"), FORMAT_OF.items(), ids=str)
def test_precision_and_range(dtype: torch.dtype, fmt: Format) -> None:
    info = torch.finfo(dtype)
    epsilon = info.eps
    if info.bits == 8:  # torch 2.13 says 0.125 of float8_e5m2fnuz, whose number after 1 is 1.25
        every = torch.arange(256, dtype=torch.uint8).view(dtype).double()
        epsilon = float(every[every > 1].min()) - 1
        assert info.max == float(every.nan_to_num(posinf=0).max())
    assert (2.0 ** (1 - fmt.p), fmt.max, fmt.min_normal, fmt.bits) == (epsilon, info.max, info.tiny, info.bits)
