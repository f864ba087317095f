"""Counts, widths and the worst element of one output."""

from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
import pytest
import torch

from interval_ops.formats.model import FP32
from render.judgement.measure import bound_of, measure, tolerances, usage
from render.result.decision import Case, compare, decide
from render.result.plain import plain
from render.result.verdict import Bound

INF, NAN = math.inf, math.nan


def output(ref=(1.0, 2.0), half=0.5, **more):
    exact = np.array([1.0, 2.0])
    ends = lambda: (exact, exact)  # noqa: E731
    case = Case("c", exact, exact - half, exact + half, np.array(ref), exact, ends, FP32, FP32, **more)
    masks = compare(case)
    return measure(case, masks, decide(case, masks, "RND101"), torch.float32, torch.float32, 0)


def test_usage_is_zero_in_the_middle_and_one_at_the_edge():
    lo, hi = np.array([0.0, 0.0, 0.0, 1.0, 1.0, -INF, NAN]), np.array([2.0, 2.0, 2.0, 1.0, 1.0, INF, NAN])
    used = usage(np.array([1.0, 2.0, 4.0, 1.0, 1.5, 0.0, 0.0]), lo, hi)
    assert used[:5].tolist() == [0.0, 1.0, 3.0, 0.0, INF]
    assert np.isnan(used[5:]).all()


def test_usage_of_an_inside_element_never_exceeds_one():
    rng = np.random.default_rng(0)
    lo = rng.normal(size=1000)
    hi = lo + rng.random(1000) * 10.0 ** rng.integers(-15, 3, 1000)
    assert (usage(lo, lo, hi) <= 1).all()
    assert (usage(hi, lo, hi) <= 1).all()


def test_widths():
    b = bound_of(np.array([1.0, -1.0, 3.0, NAN]), np.array([3.0, 1.0, 3.0, NAN]), lambda: np.zeros(4))
    assert b.max_relative_width == INF
    assert b.median_relative_width == 1.0
    assert (b.median_half_width, b.max_half_width) == (1.0, 1.0)
    assert math.isnan(bound_of(np.array([NAN]), np.array([NAN]), lambda: np.zeros(1)).median_half_width)
    lo, hi = b.as_torch()
    assert lo.dtype == torch.float64
    assert isinstance(b, Bound)
    assert hi.shape == (4,)


def test_the_worst_element_is_the_one_outside():
    found = output((1.4, 2.6), radius=lambda: np.array([1.0, 1.0]))
    assert (found.worst_index, found.ref, found.low, found.high) == ((1,), 2.6, 1.5, 2.5)
    assert found.code == "RND110"
    assert output((1.4, 2.1)).worst_index == (0,)


@pytest.mark.parametrize("planted", ["none", "nan", "exact", "device", "ref", "unstored"])
def test_an_output_in_pieces_is_judged_as_a_whole(planted, monkeypatch):
    rng = np.random.default_rng(1)
    exact = rng.normal(size=(7, 11))
    arrays = {"value": exact + 1e-3, "ref": exact - 2e-3, "device": exact + rng.uniform(-1e-2, 1e-2, (7, 11))}
    unstored = np.zeros((7, 11), bool)
    lo, hi = exact - 0.02 * rng.random((7, 11)) - 0.01, exact + 0.05
    e = exact.copy()
    at = (5, 3), (2, 9), (6, 10)
    for place, size in zip(at, (0.4, 0.6, 0.5), strict=True):
        if planted == "nan":
            arrays["value"][place] = NAN
        elif planted in arrays:
            arrays[planted][place] += size
        elif planted == "exact":
            e[place] -= size
        elif planted == "unstored":
            unstored[place] = True
    case = Case("c", arrays["value"], lo, hi, arrays["ref"], e, lambda: (e, e), FP32, FP32,
                device=arrays["device"] if planted in ("none", "device") else None, unstored=unstored)  # fmt: skip

    def judged():
        masks = compare(case)
        return masks, measure(case, masks, decide(case, masks), torch.float32, torch.float32, 0)

    whole, one = judged()
    monkeypatch.setattr("render.result.blockwise.BLOCK", 8)
    parts, many = judged()
    for field in dataclasses.fields(whole):
        assert np.array_equal(getattr(whole, field.name), getattr(parts, field.name)), field.name
    assert plain(one) == plain(many)
    assert np.array_equal(one.bound.usage, many.bound.usage, equal_nan=True)


def test_empty_and_scalar_outputs():
    for shape in ((0,), (2, 0), ()):
        x = np.zeros(shape)
        case = Case("c", x, x, x, x, x, lambda x=x: (x, x), FP32, FP32)
        masks = compare(case)
        found = measure(case, masks, decide(case, masks), torch.float32, torch.float32, 0)
        assert found.elements == x.size
        json.dumps(plain(found), allow_nan=False)


@pytest.mark.parametrize("pair", [(torch.float16, torch.float32), (torch.float32,) * 2, (torch.bfloat16, torch.float64),
                                  (torch.int32, torch.int32)])  # fmt: skip
def test_tolerances_are_those_of_torch(pair):
    from torch.testing._comparison import default_tolerances

    assert tolerances(*pair) == default_tolerances(*pair)


@pytest.mark.parametrize("seed", range(24))
def test_finite_outputs_have_the_figures_that_expressions_of_arrays_give(seed: int) -> None:
    rng = np.random.default_rng(seed)
    value = rng.normal(size=9)
    ref, exact, device = (value + rng.choice([0.0, 1e-6, 0.02], 9) for _ in range(3))
    half = rng.choice([0.0, 0.01], 9)
    device = device if seed % 2 else None
    case = Case("y", value, value - half, value + half, ref, exact, lambda: (exact, exact), device=device)
    masks = compare(case)
    found = measure(case, masks, decide(case, masks), torch.float32, torch.float32, 0)
    y = ref if device is None else device
    got = value if device is None else device
    assert found.max_abs_diff == np.abs(got - ref).max()
    assert found.worst_usage == usage(y, case.lo, case.hi).max()
    assert found.covering_atol == max((case.hi - ref).max(), (ref - case.lo).max(), 0.0)
    outside = next(
        (m for m in (masks.outside_exact, masks.outside_device, masks.outside_ref) if m is not None and m.any()), None
    )
    score = np.abs(got - ref)
    if outside is not None:
        z = exact if outside is masks.outside_exact else device if outside is masks.outside_device else ref
        score = np.where(outside, np.maximum(case.lo - z, z - case.hi), -np.inf)
    assert found.worst_index == (int(np.argmax(score)),)
