"""numpy in watched code: differences are judged, what is not followed is named, numbers stay what numpy says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

import render
from render.front.arrays import Followed


@triton.jit
def exp_kernel(x, y, n, F, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(y + i, tl.exp(tl.load(x + i, mask=i < n)) * F, mask=i < n)


def sides(factor: float) -> tuple[Any, Any]:
    """A kernel's result and its reference as arrays."""
    x = torch.linspace(-2, 2, 60)
    y = torch.empty_like(x)
    exp_kernel[(1,)](x, y, 60, factor, B=64)
    return y.numpy(), torch.exp(x).numpy()


FORMS: tuple[Callable[[Any, Any], Any], ...] = (
    lambda a, b: np.abs(a - b).max(),
    lambda a, b: float(np.max(np.abs(b - a))),
    lambda a, b: np.mean((a - b) ** 2),
    lambda a, b: np.linalg.norm(a - b),
    lambda a, b: np.abs(a[3:40] - b[3:40]).sum() / 37,
    lambda a, b: (np.abs(2 * a - 2.0 * b) < 1e-9).all(),
    lambda a, b: np.allclose(a, b),
    lambda a, b: np.abs(a.reshape(6, 10).T - b.reshape(6, 10).T).max(),
)


@pytest.mark.parametrize("form", FORMS, ids=range(len(FORMS)))
@pytest.mark.parametrize(("factor", "label"), [(1.0, "Type-I"), (1.01, "Type-II")])
def test_differences(form: Callable[[Any, Any], Any], factor: float, label: str) -> None:
    with render.watch() as w:
        a, b = sides(factor)
        found = form(a, b)
    assert {v.label for v in w.verdicts} == {label}
    assert found == form(np.array(a), np.array(b))


@pytest.mark.parametrize("form", [
    lambda a: a / a.sum(), lambda a: np.log(a), lambda a: np.cumsum(a), lambda a: a.astype(np.float64) * np.float64(3),
])  # fmt: skip
def test_what_is_not_followed_is_named(form: Callable[[Any], Any]) -> None:
    with render.watch() as w:
        a, b = sides(1.0)
        np.abs(form(a) - form(b)).max()
    assert not w.verdicts
    assert w.notes and "numpy." in w.notes[0] and "is not followed" in w.notes[0] and "test_arrays.py" in w.notes[0]


def test_only_inside_and_only_the_users() -> None:
    plain = torch.ones(3).numpy()
    with render.watch():
        inside = torch.ones(3).numpy()
        integers = torch.arange(3).numpy()
    assert type(plain) is type(integers) is np.ndarray and isinstance(inside, Followed)
    assert (inside + 1).tolist() == [2.0, 2.0, 2.0] and type(torch.ones(3).numpy()) is np.ndarray
