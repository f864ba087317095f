"""The figures of a border, each from one pass over flat arrays: activations as they are, E and bounds in float64.

As a chain of whole-array operations these passes were a third of the time of a comparison.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch

from interval_ops.compiled import compiled as compiled
from interval_ops.compiled import inlined as inlined

Array = np.ndarray[Any, Any]
SAMPLE = 4096
"""Elements, evenly spaced, that a median is taken of."""


def flat(x: torch.Tensor) -> Array:
    """The elements as numpy has them: in float32 where the type has fewer bits, integers in float64."""
    x = x.detach()
    if not x.is_floating_point():
        x = x.to(torch.float64)
    elif x.dtype not in (torch.float32, torch.float64):
        x = x.float()
    found: Array = x.contiguous().numpy().reshape(-1)
    return found


def stride(size: int) -> int:
    """From one element of a sample to the next."""
    return max(1, size // SAMPLE)


def some(x: Array) -> Array:
    return x[:: stride(x.size)]


BLOCK = 512
"""Elements whose largest is looked for only where one is larger than what was found before: this loop is vectorised."""


@inlined
def _gap(a: float, b: float) -> float:
    """0 for equal numbers and for two NaN, else |a - b|, which is NaN where one of them is."""
    return 0.0 if (a == b) | ((a != a) & (b != b)) else abs(a - b)


@compiled
def alike(y: Array, z: Array) -> bool:
    """Whether nothing differs, but for the sign of zero and of NaN."""
    for i in range(y.size):  # noqa: SIM110
        if _gap(np.float64(y[i]), np.float64(z[i])) != 0.0:
            return False
    return True


@compiled
def differences(y: Array, z: Array) -> tuple[int, float, float]:
    """(how many differ, the largest difference, the largest finite |z|); a NaN on one side differs without a size."""
    count, most, size = 0, 0.0, 0.0
    for start in range(0, y.size, BLOCK):
        one, two, larger = y[start : start + BLOCK], z[start : start + BLOCK], 0
        for i in range(one.size):
            b = np.float64(two[i])
            gap = _gap(np.float64(one[i]), b)
            count += gap != 0.0
            larger += bool((gap > most) | ((size < abs(b)) & (abs(b) < math.inf)))
        for i in range(one.size if larger else 0):
            b = np.float64(two[i])
            gap = _gap(np.float64(one[i]), b)
            most = gap if gap > most else most
            size = abs(b) if size < abs(b) < math.inf else size
    return count, most, size


@compiled
def apart(
    found: Array, exact: Array, moved: Array, scale: float, unit: float, least: float, other: Array
) -> tuple[float, int]:
    """The most that two functions differ, in units of scale * moved + unit * |E| + least, and where.

    `other`: above 1.
    """
    most, place = 0.0, 0
    for start in range(0, found.size, BLOCK):
        cut, larger = slice(start, start + BLOCK), 0
        f, e, m, beyond = found[cut], exact[cut], moved[cut], other[cut]
        for i in range(f.size):
            gap, room = _gap(f[i], e[i]), scale * m[i] + unit * abs(e[i]) + least
            beyond[i] = (gap != 0.0) & (not gap <= room)
            larger += beyond[i] | (gap > most * room) | (gap == math.inf)
        for i in range(f.size if larger else 0):
            gap = _gap(f[i], e[i])
            if gap != 0.0:
                ratio = gap / (scale * m[i] + unit * abs(e[i]) + least) if gap == gap else math.inf
                ratio = ratio if ratio == ratio else math.inf
                beyond[i] = ratio > 1.0
                if ratio > most:
                    most, place = ratio, start + i
    return most, place


class Etas(NamedTuple):
    """Largest error of each side in units of what explains it; elements where one is unstable and the other is not."""

    target: float
    reference: float
    bad: int
    weak: int
    nonfinite: int


Sides = tuple[Array, Array, Array, Array, Array, Array]


@compiled
def _largest(sides: Sides, units: tuple[float, float, float]) -> tuple[float, float]:
    scale, unit, floor = units
    first, second = 0.0, 0.0
    for start in range(0, sides[0].size, BLOCK):
        cut, larger = slice(start, start + BLOCK), 0
        ys, zs, es, ms, os, ss = (sides[0][cut], sides[1][cut], sides[2][cut], sides[3][cut], sides[4][cut],
                                  sides[5][cut])  # fmt: skip
        for i in range(ys.size):
            e, o = es[i], os[i]
            room, other = scale * ms[i] + unit * abs(e) + floor, scale * ss[i] + unit * abs(o) + floor
            t, r = abs(np.float64(ys[i]) - e), abs(np.float64(zs[i]) - o)
            larger += not ((t <= first * room) & (r <= second * other))  # NaN, too
        for i in range(ys.size if larger else 0):
            e, o = es[i], os[i]
            t, r = _gap(np.float64(ys[i]), e), _gap(np.float64(zs[i]), o)
            t, r = t if t == t else math.inf, r if r == r else math.inf
            room, other = scale * ms[i] + unit * abs(e) + floor, scale * ss[i] + unit * abs(o) + floor
            if t > first * room:  # the division, where it makes a difference
                first = max(first, t / room)
            if r > second * other:
                second = max(second, r / other)
    return first, second


@compiled
def _beyond(sides: Sides, units: tuple[float, float, float], limit: float) -> tuple[int, int, int]:
    scale, unit, floor = units
    ys, zs, es, ms, os, ss = sides
    bad, weak, nonfinite = 0, 0, 0
    for i in range(ys.size):
        a, b, e, o = np.float64(ys[i]), np.float64(zs[i]), es[i], os[i]
        t, r = _gap(a, e), _gap(b, o)
        t, r = t if t == t else math.inf, r if r == r else math.inf
        room, other = scale * ms[i] + unit * abs(e) + floor, scale * ss[i] + unit * abs(o) + floor
        bad += (t > limit * room) & (not r > limit * other)
        weak += (r > limit * other) & (not t > limit * room)
        nonfinite += (not abs(a) < math.inf) & (abs(b) < math.inf) & (abs(e) < math.inf)
    return bad, weak, nonfinite


def etas(
    y: Array, z: Array, exact: Array, moved: Array, own: Array, shift: Array, units: tuple[float, float, float],
    limit: float,
) -> Etas:  # fmt: skip
    """Errors of target y from E and of reference z from `own`, in units of scale * movement + unit * |E| + floor.

    Elements are counted where one is above `limit`.
    """
    sides = (y, z, exact, moved, own, shift)
    found = _largest(sides, units)
    return Etas(*found, *(_beyond(sides, units, limit) if max(found) > limit else (0, 0, 0)))


@compiled
def outside(y: Array, z: Array, lo: Array, hi: Array) -> tuple[int, int, int]:
    """(elements of y beyond a bound, those of z, elements whose bound is not finite on both sides, nor one infinity).

    An end that is NaN excludes nothing, and a NaN lies nowhere.
    """
    first, second, unbounded = 0, 0, 0
    for i in range(y.size):
        a, b, low, high = np.float64(y[i]), np.float64(z[i]), lo[i], hi[i]
        first += (a < low) | (a > high)
        second += (b < low) | (b > high)
        unbounded += (not (abs(low) < math.inf and abs(high) < math.inf)) & (low != high)
    return first, second, unbounded


class PartFigures(NamedTuple):
    """Of a part: `etas` of both sides from one E, elements of each beyond a bound, bounds that are not finite, and
    whether all that both sides have is."""

    target: float
    reference: float
    target_out: int
    reference_out: int
    unbounded: int
    finite: bool


@compiled
def _judged(
    sides: tuple[Array, Array, Array, Array], ends: tuple[Array, Array], units: tuple[float, float, float]
) -> tuple[float, float, int, int, int, int]:  # fmt: skip
    (ys, zs, es, ms), (lo, hi), (scale, unit, floor) = sides, ends, units
    first, second, beyond, other, unbounded, wrong = 0.0, 0.0, 0, 0, 0, 0
    for start in range(0, ys.size, BLOCK):
        cut, larger = slice(start, start + BLOCK), 0
        y, z, exact, moved, low, high = ys[cut], zs[cut], es[cut], ms[cut], lo[cut], hi[cut]
        for i in range(y.size):
            a, b, e, down, up = np.float64(y[i]), np.float64(z[i]), exact[i], low[i], high[i]
            room = scale * moved[i] + unit * abs(e) + floor
            larger += not ((abs(a - e) <= first * room) & (abs(b - e) <= second * room))  # NaN, too
            beyond += (a < down) | (a > up)
            other += (b < down) | (b > up)
            unbounded += (not (abs(down) < math.inf and abs(up) < math.inf)) & (down != up)
            wrong += (not abs(a) < math.inf) | (not abs(b) < math.inf)
        for i in range(y.size if larger else 0):
            e = exact[i]
            t, r, room = _gap(np.float64(y[i]), e), _gap(np.float64(z[i]), e), scale * moved[i] + unit * abs(e) + floor
            t, r = t if t == t else math.inf, r if r == r else math.inf
            if t > first * room:
                first = max(first, t / room)
            if r > second * room:
                second = max(second, r / room)
    return first, second, beyond, other, unbounded, wrong


def judged(
    y: Array, z: Array, exact: Array, moved: Array, ends: tuple[Array, Array], units: tuple[float, float, float]
) -> PartFigures:  # fmt: skip
    """`etas` of one E for both sides, `outside`, and whether all is finite, in one pass."""
    first, second, beyond, other, unbounded, wrong = _judged((y, z, exact, moved), ends, units)
    return PartFigures(first, second, beyond, other, unbounded, wrong == 0)


@compiled
def exact_outside(exact: Array, lo: Array, hi: Array, moved: Array, other: Array) -> int:
    """Exact values of another function beyond a bound, by more than float64's own error of them."""
    count = 0
    for i in range(exact.size):
        e = exact[i]
        if other[i] and abs(e) < math.inf:
            room = moved[i] * 2.0**-10 + 2.0**-50 * abs(e)
            count += (e + room < lo[i]) | (e - room > hi[i])
    return count


@inlined
def _is_hollow(a: float, b: float, size: float, moved: float, unit: float) -> bool:
    return (_gap(a, b) > 16 * unit * size) & (not moved < size / 2)


@compiled
def _hollow(y: Array, z: Array, exact: Array, moved: Array, unit: float, scale: float, out: Array) -> int:
    count = 0
    for start in range(0, y.size, BLOCK):
        cut, some = slice(start, start + BLOCK), 0
        a, b, e, m = y[cut], z[cut], exact[cut], moved[cut]
        for i in range(a.size):
            some += _is_hollow(np.float64(a[i]), np.float64(b[i]), abs(e[i]), m[i] * scale, unit)
        for i in range(a.size if some else 0):
            if _is_hollow(np.float64(a[i]), np.float64(b[i]), abs(e[i]), m[i] * scale, unit):
                out[count] = start + i
                count += 1
    return count


def hollow(y: Array, z: Array, exact: Array, moved: Array, unit: float, scale: float) -> Array:
    """Places where y and z are more than 16 roundings apart, and `scale` movements half as large as E."""
    found = np.empty(y.size, np.int64)
    return found[: _hollow(y, z, exact, moved, unit, scale, found)].copy()
