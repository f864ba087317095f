"""PyTorch's functions as formulas, in balls of 200 bits, against torch's own float64."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from render.exact.numbers import Numbers
from render.ops.aten import ATEN

F = torch.nn.functional
TORCH: dict[str, Callable[..., torch.Tensor]] = {
    "sigmoid": torch.sigmoid, "silu": F.silu, "mish": F.mish, "gelu": F.gelu, "log_sigmoid_forward": F.logsigmoid,
    "logit": torch.logit, "softplus": F.softplus, "elu": F.elu, "leaky_relu": F.leaky_relu, "softshrink": F.softshrink,
    "hardsigmoid": F.hardsigmoid, "hardswish": F.hardswish, "logaddexp": torch.logaddexp, "hypot": torch.hypot,
    "logaddexp2": torch.logaddexp2, "xlogy": torch.xlogy, "special_xlog1py": torch.special.xlog1py,
    "square": torch.square, "reciprocal": torch.reciprocal, "neg": torch.neg, "abs": torch.abs, "relu": torch.relu,
    "lerp": torch.lerp, "addcmul": torch.addcmul, "addcdiv": torch.addcdiv, "maximum": torch.maximum,
    "minimum": torch.minimum, "add": torch.add, "sub": torch.sub, "rsub": torch.rsub, "mul": torch.mul,
    "true_divide": torch.true_divide, "max": torch.maximum, "min": torch.minimum,
    "deg2rad": torch.deg2rad, "rad2deg": torch.rad2deg, "threshold": lambda x: F.threshold(x, 0.25, -1.0),
    "mse_loss": lambda x, y: F.mse_loss(x, y, reduction="none"),
    "huber_loss": lambda x, y: F.huber_loss(x, y, reduction="none", delta=0.75),
    "smooth_l1_loss": lambda x, y: F.smooth_l1_loss(x, y, reduction="none", beta=0.5),
}  # fmt: skip
GIVEN = {
    "huber_loss": {"delta": 0.75}, "smooth_l1_loss": {"beta": 0.5}, "threshold": {"threshold": 0.25, "value": -1.0},
    "elu": {"alpha": 1.0, "scale": 1.0, "input_scale": 1.0}, "leaky_relu": {"negative_slope": 0.01},
    "softshrink": {"lambd": 0.5}, "softplus": {"beta": 1.0, "threshold": 20.0},
}  # fmt: skip


def test_every_formula_is_held_against_torch() -> None:
    assert {name for name, op in ATEN.items() if op.formula is not None} == TORCH.keys()


@pytest.mark.parametrize("name", TORCH)
def test_against_torch(name: str) -> None:
    op, n = ATEN[name], Numbers(200)
    assert op.formula is not None
    g = torch.Generator().manual_seed(3)
    columns = torch.randn(60, op.operands, generator=g, dtype=torch.float64) * torch.logspace(-2, 1.3, 60)[:, None]
    columns = columns.sigmoid() if name == "logit" else columns.abs() if "xlog" in name else columns
    wanted = TORCH[name](*columns.unbind(1))
    with n.active():
        for row, y in zip(columns.tolist(), wanted.tolist(), strict=True):
            for formula in (op.formula, op.computed or op.formula):
                low, high = n.enclose(formula(n, *map(n.number, row), **GIVEN.get(name, {})))[1:]
                room = 64 * 2.0**-53 * max(abs(y), *map(abs, row), 1e-30)  # what float64 may lose beside its operands
                assert low - room <= y <= high + room, (row, y)
                assert high - low <= 2.0**-50 * max(abs(y), 1e-300), "a point gives a point, to float64"
