"""State-space scans, mixtures of experts, U-nets, recurrent cells and masked encoders, each in two forms."""

from __future__ import annotations

import copy
import itertools

import pytest
import torch
from torch import nn

import render

from .families import FAULTS, FORMS, faulty, given, pair
from .models import build, inputs
from .test_compare import Auto, Plain

torch_adam = torch.optim.AdamW


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_named(name):
    wrong, right, where = faulty(name)
    found = render.compare_models(wrong, right, given(FAULTS[name][0]))
    assert (found.label, found.first) == ("Type-II", where), found.message


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_beside_the_other_form_it_is_in_the_module_or_around_it(name):
    """Two forms share fewer borders: a region may be the container's."""
    wrong, right, where = faulty(name, same=False)
    found = render.compare_models(wrong, right, given(FAULTS[name][0]))
    assert found.label == "Type-II" and where.startswith(found.first), found.message


SIDES = {
    "float32": lambda m: (m, m),
    "bfloat16": lambda m: (m, m),
    "autocast": lambda m: (Auto(m), Auto(m)),
    "autocast beside float32": lambda m: (Auto(m), Plain(m)),
}


def _case(kind, sides, batch):
    quick = batch == 1 and sides in ("float32", "autocast beside float32")
    return pytest.param(kind, sides, batch, marks=() if quick else pytest.mark.slow)


@pytest.mark.parametrize(("kind", "sides", "batch"), [_case(k, s, b) for k in FORMS for s in SIDES for b in (1, 8)])
def test_nothing_leaves_in_two_forms_of_one_function(kind, sides, batch):
    one, other = pair(kind)
    x = given(kind, batch)
    if sides == "bfloat16":
        one, other, x = one.bfloat16(), other.bfloat16(), x.bfloat16()
    found = render.compare_models(SIDES[sides](other)[0], SIDES[sides](one)[1], x)
    assert (found.label, found.first) == ("Type-I", None), found.message


@pytest.mark.slow
@pytest.mark.parametrize("kind", FORMS)
def test_nothing_leaves_in_a_compiled_model(kind):
    one, _ = pair(kind)
    found = render.compare_models(torch.compile(one), one, given(kind))
    assert (found.label, found.first) == ("Type-I", None), found.message


@pytest.mark.parametrize("kind", FORMS)
def test_a_training_step_of_two_forms_is_round_off(kind):
    one, other = pair(kind)
    found = render.compare_training(
        other.train(), one.train(), given(kind), loss=_squares, optimizer=lambda p: torch_adam(p, 1e-3)
    )
    assert (found.label, found.first) == ("Type-I", None), found.message


def _squares(out):
    return out.float().pow(2).mean()


class Averaged(nn.Module):
    """A model that keeps a running mean of its own parameters."""

    def __init__(self, model: nn.Module, decay: float = 0.9) -> None:
        super().__init__()
        self.model, self.decay, self.mean = model, decay, nn.Module()
        for name, p in model.named_parameters():
            self.mean.register_buffer(name.replace(".", "_"), 0.5 * p.detach().clone())

    def forward(self, x):
        if self.training:
            with torch.no_grad():
                for name, p in self.model.named_parameters():
                    self.mean.get_buffer(name.replace(".", "_")).lerp_(p, 1 - self.decay)
        return self.model(x)


def test_running_means_of_parameters():
    one, other = pair("encoder")
    x, right = given("encoder"), Averaged(one).train()
    assert render.compare_training(Averaged(other).train(), right, x, loss=_squares).label == "Type-I"
    wrong = copy.deepcopy(right)
    wrong.decay = 0.99
    found = render.compare_training(wrong, right, x, loss=_squares)
    assert found.label == "Type-II" and found.first in ("mean", ""), found.message


@pytest.mark.parametrize("change", [lambda n: n.eval(), lambda n: setattr(n, "momentum", 0.3),
                                    lambda n: setattr(n, "eps", 1e-2)])  # fmt: skip
def test_a_norm_in_training_is_named_where_it_stands(change):
    """What comes after it has other statistics, too: the forward pass says which module is the first."""
    right = build("resnet").train()
    wrong = copy.deepcopy(right)
    change(wrong.layers[1].bn2)
    found = render.compare_training(wrong, right, inputs("resnet"))
    assert (found.label, found.first) == ("Type-II", "layers.1.bn2"), found.message


OPTIMISERS = {
    "loop or lists": (lambda p: torch_adam(p, 1e-2, foreach=True), lambda p: torch_adam(p, 1e-2, foreach=False), ""),
    "loop or fused": (lambda p: torch_adam(p, 1e-2, fused=True), lambda p: torch_adam(p, 1e-2, foreach=False), ""),
    "coupled decay": (lambda p: torch.optim.Adam(p, 1e-2, weight_decay=0.1),
                      lambda p: torch_adam(p, 1e-2, weight_decay=0.1), "step"),
    "another momentum": (lambda p: torch.optim.SGD(p, 1e-2, momentum=0.9, nesterov=True),
                         lambda p: torch.optim.SGD(p, 1e-2, momentum=0.9), "step"),
    "another decay": (lambda p: torch_adam(p, 1e-2, weight_decay=0.1), lambda p: torch_adam(p, 1e-2), "step"),
}  # fmt: skip


@pytest.mark.parametrize("name", OPTIMISERS)
def test_one_step_of_an_optimiser(name):
    """The same step by other code is round-off; another rule is another function, of the step and not of a gradient."""
    first, second, wrong = OPTIMISERS[name]
    model, _ = pair("gru")
    made = itertools.cycle([first, second])
    found = render.compare_training(
        model.train(), copy.deepcopy(model), given("gru"), loss=_squares, optimizer=lambda p: next(made)(p)
    )
    assert found.label == ("Type-II" if wrong else "Type-I") and wrong in found.message, found.message
