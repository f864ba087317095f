"""Sums of magnitudes in float32 are bounds: against float64, for convolutions of many forms and sizes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from interval_ops.profiles.profile import load_profile
from render.interpreter.session import Session
from render.ops import single

FORMS = [
    lambda x, w: F.conv2d(x, w, padding=1),
    lambda x, w: F.conv2d(x, w, stride=2, dilation=2),
    lambda x, w: F.conv_transpose2d(x, w.transpose(0, 1), stride=2),
    lambda x, w: F.conv2d(x.repeat(1, 2, 1, 1), w, groups=2),
]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("scale", [1.0, 1e-20, 1e-38, 1e15])
def test_a_sum_in_float32_is_no_less_than_in_float64(form, scale):
    torch.manual_seed(0)
    x = scale * torch.rand(2, 8, 9, 9, dtype=torch.float64) ** 8
    w = torch.rand(6, 8, 3, 3, dtype=torch.float64) ** 8
    found = single.above(lambda p: form(*p), [x, w], 73)
    exact = form(x, w)
    assert found is not None and bool((found >= exact).all())
    assert scale < 1e-30 or bool((found <= exact * 1.001).all())


def test_what_float32_does_not_hold_is_left_to_float64():
    x, w = torch.ones(1, 1, 4, 4, dtype=torch.float64), torch.ones(1, 1, 3, 3, dtype=torch.float64)
    assert single.above(lambda p: F.conv2d(*p), [1e30 * x, w], 10) is None
    assert single.above(lambda p: F.conv2d(*p), [torch.nan * x, w], 10) is None
    assert single.above(lambda p: F.conv2d(*p), [x, w], single.LONGEST) is None


def test_switches_that_let_torch_cut_float32_are_seen():
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("medium")
        assert not single.is_plain()
    finally:
        torch.set_float32_matmul_precision(before)
    assert single.is_plain()


@pytest.mark.parametrize("open_weight", [False, True])
def test_the_rule_holds_corners_of_its_operands(open_weight):
    torch.manual_seed(1)
    x, w, b = torch.randn(2, 3, 8, 8), torch.randn(4, 3, 3, 3), torch.randn(4)
    session = Session(device=load_profile("torch-cpu").name, redirect=False)
    open_ = (x, w, b) if open_weight else (x, b)
    for t in open_:
        v = t.double().numpy()
        session.memory.carry(t, v - 1e-3 * np.abs(v), v + 1e-3 * np.abs(v), frozenset(), None)
    with session:
        y = F.conv2d(x, w, b, padding=1)
        found = session.envelope(y)
    assert found is not None and not found.taints
    for _ in range(20):
        moved = [
            t.double() * (1 + 1e-3 * (torch.randint(0, 2, t.shape) * 2 - 1))
            if any(t is o for o in open_)
            else t.double()
            for t in (x, w, b)
        ]
        exact = F.conv2d(*moved, padding=1).numpy()
        assert ((found.lo <= exact) & (exact <= found.hi)).all()
    assert np.median(found.hi - found.lo) < (3e-2 if open_weight else 1.6e-2) * float(y.abs().max())
