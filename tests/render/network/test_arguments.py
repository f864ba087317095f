"""Calls that make no sense say what is wrong with them; what models return is found wherever it is."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from torch import nn

import render
from render.result.errors import RenderError


def layer() -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(3, 3)


X = torch.ones(2, 3)
MODELS = {
    "an unknown target": (lambda: render.compare_models(layer(), layer(), X, device="abacus"), "abacus"),
    "no target": (lambda: render.compare_models(layer(), layer(), X, device=None), "device is of type NoneType"),
    "a word for a seed": (lambda: render.compare_models(layer(), layer(), X, seed="a"), "seed is of type str"),
    "one word for names": (lambda: render.compare_models(layer(), layer(), X, assume_exact="erf"), "assume_exact"),
    "numbers for names": (lambda: render.compare_models(layer(), layer(), X, assume_exact=[3]), "assume_exact"),
    "a list for a map": (lambda: render.compare_models(layer(), layer(), X, match=["a"]), "match is of type list"),
    "other shapes": (lambda: render.compare_models(layer(), layer(), torch.ones(2, 4)), "does not run on these inputs"),
    "no inputs": (lambda: render.compare_models(layer(), layer()), "does not run on these inputs"),
    "numbers returned": (lambda: render.compare_models(lambda x: 3, lambda x: 4, X), "neither side returns a tensor"),
    "no file of tensors": (lambda: render.compare_models(__file__, layer(), X), "no file of tensors"),
    "nowhere to write": (lambda: render.record_modules(layer(), X, path="/nowhere/a.safetensors"), "cannot write"),
    "no model to record": (lambda: render.record_modules(3, X, path="a.safetensors"), "neither a module"),
    "from the end": (
        lambda: render.compare_models(*(nn.Sequential(layer(), layer()) for _ in "ab"), X, start="1", end="0"),
        "nothing to compare between '1' and '0'",
    ),
    "an unknown target of a step": (lambda: render.compare_training(layer(), layer(), X, device="abacus"), "abacus"),
    "no optimiser": (lambda: render.compare_training(layer(), layer(), X, optimizer=3), "optimizer is of type int"),
    "no loss": (lambda: render.compare_training(layer(), layer(), X, loss=3), "loss is of type int"),
    "many losses": (lambda: render.compare_training(layer(), layer(), X, loss=lambda y: y), "gives no scalar"),
    "a step of other shapes": (lambda: render.compare_training(layer(), layer(), torch.ones(2, 4)), "does not come to"),
}


@pytest.mark.parametrize("name", MODELS)
def test_what_makes_no_sense_is_told(name):
    call, told = MODELS[name]
    with pytest.raises(RenderError, match=told):
        call()


@dataclass
class Result:
    hidden: torch.Tensor
    parts: dict[str, torch.Tensor]


class Returning(nn.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.layer, self.factor = layer(), factor

    def forward(self, x):
        y = self.layer(x)
        return Result(y, {"scaled": y * self.factor})


def test_results_in_a_dataclass_are_compared():
    assert render.compare_models(Returning(2.0), Returning(2.0), X).label == "Type-I"
    found = render.compare_models(Returning(2.0), Returning(2.001), X)
    assert (found.label, found.first) == ("Type-II", "")
