"""Sums between borders: judged from the activations there, with the record that the walks give; others go by these."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import render
from interval_ops.profiles.profile import load_profile
from render.network.capture import Key
from render.network.joined import AnchoredMode, JoinPart, JoinStep, JoinTwin, Seat, SumPart
from render.network.pairs import Pair
from render.network.walks import MOVES, UNIT
from render.reference.figures import etas, outside
from render.reference.shadow import ShadowMode, Unseen

CPU = load_profile("torch-cpu")
UNITS = (1.0, UNIT, 2.0**-149)
JOINS = {
    "sum": lambda a, b: a + b,
    "difference": lambda a, b: b - a,
    "in place": lambda a, b: a.add_(b),
    "product": lambda a, b: a * b,
    "function": lambda a, b: torch.tanh(b),
    "views": lambda a, b: a.view(24, 7).T + b.view(7, 24),
    "moved": lambda a, b: b.view(24, 7).T,
}


class Joined(nn.Module):
    """Two layers whose results meet; `flipped` sums the first one's operand in another order."""

    def __init__(self, join: str, flipped: bool = False, factor: float = 1.0) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Linear(24, 24), nn.Linear(24, 24), nn.Linear(24, 5)
        self.join, self.flipped, self.factor = join, flipped, factor

    def forward(self, x):
        x = (0.3 * x + (0.2 * x + x)) if self.flipped else ((0.3 * x + 0.2 * x) + x)
        a, b = self.first(x), self.second(x)
        return self.last(JOINS[self.join](a, b) if self.factor == 1 else a + self.factor * b)


def sides(join: str, factor: float = 1.0) -> tuple[Joined, Joined, torch.Tensor]:
    torch.manual_seed(6)
    target, reference = Joined(join, True, factor).eval(), Joined(join).eval()
    target.load_state_dict(reference.state_dict())
    return target, reference, torch.randn(7, 24)


def record(target, reference, x, **kwargs):
    return next(r for r in render.compare_models(target, reference, x, **kwargs).leaves if r.at == "last in")


@pytest.mark.parametrize("join", JOINS)
@pytest.mark.parametrize("bounds", ["all", "asked"])
def test_a_join_has_the_record_of_the_walks(join, bounds, monkeypatch):
    found = []
    twin = JoinTwin.of
    monkeypatch.setattr(JoinTwin, "of", lambda *args: found.append(twin(*args)) or found[-1])
    joined = record(*sides(join), bounds=bounds)
    assert [t is not None for t in found] == [True]
    monkeypatch.setattr(JoinTwin, "of", lambda *_: None)
    walked = record(*sides(join), bounds=bounds)
    assert joined.differing and (joined.label, joined.kind) == (walked.label, walked.kind)
    assert bounds == "asked" or joined.code == walked.code  # what rounds is not looked for where no bound is asked
    for name in ("differing", "unstable", "apart", "unbounded", "target_out_target", "exact_out_target"):
        assert getattr(joined, name) == getattr(walked, name), name
    for name in ("eta_target", "eta_reference", "width", "kappa"):
        assert getattr(joined, name) == pytest.approx(getattr(walked, name), rel=1e-5), name


class Doubled(Joined):
    def forward(self, x):
        a, _ = self.first(x), self.second(x)
        return self.last(a + a)


@pytest.mark.parametrize("other", [Joined("sum", True, 1.001), Joined("difference"), Doubled("sum")])
def test_another_sum_is_another_function(other, monkeypatch):
    """Of another operation, or of other borders: as the walks say it."""
    _, reference, x = sides("sum")
    other.eval().load_state_dict(reference.state_dict())
    found = render.compare_models(other, reference, x)
    monkeypatch.setattr(JoinTwin, "of", lambda *_: None)
    walked = render.compare_models(other, reference, x)
    assert (found.label, found.code, found.first) == (walked.label, walked.code, walked.first)
    one, two = (next(r for r in v.leaves if r.at == "last in") for v in (found, walked))
    assert found.label == "Type-II" and one == two


def parts(count: int = 1500) -> tuple[SumPart, np.ndarray, np.ndarray]:
    torch.manual_seed(1)
    own = [torch.randn(count) * 10.0 ** torch.randint(-9, 9, (count,)) for _ in range(2)]
    other = [x * (1 + 1e-6 * torch.randn(count)) for x in own]
    own[1][:20], other[1][:20] = -own[0][:20], -own[0][:20]
    y, z = own[0] - own[1], other[0] - other[1]
    return SumPart(torch.ops.aten.sub.Tensor, own, other, MOVES), y.numpy(), z.numpy()


def test_one_pass_has_the_figures_of_the_steps():
    part, y, z = parts()
    z[3] += 1e-3 * abs(z[3])
    found = part.passed(y, z, UNITS, CPU)
    steps = JoinPart(part.func, part.own, part.other, MOVES)
    exact, moved, bounds = steps.value.numpy(), steps.moved(UNIT).numpy(), steps.bounds(CPU)
    own, shift = steps.of_other().numpy(), steps.other_moved().numpy()
    one, two = (etas(y, z, exact, moved, e, m, UNITS, 8.0) for e, m in ((exact, moved), (own, shift)))
    assert (found.target, found.reference, found.own) == pytest.approx((one.target, one.reference, two.reference))
    assert (found.target_out, found.reference_out, found.unbounded) == outside(y, z, bounds.lo, bounds.hi)
    assert found.finite and found.reference_out
    assert np.array_equal(found.sample, [y, exact, moved, bounds.lo, bounds.hi])
    assert not part.passed(np.where(y == y[5], np.nan, y), z, UNITS, CPU).finite


