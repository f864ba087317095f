"""Ranges of functions against mpmath, which shares no code with Arb or with the rules of the table."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import mpmath
import pytest

from render.exact import functions, joint
from render.exact import intervals as iv
from render.exact.points import INF, NINF
from tests.render.exact.oracle import BITS, extended, fraction, holds
from tests.support import rng, trials

MP = mpmath.mp
ONE: dict[str, tuple[Callable[[Any], Any], tuple[float, float]]] = {
    "exp": (MP.exp, (-90, 90)), "exp2": (lambda x: MP.power(2, x), (-90, 90)),
    "exp10": (lambda x: MP.power(10, x), (-9, 9)), "expm1": (MP.expm1, (-3, 3)), "log": (MP.log, (0, 9)),
    "log2": (lambda x: MP.log(x) / MP.log(2), (0, 9)), "log10": (lambda x: MP.log(x) / MP.log(10), (0, 9)),
    "log1p": (MP.log1p, (-1, 3)), "sqrt": (MP.sqrt, (0, 9)), "cbrt": (MP.cbrt, (0, 9)), "erf": (MP.erf, (-4, 4)),
    "erfc": (MP.erfc, (-4, 12)), "erfcx": (lambda x: MP.exp(x * x) * MP.erfc(x), (-4, 30)),
    "normcdf": (lambda x: MP.erfc(-x / MP.sqrt(2)) / 2, (-9, 9)), "tanh": (MP.tanh, (-9, 9)),
    "sinh": (MP.sinh, (-9, 9)), "cosh": (MP.cosh, (-9, 9)), "asinh": (MP.asinh, (-9, 9)), "atan": (MP.atan, (-9, 9)),
    "asin": (MP.asin, (-1, 1)), "acos": (MP.acos, (-1, 1)), "atanh": (MP.atanh, (-1, 1)), "acosh": (MP.acosh, (1, 9)),
    "rsqrt": (lambda x: 1 / MP.sqrt(x), (0, 9)), "sin": (MP.sin, (-90, 90)), "cos": (MP.cos, (-90, 90)),
    "sinpi": (MP.sinpi, (-9, 9)), "cospi": (MP.cospi, (-9, 9)), "tan": (MP.tan, (-1.5, 1.5)),
    "rcbrt": (lambda x: 1 / MP.cbrt(x), (0, 9)), "tgamma": (MP.gamma, (-9, 30)),
    "lgamma": (lambda x: MP.log(abs(MP.gamma(x))), (-9, 30)), "cyl_bessel_i0": (lambda x: MP.besseli(0, x), (-9, 30)),
    "cyl_bessel_i1": (lambda x: MP.besseli(1, x), (-9, 30)), "j0": (lambda x: MP.besselj(0, x), (-30, 30)),
    "j1": (lambda x: MP.besselj(1, x), (-30, 30)), "y0": (lambda x: MP.bessely(0, x), (0, 30)),
    "y1": (lambda x: MP.bessely(1, x), (0, 30)),
}  # fmt: skip
INVERSE: dict[str, tuple[Callable[[Any], Any], tuple[float, float]]] = {
    "erfinv": (MP.erf, (-1, 1)), "erfcinv": (MP.erfc, (0, 2)),
    "normcdfinv": (lambda x: MP.erfc(-x / MP.sqrt(2)) / 2, (0, 1)),
}  # fmt: skip
TWO: dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[float, float]]] = {
    "pow": (joint.raised, lambda x, y: x**y, (0, 9)),
    "atan2": (joint.atan2, lambda y, x: MP.atan2(y, x), (-9, 9)),
    "hypot": (lambda *x: joint.norm(x, False), lambda x, y: MP.sqrt(x * x + y * y), (-9, 9)),
    "rhypot": (lambda *x: joint.norm(x, True), lambda x, y: 1 / MP.sqrt(x * x + y * y), (-9, 9)),
}


@pytest.fixture(autouse=True)
def more_bits() -> Iterator[None]:
    with mpmath.workprec(BITS):
        yield


def holds_value(found: Any, value: Any) -> bool:
    """Up to what mpmath may be off."""
    return not mpmath.isfinite(value) or holds(found, value, abs(fraction(value)) / 2 ** (BITS - 30))


def test_the_table_is_complete():
    assert {*ONE, *INVERSE} == functions.KNOWN


def places(name: str, low: float, high: float) -> Iterator[float]:
    r = rng(len(name))
    for _ in range(trials(12)):
        x = float(r.uniform(low, high)) * 10.0 ** int(r.integers(-6, 1))
        yield x if low < x < high else (low + high) / 3


@pytest.mark.parametrize("name", ONE)
def test_ranges_hold_what_mpmath_finds(name):
    function, (low, high) = ONE[name]
    answered = 0
    for x in places(name, low, high):
        point = functions.over(name, iv.point(x))
        if point is None:
            continue
        answered += 1
        assert holds_value(point, function(MP.mpf(x))), x
        assert narrow(point), "a point stays narrow"
        wide = functions.over(name, iv.interval(x, x + 0.125))
        for t in (0.0, 0.3, 0.7, 1.0):
            if x + 0.125 * t <= high:
                assert holds_value(wide, function(MP.mpf(x + 0.125 * t))), (x, t)
    assert answered > 3


def narrow(found: Any) -> bool:
    low, high = map(fraction, found)
    return high - low <= max(abs(low), abs(high)) / 2**150


@pytest.mark.parametrize("name", INVERSE)
def test_inverses_lead_back(name):
    """The function that is inverted is monotone: its values at the ends enclose the argument."""
    function, (low, high) = INVERSE[name]
    for x in places(name, low, high):
        for end in (x, min(x + 0.125, high)):
            found = functions.over(name, iv.interval(x, end))
            assert found is not None and (end > x or narrow(found))
            if NINF not in found and INF not in found:
                back = sorted(
                    fraction(function(MP.mpf(fraction(v).numerator) / fraction(v).denominator)) for v in found
                )
                slack = abs(fraction(MP.mpf(x))) / 2 ** (BITS - 60)
                assert back[0] - slack <= fraction(MP.mpf(x)) and fraction(MP.mpf(end)) <= back[1] + slack


@pytest.mark.parametrize("n", [0, 1, 3, 128])
@pytest.mark.parametrize("kind", ["j", "y"])
def test_bessel_functions_of_any_order(kind, n):
    r = rng(n + 3)
    exact = MP.besselj if kind == "j" else MP.bessely
    for x in r.uniform(0.3, 2.5, trials(6)) * max(n, 1):
        width = 10.0 ** r.uniform(-6, 1.5)
        found = functions.bessel(kind, n, iv.interval(float(x), float(x + width)))
        for t in (0.0, 0.3, 0.7, 1.0):
            with mpmath.workprec(120):
                value = exact(n, MP.mpf(float(x + width * t)))
            assert holds(found, value, abs(fraction(value)) / 2**90), (x, width, t)
    assert functions.bessel("y", n, iv.interval(-1.0, 2.0)) is None


@pytest.mark.parametrize("name", TWO)
def test_boxes_hold_what_mpmath_finds(name):
    rule, function, (low, high) = TWO[name]
    r = rng(len(name) + 50)
    for _ in range(trials(25)):
        x, y = (float(v) for v in r.uniform(low, high, 2))
        y = -y if name == "pow" and r.random() < 0.5 else y
        width = [float(w) * (r.random() < 0.6) for w in r.random(2)]
        found = rule(iv.interval(x, x + width[0]), iv.interval(y, y + width[1]))
        for s, t in r.random((4, 2)):
            value = function(MP.mpf(x + width[0] * s), MP.mpf(y + width[1] * t))
            assert holds_value(found, value), (x, y, width)


@pytest.mark.parametrize("n", [-3, -2, -1, 0, 1, 2, 3, 7, 40])
def test_integer_powers_of_either_sign(n):
    r = rng(n + 60)
    for x in r.normal(size=trials(20)):
        found = joint.integer_power(iv.interval(float(x), float(x) + 0.25), n)
        for t in (0.0, 0.5, 1.0):
            at = float(x) + 0.25 * t
            assert not at or holds_value(found, MP.mpf(at) ** n)
    assert joint.integer_power(iv.interval(-1.0, 1.0), -2) is None
    assert joint.raised(iv.interval(-1.0, 1.0), iv.point(0.5)) is None


def test_singular_places():
    low, high = joint.atan2(iv.interval(-1.0, 1.0), iv.point(-2.0))
    assert low < -3.14159 and 3.14159 < high < 3.1416
    assert joint.raised(iv.point(0.0), iv.point(0.0)) == iv.point(1.0)
    assert functions.over("tan", iv.interval(1.5, 1.6)) is None
    assert functions.over("tgamma", iv.interval(-0.5, 0.5)) is None
    assert functions.over("sinpi", iv.point(3.0)) == iv.NOTHING
    assert functions.over("cospi", iv.interval(0.9, 1.1))[0] == -1
    assert functions.over("erfinv", iv.point(1.0)) == (INF, INF)
    assert functions.over("normcdfinv", iv.point(0.0))[0] == NINF


def near_or_outside(outer: Any, inner: Any, way: int) -> bool:
    """Whether an end lies beyond another in a direction, but for the last bits."""
    a, b = extended(outer), extended(inner)
    if a == b or math.inf in (abs(a), abs(b)):
        return (a >= b) if way > 0 else (a <= b)
    return (a - b) * way >= -abs(b) / 2**170


@pytest.mark.parametrize("name", sorted(functions.KNOWN))
def test_ends_of_the_domain_and_numbers_far_out_have_an_answer_that_holds_its_neighbours(name):
    """Whatever there is at the ends, at 0 and far out, a wider range holds it."""
    row = functions.MONOTONE.get(name) or functions.EVEN.get(name)
    low, high = (float(end) for end in row.domain) if row else (-1e300, 1e300)
    some = [x for x in (low, high, 0.0, 1e-310, 1e300, -1e300, 800.0, -800.0, 9000.0) if low <= x <= high]
    for x in some:
        at = functions.over(name, iv.point(x))
        if row:
            assert at is not None, x
        for y in some:
            wide = functions.over(name, iv.interval(min(x, y), max(x, y)))
            assert wide is None or at is None or all(map(near_or_outside, wide, at, (-1, 1))), (x, y)


@pytest.mark.parametrize("name", ["sin", "cos", "tan", "j0", "y1", "sinpi"])
def test_waves_of_huge_arguments_keep_their_digits(name):
    found = functions.over(name, iv.point(1e300))
    assert found is not None and (found[0] == found[1] or narrow(found))
    with mpmath.workprec(1500):
        value = ONE[name][0](MP.mpf(1e300))
        assert name in ("j0", "y1") or holds(found, value, abs(fraction(value)) / 2**1000)


def test_extrema_between_the_ends_are_found():
    for k in range(-3, 4):
        top = 1.5707963267948966 + 2 * k * 3.141592653589793
        assert functions.over("sin", iv.interval(top - 0.1, top + 0.2))[1] == 1
        assert functions.over("cos", iv.interval(top + 1.4, top + 1.7))[0] == -1
        low, high = functions.over("sin", iv.interval(top + 0.1, top + 0.2))
        assert low > -1 and high < 1
    low, high = functions.over("tgamma", iv.interval(1.0, 2.0))
    assert 0.88560319 < low < 0.88560320 and high == 1


@pytest.mark.parametrize("name", [*(n for n, row in functions.MONOTONE.items() if row.slope), "sin", "cos"])
def test_slopes_hold_the_derivative_everywhere_in_between(name: str) -> None:
    function, (low, high) = ONE[name]
    r = rng(4)
    for _ in range(trials(40)):
        a, width = r.uniform(low + 0.05, min(high, 20.0)), 10.0 ** -r.uniform(0, 8)
        x = iv.interval(a, min(a + width, high))
        found = functions.slopes(name, x)
        assert found is not None
        at = a + (float(x[1]) - a) * r.random()
        with MP.workprec(300):
            assert holds(found, MP.diff(function, MP.mpf(at)), slack=1e-25)
        assert float(found[1] - found[0]) < 8 * max(width, 1e-12) * max(1.0, abs(float(found[1]))) * 25
    assert functions.slopes(name, (x[0], INF)) is None
