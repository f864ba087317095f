"""Elements that are compared one by one have one verdict for each line, on those that were compared."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from third_kernel import kernel

import render


def _items(a: torch.Tensor, b: torch.Tensor, start: int) -> None:
    for i in range(start, len(a)):
        print(abs(a[i].item() - b[i].item()) > 1e-3)


def _isclose(a: torch.Tensor, b: torch.Tensor, start: int) -> None:
    for one, two in list(zip(a, b, strict=True))[start:]:
        print(math.isclose(one.item(), two.item(), rel_tol=1e-3))


def _tensors(a: torch.Tensor, b: torch.Tensor, start: int) -> None:
    for i in range(start, len(a)):
        print((a[i] - b[i]).abs())


def _squares(a: torch.Tensor, b: torch.Tensor, start: int) -> None:
    a, b = a.view(5, 8), b.view(5, 8)
    for i in range(start, 40):
        assert abs(a[i // 8, i % 8].item() - b[i // 8][i % 8].item()) < 10


LOOPS = {"item": _items, "isclose": _isclose, "0-dim": _tensors, "two axes": _squares}


@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize(
    ("factor", "start", "label"), [(1.0, 0, "Type-I"), (1.1, 0, "Type-II"), (1.1, 8, "Type-I")]
)  # fmt: skip
def test_a_loop_over_elements_is_one_comparison_of_these(name: str, factor: float, start: int, label: str) -> None:
    loop: Callable[[torch.Tensor, torch.Tensor, int], None] = LOOPS[name]
    with render.watch(budget=False) as w:
        x = torch.linspace(0.3, 2, 40)
        loop(kernel(x, factor, at=7), x * (1 / 3), start)
    assert [v.label for v in w.verdicts] == [label]
    assert w.verdicts[0].outputs[0].shape == (40 - start,)


def test_what_a_loop_compares_stands_where_it_began() -> None:
    with render.watch(budget=False) as w:
        x = torch.linspace(0.3, 2, 40)
        one, two = kernel(x, 1.1, at=7), x * (1 / 3)
        print((one[3] - two[3]).abs())
        torch.allclose(one, two)
    first, second = w.comparisons
    assert first.line == second.line - 1
    assert [v.label for v in w.verdicts] == ["Type-I", "Type-II"]


def test_a_result_that_changes_between_is_another_one() -> None:
    with render.watch(budget=False) as w:
        x = torch.linspace(0.3, 2, 40)
        one, two = kernel(x, 1.0), x * (1 / 3)
        for _ in range(2):
            for i in range(2):
                print((one[i] - two[i]).abs())
            one += 1
    assert [v.label for v in w.verdicts] == ["Type-I", "Type-II"]
