"""Formulas over large tensors go block by block, with the same bounds as any part of them alone."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
import torch
from support import rng, trials

from interval_ops.arithmetic.broadcast import BLOCK
from interval_ops.formats.model import FP32
from render.interpreter.hosted.algebra import enclosed, range_of
from render.interpreter.hosted.call import Bounds, Exact, host_profile, one_each
from render.interpreter.session import Session
from render.ops import formulas
from render.ops.aten import ATEN

KNOWN = {"silu": (-1.2784645427610738,), "sigmoid": (), "gelu": (-0.7517915246935645,), "softplus": ()}


def exactly(name, x):
    x = mpmath.mpf(float(x))
    if name == "gelu":
        return x * mpmath.erfc(-x / mpmath.sqrt(2)) / 2
    return {
        "silu": lambda: x / (1 + mpmath.exp(-x)),
        "sigmoid": lambda: 1 / (1 + mpmath.exp(-x)),
        "softplus": lambda: mpmath.log1p(mpmath.exp(x)) if x < 20 else x,
    }[name]()


@pytest.mark.parametrize("name", KNOWN)
@pytest.mark.parametrize("wide", [False, True])
def test_blocks_are_what_their_parts_are(name, wide):
    g = rng(1)
    lo = g.standard_normal((3, BLOCK // 2)) * 4
    hi = lo + np.abs(g.standard_normal(lo.shape)) * 0.1 if wide else lo
    formula = getattr(formulas, name)

    def found(a, b):
        pair = (a, b) if wide else (a, a)
        return enclosed(formula, formula, [pair], FP32, host_profile(), KNOWN[name], {})

    whole, parts = found(lo, hi), [found(a[None], b[None]) for a, b in zip(lo, hi, strict=True)]
    for i in (0, 1):
        assert np.array_equal(whole[i], np.concatenate([p[i] for p in parts]))


@pytest.mark.parametrize("name", KNOWN)
def test_ranges_hold_exact_values_in_many_bits(name):
    g = rng(2)
    mpmath.mp.prec = 160
    count = trials(300)
    lo = np.concatenate([g.standard_normal(count) * 10.0 ** g.integers(-6, 2, count), [-1.3, -0.8, 0.0, 30.0]])
    hi = lo + np.abs(lo) * 10.0 ** g.integers(-12, 0, lo.size)
    low, high = range_of(getattr(formulas, name), (lo, hi), FP32, KNOWN[name], {})
    for part in (0.0, 0.5, 1.0):
        x = np.clip(lo + part * (hi - lo), lo, hi)
        values = [exactly(name, v) for v in x]
        assert all(a <= y <= b for a, y, b in zip(low, values, high, strict=True))


@pytest.mark.parametrize("name", KNOWN)
def test_narrow_and_wide_boxes_hold_exact_values_and_what_torch_makes(name):
    """From boxes of no width over those that a rounding is as wide as to such that a turn lies in."""
    g = rng(3)
    mpmath.mp.prec = 160
    count, formula = trials(200), getattr(formulas, name)
    mid = (g.standard_normal(count) * 10.0 ** g.integers(-6, 2, count)).astype(np.float32).astype(np.float64)
    room = np.abs(mid) * np.where(g.random(count) < 0.2, 0.0, 2.0 ** -g.integers(1, 30, count))
    lo, hi = mid - room, mid + room
    computed = ATEN[name].computed or formula
    low, high = enclosed(formula, computed, [(lo, hi)], FP32, host_profile().inside(name), KNOWN[name], {})
    for x in (lo, mid, hi):
        assert all(a <= exactly(name, v) <= b for a, v, b in zip(low, x, high, strict=True))
    made = getattr(torch.nn.functional, name)(torch.from_numpy(mid.astype(np.float32))).double().numpy()
    assert ((low <= made) & (made <= high)).all()
    around = range_of(formula, (lo, hi), FP32, KNOWN[name], {})
    wide = room > 2.0**-10 * np.abs(mid)  # there the exact range decides, not what the operand stands twice for
    assert (
        (high - low)[wide] <= 1.01 * (around[1] - around[0])[wide] + 2.0**-18 * np.maximum(np.abs(mid), 1.0)[wide]
    ).all()


def test_a_result_of_another_shape_is_none_of_the_operation():
    four, one = Bounds(np.zeros((1, 4, 9, 9)), np.zeros((1, 4, 9, 9))), Bounds(np.zeros(()), np.zeros(()))
    assert one_each((four, four), [(1, 4, 9, 9), (1, 4, 9)]) == (four, None)
    assert one_each((one, one), [(2, 3)]) == (None,)
    assert one_each(one, [(2, 3), ()]) == (one, None)
    assert one_each(Exact(), [(2,), ()]) == (Exact(), Exact())


SQUARES = {
    "x * x": lambda x: x * x,
    "addcmul": lambda x: torch.zeros(4).addcmul(x, x, value=0.5),
    "addcmul, negative": lambda x: -torch.zeros(4).addcmul(x, x, value=-0.5),
    "a list": lambda x: torch._foreach_addcmul([torch.zeros(4)], [x], [x], 0.5)[0],
}


@pytest.mark.parametrize("name", SQUARES)
def test_a_tensor_times_itself_is_a_square(name):
    """Never negative, and no narrower than all that the operand may be."""
    session, x = Session(device="torch-cpu", redirect=False), torch.tensor([1e-3, -2.0, 0.5, -1e-30])
    lo, hi = np.array([-1e-3, -2.1, 0.4, -1e-30]), np.array([2e-3, -1.9, 0.6, 1e-20])
    session.memory.carry(x, lo, hi, frozenset(), None)
    with session:
        found = session.envelope(SQUARES[name](x))
    assert found is not None and (found.lo >= 0).all() and not found.taints
    for part in np.linspace(0, 1, 9):
        exact = (
            SQUARES[name](torch.from_numpy(lo + part * (hi - lo))).numpy()
            if name == "x * x"
            else (0.5 * (lo + part * (hi - lo)) ** 2)
        )
        assert ((found.lo <= exact) & (exact <= found.hi)).all()
