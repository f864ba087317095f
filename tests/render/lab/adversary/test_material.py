"""Inputs of the attacks: what each style is said to bring out can be seen in its numbers."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from render.lab.adversary.material import BOTTOM, DTYPES, STYLES, stagnant_operands, values


def numbers(fmt: str, style: str, shape: tuple[int, ...] = (8, 64)) -> np.ndarray:
    found: np.ndarray = values(np.random.default_rng(5), shape, fmt, style).double().numpy()
    return found


@pytest.mark.parametrize("style", [*STYLES, "flat roots"])
@pytest.mark.parametrize("fmt", DTYPES)
def test_every_style_gives_finite_numbers_of_the_format(fmt: str, style: str) -> None:
    found = values(np.random.default_rng(5), (8, 64), fmt, style)
    assert found.dtype == DTYPES[fmt] and found.shape == (8, 64)
    assert found.double().isfinite().all() and bool((found.double() != 0).any())


def test_styles_are_what_they_are_called() -> None:
    wide = np.abs(numbers("fp32", "wide"))
    assert wide.max() / wide.min() > 2.0**20
    near = numbers("fp32", "cancelling").reshape(-1)
    assert (np.abs(near[0::2] + near[1::2]) <= 8 * 2.0**-23 * np.abs(near[0::2])).all()
    tiny = np.abs(numbers("fp32", "tiny"))
    assert (tiny < torch.finfo(torch.float32).tiny).mean() > 0.3 and BOTTOM["fp32"] < -126
    rows = numbers("fp32", "constant")
    assert (rows == rows[:, :1]).all() and len(np.unique(rows[:, 0])) == 8
    mantissas = np.frexp(np.abs(numbers("fp32", "powers")))[0] * 2
    assert (np.minimum(mantissas - 1, 2 - mantissas) <= 2.0**-22).all()


@pytest.mark.parametrize("fmt", ["fp16", "bf16", "fp8e5", "fp8e4nv", "fp8e4b8"])
def test_one_large_product_among_small_ones(fmt: str) -> None:
    a, b = (x.double() for x in stagnant_operands(np.random.default_rng(5), fmt, "fp32", (4, 32), (4, 32)))
    products = a.unsqueeze(1) * b.t().unsqueeze(0)
    assert (products[..., :1].abs() > 100 * products[..., 1:].abs()).all()
