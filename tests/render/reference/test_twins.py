"""Twins of storages: views alias, what was lent is not written, and dead storages are let go."""

from __future__ import annotations

import torch

from render.reference.twins import F64, SWEEP, Shadows, copies_storage


def test_a_view_of_a_storage_is_a_view_of_its_twin() -> None:
    held, x = Shadows(), torch.arange(6.0).reshape(2, 3)
    held.put(x[:, 1], torch.tensor([10.5, 20.25], dtype=F64), torch.tensor([0.5, 0.0], dtype=F64))
    assert held.of(x.t()).tolist() == [[0.0, 3.0], [10.5, 20.25], [2.0, 5.0]]
    errors = held.error_of(x)
    assert errors is not None and errors.tolist() == [[0, 0.5, 0], [0, 0, 0]]


def test_what_comes_from_outside_has_its_error() -> None:
    errors = Shadows(2.0**-20).error_of(torch.tensor([1.0, -2.0]))
    assert errors is not None and errors.tolist() == [2.0**-20, 2.0**-19]


def test_lent_numbers_are_copied_before_they_change() -> None:
    held, x, wide = Shadows(), torch.zeros(4), torch.full((4,), 1.5, dtype=F64)
    held.lend(x, wide)
    held.put(x[:1], torch.tensor([7.0], dtype=F64), None)
    assert held.of(x).tolist() == [7.0, 1.5, 1.5, 1.5] and wide.tolist() == [1.5] * 4


def test_numbers_are_adopted_unless_somebody_else_holds_them() -> None:
    held, x, y = Shadows(), torch.zeros(3), torch.zeros(3)
    made, given = torch.ones(3, dtype=F64), torch.ones(3, dtype=F64)
    held.adopt(x, made, None, [])
    held.adopt(y, given, None, [given])
    made[0], given[0] = 5.0, 5.0
    assert held.of(x).tolist() == [5, 1, 1] and held.of(y).tolist() == [1, 1, 1]


def test_bytes_read_as_another_type_have_no_twin() -> None:
    held, x = Shadows(), torch.ones(4)
    held.put(x, torch.full((4,), 3.0, dtype=F64), None)
    assert held.matches(x) and not held.matches(x.view(torch.float16))
    held.drop(x)
    assert held.of(x).tolist() == [1.0] * 4


def test_a_copy_of_all_bytes_takes_its_twin_along() -> None:
    held, x, y = Shadows(), torch.ones(4), torch.empty(4)
    assert not held.copied(y, x), "nothing is known of x"
    held.put(x, torch.full((4,), 3.0, dtype=F64), None)
    assert held.copied(y, x) and held.of(y).tolist() == [3.0] * 4
    assert not copies_storage(y, x[:2]) and not copies_storage(x, x) and not copies_storage(y, 1.0)


def test_twins_of_dead_storages_are_let_go() -> None:
    held, kept = Shadows(), torch.ones(1)
    held.of(kept)
    for _ in range(2 * SWEEP + 2):
        held.of(torch.zeros(1))
    assert len(held._twins) < 2 * SWEEP and kept.untyped_storage()._cdata in held._twins