def test_a_bound_holds_every_sum_of_the_hull():
    part, y, z = parts()
    lo, hi = part.passed(y, z, UNITS, CPU).sample[3:]
    for weight in (0.0, 0.25, 0.5, 1.0):
        for other in (0.0, 0.75, 1.0):
            a, b = (torch.lerp(p, q, w) for p, q, w in zip(part.own, part.other, (weight, other), strict=True))
            kept = [(torch.minimum(p, q) <= x) & (x <= torch.maximum(p, q)) for p, q, x in
                    zip(part.own, part.other, (a, b), strict=True)]  # fmt: skip
            inside = (kept[0] & kept[1]).numpy()
            made = (a - b).numpy()[inside]
            assert inside.any() and (lo[inside] <= made).all() and (made <= hi[inside]).all()


def written(a, b):
    y = a + b
    a.mul_(2)
    return y, a


def behind(a, b):
    a.data.mul_(2)
    return (a + b,)


def chained(a, b):
    y = a + b
    return y, y.add_(a), y[2:] * 3


def viewed(a, b):
    return a[1:] + b[1:], (a + b)[None]


@pytest.mark.parametrize("program", [written, behind, chained, viewed])
def test_float64_that_was_put_off_is_float64(program):
    """Whatever happens to operands afterwards, values and errors are those of a mode that puts nothing off."""
    found = []
    for make in (AnchoredMode, ShadowMode):
        torch.manual_seed(0)
        mode, (a, b) = make(MOVES), (torch.randn(9), torch.randn(9))
        for i, x in enumerate((a, b)):
            given = x.clone() + 1e-6
            if make is AnchoredMode:
                mode.anchor(x, given, (Key(str(i), 0, "out"), 0))
            else:
                mode.shadows.lend(x, given)
        with mode:
            made = program(a, b)
        with Unseen():
            found.append([(mode.value(t).clone(), mode.error(t).clone()) for t in made])
    for one, two in zip(*found, strict=True):
        assert torch.equal(one[0], two[0]) and torch.equal(one[1], two[1])


def steps_of(program) -> JoinStep | None:
    mode, (a, b) = AnchoredMode(MOVES), (torch.randn(9), torch.randn(9))
    for i, x in enumerate((a, b)):
        mode.anchor(x, x.clone(), (Key(str(i), 0, "out"), 0))
    with mode:
        return mode.made_by(program(a, b))


def seat(place: int, size: int = 9, stride: int = 1, offset: int = 0) -> Seat:
    return Seat(Key(str(place), 0, "out"), 0, (size,), (stride,), offset)


def test_only_what_stands_at_borders_is_joined():
    add, sub = torch.ops.aten.add.Tensor, torch.ops.aten.sub.Tensor
    assert steps_of(lambda a, b: b + a) == (add, (seat(1), seat(0)))
    assert steps_of(lambda a, b: a.sub_(b)) == (sub, (seat(0), seat(1)))
    assert steps_of(lambda a, b: a[::2] + b[4:]) == (add, (seat(0, 5, 2), seat(1, 5, 1, 4)))
    assert steps_of(lambda a, b: b.view(3, 3)[1]) == (None, (seat(1, 3, 1, 3),))
    for other in (
        lambda a, b: behind(a, b)[0], lambda a, b: a + 2 * b, lambda a, b: (a + b)[None], lambda a, b: a + b[:1],
        lambda a, b: torch.add(a, b, alpha=2), lambda a, b: a + torch.ones(9), lambda a, b: a.cumsum(0),
        lambda a, b: a.mul_(2) + b, lambda a, b: (a + b, a * b)[0], lambda a, b: a > b, lambda a, b: a.mul_(2)[1:],
        lambda a, b: behind(a, b) and a[1:], lambda a, b: a.clone(), lambda a, b: a.double(),
    ):  # fmt: skip
        assert steps_of(other) is None


def test_joins_of_other_types_and_shapes_go_by_the_walks():
    def of(*shapes: tuple[int, ...], dtype: torch.dtype = torch.float32) -> JoinTwin | None:
        seats = (Seat(Key(str(i), 0, "out"), 0, s, (3, 1)[-len(s) :], 0) for i, s in enumerate(shapes[:2]))
        step = JoinStep(torch.ops.aten.add.Tensor, tuple(seats))
        keys = [Key(str(i), 0, "out") for i in range(3)]
        made = {k: Pair(k, k, "", *([torch.ones(s, dtype=dtype)] for _ in range(2)))
                for k, s in zip(keys, shapes, strict=True)}  # fmt: skip
        return JoinTwin.of(step, (made[keys[2]], 0), made, MOVES)

    assert of((2, 3), (2, 3), (2, 3)) is not None
    assert of((2, 3), (2, 3), (3, 2)) is None and of((0, 3), (0, 3), (0, 3)) is None
    assert of((2, 3), (2, 3), (2, 3), dtype=torch.float64) is None


def test_walks_end_with_what_is_asked_for():
    """The last walk runs no further than the last border that is open, and leaves the models as they were."""
    calls = []

    class Behind(Joined):
        def forward(self, x):
            found = super().forward(x)
            calls.append(self)
            return found

    target, reference = (Behind("sum", flipped).eval() for flipped in (True, False))
    target.load_state_dict(reference.state_dict())
    x = torch.randn(7, 24)
    verdict = render.compare_models(target, reference, x)
    assert verdict.label == "Type-I" and [calls.count(side) for side in (target, reference)] == [2, 2]
    assert torch.equal(target(x), Joined.forward(target, x))
    calls.clear()
    render.compare_models(target, reference, x, bounds="asked")
    assert calls.count(target) > 1
