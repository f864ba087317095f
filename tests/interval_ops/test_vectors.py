"""Every shared operation on drawn boxes: all results inside, and how far from the tightest bounds.

On a profile without errors of a target, so that what is measured is the engine's own float64: at most 2 numbers of
float64 on either side in arithmetic, `FUNCTION_ULPS` in functions.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import interval_vectors as oracle
import numpy as np
import pytest
from interval_vectors import INF, MP, TOP, Ends
from support import rng, trials

from interval_ops.arithmetic import rule as arithmetic
from interval_ops.arithmetic import selection
from interval_ops.formats.model import FP64
from interval_ops.functions import elementary
from interval_ops.library import joint
from interval_ops.profiles.profile import load_profile

QUIET = joint.quiet(load_profile("any"))
Pair = tuple[np.ndarray, np.ndarray]

ARITHMETIC: dict[str, tuple[int, Callable[..., Pair], Callable[..., Ends | None]]] = {
    "add": (2, lambda x, y: arithmetic.add(x, y, FP64, QUIET), oracle.add),
    "sub": (2, lambda x, y: arithmetic.sub(x, y, FP64, QUIET), oracle.sub),
    "mul": (2, lambda x, y: arithmetic.mul(x, y, FP64, QUIET), oracle.mul),
    "square": (1, lambda x: arithmetic.square(x, FP64, QUIET), oracle.square),
    "fma": (3, lambda x, y, z: arithmetic.fma(x, y, z, FP64, QUIET), oracle.fma),
    "div": (2, lambda x, y: arithmetic.div(x, y, FP64, QUIET), oracle.div),
    "neg": (1, arithmetic.neg, oracle.negative),
    "abs": (1, arithmetic.abs_, oracle.magnitude),
    "floor": (1, lambda x: arithmetic.floor(x, FP64, QUIET), oracle.stepped(math.floor)),
    "ceil": (1, lambda x: arithmetic.ceil(x, FP64, QUIET), oracle.stepped(math.ceil)),
    "trunc": (1, arithmetic.trunc, oracle.stepped(math.trunc)),
    "rint": (1, arithmetic.rint, oracle.stepped(round)),
    "maximum": (2, selection.maximum, oracle.largest),
    "minimum": (2, selection.minimum, oracle.least),
    "hull": (2, selection.hull, oracle.hull),
    "clamp": (3, selection.clamp, oracle.clamp),
    "copysign": (2, joint.copysign, oracle.signed),
    "fdim": (2, lambda x, y: joint.fdim(x, y, FP64, QUIET), oracle.positive_difference),
}


def far(got: Pair, wanted: list[Ends | None], *operands: Pair) -> float:
    """The largest distance from the tightest bounds; fails where a result is outside."""
    worst, where = 0.0, ""
    for i, (low, high, want) in enumerate(zip(*got, wanted, strict=True)):
        said = f"{[(float(o[0][i]), float(o[1][i])) for o in operands]} gives [{low}, {high}], tightest {want}"
        if want is None:
            continue
        if math.isnan(want[0]):
            assert math.isnan(low), said
            continue
        assert not math.isnan(low), said
        assert low <= want[0] and high >= want[1], said
        distance = max(oracle.ulps(low, want[0]), oracle.ulps(high, want[1]))
        if distance > worst:
            worst, where = distance, said
    print(f"{worst:g} at most: {where}")
    return worst


@pytest.mark.parametrize("points", [False, True])
@pytest.mark.parametrize("name", ARITHMETIC)
def test_arithmetic_is_tight(name: str, points: bool) -> None:
    arity, rule, tightest = ARITHMETIC[name]
    g = rng(len(name) + 7 * points)
    n = trials(6000)
    for which in range(1 << arity if not points else 1):
        drawn = [oracle.boxes(g, n) for _ in range(arity)]
        operands = [(x[0], x[0]) if points or which >> k & 1 else x for k, x in enumerate(drawn)]
        with np.errstate(all="ignore"):
            got = rule(*operands)
        wanted = [tightest(*box) for box in zip(*map(oracle.pairs, operands), strict=True)]
        assert far(got, wanted, *operands) <= 2


@pytest.mark.parametrize("integers", [True, False])
def test_powers_hold_signed_zeros(integers: bool) -> None:
    g = rng(17 + integers)
    n = trials(4000)
    x, y = oracle.boxes(g, n), oracle.boxes(g, n)
    if integers:
        whole = g.choice([-1074.0, -301.0, -101.0, -5.0, -3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 5.0, 101.0, 1075.0], n)
        y = (whole, whole)
    with np.errstate(all="ignore"):
        got = joint.power(x, y, FP64, QUIET)
    wanted = [oracle.power(*box) for box in zip(oracle.pairs(x), oracle.pairs(y), strict=True)]
    assert far(got, wanted, x, y) <= FUNCTION_ULPS


def test_one_over_a_box_that_begins_at_minus_zero() -> None:
    for low in (0.0, -0.0):
        lo, hi = joint.power((np.array([low]), np.array([0.5])), (np.array([-1.0]),) * 2, FP64, QUIET)
        assert (lo[0], hi[0]) == (-INF, INF)


FUNCTION_ULPS = 3
"""The ends of fp64 are good to one rounding (`doubles`): one number moved, one beside, one for the target's gate."""


