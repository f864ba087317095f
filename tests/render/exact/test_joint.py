"""Functions of several arguments over boxes of exact points, against mpmath at points of the boxes."""

from __future__ import annotations

import math

import mpmath
import pytest

from render.exact import intervals as iv
from render.exact import joint
from render.exact.points import precision
from tests.render.exact.oracle import fraction, holds
from tests.support import rng, trials


def box(g, low: float, high: float) -> list[float]:
    ends = sorted(g.uniform(low, high, 2).tolist())
    return [ends[0], ends[0]] if g.random() < 0.2 else ends


@pytest.mark.parametrize(("function", "true", "ranges"), [
    (joint.raised, mpmath.power, ((0.01, 9.0), (-5.0, 5.0))),
    (joint.atan2, mpmath.atan2, ((-3.0, 3.0), (-3.0, 3.0))),
    (lambda x, y: joint.norm([x, y], inverse=False), mpmath.hypot, ((-4.0, 4.0), (-4.0, 4.0))),
    (lambda x, y: joint.norm([x, y], inverse=True), lambda x, y: 1 / mpmath.hypot(x, y), ((1.0, 4.0), (-4.0, 4.0))),
], ids=["pow", "atan2", "hypot", "rhypot"])  # fmt: skip
def test_points_of_the_box_lie_inside(function, true, ranges) -> None:
    g = rng(4)
    with precision(), mpmath.workprec(300):
        for _ in range(trials(200)):
            ends = [box(g, *r) for r in ranges]
            found = function(*(iv.interval(*e) for e in ends))
            for x in (*ends[0], sum(ends[0]) / 2):
                for y in (*ends[1], sum(ends[1]) / 2):
                    value = true(mpmath.mpf(x), mpmath.mpf(y))
                    assert holds(found, value, fraction(abs(value)) / 2**180), (ends, x, y)


def test_whole_powers_and_their_poles() -> None:
    with precision():
        wide = iv.interval(-2.0, 3.0)
        assert [float(v) for v in joint.integer_power(wide, 2) or ()] == [0.0, 9.0]
        assert [float(v) for v in joint.integer_power(wide, 3) or ()] == [-8.0, 27.0]
        assert joint.integer_power(iv.interval(-2.0, 2.0), -1) in (None, (-math.inf, math.inf))
        assert [float(v) for v in joint.raised(iv.interval(-3.0, -2.0), iv.point(3.0)) or ()] == [-27.0, -8.0]
        assert joint.raised(iv.interval(-3.0, -2.0), iv.point(0.5)) is None


def test_the_cut_of_the_angle_is_everything() -> None:
    with precision():
        found = joint.atan2(iv.interval(-1.0, 1.0), iv.interval(-2.0, -1.0))
        assert found is not None and float(found[0]) <= -3.14159 and float(found[1]) >= 3.14159
