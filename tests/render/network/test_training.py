"""Training steps: gradients that are another function, gradients that are rounded, optimisers that differ."""

from __future__ import annotations

import copy
import itertools
from types import MethodType

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import render
from render.network import training

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
    steps = itertools.cycle((1e-2, 2e-2))  # of the target and the reference, in turns
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


class Scaled(torch.autograd.Function):
    """The identity, whose gradient is not one."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        return grad * 0.9


class Perceptron(nn.Module):
    def __init__(self, wrong: bool = False) -> None:
        super().__init__()
        self.a, self.norm, self.b, self.wrong = nn.Linear(6, 16), nn.LayerNorm(16), nn.Linear(16, 5), wrong

    def forward(self, x):
        x = self.norm(F.gelu(self.a(x)))
        return self.b(Scaled.apply(x) if self.wrong else x.clone())


def _moved(model):
    """The same weights within an ulp, so that there is something to judge."""
    other = copy.deepcopy(model)
    with torch.no_grad():
        other.a.weight.mul_(1 + 2**-23)
    return other


def test_a_backward_pass_of_known_operations_has_a_bound():
    """A record is rigorous only where the target's own step in float64 lies in; what an optimiser makes of it, too."""
    torch.manual_seed(0)
    model, x = Perceptron().train(), torch.randn(8, 6)
    found = render.compare_training(_moved(model), model, x, optimizer=lambda p: torch.optim.SGD(p, 1e-2))
    assert found.label == "Type-I"
    assert {r.kind for r in found.leaves} == {"rigorous"}
    assert {r.at.rpartition(" ")[2] for r in found.leaves} == {"grad", "step"}
    assert all(0 < r.width < 0.1 and not r.exact_out_target for r in found.leaves if r.kind == "rigorous")
    cheap = render.compare_training(_moved(model), model, x, bounds="none")
    assert {r.kind for r in cheap.leaves} == {"first-order"} and cheap.label == "Type-I"


def test_a_gradient_outside_of_that_bound_is_another_function():
    torch.manual_seed(0)
    right, x = Perceptron().train(), torch.randn(8, 6)
    wrong = Perceptron(wrong=True).train()
    wrong.load_state_dict(right.state_dict())
    found = render.compare_training(wrong, right, x)
    assert (found.label, found.code, found.first) == ("Type-II", "RND201", "norm"), found.message
    assert "lie outside the target's bound" in found.message


OPTIMISERS = {
    "sgd": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, weight_decay=0.01, nesterov=True),
    "adamw": lambda p: torch.optim.AdamW(p, 1e-2, amsgrad=True),
    "rmsprop": lambda p: torch.optim.RMSprop(p, 1e-2, centered=False),
    "rmsprop, centered": lambda p: torch.optim.RMSprop(p, 1e-2, centered=True, momentum=0.9),
    "adagrad": lambda p: torch.optim.Adagrad(p, 1e-2),
    "adam": lambda p: torch.optim.Adam(p, 1e-2, weight_decay=0.01, foreach=False),
    "adamw, fused": lambda p: torch.optim.AdamW(p, 1e-2, amsgrad=True, fused=True),
    "adam, fused": lambda p: torch.optim.Adam(p, 1e-2, weight_decay=0.01, maximize=True, fused=True),
    "sgd, fused": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, dampening=0.1, weight_decay=0.01, fused=True),
    "nesterov, fused": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, nesterov=True, fused=True),
    "adagrad, fused": lambda p: torch.optim.Adagrad(p, 1e-2, lr_decay=0.1, weight_decay=0.01, fused=True),
    "nadam": lambda p: torch.optim.NAdam(p, 1e-2, weight_decay=0.01),
    "nadam, lists": lambda p: torch.optim.NAdam(p, 1e-2, foreach=True),
    "radam, lists": lambda p: torch.optim.RAdam(p, 1e-2, foreach=True),
    "adafactor": lambda p: torch.optim.Adafactor(p, 1e-2),
    "adamw, a rate in a tensor": lambda p: torch.optim.AdamW(p, torch.tensor(1e-2)),
    "adagrad, fused, a rate in a tensor": lambda p: torch.optim.Adagrad(p, torch.tensor(1e-2), fused=True),
    "asgd": lambda p: torch.optim.ASGD(p, 1e-2),  # takes other steps for lists of tensors, which a GPU gets
}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["adam, fused", "adamw, fused"])
def test_fused_steps_of_narrow_types_are_inside(name, dtype):
    """More elements than a vector holds, and fewer; the step itself has a bound, and twice as long a one is outside."""
    torch.manual_seed(0)
    model, x = nn.Linear(40, 3).to(dtype), torch.randn(7, 40).to(dtype)
    rule = OPTIMISERS[name]
    for steps in (1, 2):
        known, _ = training._bounded(model, (x,), None, rule, steps, 0, "torch-cpu")
        own = training._steps(model, (x,), None, rule, steps, 0, None)
        wide = training._steps(model, (x,), None, rule, steps, 0, torch.float64)
        assert {"weight step", "bias step"} <= known.keys() or steps > 1
        for n, (lo, hi) in known.items():
            for y in (own[n].double(), wide[n]):
                assert ((lo <= y.numpy()) & (y.numpy() <= hi)).all(), n
    before = dict(model.named_parameters())
    known, _ = training._bounded(model, (x,), None, rule, 1, 0, "torch-cpu")
    own = training._steps(model, (x,), None, rule, 1, 0, None)
    lo, hi = known["weight step"]
    far = (2 * own["weight step"] - before["weight"]).detach().double().numpy()
    assert ((far < lo) | (far > hi)).any()


