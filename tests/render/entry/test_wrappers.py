"""Layers are made with what `get_init_inputs()` of their file gives, in each form that such files have."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
import torch

from render.entry.wrappers import as_function


class Scaled(torch.nn.Module):
    def __init__(self, size: int, scale: float = 1.0, shape: Any = None) -> None:
        super().__init__()
        self.told = size, scale, shape

    def forward(self, x: torch.Tensor) -> tuple[Any, ...]:
        return self.told


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ([3], (3, 1.0, None)),
        ((3, 2.0), (3, 2.0, None)),
        ({"size": 3, "scale": 2.0}, (3, 2.0, None)),
        ([[3], {"scale": 2.0}], (3, 2.0, None)),
        ([[], {"size": 3}], (3, 1.0, None)),
        ([3, 2.0, [4, 5]], (3, 2.0, [4, 5])),
        ([[3], 2.0], ([3], 2.0, None)),
    ],
)
def test_a_layer_is_made_with_what_its_file_gives(given: Any, told: tuple[Any, ...]) -> None:
    module = ModuleType("models")
    module.get_init_inputs = lambda: given  # type: ignore[attr-defined]
    assert as_function(Scaled, module)(torch.ones(2)) == told
