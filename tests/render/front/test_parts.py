"""Columns of a table are the tensors that were put into it."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from third_kernel import kernel

import render
from render.front.parts import own_part
from render.front.steps import Region
from render.front.tape import Tape


def _table(a: torch.Tensor, b: torch.Tensor) -> Any:
    table = torch.empty(len(a), 3)
    table[:, 0], table[:, 2], table[:, 1] = a, 7.0, b
    return table.T


def _text(a: torch.Tensor, b: torch.Tensor) -> Any:
    file = io.StringIO()
    np.savetxt(file, np.column_stack([a, b, np.arange(len(a))]), delimiter=",", header="a,b,i")
    file.seek(0)
    return np.loadtxt(file, delimiter=",", unpack=True)


def _rows(a: torch.Tensor, b: torch.Tensor) -> Any:
    file = io.StringIO()
    csv.writer(file).writerows(zip(a.tolist(), b.tolist(), strict=True))
    return np.genfromtxt(io.StringIO(file.getvalue()), delimiter=",").T


TABLES: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    "stack": lambda a, b: torch.stack([a, b]),
    "stack as columns": lambda a, b: torch.stack((a, b), dim=1).T,
    "cat": lambda a, b: torch.cat([a, b]).view(2, -1),
    "stack, copied on": lambda a, b: torch.stack([a, b]).flip(1).double().clone()[:, 3:],
    "written by columns": _table,
    "np.stack": lambda a, b: np.stack([a.numpy(), b.numpy()]),
    "np.vstack of tensors": lambda a, b: np.vstack([a, b]),
    "two lists": lambda a, b: np.array([a.tolist(), b.tolist()]),
    "pairs": lambda a, b: torch.tensor(list(zip(a.tolist(), b.tolist(), strict=True))).T,
    "text of columns": _text,
    "rows by csv": _rows,
    "lists in JSON": lambda a, b: json.loads(json.dumps({"a": a.tolist(), "b": b.tolist()})).values(),
}


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize(("factor", "label"), [(1.0, "Type-I"), pytest.param(1.01, "Type-II", marks=pytest.mark.slow)])
def test_columns_are_compared_as_what_was_put_there(name: str, factor: float, label: str) -> None:
    with render.watch(budget=False) as w:
        x = torch.linspace(0.3, 2, 40)
        one, two = list(TABLES[name](kernel(x, factor), x * (1 / 3)))[:2]
        (torch if isinstance(one, torch.Tensor) else np).allclose(one, two)
    assert [v.label for v in w.verdicts] == [label] and not w.notes


def _place(tape: Tape, x: torch.Tensor) -> Region:
    found = tape.known(x)
    assert found is not None
    return found


def test_a_view_of_two_tensors_keeps_both_histories() -> None:
    tape = Tape()
    with tape:
        a, b = torch.ones(4) * 2, torch.ones(4) * 3
        table = torch.cat([a, b])
        mixed, mine = _place(tape, table[2:6]), _place(tape, table[5:])
    assert own_part(mixed, tape.now) == mixed
    found = own_part(mine, tape.now)
    assert found.cell is not mine.cell and found.cell.steps[0].reads == (_place(tape, b).cell,)
    assert own_part(mine, tape.now) == found


def test_what_is_written_over_later_was_there_before() -> None:
    """The column is the tensor as it was when it was put there, whatever became of the tensor since."""
    with render.watch(budget=False) as w:
        x = torch.linspace(0.3, 2, 40)
        y = kernel(x, 1.0)
        table = torch.stack([y, x * (1 / 3)])
        y.mul_(2)
        torch.allclose(table[0], table[1])
    assert [v.label for v in w.verdicts] == ["Type-I"]
