"""Errors that one pass carries against the general rule, and numbers that a shadow takes over."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from render.entry.execution import default_dtype
from render.reference import running_error
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