LINE, HALF = (-INF, INF), (0.0, INF)
FUNCTIONS: dict[str, tuple[Callable[..., object], tuple[float, float], bool]] = {
    "exp": (MP.exp, LINE, True), "exp2": (lambda x: MP.power(2, x), LINE, True), "log": (MP.log, HALF, True),
    "log2": (lambda x: MP.log(x, 2), HALF, True), "log1p": (MP.log1p, (-1.0, INF), True),
    "expm1": (MP.expm1, LINE, True), "tanh": (MP.tanh, LINE, True), "sinh": (MP.sinh, LINE, True),
    "asinh": (MP.asinh, LINE, True), "atanh": (MP.atanh, (-1.0, 1.0), True), "asin": (MP.asin, (-1.0, 1.0), True),
    "acos": (MP.acos, (-1.0, 1.0), False), "atan": (MP.atan, LINE, True), "erf": (MP.erf, LINE, True),
    "cbrt": (lambda x: MP.sign(x) * MP.cbrt(abs(x)), LINE, True), "log10": (MP.log10, HALF, True),
    "exp10": (lambda x: MP.power(10, x), LINE, True), "acosh": (MP.acosh, (1.0, INF), True),
    "erfc": (MP.erfc, LINE, False), "normcdf": (MP.ncdf, LINE, True),
    "rsqrt": (lambda x: 1 / MP.sqrt(x), HALF, False),
}  # fmt: skip


def _turning(function: Callable[[Any], Any], turn: Any, phase: float) -> Callable[[Ends], Ends | None]:
    """Range of sin or cos: ends, and 1 and -1 where x turn - phase meets an integer or a half."""

    def over(x: Ends) -> Ends | None:
        if not math.isfinite(x[0]) or not math.isfinite(x[1]):
            return TOP
        if x[0] != x[1] and max(abs(x[0]), abs(x[1])) > 2.0**20:
            return None
        values = [function(MP.mpf(end)) for end in x]
        for value, at in ((1.0, phase), (-1.0, phase + 0.5)) if x[0] != x[1] else ():
            start, stop = (MP.mpf(end) * turn - at for end in x)
            values += [MP.mpf(value)] if MP.floor(stop) >= MP.ceil(start) else []
        return oracle.below(min(values)), oracle.above(max(values))

    return over


def _gamma(function: Callable[[Any], Any]) -> Callable[[Ends], Ends | None]:
    """Right of 0: ends and the minimum between them."""
    least = MP.findroot(MP.digamma, 1.46)

    def over(x: Ends) -> Ends | None:
        if x[0] < 1e-300 or x[1] > 1e300:
            return None
        values = [function(MP.mpf(end)) for end in x]
        values += [function(least)] if x[0] < least < x[1] else []
        return oracle.below(min(values)), oracle.above(max(values))

    return over


TURNING: dict[str, Callable[[Ends], Ends | None]] = {
    "sin": _turning(MP.sin, 1 / (2 * MP.pi), 0.25), "cos": _turning(MP.cos, 1 / (2 * MP.pi), 0.0),
    "sinpi": _turning(MP.sinpi, MP.mpf(0.5), 0.25), "cospi": _turning(MP.cospi, MP.mpf(0.5), 0.0),
    "tgamma": _gamma(MP.gamma), "lgamma": _gamma(MP.loggamma),
}  # fmt: skip


@pytest.mark.parametrize("points", [False, True])
@pytest.mark.parametrize("name", TURNING)
def test_functions_that_turn_hold_the_range(name: str, points: bool) -> None:
    g = rng(len(name) + points)
    lo, hi = oracle.boxes(g, trials(1500))
    lo, hi = np.where(g.random(lo.size) < 0.7, np.clip([lo, hi], -150, 150), [lo, hi])
    x = (lo, lo) if points else (lo, hi)
    got = elementary.unary(name, x, FP64, QUIET)
    wanted = [TURNING[name](box) for box in oracle.pairs(x)]
    assert far(got, wanted, x) <= FUNCTION_ULPS


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_hold_the_range(name: str) -> None:
    function, domain, up = FUNCTIONS[name]
    g = rng(len(name))
    lo, hi = oracle.boxes(g, trials(1500))
    inside = g.random(lo.size) < 0.7
    reach = np.array([min(800.0, -domain[0]), min(800.0, domain[1])])
    lo, hi = (
        np.where(inside, np.clip(lo, -reach[0], reach[1]), lo),
        np.where(inside, np.clip(hi, -reach[0], reach[1]), hi),
    )
    got = elementary.unary(name, (lo, hi), FP64, QUIET)
    wanted = [oracle.monotone(function, domain, up)(box) for box in oracle.pairs((lo, hi))]
    assert far(got, wanted, (lo, hi)) <= FUNCTION_ULPS


