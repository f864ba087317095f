"""Sides that divide one function otherwise among their modules, and walks that take the branches of the run."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

import render


def net() -> nn.Module:
    torch.manual_seed(5)
    model = nn.Sequential(
        *(nn.Sequential(nn.Conv2d(i, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU()) for i in (2, 4)),
        nn.Flatten(), nn.Linear(16, 3),
    ).eval()  # fmt: skip
    for stage in model[:2]:
        stage[1].running_mean.normal_()
        stage[1].running_var.uniform_(0.5, 2)
        nn.init.normal_(stage[1].weight)
    return model


def folded(model: nn.Module, left_out: bool = False) -> nn.Module:
    """Each norm in the convolution before it; `left_out`: without the mean of the second."""
    made = copy.deepcopy(model)
    for i, stage in enumerate(made[:2]):
        if left_out and i:
            stage[1].running_mean.zero_()
        stage[0], stage[1] = fuse_conv_bn_eval(stage[0], stage[1]), nn.Identity()
    return made


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_norm_folded_into_a_convolution_is_the_same_function(dtype):
    model = net()
    found = render.compare_models(folded(model).to(dtype), model.to(dtype), torch.randn(2, 2, 6, 6).to(dtype))
    assert (found.label, found.first) == ("Type-I", None)
    assert "0.0, 1.0" in found.notes[-1]
    assert {r.name for r in found.leaves} >= {"0.1", "1.1", "3"}  # the ends of both regions, and all else


def test_faults_beside_and_in_what_was_folded_stay_where_they_are():
    model, x = net(), torch.randn(2, 2, 6, 6)
    beside = folded(model)
    beside[3].bias.data.add_(0.1)
    assert render.compare_models(beside, model, x).first == "3"
    found = render.compare_models(folded(model, left_out=True), model, x)
    assert (found.label, found.first) == ("Type-II", "1.1")
    wrong = copy.deepcopy(model)
    wrong[1][0].weight.data.mul_(1.01)  # modules of one class on both sides: nothing was divided
    assert render.compare_models(wrong, model, x).first == "1.0"


class ByDevice(nn.Module):
    def __init__(self, other: bool) -> None:
        super().__init__()
        self.inner, self.other = nn.Linear(4, 4), other

    def forward(self, x):
        x = self.inner(x)
        if x.is_cuda or x.device.type == "cuda" or torch.cuda.is_available():
            return x * 2
        return x + x.sin() * (1 + 1e-7) if self.other else x + x.sin()


@pytest.mark.skipif(torch.cuda.is_available(), reason="asks what a host without a GPU does")
def test_walks_take_the_branches_that_the_run_took():
    torch.manual_seed(0)
    model, x = ByDevice(False), torch.randn(3, 4)
    other = ByDevice(True)
    other.load_state_dict(model.state_dict())
    for inputs in ((x,), (render.interval(x - 1e-3, x + 1e-3),)):
        found = render.compare_models(other, model, *inputs)
        assert found.label == "Type-I"
        assert not any(r.target_out_target or r.reference_out_reference for r in found.leaves)
