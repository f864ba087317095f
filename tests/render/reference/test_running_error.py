"""Errors that one pass carries against the general rule, and numbers that a shadow takes over."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from render.entry.execution import default_dtype
from render.reference import running_error, softmaxes
from render.reference.local_error import Unit
from render.reference.running_error import Movable, error_of
from render.reference.shadow import ShadowMode

SHAPE = (3, 40)


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("name", ["mul", "add", "sub"])
def test_one_pass_carries_what_the_general_rule_does(name: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = torch.Generator().manual_seed(seed)

    def drawn() -> torch.Tensor:
        x = torch.randn(SHAPE, generator=rng, dtype=torch.float64) * 10.0 ** float(seed % 7 - 3)
        return torch.where(torch.rand(SHAPE, generator=rng) < 0.2, 0.0, x)

    a, b, number = drawn(), drawn(), seed % 3 == 0
    operands = (a, 0.3) if number else (a, b)
    if seed % 5 == 0:
        a[0, 0] = torch.inf  # a pass of its own looks at what is not finite
    errors = [drawn().abs() * 1e-6 if k != seed % 4 else None for k in range(1 if number else 2)]
    func = getattr(torch.ops.aten, name).Tensor
    value, unit = func(*operands), Unit(native=True)

    def carried() -> torch.Tensor:
        found = error_of(
            Movable(func, operands, {}, list(errors), default_dtype), [value], [torch.float32], unit, False
        )
        assert found[0] is not None
        return found[0]

    fused = carried()
    with monkeypatch.context() as scope:
        scope.setattr(running_error, "_at_once", lambda *_: None)
        assert np.array_equal(fused.numpy(), carried().numpy(), equal_nan=True)
        scope.setattr(running_error, "_direct", lambda *_: None)
        np.testing.assert_allclose(fused.numpy(), carried().numpy(), rtol=1e-6, atol=1e-20)


def test_numbers_that_a_shadow_took_over_are_its_own() -> None:
    """What is written in place, through either of two names, reaches no other tensor's shadow."""
    with ShadowMode(Unit(native=True)) as mode:
        x = torch.full((8,), 1.1, dtype=torch.float32)
        y = x * 2
        z = y.view(2, 4).clone()
        y += 1
        z[0] = 5.0
        w = y.reshape(8)
        w.mul_(3)
    got = [mode.value(t).reshape(-1).tolist() for t in (x, y, z)]
    exact = float(mode.value(x)[0])
    assert got == [[exact] * 8, [3 * (2 * exact + 1)] * 8, [5.0] * 4 + [2 * exact] * 4]
    assert bool((mode.error(y) > mode.error(z).reshape(-1)).all())
    assert mode.error(z)[0].abs().max() < mode.error(z)[1].min()


@pytest.mark.parametrize("name", ["_softmax", "_log_softmax"])
def test_softmax_in_parts_is_what_it_is_at_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(3, 50, 40, dtype=torch.float64, generator=generator)
    x[:, :, 30:] = torch.where(torch.rand(3, 50, 10, generator=generator) < 0.5, -torch.inf, x[:, :, 30:])
    error = x.abs().nan_to_num(posinf=0.0) * 2.0**-8  # too large for one pass
    func = getattr(torch.ops.aten, name).default
    found = []
    for size in (1 << 20, 128):
        monkeypatch.setattr(softmaxes, "CACHED", size)
        operation = Movable(func, (x, -1, False), {}, [error], default_dtype)
        found.append(error_of(operation, operation.run(), [torch.float32], Unit(native=True), False)[0])
    assert torch.equal(found[0], found[1])


@pytest.mark.parametrize("name", ["add", "sub"])
def test_a_mask_moves_by_nothing_and_the_rest_by_its_errors(name: str) -> None:
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(4, 6, 6, dtype=torch.float64, generator=generator)
    mask = torch.zeros(6, 6, dtype=torch.float64).masked_fill(torch.ones(6, 6).triu(1) > 0, -torch.inf)
    error = x.abs() * 2.0**-20
    operation = Movable(getattr(torch.ops.aten, name).Tensor, (x, mask), {}, [error, None], default_dtype)
    found = error_of(operation, operation.run(), [torch.float64], Unit(native=False), False)[0]
    seen = mask.isfinite().expand(x.shape)
    assert bool((found[~seen] == 0).all()) and bool((found[seen] >= error[seen]).all())
    assert bool((found[seen] <= error[seen] + 2.0**-50 * x[seen].abs()).all())


