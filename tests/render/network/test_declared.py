"""Autocast declares the precision of what it casts, and of nothing else."""

from __future__ import annotations

import contextlib
import copy
import itertools

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import render
from render.network import compare
from render.network.walks import ExactWalk

WIDTH = 16


class Region(nn.Module):
    """A product in the model's own code, between borders of float32; `half`: sums in a format nobody declared."""

    def __init__(self, work: str, half: bool = False, autocast: torch.dtype | None = None, where: str = "forward"):
        super().__init__()
        torch.manual_seed(0)
        self.into, self.gates = nn.Linear(WIDTH, WIDTH), nn.GRUCell(WIDTH, WIDTH)
        self.weight = nn.Parameter(torch.randn(WIDTH, WIDTH) / 4)
        self.work, self.half, self.autocast, self.where, self.scale = work, half, autocast, where, 1.0

    def forward(self, x):
        on = self.autocast if self.where == "forward" else None
        with torch.autocast("cpu", on) if on else contextlib.nullcontext():
            return self.body(x)

    def body(self, x):
        if self.work == "cell":
            return self.gates(self.into(x).float(), x)
        h = self.into(x).float()
        if self.work == "product":
            y = (h @ self.weight).float() * self.scale
        elif self.work == "two products":
            y = ((h[:, :9] @ self.weight[:9]).float() + (h[:, 9:] @ self.weight[9:]).float()) * self.scale
        elif self.work == "written out":  # multiplications, which autocast leaves in float32
            y = (h[..., None] * self.weight).sum(-2) * self.scale
        elif self.work == "attention":
            y = F.scaled_dot_product_attention(h[None], x[None], x[None])[0].float() * self.scale
        else:  # elementwise: autocast leaves it in float32
            y = torch.tanh(h) * x * self.scale
        total = y.half().cumsum(-1)[:, -1:].float() if self.half else y.sum(-1, keepdim=True)
        return y - total / WIDTH + x


def sides(work, **target):
    """(target, reference) with equal parameters."""
    right = Region(work).eval()
    wrong = Region(work, **target).eval()
    wrong.load_state_dict(right.state_dict())
    return wrong, right


def given():
    torch.manual_seed(1)
    return torch.randn(6, WIDTH)


TYPES = (torch.bfloat16, torch.float16)


CAST = [*itertools.product(("product", "two products", "attention", "cell", "elementwise"), TYPES)]


@pytest.mark.parametrize(("work", "dtype"), CAST)
def test_what_autocast_casts_is_round_off(work, dtype):
    mine, theirs = sides(work, autocast=dtype)
    for a, b in ((mine, theirs), (theirs, mine)):
        found = render.compare_models(a, b, given())
        assert (found.label, found.first) == ("Type-I", None), found.message


@pytest.mark.parametrize("work", ["product", "attention", "cell"])
def test_autocast_in_a_function(work):
    mine, theirs = sides(work)

    def cast(x):
        with torch.autocast("cpu", torch.bfloat16):
            return mine(x)

    found = render.compare_models(cast, theirs, given())  # no border inside: all of it is one region
    assert (found.label, found.first) == ("Type-I", None), found.message


WAYS = ("product", "two products", "written out")


@pytest.mark.parametrize(("one", "other"), [*itertools.permutations(WAYS, 2)])
def test_autocast_around_the_call(one, other):
    mine, theirs = Region(one).eval(), Region(other).eval()
    with torch.autocast("cpu", torch.bfloat16):
        found = render.compare_models(mine, theirs, given())
        mine.scale = 1.05
        wrong = render.compare_models(mine, theirs, given())
    assert (found.label, found.first) == ("Type-I", None), found.message
    assert (wrong.label, wrong.first) == ("Type-II", ""), wrong.message


@pytest.mark.parametrize("ways", ["both on file", "a file and a model"])
def test_a_recorded_run_holds_what_was_declared(tmp_path, ways):
    mine, theirs = sides("product", autocast=torch.bfloat16)
    one = render.record_modules(mine, given(), path=tmp_path / "a.safetensors")
    other = render.record_modules(theirs, given(), path=tmp_path / "b.safetensors")
    found = render.compare_models(one, other) if ways == "both on file" else render.compare_models(one, theirs, given())
    assert (found.label, found.first) == ("Type-I", None), found.message
    planted = sides("product", half=True)[0]
    wrong = render.record_modules(planted, given(), path=tmp_path / "c.safetensors")
    assert render.compare_models(wrong, other).code == "RND206"


