"""The pair of gradients that a pair makes."""

from __future__ import annotations

import torch

from render.lab.suite.case import gradients, pair


def test_gradients_of_several_outputs_and_inputs() -> None:
    def fn(x: torch.Tensor, n: int, y: torch.Tensor) -> tuple[torch.Tensor, int, torch.Tensor]:
        return x * y, n, y**2

    x, y, g, h = (torch.randn(5) for _ in range(4))
    dx, dy = gradients(fn, (0, 2))([g, h], x, 3, y)
    assert torch.allclose(dx, g * y) and torch.allclose(dy, g * x + 2 * h * y)


def test_cotangents_have_the_dtype_of_the_outputs() -> None:
    _, backward = pair("p", torch.sin, torch.sin, lambda: (torch.randn(4, dtype=torch.float16),), (0,))
    cotangents, x = backward.inputs()
    assert [c.dtype for c in cotangents] == [torch.float16] and x.shape == cotangents[0].shape
    assert backward.name == "p backward"


def test_without_places_there_is_no_backward() -> None:
    assert [case.name for case in pair("p", torch.sin, torch.sin, tuple)] == ["p"]
