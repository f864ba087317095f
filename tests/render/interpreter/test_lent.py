"""numpy writes into the memory of a kernel's result: what torch does not see is tainted, never taken for exact."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from render.classify import classify


@triton.jit
def _scaled(x_ptr, y_ptr, n: tl.constexpr):
    i = tl.arange(0, n)
    tl.store(y_ptr + i, tl.load(x_ptr + i) * 0.7310585)


def kernel(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    _scaled[(1,)](x, y, 64)
    return y


def _in_place(y: torch.Tensor) -> torch.Tensor:
    a = y.numpy()
    a /= 3.0
    return y


def _before_another_step(y: torch.Tensor) -> torch.Tensor:
    a = y.numpy()
    a /= 3.0
    return y * 1.5


def _through_a_view(y: torch.Tensor) -> torch.Tensor:
    row = y.numpy()[2]
    np.divide(row, 3.0, out=row)
    return y


def _before_a_launch(y: torch.Tensor) -> torch.Tensor:
    a = y.numpy()
    a /= 3.0
    return kernel(y)


WRITTEN: dict[str, Any] = {"in place": _in_place, "then torch": _before_another_step, "a view": _through_a_view,
                           "then a launch": _before_a_launch}  # fmt: skip


def _exact(name: str, x: torch.Tensor) -> torch.Tensor:
    y = x * 0.7310585
    third = torch.cat([y[:2], y[2:3] / 3.0, y[3:]]) if name == "a view" else y / 3.0
    return third * {"then torch": 1.5, "then a launch": 0.7310585}.get(name, 1.0)


@pytest.mark.parametrize("name", WRITTEN)
def test_what_numpy_writes_has_no_bounds(name):
    step = WRITTEN[name]
    x = torch.randn(8, 8, generator=torch.Generator().manual_seed(3))
    verdict = classify(lambda x: step(kernel(x)), x, ref=lambda x: _exact(name, x), budget=False)
    assert (verdict.label, verdict.code) == ("Inconclusive", "RND302"), verdict
    assert "numpy wrote" in verdict.taints[0].message


def test_what_is_only_read_keeps_its_bounds():
    def read(x: torch.Tensor) -> torch.Tensor:
        y = kernel(x)
        a = y.numpy()
        y.mul_(1.5)  # torch writes, while the array is out
        assert a.shape == (8, 8)
        return y

    x = torch.randn(8, 8, generator=torch.Generator().manual_seed(3))
    assert classify(read, x, ref=lambda x: x * 0.7310585 * 1.5, budget=False).label == "Type-I"