@pytest.mark.parametrize("steps", [1, 2])
@pytest.mark.parametrize("name", OPTIMISERS)
def test_steps_in_float64_and_with_other_orders_of_the_batch_are_inside(name, steps):
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.LayerNorm(5), nn.Linear(5, 2)), torch.randn(7, 6)
    rule = OPTIMISERS[name]
    known, _ = training._bounded(model, (x,), None, rule, steps, 0, "torch-cpu")
    exact = training._steps(model, (x,), None, rule, steps, 0, torch.float64)
    assert steps > 1 or sum(n.endswith("step") for n in known) == 6
    for n, (lo, hi) in known.items():
        room = 2.0**-40 * float(exact[n].abs().max())
        assert ((lo - room <= exact[n].numpy()) & (exact[n].numpy() <= hi + room)).all(), n
    for _ in range(10):
        other = training._steps(model, (x[torch.randperm(7)],), None, rule, steps, 0, None)
        for n, (lo, hi) in known.items():
            y = other[n].double().numpy()
            assert ((lo <= y) & (y <= hi)).all(), n


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(12, 4, sparse=True)

    def forward(self, x):
        return torch.tanh(3 * self.words(x)).sum(-2)


@pytest.mark.parametrize("name", ["rmsprop", "adafactor"])
def test_squares_of_open_gradients_keep_quotients_away_from_zero(name):
    torch.manual_seed(2)
    model, x = nn.Sequential(nn.Linear(12, 20), nn.GELU(), nn.Linear(20, 5)), torch.randn(9, 12)
    known, _ = training._bounded(model, (x,), None, OPTIMISERS[name], 3, 0, "torch-cpu")
    exact = training._steps(model, (x,), None, OPTIMISERS[name], 3, 0, torch.float64)
    assert sum(n.endswith("step") for n in known) == 4
    assert all(((lo <= exact[n].numpy()) & (exact[n].numpy() <= hi)).all() for n, (lo, hi) in known.items())


STEPS = {
    "gradients of few rows": (Words, torch.randint(0, 12, (5, 3)), lambda p, lr: torch.optim.SparseAdam(list(p), lr)),
    "evaluates the model": (
        lambda: nn.Sequential(nn.Linear(6, 5), nn.Tanh()),
        torch.randn(7, 6),
        lambda p, lr: torch.optim.LBFGS(p, lr, max_iter=3),
    ),
}


@pytest.mark.parametrize("name", STEPS)
def test_steps_that_take_other_gradients_or_make_their_own(name):
    made, x, rule = STEPS[name]
    torch.manual_seed(1)
    model = made().train()
    other = copy.deepcopy(model)
    with torch.no_grad():
        next(other.parameters()).mul_(1 + 2**-23)
    right = render.compare_training(other, model, x, optimizer=lambda p: rule(p, 0.1))
    assert (right.label, right.first) == ("Type-I", None), right.message
    rates = itertools.cycle((0.11, 0.1))  # of the target and the reference, in turns
    wrong = render.compare_training(other, model, x, optimizer=lambda p: rule(p, next(rates)))
    assert wrong.label == "Type-II" and wrong.first is not None


class Biased(nn.Module):
    """A bias before a batch norm, whose gradient is 0; a table that the model makes itself."""

    def __init__(self, fault: float = 0.0) -> None:
        super().__init__()
        self.a, self.norm, self.b, self.fault = nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 3), fault

    def forward(self, x):
        y = self.norm(self.a(x))
        return self.b(torch.tanh(y) + self.fault * self.a.bias) @ torch.eye(3)


