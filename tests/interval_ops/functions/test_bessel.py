"""Bessel functions of orders 0 and 1 against Arb (python-flint): errors of values, ranges of intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import flint
import numpy as np
import pytest
from containment import interval, point
from support import rng, trials

from interval_ops.formats.model import FP32, FP64
from interval_ops.functions import bessel, bessel_kernels
from interval_ops.functions import elementary as functions
from interval_ops.functions.kernels import LIBM
from interval_ops.profiles.profile import load_profile

SM80, IEEE = load_profile("sm_80"), load_profile("ieee")
Arb = flint.arb
EXACT: dict[str, Callable[[Any], Any]] = {
    "j0": lambda x: Arb.bessel_j(x, Arb(0)), "j1": lambda x: Arb.bessel_j(x, Arb(1)),
    "y0": lambda x: Arb.bessel_y(x, Arb(0)), "y1": lambda x: Arb.bessel_y(x, Arb(1)),
    "cyl_bessel_i0": lambda x: Arb.bessel_i(x, Arb(0)), "cyl_bessel_i1": lambda x: Arb.bessel_i(x, Arb(1)),
}  # fmt: skip
WAVES = ("j0", "j1", "y0", "y1")


@pytest.fixture(autouse=True)
def precision() -> Iterator[None]:
    before, flint.ctx.prec = flint.ctx.prec, 300
    yield
    flint.ctx.prec = before


def exactly(name: str, x: float) -> Any:
    """With enough bits for the phase of large arguments."""
    flint.ctx.prec = 300 + max(0, math.frexp(x)[1])
    return EXACT[name](Arb(x))


def values(name: str, x: np.ndarray) -> np.ndarray:
    out = np.empty_like(x)
    functions.FUNCTIONS[name].evaluate(x, out)
    return out


def places(name: str, n: int) -> np.ndarray:
    """Every size of argument, both sides of each change of method, and next to zeros of the function."""
    g = rng(len(name) + 7)
    if name not in WAVES:
        x = np.r_[g.uniform(0, 8, n), g.uniform(0, 712, n), 10 ** g.uniform(-300, 0, n), 40.0, np.nextafter(40.0, 41.0)]
        return x * g.choice([-1.0, 1.0], x.size)
    ends = [v for c in (8.0, 25.0, 2.0**-60, 1.0, 2.0) for v in (np.nextafter(c, 0), c, np.nextafter(c, 99))]
    zeros = [float(z) for z in _zeros(name, 20)]
    x = np.r_[
        g.uniform(0, 8, n), g.uniform(8, 30, n), 10 ** g.uniform(-300, 0, n), 10 ** g.uniform(1, 300, n), ends, zeros
    ]
    return x if name[0] == "y" else x * g.choice([-1.0, 1.0], x.size)


def _zeros(name: str, count: int) -> list[float]:
    """Places where the float64 values change sign."""
    x = np.linspace(0.05, 80.0, 4000)
    y = values(name, x)
    found = []
    for k in np.flatnonzero(np.sign(y[:-1]) != np.sign(y[1:]))[:count]:
        low, high, below = x[k], x[k + 1], y[k] < 0
        for _ in range(60):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if (values(name, np.array([middle]))[0] < 0) == below else (low, middle)
        found += [low, high]
    return found


@pytest.mark.parametrize("name", EXACT)
def test_values_are_within_the_stated_error(name: str) -> None:
    x = places(name, trials(150))
    for v, value in zip(x, values(name, x), strict=True):
        exact = exactly(name, float(v))
        room = Arb(bessel.error(float(v))) if name in WAVES else Arb(2) ** -1074
        assert abs(Arb(float(value)) - exact) <= abs(exact) * LIBM / 2 + room, (v, value)


@pytest.mark.slow
@pytest.mark.parametrize("name", EXACT)
def test_values_are_within_the_stated_error_densely(name: str) -> None:
    g = rng(5)
    top = 100.0 if name in WAVES else 700.0
    x = np.r_[np.arange(0.0, top, top / 40000) + g.uniform(0, top / 40000), _zeros(name, 50) if name in WAVES else []]
    for v, value in zip(x, values(name, x), strict=True):
        exact = exactly(name, float(v))
        room = Arb(bessel.error(float(v))) if name in WAVES else Arb(2) ** -1074
        assert abs(Arb(float(value)) - exact) <= abs(exact) * LIBM / 2 + room, (v, value)


def test_what_the_series_and_expansions_leave_out() -> None:
    """The first term left out, at the ends of the ranges; what the mean over a circle adds (I_n relative to I0)."""
    for order, terms, end in ((0, 34, 8), (1, 34, 8), (0, 64, 25), (1, 64, 25)):
        left_out = (Arb(end) / 2) ** (2 * terms + order) / (Arb(terms).gamma() * terms) ** 2
        assert left_out * (2 * terms) < Arb(2) ** -98
    for order in (0, 1):
        a = Arb(1)
        for k in range(1, 29):
            a = a * (4 * order**2 - (2 * k - 1) ** 2) / (8 * k)
        assert abs(a) / Arb(25) ** 28 < Arb(2) ** -60
    for nodes, end in ((64, 40), (256, 720)):
        assert 4 * Arb.bessel_i(Arb(end), Arb(nodes - 1)) < Arb.bessel_i(Arb(end), Arb(1)) * Arb(2) ** -57


@pytest.mark.parametrize("name", WAVES)
def test_turning_points(name: str) -> None:
    for place, value in functions.FUNCTIONS[name].turns:
        exact = EXACT[name](Arb(place))
        assert abs(exact - Arb(value)) <= abs(exact) * LIBM / 2
        for step in (-1e-3, 1e-3):
            assert abs(EXACT[name](Arb(place + step))) < abs(exact)
    assert abs(EXACT[name](Arb(8)) - Arb(functions.FUNCTIONS[name].at_far)) < Arb(2) ** -53
    signs = np.diff(values(name, np.linspace(0.01, 8.0, 20000)))
    assert np.sum(signs[1:] * signs[:-1] < 0) == sum(place > 0 for place, _ in functions.FUNCTIONS[name].turns)


def test_the_modulus_is_above_both() -> None:
    for x in np.r_[8.0, 10 ** rng(6).uniform(0.9, 6, trials(100))]:
        for first, second in (("j0", "y0"), ("j1", "y1")):
            size = (EXACT[first](Arb(float(x))) ** 2 + EXACT[second](Arb(float(x))) ** 2).sqrt()
            assert size <= Arb(bessel_kernels.modulus(float(x))) and Arb(bessel_kernels.modulus(float(x))) < size * 1.01


@pytest.mark.parametrize("fmt", [FP32, FP64], ids=lambda f: f.name)
@pytest.mark.parametrize("name", EXACT)
def test_ranges_hold_every_place_inside(name: str, fmt: Any) -> None:
    """Widths from a few ulp to far more than a wave, around every change of method."""
    g, n = rng(11), trials(120)
    top = 80.0 if name not in WAVES else 200.0
    start = np.where(g.random(n) < 0.5, g.uniform(0, 9, n), 10 ** g.uniform(-3, math.log10(top), n))
    width = 10.0 ** g.uniform(-7, 1.5, n)
    left = start * (1 if name[0] == "y" else 0) + (start - width * g.random(n)) * (0 if name[0] == "y" else 1)
    carrier = np.float32 if fmt is FP32 else np.float64
    x, y = (v.astype(carrier).astype(float) for v in (left, np.minimum(left + width, top)))
    a = np.minimum(x, y), np.maximum(x, y)
    for profile in (IEEE, SM80):
        lo, hi = functions.unary(name, a, fmt, profile)
        for i in range(n):
            for t in (0.0, 1.0, *g.random(3)):
                v = min(max(float(a[0][i] + t * (a[1][i] - a[0][i])), a[0][i]), a[1][i])
                exact = EXACT[name](Arb(v))
                assert math.isnan(lo[i]) or (Arb(lo[i]) <= exact <= Arb(hi[i])), (a[0][i], a[1][i], v)


@pytest.mark.parametrize("name", WAVES)
def test_ranges_are_not_needlessly_wide(name: str) -> None:
    """Against a fine grid: an interval below 8 costs nothing, beyond at most a tenth of a wave of width 1."""
    g, profile = rng(12), IEEE
    for top, width, room in ((7.0, 1.0, 1e-6), (100.0, 1e-3, 1e-6), (100.0, 0.5, 0.05)):
        x = g.uniform(0.3, top, trials(60))
        lo, hi = functions.unary(name, (x, x + width), FP64, profile)
        for i, v in enumerate(x):
            inside = values(name, np.linspace(v, v + width, 2000))
            assert hi[i] - lo[i] <= inside.max() - inside.min() + room, v


@pytest.mark.parametrize(("fmt", "ulp", "beyond"), [(FP32, 9.5 * 2.0**-23, 2.2e-6), (FP64, 7.5 * 2.0**-52, 5e-12)])
@pytest.mark.parametrize("name", WAVES)
def test_the_documented_errors(name: str, fmt: Any, ulp: float, beyond: float) -> None:
    """9 (fp64: 7) ulp of the rounded value below 8, absolute from 8 on; an interval across takes both."""
    x = np.r_[rng(13).uniform(0.01, 7.99, 50), np.nextafter(np.float32(8), 0), 8.0, rng(14).uniform(8, 1e4, 50)]
    x = x.astype(np.float32).astype(float)
    lo, hi = functions.unary(name, (x, x), fmt, SM80)
    y = values(name, x)
    far = x >= 8
    reach = np.where(far, beyond, ulp * np.abs(y))
    assert np.all(hi - y >= reach * (1 - 1e-9)) and np.all(y - lo >= reach * (1 - 1e-9))
    slack = 2.0**-47 * np.maximum(1, np.abs(y)) + fmt.u * np.abs(y)
    assert np.all(hi - y <= reach + slack) and np.all(y - lo <= reach + slack)
    low, high = functions.unary(name, interval([7.9], [8.0]), fmt, SM80)
    end = values(name, np.array([7.9, 8.0]))
    assert low[0] <= end.min() - beyond and high[0] >= end.max() + beyond


@pytest.mark.parametrize("name", WAVES)
def test_ends_of_the_domain(name: str) -> None:
    inf = math.inf
    lo, hi = functions.unary(name, point([0.0, inf, math.nan]), FP32, SM80)
    assert np.isnan(lo[2]) and lo[1] == hi[1] == 0
    if name[0] == "y":
        assert lo[0] == hi[0] == -inf
        lo, hi = functions.unary(name, interval([-1.0, 0.0, 1e-40, 1.0], [2.0, 1.0, 1e-40, inf]), FP32, SM80)
        assert np.isnan(lo[0]) and lo[1] == lo[2] == -inf and hi[1] < 1 and hi[3] <= 0.53
        assert functions.unary(name, point([1e-40]), FP32, IEEE)[0][0] > -inf or name == "y1"
    else:
        assert lo[0] <= (1.0 if name == "j0" else 0.0) <= hi[0]
        lo, hi = functions.unary(name, interval([-inf, 5.0], [inf, inf]), FP32, SM80)
        assert lo[0] <= -0.402 and hi[0] >= 0.58 and np.all(np.isfinite(lo) & np.isfinite(hi))
