"""`pytest.approx` of an array or a tensor is a comparison as any other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import render
from tests.render.front.test_returning import kernel

FORMS: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    "arrays": lambda a, b: a.numpy() == pytest.approx(b.numpy(), rel=1e-4),
    "tensors": lambda a, b: a == pytest.approx(b, rel=1e-4),
    "the other way": lambda a, b: pytest.approx(b.numpy(), rel=1e-4) == a.numpy(),
    "in two dimensions": lambda a, b: a.reshape(8, 5).numpy() == pytest.approx(b.reshape(8, 5).numpy(), rel=1e-4),
}


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize(("factor", "label"), [(1.0, "Type-I"), pytest.param(1.01, "Type-II", marks=pytest.mark.slow)])
def test_approx_of_arrays(name: str, factor: float, label: str) -> None:
    with render.watch() as w:
        x = torch.linspace(0.3, 2, 40)
        said = FORMS[name](kernel(x, factor), x * (1 / 3))
    assert [v.label for v in w.verdicts] == [label] and said == (label == "Type-I")


def test_arrays_of_no_kernel_are_compared_and_nothing_is_said() -> None:
    with render.watch() as w:
        assert torch.ones(3).numpy() == pytest.approx(torch.ones(3).numpy())
        assert torch.ones(3).numpy() != pytest.approx(torch.zeros(3).numpy())
    assert not w.verdicts