def test_norms_hold_the_range() -> None:
    g = rng(29)
    x, y = oracle.boxes(g, trials(1500)), oracle.boxes(g, trials(1500))
    got = joint.norm("hypot", (x, y), FP64, QUIET)
    wanted = [oracle.root_of_squares(*box) for box in zip(oracle.pairs(x), oracle.pairs(y), strict=True)]
    assert far(got, wanted, x, y) <= FUNCTION_ULPS


def test_roots_are_exact_at_the_ends() -> None:
    g = rng(3)
    lo, hi = oracle.boxes(g, trials(6000))
    x = (np.abs(lo), np.maximum(np.abs(lo), np.abs(hi)))
    got = elementary.unary("sqrt", x, FP64, QUIET)
    wanted: list[Ends | None] = [
        tuple(
            a if math.isinf(a) else f(MP.sqrt(MP.mpf(a)))
            for a, f in zip(box, (oracle.below, oracle.above), strict=True)
        )  # type: ignore[misc]
        for box in oracle.pairs(x)
    ]
    assert far(got, wanted, x) <= 1
    squares = np.array([0.0, 1.0, 4.0, 9.0, 2.0**-1074, 2.0**-1022, 2.25, 1e300, INF])
    lo, hi = elementary.unary("sqrt", (squares, squares), FP64, QUIET)
    assert [i for i in range(len(squares)) if lo[i] == hi[i]] == [0, 1, 2, 3, 4, 5, 6, 8]


def _fmod(x: float, y: float) -> float:
    return math.nan if math.isinf(x) or y == 0 else math.fmod(x, y)


def _remainder(x: float, y: float) -> float:
    return math.nan if math.isinf(x) or y == 0 else math.remainder(x, y)


def _logb(x: float) -> float:
    return -INF if x == 0 else INF if math.isinf(x) else math.frexp(x)[1] - 1.0


def _atan2(y: float, x: float) -> object:
    """mpmath knows no signed zeros and no angle between infinities."""
    return MP.atan2(y, x) if y != 0 and math.isfinite(x) and math.isfinite(y) else math.atan2(y, x)


SAMPLED: dict[str, tuple[int, Callable[..., Pair], Callable[..., object]]] = {
    "fmod": (2, lambda x, y: arithmetic.fmod(x, y, FP64, QUIET), _fmod),
    "remainder": (2, joint.remainder, _remainder),
    "atan2": (2, lambda y, x: joint.atan2(y, x, FP64, QUIET), _atan2),
    "hypot": (2, lambda x, y: joint.norm("hypot", (x, y), FP64, QUIET), MP.hypot),
    "nextafter": (2, lambda x, y: joint.nextafter(x, y, FP64), math.nextafter),
    "logb": (1, joint.logb, _logb),
    "ldexp": (1, lambda x: joint.ldexp(x, (np.full(1, -70),) * 2, FP64, QUIET), lambda x: MP.ldexp(x, -70)),
    "ldexp up": (1, lambda x: joint.ldexp(x, (np.full(1, 300),) * 2, FP64, QUIET), lambda x: math.ldexp(x, 300)),
}
"""Operations that have no closed form of the tightest box: what numbers drawn inside it give must lie within."""


def within(g: np.random.Generator, low: float, high: float) -> list[float]:
    """Both ends, zero, neighbours of the ends, and some numbers between them."""
    if low == high:
        return [low]
    drawn = [low, high, 0.0, math.nextafter(low, high), math.nextafter(high, low)]
    if math.isfinite(low) and math.isfinite(high) and math.isfinite(high - low):
        drawn += [low + (high - low) * float(s) for s in g.random(3)]
    return [x for x in drawn if low <= x <= high]


@pytest.mark.parametrize("points", [False, True])
@pytest.mark.parametrize("name", SAMPLED)
def test_numbers_of_the_box_lie_within(name: str, points: bool) -> None:
    arity, rule, exact = SAMPLED[name]
    g = rng(len(name) + 31 * points)
    operands = [oracle.boxes(g, trials(1500)) for _ in range(arity)]
    operands = [(x[0], x[0]) if points else x for x in operands]
    with np.errstate(all="ignore"):
        lo, hi = rule(*operands)
    for i, box in enumerate(zip(*map(oracle.pairs, operands), strict=True)):
        for numbers in itertools.product(*(within(g, *ends) for ends in box)):
            try:
                value = exact(*numbers)
            except OverflowError:
                value = math.copysign(INF, numbers[0])
            said = f"{name}{numbers} = {value} of {box}, [{lo[i]}, {hi[i]}]"
            if math.isnan(value):  # type: ignore[arg-type]
                assert math.isnan(lo[i]) or math.isnan(hi[i]), said
            else:
                assert math.isnan(lo[i]) or lo[i] <= value <= hi[i], said
