"""A leaf that is one operation, judged in parts: it has the record of the walks, and their bounds."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

import render
from interval_ops.profiles.profile import load_profile
from render.network.capture import Key
from render.network.pairs import Pair
from render.network.stepped import LeafStep, NormedPart, StepTwin
from render.network.walks import MOVES, UNIT
from render.reference.figures import etas, outside

CPU = load_profile("torch-cpu")


def batch_norm() -> nn.BatchNorm2d:
    layer = nn.BatchNorm2d(6)
    for t in (layer.running_mean, layer.weight, layer.bias):
        nn.init.normal_(t)
    return layer


def layer_norm() -> nn.LayerNorm:
    layer = nn.LayerNorm([5, 7])
    for t in (layer.weight, layer.bias):
        nn.init.normal_(t)
    return layer


LEAVES = {
    "batch norm": batch_norm, "bare batch norm": lambda: nn.BatchNorm2d(6, affine=False), "layer norm": layer_norm,
    "bare layer norm": lambda: nn.LayerNorm(7, elementwise_affine=False), "relu": nn.ReLU, "gelu": nn.GELU,
    "its other form": lambda: nn.GELU("tanh"), "silu in place": lambda: nn.SiLU(inplace=True), "tanh": nn.Tanh,
    "sloped": lambda: nn.LeakyReLU(0.2), "windows": lambda: nn.MaxPool2d(3, 2, 1),
    "means": lambda: nn.AdaptiveAvgPool2d(1),
}  # fmt: skip


SMOOTH = ("gelu", "its other form", "silu in place", "tanh")


def leaf(name: str) -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    torch.manual_seed(5)
    layer, x = LEAVES[name]().eval(), 2 * torch.randn(3, 6, 5, 7)
    return layer, x, x * (1 + 1e-6 * torch.randn_like(x))


def twin(layer: nn.Module, x: torch.Tensor, other: torch.Tensor) -> StepTwin | None:
    key = Key("", 0, "out")
    with torch.no_grad():
        entry, out = Pair(key, key, "", [x], [other]), Pair(key, key, "", *([layer(t.clone())] for t in (x, other)))
    return StepTwin.of(layer, entry, out, MOVES)


class Two(nn.Module):
    """A sum in one of two orders, then the leaf."""

    def __init__(self, layer: nn.Module, other: bool) -> None:
        super().__init__()
        self.layer, self.other = layer, other

    def forward(self, x):
        a, b, c = x * 0.7, x * 0.4, x.flip(0) * 0.3
        return self.layer(a + (b + c) if self.other else (a + b) + c)


@pytest.mark.parametrize("bounds", ["all", "asked"])
@pytest.mark.parametrize("name", LEAVES)
def test_parts_give_the_record_of_the_walks(name, bounds, monkeypatch):
    layer, x, _ = leaf(name)

    def record():
        found = render.compare_models(Two(layer, True), Two(layer, False), x, bounds=bounds)
        return next(r for r in found.leaves if r.at == "layer out")

    monkeypatch.setattr("render.network.stepped.PART", 60)
    parts = record()
    monkeypatch.setattr(StepTwin, "of", lambda *_: None)
    whole = record()
    assert parts.differing and (parts.label, parts.kind) == (whole.label, whole.kind)
    assert parts.code == whole.code or bounds == "asked"  # without a walk of bounds nothing says what rounds
    for key in ("differing", "unstable", "nonfinite", "unbounded", "target_out_target", "reference_out_target"):
        assert getattr(parts, key) == getattr(whole, key), key
    for key in ("eta_target", "eta_reference", "difference", "width", "kappa"):
        part, all_ = getattr(parts, key), getattr(whole, key)
        if key.startswith("eta") and name in SMOOTH:  # moved by the largest slope of a cell: by little more, never less
            assert all_ * (1 - 2e-2) <= part <= all_ * (1 + 1e-3), key
        else:
            assert part == pytest.approx(all_, rel=1e-2 if key == "kappa" and name in SMOOTH else 1e-3), key


@pytest.mark.parametrize("part", [60, 1 << 16])
@pytest.mark.parametrize("name", LEAVES)
def test_what_torch_makes_of_the_hull_is_inside(name, part, monkeypatch):
    monkeypatch.setattr("render.network.stepped.PART", part)
    layer, x, other = leaf(name)
    found = twin(layer, x, other)
    assert found is not None
    lo, hi = torch.empty(2, *found.shape(), dtype=torch.float64)
    for at, one in found.parts("target"):
        bounds = one.bounds(CPU)
        assert bounds is not None
        for whole, end in ((lo, bounds.lo), (hi, bounds.hi)):
            found.put(whole, at, torch.from_numpy(np.broadcast_to(end, one.value.shape).copy()))
    for trial in range(8):
        torch.manual_seed(trial)
        corner = torch.where(torch.rand_like(x) < 0.5, x, other)
        with torch.no_grad():
            y, exact = layer(corner.clone()).double(), layer.double()(corner.double())
            layer.float()
        assert bool(((lo <= y) & (y <= hi)).all())
        assert bool(((lo <= exact + 1e-13) & (exact - 1e-13 <= hi)).all())


def test_the_reference_of_its_own_operand():
    found = twin(*leaf("layer norm"))
    assert found is not None
    whole, moved = found.exact(UNIT, "reference")
    assert bool((moved > 0).all())
    for at, one in found.parts("target"):
        assert torch.allclose(one.of_other(), found.cut(whole, at), rtol=1e-12)


class Several(nn.Module):
    def forward(self, x):
        return torch.exp(x) + 1


def test_other_leaves_are_followed_by_the_walks():
    _, x, other = leaf("relu")
    training = nn.BatchNorm2d(6)
    others = [Several(), nn.Softmax(1), nn.PReLU(), nn.Identity(), nn.BatchNorm2d(6).double()]
    for layer in (training, *(layer.eval() for layer in others)):
        given = (t.to(next(layer.parameters(), t).dtype) for t in (x, other))
        assert twin(layer, *given) is None
    assert twin(nn.ReLU().eval(), x.transpose(0, 1), other.transpose(0, 1)) is None
    assert int(training.num_batches_tracked) == 2  # of the two calls of the test itself


class Own(nn.Module):
    """Somebody's module: what it does depends on how many rows it is given, and it keeps count."""

    calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return torch.tanh(x) if x.shape[0] == 1 else torch.relu(x)


