"""Models inside of wrappers belong to the same without: autocast, a data-parallel shell, a serving class."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

import render
from render.network.pairs import _held

from .wrapped import Auto


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 6))
        self.other = nn.Linear(6, 6)
        self.head = nn.Linear(6, 6)
        self.scale = 1.0

    def forward(self, x):
        return self.head(torch.tanh(self.other(self.body(x) * self.scale)))


class Shell(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.module = model

    def forward(self, x):
        return self.module(x)


SHELLS = {
    "one": Shell,
    "two": lambda m: Shell(Shell(m)),
    "autocast": Auto,
}


@pytest.mark.parametrize("name", SHELLS)
@pytest.mark.parametrize("outside", ["target", "reference"])
def test_a_wrapped_model_is_compared_module_by_module(name, outside):
    """All layers here have one shape, so that order and shapes alone would pair the container with its first layer."""
    torch.manual_seed(0)
    model, x = Net(), torch.randn(5, 6)
    sides = [SHELLS[name](model), copy.deepcopy(model)]
    right = render.compare_models(*(sides if outside == "target" else sides[::-1]), x)
    assert (right.label, right.first) == ("Type-I", None), right.message
    wrong = copy.deepcopy(model)
    with torch.no_grad():
        wrong.other.bias.add_(0.5)
    sides = [SHELLS[name](wrong), model] if outside == "target" else [wrong, SHELLS[name](model)]
    found = render.compare_models(*sides, x)
    assert found.label == "Type-II" and str(found.first).split(".")[-1] == "other", found.message


def test_the_deepest_agreement_decides():
    mine = ["", "m", "m.a", "m.a.b", "m.c", "a"]
    assert _held(mine, ["", "a", "a.b", "c"]) == {"m.a": "a", "m.a.b": "a.b", "m.c": "c"}
    assert _held(["", "a", "a.b", "c"], mine) == {"a": "m.a", "a.b": "m.a.b", "c": "m.c"}
    assert _held(["", "x"], ["", "y"]) == {}
