"""How far a softmax moves, in one pass: by other arithmetic, and no further than that."""

from __future__ import annotations

import mpmath
import pytest
import torch

from render.reference import passes, softmaxes
from render.reference.local_error import Unit
from render.reference.running_error import Movable, error_of
from render.reference.shadow import default_dtype


def case(size: float) -> tuple[Movable, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    x = 4 * torch.randn(5, 3, 17, dtype=torch.float64, generator=generator)
    x[0, 0, 4], x[1, 0, :] = 60.0, -torch.inf  # one that takes all, a row that is masked but for one
    x[1, 0, 3] = 1.0
    error = x.abs().nan_to_num(posinf=0.0) * size
    func = torch.ops.aten._softmax.default
    return Movable(func, (x, -1, False), {}, [error], default_dtype), x, error


def found(operation: Movable) -> torch.Tensor:
    moved = error_of(operation, operation.run(), [torch.float32], Unit(native=False), False)[0]
    assert moved is not None
    return moved


@pytest.mark.parametrize("size", [0.0, 2.0**-40, 2.0**-24, 2.0**-17])
def test_one_pass_is_the_rows(size: float, monkeypatch: pytest.MonkeyPatch) -> None:
    operation, _, _ = case(size)
    one = found(operation)
    seen: list[bool] = []
    monkeypatch.setattr(passes, "carry_softmax", lambda *_: bool(seen.append(True)))
    assert torch.allclose(one, found(operation), rtol=1e-11, atol=0.0)
    assert seen


def test_corners_of_the_operand_stay_inside() -> None:
    operation, x, error = case(2.0**-12)
    value, moved = operation.run()[0], found(operation)
    for row in ((0, 0), (2, 1), (4, 2)):
        for i in range(17):
            for sign in (-1, 1):
                with mpmath.workdps(40):
                    ends = [mpmath.mpf(float(a)) + (sign if j == i else -sign) * mpmath.mpf(float(e))
                            for j, (a, e) in enumerate(zip(x[row], error[row], strict=True))]  # fmt: skip
                    powers = [mpmath.exp(a) for a in ends]
                    gap = abs(powers[i] / mpmath.fsum(powers) - mpmath.mpf(float(value[row][i])))
                    assert gap <= mpmath.mpf(float(moved[row][i])) * (1 + mpmath.mpf(2) ** -40)


def test_what_is_large_or_not_finite_is_left_to_the_rows() -> None:
    _, x, _ = case(0.0)
    for name, size, dtype in (("_softmax", 0.1, torch.float64), ("_log_softmax", 0.0, torch.float64)):
        y = torch.softmax(x, -1)
        assert softmaxes._softmax_pass(name, y, x, torch.full_like(x, size), dtype, Unit(native=False)) is None
    broken = x.clone()
    broken[2, 0, 5] = torch.nan
    y = torch.softmax(broken, -1)
    moved = torch.full_like(x, 2.0**-30)
    assert softmaxes._softmax_pass("_softmax", y, broken, moved, torch.float64, Unit(native=False)) is None
