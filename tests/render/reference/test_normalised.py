"""Errors of norms in one pass: no operand within its error takes the result further, and nothing is far wider."""

from __future__ import annotations

import pytest
import torch
from mpmath import mp, mpf

from render.entry.execution import default_dtype
from render.reference.local_error import Unit
from render.reference.normalised import carried
from render.reference.running_error import Movable
from render.reference.shadow import ShadowMode

aten = torch.ops.aten
F64 = torch.float64
MOVES = Unit(native=False, casts=False, inputs=2.0**-24)


def operands(kind: str, size: float):
    torch.manual_seed(7)
    x = size + torch.randn(3, 5, 4, 2, dtype=F64) * 10.0 ** torch.randint(-2, 2, (3, 5, 1, 1))
    if kind == "given":
        mean, var = size + torch.randn(5, dtype=F64), torch.rand(5, dtype=F64) + 1e-3
        return aten.native_batch_norm.default, [x, torch.randn(5, dtype=F64), torch.randn(5, dtype=F64), mean, var,
                                                False, 0.1, 1e-5]  # fmt: skip
    if kind == "bare":
        return aten.native_batch_norm.default, [x, None, None, torch.zeros(5, dtype=F64), torch.ones(5, dtype=F64),
                                                False, 0.1, 1e-5]  # fmt: skip
    weight, bias = (torch.randn(4, 2, dtype=F64) for _ in range(2))
    return aten.native_layer_norm.default, [x, [4, 2], *((weight, bias) if kind == "rows" else (None, None)), 1e-5]


def carried_of(kind: str, size: float, relative: float):
    func, args = operands(kind, size)
    errors = [x.abs() * relative for x in args if isinstance(x, torch.Tensor)]
    op = Movable(func, tuple(args), {}, errors, default_dtype)
    found = carried(op, MOVES)
    assert found is not None
    return func, args, errors, found


@pytest.mark.parametrize(
    ("kind", "relative"),
    [*((k, r) for k in ("given", "bare") for r in (2.0**-24, 1e-3, 0.2)),
     *((k, r) for k in ("rows", "plain rows") for r in (2.0**-24, 1e-6, 1e-5))],
)  # fmt: skip
@pytest.mark.parametrize("size", [0.0, 30.0])
def test_no_operand_within_its_error_goes_further(kind, size, relative):
    func, args, errors, (values, bounds) = carried_of(kind, size, relative)
    for trial in range(40):
        torch.manual_seed(trial)
        left = iter(errors)
        far = 1.0 if trial % 2 else torch.rand(())
        moved = [
            x + far * next(left) * (2.0 * torch.randint(0, 2, x.shape) - 1) if isinstance(x, torch.Tensor) else x
            for x in args
        ]
        for value, other, bound in zip(values, func(*moved), bounds, strict=True):
            if bound is not None:
                assert bool(((other - value).abs() <= bound * (1 + 1e-9)).all())


@pytest.mark.parametrize("kind", ["given", "bare", "rows", "plain rows"])
def test_float64_itself_is_off_by_less(kind):
    _, args, _, (values, bounds) = carried_of(kind, 30.0, 0.0)
    x, eps = args[0], mpf(float(args[-1]))
    with mp.workprec(200):
        for image, channel in ((0, 1), (2, 4)):
            row = [mpf(float(v)) for v in x[image, channel].reshape(-1)]
            if "rows" in kind:
                mean = sum(row) / len(row)
                var = sum((v - mean) ** 2 for v in row) / len(row)
                sides = [t.reshape(-1) if t is not None else None for t in args[2:4]]
                w, b = ([mpf(float(t[k])) if t is not None else mpf(i == 0) for k in range(len(row))]
                        for i, t in enumerate(sides))  # fmt: skip
            else:
                mean, var = (mpf(float(t[channel])) for t in args[3:5])
                w, b = ([mpf(float(t[channel])) if t is not None else mpf(i == 0)] * len(row)
                        for i, t in enumerate(args[1:3]))  # fmt: skip
            for k, v in enumerate(row):
                exact = (v - mean) / mp.sqrt(var + eps) * w[k] + b[k]
                off = abs(exact - mpf(float(values[0][image, channel].reshape(-1)[k])))
                assert off <= mpf(float(bounds[0][image, channel].reshape(-1)[k])) < abs(exact) * 1e-10 + 1e-11


@pytest.mark.parametrize("kind", ["given", "bare", "rows", "plain rows"])
def test_it_is_what_the_steps_of_its_definition_give(kind):
    """Movements of one rounding, as networks ask for them."""
    func, args, errors, (_, bounds) = carried_of(kind, 0.5, 2.0**-24)
    steps = ShadowMode(MOVES)._decomposed(Movable(func, tuple(args), {}, errors, default_dtype))
    assert steps is not None and steps[1][0] is not None
    assert bool((bounds[0] <= steps[1][0] * (1 + 1e-5)).all())


def test_what_it_does_not_know_is_left_to_the_steps():
    func, args = operands("given", 0.0)
    for change in ({0: torch.full((3, 5, 4, 2), torch.inf, dtype=F64)}, {5: True}):
        given = [change.get(i, x) for i, x in enumerate(args)]
        assert carried(Movable(func, tuple(given), {}, [], default_dtype), MOVES) is None
    assert carried(Movable(func, tuple(args), {}, [], default_dtype), Unit(native=True)) is None
