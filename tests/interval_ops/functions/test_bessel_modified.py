"""I0 and I1 against python-flint, within what `kernels.LIBM` promises."""

from __future__ import annotations

import math

import flint
import numpy as np
import pytest
from support import rng, trials

from interval_ops.functions import bessel_modified, kernels


@pytest.mark.parametrize(("order", "evaluate"), [(0, bessel_modified.i0), (1, bessel_modified.i1)])
def test_against_arb(order: int, evaluate) -> None:
    g = rng(order)
    x = np.concatenate([g.uniform(-713, 713, trials(400)), g.normal(size=trials(400)), 10.0 ** g.uniform(-300, 0, 100),
                        [0.0, 40.0, np.nextafter(40.0, 50.0), 712.0]])  # fmt: skip
    out = np.empty_like(x)
    evaluate(x, out)
    with flint.ctx.workprec(200):
        for v, y in zip(x, out, strict=True):
            true = flint.arb(float(v)).bessel_i(order)
            assert abs(flint.arb(float(y)) - true) <= abs(true) * kernels.LIBM + flint.arb(2) ** -1074, (v, y)


def test_far_out_and_nan() -> None:
    inf = math.inf
    x = np.array([inf, -inf, 800.0, math.nan])
    for evaluate, wanted in ((bessel_modified.i0, [inf] * 3), (bessel_modified.i1, [inf, -inf, inf])):
        out = np.empty_like(x)
        evaluate(x, out)
        assert out[:3].tolist() == wanted and math.isnan(out[3])
