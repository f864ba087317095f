"""All values of half precision against mpmath, and against directed rounding by the definition."""

import mpmath
import numpy as np
import pytest

from render.exact.half_tables import DTYPES, FUNCTIONS, half_table, over

EXACT = {
    "exp": mpmath.exp, "exp2": lambda v: mpmath.mpf(2) ** v, "log": mpmath.log, "log2": lambda v: mpmath.log(v, 2),
    "sqrt": mpmath.sqrt, "rsqrt": lambda v: 1 / mpmath.sqrt(v), "sin": mpmath.sin, "cos": mpmath.cos,
    "tanh": mpmath.tanh, "erf": mpmath.erf, "sigmoid": lambda v: 1 / (1 + mpmath.exp(-v)),
    "gelu": lambda v: v * mpmath.erfc(-v / mpmath.sqrt(2)) / 2,
}  # fmt: skip
QUICK = [("exp", "fp16"), ("sin", "bf16")]
EVERY = [pytest.param(n, f, marks=() if (n, f) in QUICK else pytest.mark.slow) for n in EXACT for f in DTYPES]


def test_every_function_of_one_argument_has_a_table():
    assert EXACT.keys() < FUNCTIONS and {"atan", "cbrt", "erfinv"} < FUNCTIONS


@pytest.mark.parametrize(("name", "fmt"), EVERY)
def test_neighbours_of_the_exact_value(name, fmt):
    table = half_table(name, fmt)
    grid = np.unique(table.x[np.isfinite(table.x)])
    with mpmath.workdps(60):
        for i in np.random.default_rng(0).integers(0, 1 << 16, 400):
            x = float(table.x[i])
            if not np.isfinite(x) or np.isnan(table.down[i]) or (x == 0 and name in ("log", "log2", "rsqrt")):
                continue
            y, down, up = EXACT[name](mpmath.mpf(x)), float(table.down[i]), float(table.up[i])
            slack = mpmath.mpf(10) ** -50 * abs(y)
            assert down - slack <= y <= up + slack
            if np.isfinite([down, up]).all() and down < up:  # neighbours, and the nearer one
                assert np.searchsorted(grid, up) - np.searchsorted(grid, down) == 1 or down == -up == 0
                if y - down != up - y:  # a tie goes to the even one
                    assert float(table.nearest[i]) == (down if y - down < up - y else up)


def test_special_values():
    table = half_table("exp")
    at = {float(x): i for i, x in enumerate(table.x) if np.isfinite(x) or np.isinf(x)}
    assert (table.nearest[at[0.0]], table.down[at[0.0]], table.up[at[0.0]]) == (1, 1, 1)
    assert table.nearest[at[12.0]] == np.inf and table.down[at[12.0]] == 65504 and table.up[at[12.0]] == np.inf
    assert table.nearest[at[-np.inf]] == 0 and np.isnan(table.nearest[np.isnan(table.x)]).all()


def test_ranges_hold_what_lies_between():
    g = np.random.default_rng(1)
    ends = np.sort(g.uniform(-5, 5, (2, 500)).astype(np.float16), axis=0)
    lo, hi = over("exp", *ends)
    inner = np.exp(ends.astype(np.float64).mean(axis=0))
    assert ((lo <= inner) & (inner <= hi)).all()