@pytest.mark.parametrize("steps", [1, 2])
def test_a_gradient_of_nothing_but_roundings_is_no_difference(steps):
    torch.manual_seed(3)
    model, x = Biased().train(), torch.randn(9, 6)
    rule = lambda p: torch.optim.AdamW(p, 1e-3)  # noqa: E731
    found = render.compare_training(_moved(model), model, x, optimizer=rule, steps=steps)
    assert (found.label, found.first) == ("Type-I", None), found.message
    wrong = Biased(0.01).train()  # the bias has a gradient now
    wrong.load_state_dict(model.state_dict())
    found = render.compare_training(wrong, model, x, optimizer=rule, steps=steps)
    assert found.label == "Type-II", found.message


class Shares(nn.Module):
    """A softmax, whose sum is constant; `way`: as torch has it, written out, or a constant without roundings."""

    def __init__(self, way: str = "torch") -> None:
        super().__init__()
        self.a, self.b, self.way = nn.Linear(6, 8), nn.Linear(8, 5), way

    def forward(self, x):
        y = self.b(torch.tanh(self.a(x)))
        if self.way == "torch":
            return torch.softmax(y, -1)
        if self.way == "constant":
            return y - y
        e = torch.exp(y)
        return e / (e.sum(-1, keepdim=True) if self.way == "written" else e[:, :1])


def _shares(way):
    torch.manual_seed(0)
    return Shares(way).train()


@pytest.mark.parametrize("rule", [None, lambda p: torch.optim.AdamW(p, 1e-3)])
def test_a_constant_loss_has_gradients_of_roundings_alone(rule):
    x, total = torch.randn(9, 6), lambda y: y.sum()
    for sides in itertools.permutations(("torch", "written", "constant"), 2):
        found = render.compare_training(*map(_shares, sides), x, loss=total, optimizer=rule)
        assert (found.label, found.first) == ("Type-I", None), (sides, found.message)
        assert "depends on no parameter" in found.notes[0] and "a.weight" in found.notes[0]
    left = render.compare_training(_shares("torch"), _shares("constant"), x, loss=total, bounds="none")
    assert (left.label, left.code) == ("Inconclusive", "RND302")  # what rounding may do is then not known
    for sides in (("torch", "wrong"), ("wrong", "torch")):  # constant on one side only
        found = render.compare_training(*map(_shares, sides), x, loss=total, optimizer=rule)
        assert found.label == "Type-II", sides


def test_parameters_whose_gradients_vanish_are_named():
    torch.manual_seed(3)
    model, x = Biased().train(), torch.randn(9, 6)
    (note,) = render.compare_training(_moved(model), model, x).notes
    assert "a.bias" in note and "a.weight" not in note and "norm" not in note
    assert not render.compare_training(model, copy.deepcopy(model), x).notes


WITHOUT = {
    "muon": (torch.float32, lambda p: torch.optim.Muon(p, 1e-2), 1, "infinite"),
    "lbfgs": (torch.float32, lambda p: torch.optim.LBFGS(p), 1, "decides what the host does"),
    "sgd": (torch.bfloat16, lambda p: torch.optim.SGD(p, 1e-2, fused=True), 1, "_fused_sgd_ has no rule"),
    "adagrad": (torch.float16, lambda p: torch.optim.Adagrad(p, 1e-2, fused=True), 1, "_fused_adagrad_ has no rule"),
}


@pytest.mark.parametrize("name", WITHOUT)
def test_a_step_without_a_bound_says_why(name):
    torch.manual_seed(0)
    dtype, rule, steps, why = WITHOUT[name]
    model, x = nn.Linear(24, 3, bias=False).to(dtype), torch.randn(7, 24, dtype=dtype)
    known, without = training._bounded(model, (x,), None, rule, steps, 0, "torch-cpu")
    assert "weight step" not in known and why in without["weight step"][0]


def test_a_record_without_a_bound_says_why():
    torch.manual_seed(0)
    model, x = nn.Linear(6, 3, bias=False), torch.randn(7, 6)
    other = copy.deepcopy(model)
    with torch.no_grad():
        other.weight.mul_(1 + 2**-23)
    found = render.compare_training(other, model, x, optimizer=lambda p: torch.optim.LBFGS(p))
    told = {r.at: (r.kind, r.taints) for r in found.leaves}
    assert told["weight step"][0] == "first-order" and "test_training.py" in told["weight step"][1][0]
