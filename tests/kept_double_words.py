"""Cases of `kept_bounds`: functions as unevaluated sums of two float64 numbers, and helpers that no bound shows.

The second word is kept to the bit as well: what a series loses there disappears in the first.
"""

from __future__ import annotations

import numpy as np
from kept_bounds import ROUGHLY, Cases, numbers

from interval_ops.arithmetic import hull
from interval_ops.formats import rounding
from interval_ops.formats.model import BF16, FP16, FP32, FP64
from interval_ops.functions import constants, double_double, double_special, doubles

X = np.concatenate([np.exp2(np.linspace(-30, 30, 41)), np.linspace(0.05, 12, 40), [1.0, 0.5, 2.0, 1e-300, 1e300]])
Y = np.random.default_rng(5).permutation(X)


def words(x: float, part: int) -> tuple[float, float]:
    """A double word around x."""
    return x, x * 2.0**-54 * (1 - part % 3)


def _arithmetic() -> object:
    found = []
    for i, (x, y) in enumerate(zip(X.tolist(), Y.tolist(), strict=True)):
        a, b = words(x, i), words(-y if i % 2 else y, i // 3)
        found += [double_double.two_sum(a[0], b[0]), double_double.add(a, b), double_double.multiply(a, b)]
        found += [
            double_double.quotient(a, b),
            doubles.scaled(a, 0.25),
            doubles._plus((max(x, y), 1e-20 * x), min(x, y)),
        ]
        found += [doubles._times(a, y), double_special._less(a, b)]
    return found


def _elementary() -> object:
    found: list[object] = []
    for i, x in enumerate(X.tolist()):
        a = words(x, i)
        if x < 1e3:
            found += [doubles.exp_of(a), doubles.exp_of((-a[0], -a[1]))]
        if 1e-300 < x < 1e300:
            found += [doubles.log_of(a), double_double.log(x), doubles.root_of(a), doubles.norm(x, X[-i])]
        if x < 0.3:
            found += [doubles._expm1_of(a), doubles.log1p_of(a), doubles.log1p_of((-a[0], -a[1]))]
        if x < 1e15:
            found += [doubles._reduced(constants.quarter_turns(), x), doubles._reduced(constants.quarter_turns(), -x)]
        found += [doubles._angle_of(a, words(Y[i], i)), doubles.angle_of_point(-x, -float(Y[i])), doubles.power(x, 0.7)]
        if x < 0.78:
            found += [doubles.wave_of(j, a) for j in range(4)]
    return found


def _waves() -> object:
    """Arguments of all sizes, and next to multiples of a quarter turn."""
    x = np.concatenate(
        [X, X * 1e5, X * 1e20, np.arange(1, 60) * 1.5707963267948966, [2.0**1000, 6381956970095103.0 * 2.0**797]]
    )
    return [doubles._reduced(constants.quarter_turns(), float(v)) for v in (*x, *-x) if abs(v) < 1e308]


def _special() -> object:
    found: list[object] = []
    for i, x in enumerate(X.tolist()):
        a = words(x, i)
        if x < 26:
            found += [double_special._erf_of(a) if x < 3 else None, double_special.erfc_of(a)]
        if x < 1:
            found += [double_special.inverse_erfc(x), double_special.inverse_erf(x), double_special.inverse_erf(-x)]
        if 1e-300 < x < 1e200:
            found += [double_special._log_gamma(a) if x >= 0.5 else None, double_special._log_size(x)]
        if 10 <= x < 1e200:
            found += [double_special._stirling(a)]
    return found


def _kernels(module: object, name: str, kinds: int, turns: bool = False) -> object:
    edges = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-310, -1e-310, 2.0**-1074, 1.7e308, 709.5, -745.0, 1023.9, 308.2]
    x = np.concatenate([X, -X, 1 - X[:30], 1 + X[:30], np.arange(-20.0, 21), np.arange(-20.5, 21), edges])
    found = []
    for kind in range(kinds):
        out = np.empty_like(x)
        getattr(module, name)(kind, *((constants.quarter_turns(),) if turns else ()), x, out)
        found.append(out)
    return found


def _rounding() -> object:
    """The gates, number by number."""
    found: list[object] = []
    for fmt in (FP32, FP16, BF16):
        gate = fmt.gate
        for v in numbers(fmt, 3, 200) * (1 + 2.0**-13):
            x = float(v)
            found += [hull.nearest(x, gate), hull.nearest(x, hull.EXACT)]
            found += [hull.flush_lower(x, fmt.min_normal), hull.flush_upper(x, fmt.min_normal)]
    for v, w in zip(numbers(FP64, 4, 200).tolist(), numbers(FP64, 5, 200).tolist(), strict=True):
        found += [hull.down(v, True), hull.up(v, True), hull.down(v, False), hull.sum_error(v, w, v + w)]
        found += [hull.product_inexact(v, w, v * w), hull.quotient_inexact(v, w, v / w if w else np.nan)]
        found += [hull.zero_by_infinity(*sorted((v, w)), *sorted((w, -v))), hull.widen_down(v, 2.0**-20, 1e-300)]
        found += [hull.zero_by_infinity(-1.0, 1.0, min(v, w), max(v, w))]
    return [*found, rounding.gate_of(FP32), hull.rounding_gate(FP16, False), hull.rounding_gate(FP64, False)]


CASES: Cases = {
    "arithmetic": (_arithmetic, 0.0),
    "elementary": (_elementary, 0.0),
    "waves": (_waves, 0.0),
    "special": (_special, ROUGHLY),
    "rounding": (_rounding, 0.0),
    "exponential": (lambda: _kernels(doubles, "exponential", 7), 0.0),
    "logarithm": (lambda: _kernels(doubles, "logarithm", 7), 0.0),
    "angle": (lambda: _kernels(doubles, "angle", 3), 0.0),
    "root": (lambda: _kernels(doubles, "root", 3), 0.0),
    "wave": (lambda: _kernels(doubles, "wave", 5, True), 0.0),
    "error_function": (lambda: _kernels(double_special, "error_function", 7), 0.0),
    "gamma_function": (lambda: _kernels(double_special, "gamma_function", 2), ROUGHLY),
}
