"""Tables of functions of one number: slopes by another arithmetic, values of torch inside, jumps left alone."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest
import torch

from interval_ops.arithmetic.broadcast import BLOCK
from interval_ops.formats.model import FP32
from interval_ops.profiles.profile import load_profile
from render.interpreter.hosted import curves
from render.interpreter.hosted.call import Bounds, Call
from render.interpreter.hosted.table import RULES
from render.interpreter.memory import Envelope
from render.ops.aten import ATEN
from render.ops.formulas import Formula, threshold

aten = torch.ops.aten
CALLS: list[tuple[Any, dict[str, Any]]] = [
    (aten.gelu.default, {}),
    (aten.gelu.default, {"approximate": "tanh"}),
    (aten.silu.default, {}),
    (aten.sigmoid.default, {}),
    (aten.softplus.default, {"beta": 2.0}),
    (aten.elu.default, {"alpha": 0.7}),
    (aten.mish.default, {}),
    (aten.hardswish.default, {}),
    (aten.log_sigmoid_forward.default, {}),
]
EXACT = {
    "gelu": lambda x: x * mpmath.ncdf(x),
    "silu": lambda x: x / (1 + mpmath.exp(-x)),
    "mish": lambda x: x * mpmath.tanh(mpmath.log1p(mpmath.exp(x))),
    "elu": lambda x: x if x > 0 else mpmath.expm1(x),
}


def table(name: str) -> curves.Curve:
    op = ATEN[name]
    assert op.formula is not None
    profile = load_profile("torch-cpu").inside(name)
    found = curves.curve_of(name, op.formula, op.computed or op.formula, FP32, profile, ())
    assert found is not None
    return found


@pytest.mark.parametrize("name", sorted(EXACT))
def test_slopes_hold_quotients_of_differences(name: str) -> None:
    curve, (lo, hi) = table(name), curves.grid()
    random = np.random.default_rng(0)
    some = np.flatnonzero((np.abs(lo) < 40) & (np.abs(hi) > 1e-6))
    for cell in random.choice(some, 200, replace=False):
        a, b = sorted(random.uniform(lo[cell], hi[cell], 2))
        if a == b:
            continue
        with mpmath.workdps(50):
            x, y = mpmath.mpf(float(a)), mpmath.mpf(float(b))
            slope = float((EXACT[name](y) - EXACT[name](x)) / (y - x))
        assert curve.least[cell] - 1e-15 <= slope <= curve.most[cell] + 1e-15
        assert curve.most[cell] - curve.least[cell] < 2.0**-5 * max(1.0, abs(lo[cell]))


@pytest.mark.parametrize(("op", "kwargs"), CALLS, ids=lambda v: str(v))
@pytest.mark.parametrize("width", [0.0, 2.0**-23, 2.0**-18, 2.0**-8, 0.3])
def test_what_torch_makes_lies_inside(op: Any, kwargs: dict[str, Any], width: float) -> None:
    random = torch.Generator().manual_seed(1)
    count = 2 * BLOCK
    x = torch.randn(count, generator=random) * 10.0 ** (4 * torch.rand(count, generator=random) - 3)
    other = x * (1 + width * torch.randn(count, generator=random))
    lo, hi = torch.minimum(x, other), torch.maximum(x, other)
    call = Call(op, (x,), kwargs, {id(x): Envelope(lo.numpy(), hi.numpy(), np.ones(1, np.bool_), True, frozenset())},
                load_profile("torch-cpu"))  # fmt: skip
    name = op._schema.name.removeprefix("aten::")
    found = RULES[name](call)
    bounds = found[0] if isinstance(found, tuple) else found
    assert isinstance(bounds, Bounds)
    for part in (torch.zeros(count), torch.ones(count), torch.rand(count, generator=random)):
        point = torch.minimum(torch.maximum(lo + (hi - lo) * part, lo), hi)
        for given in (point, point.double()):
            made = op(given, **kwargs)
            made = (made[0] if isinstance(made, tuple) else made).double().numpy()
            assert (bounds.lo <= made).all()
            assert (made <= bounds.hi).all()


def test_where_a_function_jumps_no_slope_is_known() -> None:
    lo, hi = curves.DualKind.over(threshold, (np.array([0.5, 1.0, 2.0]), np.array([1.0, 2.0, 3.0])),
                                {"threshold": 1.0, "value": -5.0})  # fmt: skip
    assert list(lo) == [0.0, -np.inf, 1.0]
    assert list(hi) == [0.0, np.inf, 1.0]


def test_a_box_of_several_cells_is_open() -> None:
    curve, x = table("silu"), np.array([1.0, 1.0, 1.0, -1e-3, 3.0])
    value = x / (1 + np.exp(-x))
    _, _, kind = curve.around(x, value, (x, np.array([1.004, 1.5, 1.0, 1e-3, np.inf])))
    assert list(kind) == [curves.KNOWN, curves.OPEN, curves.EXACT, curves.OPEN, curves.OPEN]


def test_a_function_whose_derivative_is_not_known_has_no_table() -> None:
    formula: Formula = lambda n, x: n.call("lgamma", x)  # noqa: E731
    assert curves.curve_of("lgamma", formula, formula, FP32, load_profile("torch-cpu"), ()) is None


@pytest.mark.parametrize("name", sorted(EXACT))
def test_movements_are_those_of_the_steepest_point_of_a_cell(name: str) -> None:
    formula = ATEN[name].formula
    assert formula is not None
    slopes = curves.slopes_of(formula, ())
    x = np.concatenate([np.linspace(-6, 6, 60), [1e-3, -1e-7, 30.0, -9.0]]).astype(np.float32)
    with mpmath.workdps(50):
        exact = [[EXACT[name](mpmath.mpf(float(v)) * (1 + s * mpmath.mpf(2) ** -24)) for s in (-1, 0, 1)] for v in x]
        away = np.array([float(max(abs(a - b), abs(c - b))) for a, b, c in exact])
        value = np.array([float(b) for _, b, _ in exact])
    assert slopes is not None
    moved = curves.moved(x, value, slopes, (2.0**-24, 0.0, 0.0))
    assert moved is not None
    at = away > 0
    assert (away[at] <= moved[at] * (1 + 2.0**-20)).all()
    steep = at & (away > 0.1 * 2.0**-24 * np.abs(x))
    assert (moved[steep] <= away[steep] * 1.15).all()
    assert curves.moved(np.array([2.0**17], np.float32), np.ones(1), slopes, (2.0**-24, 0.0, 0.0)) is None
