"""Choices that lie within rounding are none of a module's faults; functions that choose otherwise are."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

import render
from tests.render.network.wrapped import Auto, Plain

TOKENS = 200


class Experts(nn.Module):
    """The two likeliest of four experts, mixed; `how`: what is wrong with it."""

    def __init__(self, how: str = "") -> None:
        super().__init__()
        self.how, self.router = how, nn.Linear(8, 4, bias=False)
        self.weight = nn.Parameter(torch.randn(4, 8, 8) / 3)
        self.last = nn.Linear(8, 3)

    def forward(self, x):
        p = self.router(x).softmax(-1)
        if self.how == "cast":
            p = p.bfloat16().to(x.dtype)
        best, at = (-p if self.how == "least" else p).topk(2, -1)
        if self.how == "third":
            best, at = p.topk(3, -1)[0][..., 1:], p.topk(3, -1)[1][..., 1:]
        best = best / best.sum(-1, keepdim=True)
        mixed = torch.einsum("td,tkde->tke", x.to(self.weight.dtype), self.weight[at])
        if self.how == "swapped":
            best = best.flip(-1)
        return self.last((best.unsqueeze(-1) * mixed).sum(-2) * (1.01 if self.how == "scaled" else 1.0))


def sides(how):
    torch.manual_seed(0)
    right = Experts().eval()
    wrong = copy.deepcopy(right)
    wrong.how = how
    return wrong, right, torch.randn(TOKENS, 8)


def test_close_choices_under_autocast_are_round_off():
    wrong, right, x = sides("")
    found = render.compare_models(Auto(wrong), Plain(right), x)
    assert (found.label, found.first) == ("Type-I", None), found.message
    turned = [r for r in found.leaves if r.turned]
    assert turned and all(r.kind == "first-order" and "within rounding" in r.detail for r in turned)


@pytest.mark.parametrize("how", ["least", "third", "swapped", "scaled"])
def test_another_choice_is_found_among_close_ones(how):
    wrong, right, x = sides(how)
    found = render.compare_models(Auto(wrong), Plain(right), x)
    assert (found.label, found.first) == ("Type-II", "model"), found.message


def test_a_cast_that_nobody_asked_for_is_no_excuse():
    wrong, right, x = sides("cast")
    found = render.compare_models(wrong, right, x)
    assert (found.label, found.first) == ("Type-II", ""), found.message


class Held(nn.Module):
    """Hands a parameter on as it is: a walk puts other numbers into activations, never into what a module holds."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.cache = nn.Parameter(torch.randn(3, 4)), torch.randn(3, 4)

    def forward(self):
        return self.table, self.cache


class Uses(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.held, self.act = Held(), nn.Tanh()

    def forward(self, x):
        table, cache = self.held()
        return self.act(x @ table.T + (x @ cache.T).argmax(-1, keepdim=True))


def test_what_modules_hold_is_left_as_it_is():
    torch.manual_seed(0)
    right = Uses()
    wrong = copy.deepcopy(right)
    with torch.no_grad():
        wrong.held.table.add_(0.25)
        wrong.held.cache.add_(0.25)
    before = right.held.table.clone(), right.held.cache.clone()
    assert render.compare_models(wrong, right, torch.randn(5, 4)).first == "held"
    assert torch.equal(right.held.table, before[0]) and torch.equal(right.held.cache, before[1])


class Kinked(nn.Module):
    """A sum of gated parts, cut at zero, in a region of its own; `wrong` cuts a little beside."""

    def __init__(self, wrong: float = 0.0) -> None:
        super().__init__()
        self.parts, self.last = nn.ModuleList(nn.Linear(16, 24) for _ in range(4)), nn.Linear(24, 3)
        self.wrong = wrong

    def forward(self, x):
        a, b, c, d = (part(x) for part in self.parts)
        return self.last(torch.relu(torch.tanh(a) * torch.sigmoid(b) - torch.tanh(c) * torch.sigmoid(d) + self.wrong))


class Autocast(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x):
        with torch.autocast("cpu", torch.bfloat16):
            return self.inner(x)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("wrong", [0.0, 0.1])
def test_signs_that_turn_within_a_coarse_format_are_rounding(seed, wrong):
    torch.manual_seed(seed)
    reference, target = Kinked().eval(), Kinked(wrong).eval()
    target.load_state_dict(reference.state_dict())
    verdict = render.compare_models(Autocast(target), reference, torch.randn(400, 16))
    assert verdict.label == ("Type-II" if wrong else "Type-I"), verdict.message
