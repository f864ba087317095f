"""Ranges of functions against Arb (python-flint), which shares no code with mpmath or with the evaluator."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import flint
import numpy as np
import pytest
from mpmath import libmp

from interval_ops.formats.model import FORMATS
from render.witness import balls as b
from render.witness import bessel, casts, functions, joint
from tests.support import rng, trials

FP32, FP64 = FORMATS["fp32"], FORMATS["fp64"]
Arb = flint.arb

ONE: dict[str, tuple[Callable[[Any], Any], tuple[float, float]]] = {
    "exp": (Arb.exp, (-90, 90)), "exp2": (lambda x: Arb(2) ** x, (-90, 90)), "exp10": (lambda x: Arb(10) ** x, (-9, 9)),
    "expm1": (Arb.expm1, (-3, 3)), "log": (Arb.log, (0, 9)), "log2": (lambda x: x.log() / Arb(2).log(), (0, 9)),
    "log10": (lambda x: x.log() / Arb(10).log(), (0, 9)), "log1p": (Arb.log1p, (-1, 3)), "sqrt": (Arb.sqrt, (0, 9)),
    "cbrt": (lambda x: x.root(3), (0, 9)), "erf": (Arb.erf, (-4, 4)), "erfc": (Arb.erfc, (-4, 12)),
    "erfcx": (lambda x: (x * x).exp() * x.erfc(), (-4, 30)),
    "normcdf": (lambda x: (-x / Arb(2).sqrt()).erfc() / 2, (-9, 9)),
    "tanh": (Arb.tanh, (-9, 9)), "sinh": (Arb.sinh, (-9, 9)),
    "cosh": (Arb.cosh, (-9, 9)), "asinh": (Arb.asinh, (-9, 9)),
    "atan": (Arb.atan, (-9, 9)), "asin": (Arb.asin, (-1, 1)), "acos": (Arb.acos, (-1, 1)),
    "atanh": (Arb.atanh, (-1, 1)),
    "acosh": (Arb.acosh, (1, 9)), "erfinv": (Arb.erfinv, (-1, 1)), "erfcinv": (Arb.erfcinv, (0, 2)),
    "normcdfinv": (lambda p: -Arb(2).sqrt() * (2 * p).erfcinv(), (0, 1)), "rsqrt": (Arb.rsqrt, (0, 9)),
    "sin": (Arb.sin, (-90, 90)), "cos": (Arb.cos, (-90, 90)), "sinpi": (Arb.sin_pi, (-9, 9)),
    "cospi": (Arb.cos_pi, (-9, 9)), "tan": (Arb.tan, (-1.5, 1.5)), "rcbrt": (lambda x: 1 / x.root(3), (0, 9)),
    "tgamma": (Arb.gamma, (-9, 30)), "lgamma": (lambda x: abs(x.gamma()).log(), (-9, 30)),
    "cyl_bessel_i0": (lambda x: Arb.bessel_i(x, Arb(0)), (-9, 30)),
    "cyl_bessel_i1": (lambda x: Arb.bessel_i(x, Arb(1)), (-9, 30)),
    "j0": (lambda x: Arb.bessel_j(x, Arb(0)), (-30, 30)), "j1": (lambda x: Arb.bessel_j(x, Arb(1)), (-30, 30)),
    "y0": (lambda x: Arb.bessel_y(x, Arb(0)), (0, 30)), "y1": (lambda x: Arb.bessel_y(x, Arb(1)), (0, 30)),
}  # fmt: skip
TWO: dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[float, float]]] = {
    "pow": (joint.power, lambda x, y: x**y, (0, 9)),
    "atan2": (joint.atan2, lambda y, x: Arb.atan2(y, x), (-9, 9)),
    "hypot": (lambda *x: joint.norm(x, False), lambda x, y: (x * x + y * y).sqrt(), (-9, 9)),
    "rhypot": (lambda *x: joint.norm(x, True), lambda x, y: 1 / (x * x + y * y).sqrt(), (-9, 9)),
}


@pytest.fixture(autouse=True)
def precision():
    before, flint.ctx.prec = flint.ctx.prec, 400
    yield
    flint.ctx.prec = before


def rational(x: Any) -> Fraction:
    return Fraction(*libmp.to_rational(x))


def of_arb(x: Any) -> tuple[Fraction, Fraction]:
    """An Arb ball as an exact interval."""
    ends = []
    for end in (x.lower(), x.upper()):
        man, exp = end.mid().man_exp()
        ends.append(Fraction(int(man)) * Fraction(2) ** int(exp))
    return ends[0], ends[1]


def holds(found: Any, value: Any) -> bool:
    """Whether a range holds an Arb ball, up to the radius of the ball."""
    if found is None or not value.is_finite():
        return True
    low, high = of_arb(value)
    return (b.infinite((found[0],) * 2) or rational(found[0]) <= high) and (
        b.infinite((found[1],) * 2) or low <= rational(found[1])
    )


def test_the_table_is_complete():
    assert set(ONE) == functions.KNOWN


@pytest.mark.parametrize("name", ONE)
def test_ranges_hold_what_arb_finds(name):
    function, (low, high) = ONE[name]
    r = rng(len(name))
    answered = 0
    for _ in range(trials(12)):
        x = float(r.uniform(low, high)) * 10.0 ** int(r.integers(-6, 1))
        x = x if low < x < high else (low + high) / 3
        point = functions.exact(name, b.point(x))
        if point is None:
            continue
        answered += 1
        value = function(Arb(x))
        assert holds(point, value), x
        size = max(abs(rational(point[0])), abs(rational(point[1])), Fraction(1, 2**600))
        assert rational(point[1]) - rational(point[0]) <= size / 2**150, "a point stays narrow"
        wide = functions.exact(name, b.interval(x, x + 0.125))
        for t in (0.0, 0.3, 0.7, 1.0):
            assert holds(wide, function(Arb(x + 0.125 * t))) or x + 0.125 * t > high, (x, t)
    assert answered > 3


@pytest.mark.parametrize("n", [0, 1, 3, 128])
@pytest.mark.parametrize("kind", ["j", "y"])
def test_bessel_functions_of_any_order(kind, n):
    r = rng(n + 3)
    exact = Arb.bessel_j if kind == "j" else Arb.bessel_y
    for x in r.uniform(0.3, 2.5, trials(6)) * max(n, 1):
        width = 10.0 ** r.uniform(-6, 1.5)
        found = bessel.values(kind, n, b.interval(float(x), float(x + width)))
        for t in (0.0, 0.3, 0.7, 1.0):
            assert holds(found, exact(Arb(float(x + width * t)), Arb(n))), (x, width, t)
    assert bessel.values("y", n, b.interval(-1.0, 2.0)) is None


@pytest.mark.parametrize("name", TWO)
def test_boxes_hold_what_arb_finds(name):
    rule, function, (low, high) = TWO[name]
    r = rng(len(name) + 50)
    for _ in range(trials(25)):
        x, y = (float(v) for v in r.uniform(low, high, 2))
        y = -y if name == "pow" and r.random() < 0.5 else y
        width = [float(w) * (r.random() < 0.6) for w in r.random(2)]
        found = rule(b.interval(x, x + width[0]), b.interval(y, y + width[1]))
        for s, t in r.random((4, 2)):
            assert holds(found, function(Arb(x + width[0] * s), Arb(y + width[1] * t))), (x, y, width)


@pytest.mark.parametrize("n", [-3, -2, -1, 0, 1, 2, 3, 7, 40])
def test_integer_powers_of_either_sign(n):
    r = rng(n + 60)
    for x in r.normal(size=trials(20)):
        found = joint.integer_power(b.interval(float(x), float(x) + 0.25), n)
        for t in (0.0, 0.5, 1.0):
            at = float(x) + 0.25 * t
            assert not at or holds(found, Arb(at) ** n)
    assert (
        joint.integer_power(b.interval(-1.0, 1.0), -2) is None
        and joint.power(b.interval(-1.0, 1.0), b.point(0.5)) is None
    )


def test_singular_places():
    pi = Fraction(355, 113)
    low, high = joint.atan2(b.interval(-1.0, 1.0), b.point(-2.0))
    assert rational(low) < -Fraction(314, 100) and Fraction(314, 100) < rational(high) < pi
    assert joint.power(b.point(0.0), b.point(0.0)) == b.point(1.0)
    assert (
        functions.exact("tan", b.interval(1.5, 1.6)) is None
        and functions.exact("tgamma", b.interval(-0.5, 0.5)) is None
    )
    assert functions.exact("sinpi", b.point(3.0)) == b.ZERO and functions.exact("cospi", b.interval(0.9, 1.1))[
        0
    ] == b.raw(-1.0)
    assert functions.exact("erfinv", b.point(1.0)) == (libmp.finf, libmp.finf)
    assert functions.exact("normcdfinv", b.point(0.0))[0] == libmp.fninf


@pytest.mark.parametrize("fmt", [FP32, FP64], ids=lambda f: f.name)
def test_remainders_and_neighbours_are_those_of_the_machine(fmt):
    r = rng(71)
    kind = np.float32 if fmt is FP32 else np.float64
    for x, y in (r.normal(size=(trials(200), 2)) * 10.0 ** r.integers(-3, 4, (trials(200), 2))).astype(kind):
        found = joint.ieee_remainder(b.point(float(x)), b.point(float(y)))
        assert found == b.point(math.remainder(float(x), float(y)))
        assert joint.neighbours(b.point(float(x)), b.point(float(y)), fmt) == b.point(float(np.nextafter(x, y)))
        assert joint.exponent(b.point(float(x))) == b.point(float(np.frexp(x)[1] - 1))


@pytest.mark.parametrize("way", ["rd", "ru", "rz"])
def test_directed_roundings_enclose_the_exact_value_from_one_side(way):
    r = rng(81)
    for x in r.normal(size=trials(200)) * 10.0 ** r.integers(-42, 38, trials(200)):
        got = libmp.to_float(casts.directed(b.raw(float(x)), FP32, way))
        up = way == "ru" or (way == "rz" and x < 0)
        near = np.float32(x)
        want = near if (near >= x) == up or near == x else np.nextafter(near, np.float32(np.inf if up else -np.inf))
        assert got == want
    assert (
        casts.directed(b.raw(1e39), FP32, "rd") == b.raw(FP32.max)
        and casts.directed(b.raw(1e39), FP32, "ru") == libmp.finf
    )
