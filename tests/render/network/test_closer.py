"""A region as deep as a layer of attention: its bound of rounded constants hides what slopes with their signs show."""

from __future__ import annotations

import math
from dataclasses import astuple

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import render
from render.network import closer
from render.network.slopes import linearised


class Deep(nn.Module):
    """A whole layer written out in one module, so that nothing inside is judged by itself."""

    def __init__(self, gelu, scale: float) -> None:
        super().__init__()
        draw = torch.Generator().manual_seed(1)
        sizes = {"qkv": (96, 32), "out": (32, 32), "up": (64, 32), "down": (32, 64)}
        for name, (m, n) in sizes.items():
            setattr(self, name, nn.Parameter(torch.randn(m, n, generator=draw) / math.sqrt(n)))
        self.gelu, self.scale = gelu, scale

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (4, 8)).transpose(1, 2) for t in (F.layer_norm(x, (32,)) @ self.qkv.T).chunk(3, -1))
        y = torch.softmax(q @ k.mT * self.scale, -1) @ v
        x = x + y.transpose(1, 2).flatten(2) @ self.out.T
        return x + self.gelu(F.layer_norm(x, (32,)) @ self.up.T) @ self.down.T


class Inside(nn.Module):
    def __init__(self, gelu, scale: float = 8**-0.5) -> None:
        super().__init__()
        self.deep, self.last = Deep(gelu, scale), nn.Tanh()

    def forward(self, x):
        return self.last(self.deep(x))


def by_erf(x):
    return 0.5 * x * (1 + torch.erf(x * float(np.float32(1 / math.sqrt(2)))))


WRONG = {"tanh": (lambda x: F.gelu(x, approximate="tanh"), 8**-0.5), "scale": (F.gelu, 8**-0.5 * (1 + 3e-4))}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", WRONG)
def test_another_function_inside_of_a_deep_region(name, seed):
    x = torch.randn(2, 9, 32, generator=torch.Generator().manual_seed(seed))
    found = render.compare_models(Inside(*WRONG[name]).eval(), Inside(F.gelu).eval(), x)
    assert (found.label, found.first) == ("Type-II", "deep")


@pytest.mark.parametrize("seed", range(3))
def test_rounded_constants_inside_of_one_are_the_same_function(seed):
    x = torch.randn(2, 9, 32, generator=torch.Generator().manual_seed(seed))
    other = Inside(by_erf, float(np.float32(8**-0.5))).eval()
    assert render.compare_models(other, Inside(F.gelu).eval(), x).label == "Type-I"


class Layout(nn.Module):
    """A layer on a batch as it lies or as it is seen: torch adds the bias to sums, or to sums that were rounded."""

    def __init__(self, lies: bool) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.layer, self.lies = nn.Linear(16, 32), lies

    def forward(self, x):
        seen = x.transpose(1, 2)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return self.layer(seen.contiguous() if self.lies else seen)


def test_slopes_of_a_layer_under_autocast():
    torch.manual_seed(6)
    found = render.compare_models(Layout(False), Layout(True), torch.randn(64, 16, 40))
    (record,) = (r for r in found.leaves if r.name == "layer" and r.differing)
    assert found.label == "Type-I" and not record.taints
    assert set(record.bands) == {"first-order", "probabilistic"}  # some elements cancel to less than what explains them


@pytest.mark.parametrize(
    ("stride", "padding", "dilation", "bias"), [(1, 1, 1, True), (2, 3, 1, False), ((2, 1), (0, 2), (1, 2), True)]
)
def test_the_window_of_one_output_says_what_the_whole_image_does(stride, padding, dilation, bias):
    torch.manual_seed(0)
    layer = nn.Conv2d(3, 5, (3, 4), stride, padding, dilation, bias=bias).eval()
    x = torch.randn(2, 3, 11, 12)
    with torch.no_grad():
        out = layer(x)
    places = [0, out.numel() - 1, *torch.randint(0, out.numel(), (6,)).tolist()]
    for place, whole in zip(places, linearised(lambda t: layer(t), [x.clone()], places), strict=True):
        call, given = closer.window(layer, [x], out.shape, place)
        assert float(call(*given)) == pytest.approx(float(out.view(-1)[place]), rel=1e-5, abs=1e-6)
        (alone,) = linearised(call, given, [0], known=call.args)
        assert astuple(alone) == pytest.approx(astuple(whole), rel=1e-5)  # sums of magnitudes in float32


@pytest.mark.parametrize("layer", [nn.Conv2d(4, 4, 3, groups=2), nn.Conv2d(4, 4, 3, padding="same"), nn.Linear(4, 4)])
def test_what_has_no_window(layer):
    assert closer.window(layer, [torch.randn(1, 4, 6, 4)], (1, 4, 4, 2), 0) is None
