"""A linear layer judged in columns has the record of the layer judged whole."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

import render
from interval_ops.profiles.profile import load_profile
from render.network.capture import Key
from render.network.columns import in_columns, own_in_columns
from render.network.judge import Sight
from render.network.layered import LinearTwin
from render.network.pairs import Pair
from render.network.walks import UNIT
from render.result.codes import of_cause


class Gated(nn.Module):
    """Two layers; `other` writes the first sum in another order, so that the second one's operands differ."""

    def __init__(self, other: bool = False) -> None:
        super().__init__()
        self.first, self.second, self.other = nn.Linear(48, 96), nn.Linear(96, 40, bias=False), other

    def forward(self, x):
        y = self.first(x)
        a, b, c = y * 0.7, y * 0.4, y.flip(-1) * 0.3
        y = a + (b + c) if self.other else (a + b) + c
        return self.second(torch.sin(7 * y))


def pair(dtype: torch.dtype = torch.float32) -> tuple[Gated, Gated, torch.Tensor]:
    torch.manual_seed(2)
    target, reference = Gated(True).eval(), Gated().eval()
    target.load_state_dict(reference.state_dict())
    return target.to(dtype), reference.to(dtype), torch.randn(9, 48).to(dtype)


def record(target, reference, x, **kwargs):
    found = [r for r in render.compare_models(target, reference, x, **kwargs).leaves if r.at == "second out"]
    assert len(found) == 1 and found[0].differing
    return found[0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("bounds", ["all", "asked"])
def test_columns_give_the_record_of_the_whole(dtype, bounds, monkeypatch):
    sides = pair(dtype)
    monkeypatch.setattr("render.network.layered.PART", 96 * 7)  # parts of seven columns and a rest
    parts = record(*sides, bounds=bounds)
    monkeypatch.setattr("render.network.compare.in_columns", lambda *_: False)
    whole = record(*sides, bounds=bounds)
    assert (parts.label, parts.kind) == (whole.label, whole.kind)
    assert parts.code == of_cause("accumulation" if dtype == torch.float32 else "cast")
    for name in ("differing", "unstable", "nonfinite", "unbounded", "target_out_target", "reference_out_target"):
        assert getattr(parts, name) == getattr(whole, name), name
    for name in ("eta_target", "eta_reference", "difference"):
        assert getattr(parts, name) == pytest.approx(getattr(whole, name), rel=1e-2), name
    for name in ("width", "kappa"):  # the general rule's, from the middle of the hull in place of the target's end
        assert 0.9 * getattr(whole, name) <= getattr(parts, name) <= 2.1 * getattr(whole, name), name


@pytest.mark.parametrize("bounds", ["all", "asked"])
def test_what_columns_cannot_close_is_judged_whole(bounds):
    """The target's sum is far off in one column only: RND206 or worse, at that layer."""
    target, reference, x = pair()
    plain = target.second.forward

    def lossy(y):
        found = plain(y)
        found[:, 17] = (y.half() @ target.second.weight[17].half()).float()
        return found

    target.second = copy.deepcopy(target.second)
    handle = target.second.register_forward_hook(lambda m, args, out: lossy(args[0]))
    verdict = render.compare_models(target, reference, x, bounds=bounds)
    handle.remove()
    assert (verdict.label, verdict.first) == ("Type-II", "second")


def seen(off: float, elements: int) -> tuple[Sight, LinearTwin]:
    """A layer of which the reference's record is `off` relative to it, at the first `elements` of column 3."""
    torch.manual_seed(4)
    layer, x = nn.Linear(30, 20), torch.randn(8, 30)
    y = layer(x).detach()
    z = y.clone()
    z[:elements, 3] *= 1 + off
    entry = Pair(Key("a", 0, "in"), Key("a", 0, "in"), "", [x], [x.clone()])
    out = Pair(Key("a", 0, "out"), Key("a", 0, "out"), "a", [y], [z])
    found = LinearTwin.of(layer, entry, out)
    assert found is not None
    return Sight(out, 0, UNIT, UNIT), found


@pytest.mark.parametrize(("off", "elements"), [(1e-7, 8), (1e-2, 5)])
def test_the_reference_from_its_own_operands_in_columns(off, elements, monkeypatch):
    monkeypatch.setattr("render.network.layered.PART", 30 * 6)
    (sight, twin), (whole, _) = seen(off, elements), seen(off, elements)
    in_columns(sight, twin, load_profile("torch-cpu"), False)
    own_in_columns(sight, twin)
    whole.of_reference((*(t.numpy() for t in twin.exact(UNIT)), False))
    whole.of_own((*(t.numpy() for t in twin.exact(UNIT, "reference")), False))
    whole.stability(own=True)
    assert sight.record.unstable == whole.record.unstable == -(elements if off > 1e-3 else 0)
    assert sight.record.eta_reference == pytest.approx(whole.record.eta_reference, rel=1e-3)
