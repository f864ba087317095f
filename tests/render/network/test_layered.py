"""A convolution that both sides have, in parts: legal sums of every corner are inside, and it is the general rule's."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import render
from interval_ops.profiles.profile import load_profile
from render.interpreter.hosted.call import Bounds, Call
from render.interpreter.hosted.products import linear
from render.network.capture import Key
from render.network.layered import ConvolutionTwin
from render.network.pairs import Pair
from render.network.walks import UNIT
from render.ops.aten import ATEN
from render.result.codes import of_cause

pytestmark = pytest.mark.filterwarnings("ignore:TF32 acceleration")
CPU = load_profile("torch-cpu")
LAYERS = {
    "plain": lambda: nn.Conv2d(3, 4, 3, padding=1, bias=False),
    "with a bias": lambda: nn.Conv2d(3, 4, 3, padding=1),
    "strided": lambda: nn.Conv2d(3, 4, 3, stride=2, padding=1),
    "uneven": lambda: nn.Conv2d(3, 4, (3, 5), stride=(2, 1), padding=(0, 2), dilation=(1, 2)),
    "a point": lambda: nn.Conv2d(3, 4, 1, stride=2, padding=2),
    "patches": lambda: nn.Conv2d(3, 4, 4, 4),
}


def twin(layer: nn.Conv2d, x: torch.Tensor, other: torch.Tensor) -> ConvolutionTwin:
    key = Key("", 0, "out")
    with torch.no_grad():
        entry, out = Pair(key, key, "", [x], [other]), Pair(key, key, "", [layer(x)], [layer(other)])
    found = ConvolutionTwin.of(layer, entry, out)
    assert found is not None
    return found


def case(name: str, apart: float) -> tuple[nn.Conv2d, torch.Tensor, torch.Tensor]:
    torch.manual_seed(3)
    layer, x = LAYERS[name](), torch.randn(2, 3, 9, 11) * 10.0 ** torch.randint(-3, 3, (2, 3, 9, 11))
    return layer, x, x * (1 + apart * torch.randn_like(x))


def bounds_of(found: ConvolutionTwin) -> tuple[np.ndarray, np.ndarray]:
    ends = torch.empty(2, *found.shape(), dtype=torch.float64)
    for at, part in found.parts("target"):
        bounds = part.bounds(CPU)
        for whole, end in zip(ends, (bounds.lo, bounds.hi), strict=True):
            found.put(whole, at, torch.from_numpy(np.ascontiguousarray(end)))
    return ends[0].numpy(), ends[1].numpy()


def rule(layer: nn.Conv2d, x: torch.Tensor) -> Bounds:
    own = None if layer.bias is None else layer.bias.detach()
    args = x, layer.weight.detach(), own, layer.stride, layer.padding, layer.dilation, False, (0, 0), 1
    return linear(ATEN["convolution"])(Call(torch.ops.aten.convolution.default, args, {}, {}, CPU))


@pytest.mark.parametrize("part", [1 << 20, 200])
@pytest.mark.parametrize("name", LAYERS)
def test_parts_are_the_convolution(name, part, monkeypatch):
    monkeypatch.setattr("render.network.layered.PART", part)  # 200: one row or two at a time
    layer, x, other = case(name, 1e-6)
    found = twin(layer, x, other)
    own = None if layer.bias is None else layer.bias.detach()
    sizes = layer.stride, layer.padding, layer.dilation
    for side, operand in (("target", x), ("reference", other)):
        exact, moved = found.exact(UNIT, side)
        wide = [None if t is None else t.double() for t in (layer.weight.detach(), own)]
        plain = F.conv2d(operand.double(), *wide, *sizes)
        sums = F.conv2d(operand.double().abs(), wide[0].abs(), None, *sizes)
        assert torch.allclose(exact, plain, rtol=0, atol=1e-12 * float(sums.max()))
        movement = 2 * UNIT * sums + (0 if own is None else UNIT * wide[1].abs()[:, None, None])
        assert torch.allclose(moved.double(), movement, rtol=1e-5)
    for at, some in found.parts("target"):
        assert torch.equal(some.value, found.cut(found.exact(UNIT)[0], at))


@pytest.mark.parametrize("name", LAYERS)
def test_every_order_of_any_operand_of_the_hull_is_inside(name):
    layer, x, other = case(name, 0.01)
    lo, hi = bounds_of(twin(layer, x, other))
    generator = np.random.default_rng(5)
    w, own = layer.weight.detach().flatten(1), layer.bias
    for _ in range(12):
        corner = torch.where(torch.from_numpy(generator.integers(0, 2, tuple(x.shape)) > 0), x, other)
        terms = F.unfold(corner, layer.kernel_size, layer.dilation, layer.padding, layer.stride)
        terms = w[None, :, :, None] * terms[:, None]
        if own is not None:
            terms = torch.cat([terms, own.detach()[None, :, None, None].expand(2, 4, 1, terms.shape[-1])], 2)
        total = torch.zeros(terms.shape[0], 4, terms.shape[-1])
        for k in generator.permutation(terms.shape[2]):
            total = total + terms[:, :, k]
        y = total.reshape(lo.shape).double().numpy()
        assert ((lo <= y) & (y <= hi)).all()
    for given in (x, other):
        y = layer(given).detach().double().numpy()
        assert ((lo <= y) & (y <= hi)).all()


def test_the_exact_sum_is_inside_by_rationals():
    layer, x, _ = case("with a bias", 0.0)
    lo, hi = bounds_of(twin(layer, x, x))
    windows, w = F.unfold(x, 3, 1, 1, 1), layer.weight.detach().flatten(1)
    for i, j in ((0, 0), (3, 50)):
        terms = (Fraction(float(a)) * Fraction(float(b)) for a, b in zip(windows[1, :, j], w[i], strict=True))
        total = sum(terms) + Fraction(float(layer.bias.detach()[i]))
        assert lo[1, i].reshape(-1)[j] <= total <= hi[1, i].reshape(-1)[j]


@pytest.mark.parametrize("name", LAYERS)
def test_of_one_operand_it_is_no_wider_than_the_general_rule(name):
    layer, x, _ = case(name, 0.0)
    lo, hi = bounds_of(twin(layer, x, x))
    general = rule(layer, x)
    ratio = (hi - lo) / (general.hi - general.lo)
    assert ratio.max() < 1.01


@pytest.mark.parametrize("apart", [0.0, 1e-7, 1.0])
def test_the_reference_of_its_own_operand_by_the_difference(apart):
    torch.manual_seed(4)
    layer, x = nn.Conv2d(16, 8, 3), torch.randn(2, 16, 6, 6)
    other = x * (1 + apart * torch.randn_like(x))
    found = twin(layer, x, other)
    exact, _ = found.exact(UNIT, "reference")
    for at, part in found.parts("target"):
        own = part.of_other()
        assert (own is None) == (apart == 1.0)
        if own is not None:
            assert ((own - found.cut(exact, at)).abs() <= part.moved(UNIT) / 2).all()


def test_other_convolutions_are_judged_whole():
    x = torch.randn(16, 4, 6, 6)
    key = Key("", 0, "out")
    others = [nn.Conv2d(4, 4, 3, groups=2), nn.Conv2d(4, 4, 3, padding="same"), nn.ConvTranspose2d(4, 4, 3),
              nn.Conv2d(4, 4, 3, padding=1, padding_mode="circular"), nn.Conv2d(4, 4, 3).double()]  # fmt: skip
    for layer in others:
        given = x.to(layer.weight.dtype)
        entry, out = Pair(key, key, "", [given], [given]), Pair(key, key, "", *[[layer(given).detach()]] * 2)
        assert ConvolutionTwin.of(layer, entry, out) is None
    found = twin(nn.Conv2d(4, 4, 3), x, x)
    with torch.backends.mkldnn.flags(enabled=False):
        transforms = torch._C._select_conv_backend(
            x, found.module.weight, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1
        )
        assert found.possible() == (transforms.name != "NnpackSpatial")
    assert found.possible()


class Pictures(nn.Module):
    """Two layers; `other` writes the first sum in another order, so that the second one's operands differ."""

    def __init__(self, other: bool = False) -> None:
        super().__init__()
        self.first, self.second, self.other = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 6, 3, 2, 1), other

    def forward(self, x):
        y = self.first(x)
        a, b, c = y * 0.7, y * 0.4, y.flip(1) * 0.3
        return self.second(torch.sin(7 * (a + (b + c) if self.other else (a + b) + c)))


