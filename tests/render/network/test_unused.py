"""Calls whose results nothing depends on are no difference of two models; what is kept or decided by them is one."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import render

OUTSIDE: list[torch.Tensor] = []


class Store:
    """Holds what it is given, as caches of a library do."""


class Probed(nn.Module):
    """`how` says what becomes of a probe's result."""

    def __init__(self, how: str, scale: float = 1.0) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(8, 8), nn.Linear(8, 3)
        self.probe = nn.Sequential(nn.Linear(8, 4), nn.Tanh())
        self.inplace = nn.ReLU(inplace=True)
        self.register_buffer("seen", torch.zeros(4))
        self.how, self.scale, self.store = how, scale, Store()

    def forward(self, x):
        y = self.first(x)
        found = self.probe(y * self.scale)
        if self.how == "kept":
            self.seen.copy_(found.mean(0))
        if self.how == "decides" and found.sum().item() > 1e9:
            y = -y
        if self.how == "numpy" and found.detach().numpy().sum() > 1e9:
            y = -y
        if self.how == "equal" and torch.equal(found, x):
            y = -y
        if self.how == "count" and len(found.nonzero()) > 1000:
            y = -y
        if self.how == "put away":
            self.store.found = found
        if self.how == "part put away":
            self.store.found = [found[:, :2].detach()]
        if self.how == "outside":
            OUTSIDE.append(found)
        if self.how == "added":
            y = y + found.mean()
        if self.how == "in place":
            self.inplace(y)
        return self.last(y)


def compared(how: str, scale: float, reference: str | None = None):
    torch.manual_seed(1)
    sides = [Probed(how, scale).eval(), Probed(reference or how).eval()]
    sides[0].load_state_dict(sides[1].state_dict())
    return render.compare_models(*sides, torch.randn(5, 8))


def test_a_probe_of_other_numbers_is_no_difference():
    verdict = compared("ignored", 1.5)
    assert (verdict.label, verdict.first) == ("Type-I", None)
    assert any("probe" in note for note in verdict.notes)


@pytest.mark.parametrize("how", [
    "kept", "decides", "numpy", "added", "equal", "count", "put away", "part put away", "outside",
])  # fmt: skip
def test_a_probe_that_is_used_is_one(how):
    assert compared(how, 1.5).label == "Type-II"


def test_a_probe_that_only_the_target_uses_is_one():
    assert compared("added", 1.0, "ignored").label == "Type-II"


def test_what_changes_its_operand_is_used_though_its_result_is_not():
    torch.manual_seed(1)
    sides = [Probed("in place").eval(), Probed("in place").eval()]
    sides[0].load_state_dict(sides[1].state_dict())
    sides[0].inplace = nn.ReLU6(inplace=True)
    verdict = render.compare_models(*sides, 100 * torch.randn(5, 8))
    assert verdict.label == "Type-II"


class Logged(nn.Module):
    """A head that is called early or late, of the same activation before or after it is scaled."""

    def __init__(self, late: bool, wrong: float = 1.0) -> None:
        super().__init__()
        self.first, self.last, self.head = nn.Linear(8, 8), nn.Linear(8, 3), nn.Linear(8, 2)
        self.late, self.wrong = late, wrong

    def forward(self, x):
        y = self.first(x)
        if not self.late:
            self.head(y)
        z = y * 3
        if self.late:
            self.head(z)
        return self.last(torch.relu(z * self.wrong))


@pytest.mark.parametrize("wrong", [1.0, 1.01])
def test_what_a_probe_was_handed_is_no_start_for_what_comes_after(wrong):
    torch.manual_seed(1)
    sides = [Logged(True, wrong).eval(), Logged(False).eval()]
    sides[0].load_state_dict(sides[1].state_dict())
    verdict = render.compare_models(*sides, torch.randn(5, 8))
    assert verdict.label == ("Type-I" if wrong == 1 else "Type-II")
    assert verdict.first == (None if wrong == 1 else "")
