"""Views of a storage's arrays lie where the tensor's own elements lie."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from render.interpreter.memory import strided
from render.interpreter.memory.registry import Registry

VIEWS = {
    "whole": lambda t: t, "turned": lambda t: t.T, "stepped": lambda t: t[1::2, ::3],
    "offset": lambda t: t.flatten()[7:], "expanded": lambda t: t[:1].expand(4, 6), "empty": lambda t: t[:0],
    "scalar": lambda t: t[2, 3],
}  # fmt: skip


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int16, torch.bool])
def test_elements_bytes_and_bits(name: str, dtype: torch.dtype) -> None:
    base = torch.arange(24).reshape(4, 6).to(dtype)
    storage = Registry().register(base)
    t, size = VIEWS[name](base), base.element_size()
    wanted = VIEWS[name](torch.arange(24).reshape(4, 6)).numpy()
    assert np.array_equal(strided.element_view(np.arange(24), storage, t), wanted)
    places = wanted[..., None] * size + np.arange(size)
    assert np.array_equal(strided.byte_view(np.arange(24 * size), storage, t), places)
    bits = strided.bits_view(storage, t)
    assert bits.tobytes() == t.contiguous().numpy().tobytes() and bits.shape == tuple(t.shape)
    if t.numel():
        assert strided.byte_range(storage, t) == (wanted.min() * size, (wanted.max() + 1) * size)