@pytest.mark.parametrize("bounds", ["all", "asked"])
def test_parts_give_the_record_of_the_whole(bounds, monkeypatch):
    torch.manual_seed(2)
    target, reference, x = Pictures(True).eval(), Pictures().eval(), torch.randn(2, 3, 12, 12)
    target.load_state_dict(reference.state_dict())

    def record():
        return next(
            r for r in render.compare_models(target, reference, x, bounds=bounds).leaves if r.at == "second out"
        )

    monkeypatch.setattr("render.network.layered.PART", 8 * 9 * 6 * 2)
    parts = record()
    monkeypatch.setattr("render.network.compare.in_columns", lambda *_: False)
    whole = record()
    assert parts.differing and (parts.label, parts.kind) == (whole.label, whole.kind)
    assert parts.code == of_cause("accumulation")
    for name in ("differing", "unstable", "nonfinite", "unbounded", "target_out_target", "reference_out_target"):
        assert getattr(parts, name) == getattr(whole, name), name
    for name in ("eta_target", "eta_reference", "difference"):
        assert getattr(parts, name) == pytest.approx(getattr(whole, name), rel=1e-2), name
    for name in ("width", "kappa"):
        assert getattr(parts, name) <= 2.1 * getattr(whole, name), name  # as of linear layers, from the target's end