@pytest.mark.parametrize("work", ["product", "attention", "elementwise"])
def test_sums_in_float16_without_autocast_are_found(work):
    mine, theirs = sides(work, half=True)
    found = render.compare_models(mine, theirs, given())
    assert (found.label, found.code, found.first) == ("Type-II", "RND206", ""), found.message


class Parts(nn.Module):
    """Autocast over a model of which one part declares otherwise, or holds nothing that autocast casts."""

    def __init__(self, part: Region, off: bool):
        super().__init__()
        self.first, self.part, self.off = nn.Linear(WIDTH, WIDTH), part, off

    def forward(self, x):
        with torch.autocast("cpu", torch.bfloat16):
            h = self.first(x).float()
            with torch.autocast("cpu", enabled=not self.off):
                return self.part(h)


class Sums(nn.Module):
    """Centred rows, by a running sum."""

    def __init__(self, half: bool):
        super().__init__()
        self.half = half

    def forward(self, x):
        total = (x.half() if self.half else x).cumsum(-1)[:, -1:].float()
        return x - total / WIDTH


@pytest.mark.parametrize("off", [False, True])
def test_sums_in_float16_beside_autocast_are_found(off):
    torch.manual_seed(0)
    theirs = Parts(Sums(False), off).eval()
    mine = copy.deepcopy(theirs)
    assert render.compare_models(copy.deepcopy(theirs), theirs, given()).label == "Type-I"
    mine.part.half = True
    found = render.compare_models(mine, theirs, given())
    assert (found.label, found.code, found.first) == ("Type-II", "RND206", "part"), found.message


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("fault", ["", "into", "gates"])
def test_a_fault_under_autocast_is_named(fault, dtype):
    work = "cell" if fault == "gates" else "product"
    mine, theirs = sides(work, autocast=dtype)
    with torch.no_grad():
        if not fault:
            mine.scale = 1.05
        elif fault == "into":
            mine.into.weight[3] += 0.05
        else:
            mine.gates.bias_hh += 0.05
    for reference in (theirs, sides(work, autocast=dtype)[0]):
        found = render.compare_models(mine, reference, given())
        assert (found.label, found.first) == ("Type-II", fault), found.message


def test_the_source_of_a_compiled_model_declares():
    mine, theirs = sides("product", autocast=torch.bfloat16)
    found = render.compare_models(torch.compile(mine, backend="eager"), theirs, given())
    assert (found.label, found.first) == ("Type-I", None), found.message


KINDS = ["product", "two products", "written out", "attention", "elementwise", "cell"]
SWITCHED = [{}, {"autocast": torch.bfloat16}, {"autocast": torch.float16}, {"half": True}]


@pytest.mark.parametrize("told", SWITCHED, ids=lambda told: str(*told.values()) or "plain")
@pytest.mark.parametrize("work", KINDS)
@pytest.mark.parametrize("outside", [False, True])
def test_the_walks_know_where_nothing_is_declared(monkeypatch, work, told, outside):
    """Every unit that the models declare when they are run for it is one that may be there by what the walks saw."""
    may, seen, units = ExactWalk.may_declare.fget, [], []
    monkeypatch.setattr(ExactWalk, "may_declare", property(lambda w: bool(seen.append(may(w))) or w.side == "target"))
    monkeypatch.setattr(compare, "look", lambda sights, pairs, model, of: units.extend(map(of, pairs)))
    wrong, right = sides(work, **told)
    with torch.no_grad():
        wrong.into.weight.mul_(1 + 2.0**-8)  # everything differs
    with torch.autocast("cpu", torch.bfloat16) if outside else contextlib.nullcontext():
        render.compare_models(wrong, right, torch.randn(3, WIDTH))
    assert units and (any(seen) or not any(units))
    if "autocast" in told and work in ("product", "cell"):
        assert any(units)
    if not told and not outside:
        assert not any(seen)
