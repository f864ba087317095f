"""Counted bins against exact fractions: what lies on an edge may be on either side, and nothing else."""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch

from render.reference.local_error import Unit
from render.reference.shadow import ShadowMode

DRAW = torch.Generator().manual_seed(2)
DATA = {
    "drawn": (torch.randn(500, generator=DRAW), (20, -2.0, 2.0)),
    "own edges": (torch.randn(500, generator=DRAW), (13,)),
    "whole": (torch.arange(100.0), (10, 0, 100)),
    "thirds": (torch.arange(90.0) / 3, (30, 0, 30)),
    "all the same": (torch.ones(5), (4,)),
    "default bins": (torch.rand(300, generator=DRAW), ()),
}


def counted(x: torch.Tensor, given: tuple[float, ...], inputs: float) -> tuple[torch.Tensor, torch.Tensor]:
    mode = ShadowMode(Unit(native=False, inputs=inputs))
    with mode:
        found = torch.histc(x, *given)  # type: ignore[arg-type]
    assert not mode.estimated, mode.notes
    return mode.value(found), mode.error(found)


@pytest.mark.parametrize("name", DATA)
def test_counts_hold_what_fractions_give(name: str) -> None:
    x, given = DATA[name]
    value, error = counted(x, given, 0.0)
    bins = int(given[0]) if given else 100
    numbers = [Fraction(v) for v in x.tolist()]
    low, high = (Fraction(v) for v in given[1:]) if len(given) > 1 else (min(numbers), max(numbers))
    low, high = (low - 1, high + 1) if low == high else (low, high)
    exact = [0] * bins
    for v in numbers:
        if low <= v <= high:
            exact[min(int((v - low) / (high - low) * bins), bins - 1)] += 1
    assert bool(((value - torch.tensor(exact)).abs() <= error).all())
    if name in ("drawn", "own edges", "default bins"):
        assert not error.any(), "nothing lies on an edge but the ends themselves"


def test_moved_elements_stay_within_the_error() -> None:
    x, off = torch.round(torch.randn(400, generator=DRAW) * 8) / 8, 2.0**-12
    value, error = counted(x, (16, -1.0, 1.0), off)
    assert bool(error.any())
    for _ in range(20):
        signs = torch.randint(0, 2, x.shape, generator=DRAW) * 2 - 1
        moved = torch.histc(x.double() * (1 + off * signs), 16, -1.0, 1.0)
        assert bool(((moved - value).abs() <= error).all())


def test_where_errors_reach_a_bin_nothing_is_known() -> None:
    mode = ShadowMode(Unit(native=False, inputs=0.1))
    with mode:
        torch.histc(torch.rand(50) + 1, 64, 0.0, 2.0)
    assert mode.estimated
