"""Training steps: gradients that are another function, gradients that are rounded, optimisers that differ."""

from __future__ import annotations

import copy
from types import MethodType

import torch
import torch.nn.functional as F

import render

from .models import build, inputs


def _loss(labels):
    return lambda out: F.cross_entropy(out.reshape(-1, out.shape[-1]), labels.reshape(-1))


def _decoder():
    torch.manual_seed(5)
    return build("decoder").train(), inputs("decoder"), _loss(torch.randint(0, 128, (2, 12)))


def test_equal_steps_are_equal_and_another_order_is_round_off():
    model, x, loss = _decoder()
    assert render.compare_training(model, copy.deepcopy(model), x, loss=loss).code == "RND100"
    other = build("decoder", "plain").train()
    other.load_state_dict(model.state_dict())
    found = render.compare_training(other, model, x, loss=loss, optimizer=lambda p: torch.optim.AdamW(p, 1e-3))
    assert (found.label, found.first) == ("Type-I", None), found.message


def test_a_gradient_that_is_cut_off_is_named():
    model, x, loss = _decoder()
    wrong = copy.deepcopy(model)

    def forward(self, x):
        return self.down((F.silu(self.gate(x)) * self.up(x)).detach())

    mlp = wrong.blocks[1].mlp
    mlp.forward = MethodType(forward, mlp)
    assert render.compare_models(wrong.eval(), model.eval(), x).code == "RND100"  # forward nothing is wrong
    found = render.compare_training(wrong.train(), model.train(), x, loss=loss)
    assert found.label == "Type-II" and found.first.startswith("blocks.1")


def test_another_optimiser_is_another_step():
    model, x, loss = _decoder()
    steps = iter((1e-2, 2e-2, 1e-2, 2e-2))
    found = render.compare_training(
        model, copy.deepcopy(model), x, loss=loss, optimizer=lambda p: torch.optim.SGD(p, next(steps))
    )
    assert (found.label, found.code) == ("Type-II", "RND211")


def test_momentum_of_a_norm_is_in_its_buffers():
    model = build("resnet").train()
    wrong = copy.deepcopy(model)
    wrong.layers[1].bn2.momentum = 0.01
    found = render.compare_training(wrong, model, inputs("resnet"))
    assert (found.label, found.first) == ("Type-II", "layers.1.bn2")