def test_infinities_that_overflow_makes_are_not_exact() -> None:
    x = torch.full((3,), 1.7e308, dtype=torch.float64)
    operation = Movable(torch.ops.aten.add.Tensor, (x, x), {}, [x * 2.0**-50, None], default_dtype)
    found = error_of(operation, operation.run(), [torch.float64], Unit(native=False), False)[0]
    assert not bool(found.isfinite().any()) or bool((found > 0).all())


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("name", ["amax", "amin"])
def test_extremes_of_rows_move_as_two_evaluations_say(name: str, keep: bool) -> None:
    """One pass over rows gives the bits of evaluating at x + e and at x - e, with infinities, ties and tiny errors."""
    generator, told = torch.Generator().manual_seed(0), 0
    for trial in range(120):
        shape = [(5,), (4, 7), (3, 2, 9)][trial % 3]
        x = torch.randn(shape, dtype=torch.float64, generator=generator).mul_(8).round_().div_(4)
        e = torch.rand(shape, dtype=torch.float64, generator=generator) * 10.0 ** -(trial % 16)
        if trial % 4 == 1:
            masked = torch.rand(shape, generator=generator) < 0.4
            x[masked], e[masked] = -torch.inf, 0.0
        if trial % 11 == 1:
            x.reshape(-1)[0] = torch.nan
        op = Movable(getattr(torch.ops.aten, name).default, (x, [-1], keep), {}, [e], default_dtype)
        values = op.run()
        found = running_error._extreme(op, values)
        told += found is not None
        expected = running_error._movement(op, values, [0], [0])[0]
        assert torch.equal(expected if found is None else found, expected) or x.isnan().any()
    assert told > 90


def test_a_sum_beside_a_mask_has_the_errors_that_its_parts_have() -> None:
    x = torch.tensor([[1.0, -torch.inf, 3.0], [-torch.inf, 2.0, 0.5]], dtype=torch.float64)
    y, e = (
        torch.tensor([[3.0], [2.0]], dtype=torch.float64),
        torch.tensor([[2e-9, 0.0, 1e-9], [0.0, 3e-9, 1e-9]], dtype=torch.float64),
    )
    op = Movable(
        torch.ops.aten.sub.Tensor, (x, y), {}, [e, torch.full((2, 1), 1e-9, dtype=torch.float64)], default_dtype
    )
    unit = Unit(native=True)
    (found,) = running_error.error_of(op, op.run(), [torch.float32], unit, False)
    u, floor = unit.rounding(torch.float32)
    expected = torch.where(x.isinf(), 0.0, e + 1e-9 + (u * (x - y).abs() + floor))
    assert torch.equal(found, expected)


def test_an_infinite_sum_of_finite_terms_is_not_known() -> None:
    x = torch.full((2, 3), 1e308, dtype=torch.float64)
    op = Movable(torch.ops.aten.add.Tensor, (x, x), {}, [torch.ones_like(x), None], default_dtype)
    (found,) = running_error.error_of(op, op.run(), [torch.float64], Unit(native=False), False)
    assert not found.isfinite().any()


@pytest.mark.parametrize("dim", [None, -1])
def test_errors_reach_a_product_of_elements_whatever_their_signs(dim: int | None) -> None:
    rng, off = torch.Generator().manual_seed(2), 2.0**-28
    x = torch.randn(400, 8, generator=rng)
    x = x[0] if dim is None else x
    mode = ShadowMode(Unit(native=False, inputs=off))
    with mode:
        y = x.clone().prod() if dim is None else x.clone().prod(dim)
    wide, given = x.double(), () if dim is None else (dim,)
    away = (wide * (1 + off)).prod(*given)  # each magnitude grows: no product of moved elements is further away
    assert ((away - wide.prod(*given)).abs() <= mode.error(y)).all()
    assert (mode.error(y) <= 8.01 * off * mode.value(y).abs()).all()
    assert not mode.estimated


def test_a_product_rounds_once_for_each_factor() -> None:
    x = torch.randn(50, 8, generator=torch.Generator().manual_seed(3))
    mode = ShadowMode(Unit(native=True))
    with mode:
        y = x.clone().prod(-1)
    assert (mode.error(y) >= 7 * 2.0**-24 * mode.value(y).abs()).all()
    assert (mode.error(y) <= 2 * 10 * 2.0**-24 * mode.value(y).abs()).all()


STEPPED = {
    "adam": lambda p: torch.optim.Adam([p], 1e-2),
    "amsgrad": lambda p: torch.optim.AdamW([p], 1e-2, amsgrad=True),
    "nadam": lambda p: torch.optim.NAdam([p], 1e-2),
    "adamax": lambda p: torch.optim.Adamax([p], 1e-2),
    "adagrad": lambda p: torch.optim.Adagrad([p], 1e-1),
}


@pytest.mark.parametrize("kind", STEPPED)
def test_a_counter_that_leaves_torch_is_exact(kind: str) -> None:
    """An optimiser reads its step, 2.0, as a number; the square's exponent in the loss is another 2.0."""
    rng = torch.Generator().manual_seed(0)
    x, start = torch.randn(30, 8, generator=rng), torch.randn(6, 8, generator=rng)
    with ShadowMode(Unit(native=False)) as mode:
        p = start.clone().requires_grad_()
        stepped = STEPPED[kind](p)
        for _ in range(4):
            stepped.zero_grad()
            ((x @ p.T) ** 2).mean().backward()
            stepped.step()
    off = mode.shadows.error_of(p)
    assert not mode.estimated and off is not None and float(off.max()) < 1e-7


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("more", [0.5, 1.0])
def test_counting_is_exact_up_to_the_last_whole_number_that_the_type_holds(dtype: torch.dtype, more: float) -> None:
    last = torch.tensor(2.0 ** (24 if dtype == torch.float32 else 8), dtype=dtype)
    for start, exact in ((last - 1, more == 1.0), (last, False)):
        with ShadowMode(Unit(native=True)) as mode:
            found = start.clone().add_(more)
        off = mode.shadows.error_of(found)
        assert exact == (off is None or not off.any())
