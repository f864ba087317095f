"""Models inside of wrappers belong to the same without: autocast, a data-parallel shell, a serving class."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

import render
from render.network.pairs import _held, unlike

from .named import CASES
from .wrapped import Auto


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 6))
        self.other = nn.Linear(6, 6)
        self.head = nn.Linear(6, 6)
        self.scale = 1.0

    def forward(self, x):
        return self.head(torch.tanh(self.other(self.body(x) * self.scale)))


class Shell(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.module = model

    def forward(self, x):
        return self.module(x)


SHELLS = {
    "one": Shell,
    "two": lambda m: Shell(Shell(m)),
    "autocast": Auto,
}


@pytest.mark.parametrize("name", SHELLS)
@pytest.mark.parametrize("outside", ["target", "reference"])
def test_a_wrapped_model_is_compared_module_by_module(name, outside):
    """All layers here have one shape, so that order and shapes alone would pair the container with its first layer."""
    torch.manual_seed(0)
    model, x = Net(), torch.randn(5, 6)
    sides = [SHELLS[name](model), copy.deepcopy(model)]
    right = render.compare_models(*(sides if outside == "target" else sides[::-1]), x)
    assert (right.label, right.first) == ("Type-I", None), right.message
    wrong = copy.deepcopy(model)
    with torch.no_grad():
        wrong.other.bias.add_(0.5)
    sides = [SHELLS[name](wrong), model] if outside == "target" else [wrong, SHELLS[name](model)]
    found = render.compare_models(*sides, x)
    assert found.label == "Type-II" and str(found.first).split(".")[-1] == "other", found.message


def test_the_deepest_agreement_decides():
    mine = ["", "m", "m.a", "m.a.b", "m.c", "a"]
    assert _held(mine, ["", "a", "a.b", "c"]) == {"m.a": "a", "m.a.b": "a.b", "m.c": "c"}
    assert _held(["", "a", "a.b", "c"], mine) == {"a": "m.a", "a.b": "m.a.b", "c": "m.c"}
    assert _held(["", "x"], ["", "y"]) == {}


def named(name: str):
    torch.manual_seed(4)
    return CASES[name]()


@pytest.mark.parametrize(("name", "dtype"), [*((n, torch.float32) for n in CASES), ("folded", torch.bfloat16)])
def test_spellings_of_other_names_are_one_function_with_a_map_and_without(name, dtype):
    target, reference, x, match = named(name)
    sides = [copy.deepcopy(m).to(dtype) for m in (target, reference)]
    for told in (match, None):
        for given, back in ((told, False), (told and {b: a for a, b in told.items()}, True)):
            found = render.compare_models(*(sides[::-1] if back else sides), x.to(dtype), match=given)
            assert (found.label, found.first) == ("Type-I", None), (told, back, found.message)
            assert not sum(r.target_out_target for r in found.leaves)


FAULTS = {
    "a mask": ("attention", lambda m: setattr(m.attn[1], "causal", True), {"attn.1", "attn.1.out"}),
    "one weight of three": ("attention", lambda m: m.attn[0].qkv.weight.data[20].mul_(1.1), {"attn.0", "attn.0.out"}),
    "a norm's eps": ("attention", lambda m: setattr(m.ln[1], "eps", 1e-2), {"ln.1"}),
    "a folded norm's mean": ("folded", lambda m: m.same.bn.running_mean.add_(0.1), {"same.bn"}),
    "a folded weight": ("folded", lambda m: m.stem.conv.weight.data[2].mul_(1.1), {"stem.bn"}),
    "a bias before what one side has alone": ("sequence", lambda m: m.two.bias.data.add_(0.1), {"two"}),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_between_such_spellings_are_found_at_their_module(fault):
    name, plant, where = FAULTS[fault]
    target, reference, x, match = named(name)
    wrong = copy.deepcopy(target)
    plant(wrong)
    found = render.compare_models(wrong, reference, x, match=match)
    assert found.label == "Type-II" and found.first in where, found.message
    found = render.compare_models(wrong, reference, x)
    assert found.label == "Type-II", found.message
    across = {match.get(n, n) for n in where} | {n.replace("attn", "self_attention") for n in where}
    found = render.compare_models(reference, wrong, x, match={b: a for a, b in match.items()})
    assert found.label == "Type-II" and found.first in across, found.message


@pytest.mark.parametrize(("name", "start", "end"), [("attention", "attn.0.out", "ln.1"), ("folded", "same.bn", None),
                                                    ("sequence", None, "two")])  # fmt: skip
def test_parts_of_such_spellings_by_the_targets_names(name, start, end):
    target, reference, x, match = named(name)
    found = render.compare_models(target, reference, x, match=match, start=start, end=end)
    assert found.label == "Type-I" and found.leaves
    names = {r.at.rsplit(" ", 1)[0] for r in found.leaves}
    assert end is None or (end in names and "(model)" not in names)


def test_what_has_little_to_do_with_each_other():
    torch.manual_seed(0)
    x = torch.randn(4000)
    assert unlike(x, torch.randn(4000)) and unlike(x, -x) and unlike(x, 5 + torch.randn(4000))
    assert not unlike(x, x) and not unlike(x, 3 * x + 7) and not unlike(x, x + 0.5 * torch.randn(4000))
    assert not unlike(torch.ones(3), torch.ones(3)) and not unlike(torch.arange(4), torch.arange(4).bfloat16())
    turned = torch.polar(torch.ones(4000), torch.linspace(0, 9, 4000))
    assert not unlike(turned, turned.conj().conj()) and unlike(turned, -turned) and not unlike(x[:0], x[:0])


def test_a_small_fault_at_a_module_that_was_guessed_is_none_of_pairing():
    """Without this border the region would be larger, and so would what its rounded constants explain."""
    target, reference, x, _ = named("sequence")
    for size in (1e-5, 1e-4, 1e-2):
        wrong = copy.deepcopy(target)
        wrong.two.weight.data.mul_(1 + size)
        found = render.compare_models(wrong, reference, x)
        assert (found.label, found.first) == ("Type-II", "two"), (size, found.message)