def test_only_modules_of_torch_are_asked_what_they_do() -> None:
    layer, x = Own().eval(), torch.randn(3, 4)
    assert twin(layer, x, x * 1.0000001) is None
    assert layer.calls == 2  # of this test
    assert twin(nn.ReLU().eval(), x, x * 1.0000001) is not None


class Run(TorchDispatchMode):
    """Names of what is carried out."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names |= set() if func.is_view else {func.__name__.partition(".")[0]}
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", LEAVES)
def test_what_a_leaf_does_is_seen_without_doing_it(name) -> None:
    layer, x, _ = leaf(name)
    with torch.no_grad():
        result = layer(x.clone())
    with Run() as run:
        found = LeafStep.of(layer, x, result)
    assert found is not None and run.names <= {"empty", "empty_like", "new_empty"}
    done = found.func(x, *found.args[1:], **found.kwargs)
    assert torch.equal(done[0] if isinstance(done, tuple) else done, result)


class Turned(nn.Module):
    """One operation, and a view of what it returns."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.exp(x).transpose(0, 1)


@pytest.mark.parametrize("layer", [Several(), Turned(), nn.Identity()])
def test_what_is_no_single_operation_is_no_step(layer: nn.Module) -> None:
    x = torch.randn(3, 4)
    assert LeafStep.of(layer, x, layer(x)) is None


@pytest.mark.parametrize("size", [2, (3, 2)])
@pytest.mark.parametrize("step", [1, (2, 3)])
@pytest.mark.parametrize("spread", [1, 2])
@pytest.mark.parametrize("ceil", [False, True])
def test_the_largest_of_windows_are_those_of_torch(size, step, spread, ceil) -> None:
    layer, x = nn.MaxPool2d(size, step, 1, spread, ceil_mode=ceil), torch.randn(2, 3, 9, 11)
    result = layer(x)
    found = LeafStep.of(layer, x, result)
    assert found is not None
    windows = found.windows(x)
    assert windows is not None
    assert torch.equal(torch.from_numpy(windows.largest(x.numpy())), result)


@pytest.mark.parametrize("name", ["batch norm", "bare batch norm", "layer norm", "bare layer norm"])
@pytest.mark.parametrize("off", [0.0, 1e-3])
def test_one_pass_over_a_norm_is_what_the_rules_say_of_it(name, off) -> None:
    layer, x, other = leaf(name)
    if "batch" in name:
        layer.running_var.uniform_(0.5, 2.0)
    found = twin(layer, x, other)
    assert found is not None
    units = 1.0, UNIT, 2.0**-149
    for at, part in found.parts("target"):
        with torch.no_grad():
            y, z = (found.cut(layer(t), at).reshape(-1).numpy().copy() for t in (x, other))
        y[3] += off
        assert isinstance(part, NormedPart)
        seen, bounds = part.passed(y, z, units, CPU), part.bounds(CPU)
        assert seen is not None and bounds is not None
        exact, own = part.value.numpy().reshape(-1), part.of_other().numpy().reshape(-1)
        moved = part.moved(UNIT).numpy().reshape(-1)
        lo, hi = (np.broadcast_to(end, part.value.shape).reshape(-1) for end in bounds.pair)
        size = np.abs(exact).max()
        assert np.allclose(seen.sample[1], exact, rtol=0, atol=size * 2.0**-48)
        assert np.allclose(seen.sample[2], moved, rtol=1e-6)
        assert np.array_equal(seen.sample[3], lo) and np.array_equal(seen.sample[4], hi)
        apart = etas(y, z, exact, moved, exact, moved, units, np.inf)
        alone = etas(own, z, own, moved, own, moved, units, np.inf)
        expected = (apart.target, apart.reference, alone.reference)
        assert (seen.target, seen.reference, seen.own) == pytest.approx(expected, rel=1e-5)
        assert (seen.target_out, seen.reference_out, seen.unbounded) == outside(y, z, lo, hi)
        assert seen.finite and bool(seen.target_out) == bool(off)
