"""Inputs drawn anew: shapes, dtypes and sharing stay, and each kind is what its name says."""

from __future__ import annotations

import pytest
import torch

from render.companions.dual_delta.generators import GENERATORS, ZEROS, redrawn
from render.entry.inputs import of_call


def fn(a: torch.Tensor, b: torch.Tensor, n: torch.Tensor, k: int) -> None: ...


def drawn(name: str, seed: int = 1, dtype: torch.dtype = torch.float16) -> tuple[torch.Tensor, ...]:
    a = torch.zeros(64, 32, dtype=dtype)
    found: tuple[torch.Tensor, ...] = redrawn(of_call(fn, (a, a.clone(), torch.arange(3), 7), {}), name, seed).args
    return found


@pytest.mark.parametrize("name", GENERATORS)
def test_kinds_keep_what_is_no_float_and_follow_the_seed(name: str) -> None:
    a, b, n, k = drawn(name)
    assert a.dtype == b.dtype == torch.float16 and a.shape == b.shape == (64, 32) and a.isfinite().all()
    assert n.tolist() == [0, 1, 2] and k == 7 and not torch.equal(a, b)
    assert torch.equal(a, drawn(name)[0]) and not torch.equal(a, drawn(name, seed=2)[0])


def test_what_the_names_say() -> None:
    assert drawn("uniform")[0].min() >= 0 and drawn("uniform")[0].max() <= 1 and drawn("lognormal")[0].min() >= 0
    assert abs(float((drawn("sparse")[0] == 0).double().mean()) - ZEROS) < 0.05
    wide = drawn("wide", dtype=torch.float32)[0].abs()
    assert wide.max() / wide.min() > 2.0**60 and (wide.double() ** 2).max() < torch.finfo(torch.float32).max


def test_neighbours_and_products_cancel() -> None:
    a, b = (x.double() for x in drawn("cancelling", dtype=torch.float32)[:2])
    pairs = a[:, 0::2] + a[:, 1::2]
    assert (pairs.abs() <= 64 * 2.0**-23 * a[:, 0::2].abs()).all() and (pairs != 0).any()
    product, size = a @ b[:32], a.abs() @ b[:32].abs()
    assert (product.abs() < 1e-4 * size).all()


def test_a_tensor_that_is_given_twice_stays_one() -> None:
    a = torch.zeros(4, 4)
    one, two, *_ = redrawn(of_call(fn, (a, a, torch.arange(3), 7), {}), "normal", 0).args
    assert one is two
