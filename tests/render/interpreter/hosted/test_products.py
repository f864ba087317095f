"""Convolutions of a CPU are bounded in float32, whatever torch's switches for CUDA say."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from interval_ops.profiles.profile import load_profile
from render.interpreter.hosted.call import Call
from render.interpreter.hosted.table import RULES


@pytest.mark.parametrize("switch", [True, False])
def test_operands_are_cut_where_the_target_has_such_units(switch):
    torch.manual_seed(0)
    x, w = torch.randn(1, 4, 9, 9), torch.randn(3, 4, 3, 3)
    args = (x, w, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1)
    size = torch.nn.functional.conv2d(x.abs().double(), w.abs().double()).numpy()
    exact = torch.nn.functional.conv2d(x.double(), w.double()).numpy()
    kept = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = switch
    try:
        widths = {}
        for name in ("torch-cpu", "cuda-eager"):
            found = RULES["convolution"](Call(torch.ops.aten.convolution.default, args, {}, {}, load_profile(name)))
            assert ((found.lo <= exact) & (exact <= found.hi)).all()
            widths[name] = float(np.max((found.hi - found.lo) / size))
    finally:
        torch.backends.cudnn.allow_tf32 = kept
    assert widths["torch-cpu"] < 4 * (36 + 8) * 2.0**-24  # two sides, one rounding per addend, and some
    assert (widths["cuda-eager"] > 2.0**-9) == switch
