"""What one pass over a part of a leaf finds, from operands to figures, a few elements at a time."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from render.reference.figures import Array, compiled, inlined

SOME = 512
"""Elements whose E, movements and bounds stay in the first cache."""
Figured = tuple[int, int, int, int]


class Passed(NamedTuple):
    """Largest errors of the target, and of the reference from E of the target's operand and from its own; elements of
    each beyond the target's bound, bounds and results that are not finite; a sample: y, E, movement, bounds."""

    target: float
    reference: float
    own: float
    target_out: int
    reference_out: int
    unbounded: int
    finite: bool
    sample: Array


@inlined
def _gap(a: float, b: float) -> float:
    found = abs(a - b)
    return 0.0 if a == b else found if found == found else math.inf


@compiled
def figured(
    y: Array, z: Array, held: Array, ends: Array, units: tuple[float, float, float], most: Array
) -> tuple[int, int, int, int]:  # fmt: skip
    """(elements of y beyond their bounds, those of z, bounds that are not finite, what is not finite of both).

    `held`: E, the reference's own E, how far each moves; `ends`: lower and upper; `most`: largest errors so far, of y
    from E, of z from E and from its own.
    """
    scale, unit, floor = units
    first, second, third = most[0], most[1], most[2]
    exact, theirs, moved, shift, lo, hi = held[0], held[1], held[2], held[3], ends[0], ends[1]
    beyond, other, unbounded, wrong, larger = 0, 0, 0, 0, 0
    for i in range(y.size):
        a, b, e, f, down, up = np.float64(y[i]), np.float64(z[i]), exact[i], theirs[i], lo[i], hi[i]
        room, room_own = scale * moved[i] + unit * abs(e) + floor, scale * shift[i] + unit * abs(f) + floor
        larger += not ((abs(a - e) <= first * room) & (abs(b - e) <= second * room)
                       & (abs(b - f) <= third * room_own))  # fmt: skip
        beyond += (a < down) | (a > up)
        other += (b < down) | (b > up)
        unbounded += (not (abs(down) < math.inf and abs(up) < math.inf)) & (down != up)
        wrong += (not abs(a) < math.inf) | (not abs(b) < math.inf)
    for i in range(y.size if larger else 0):
        a, b, e, f = np.float64(y[i]), np.float64(z[i]), exact[i], theirs[i]
        room, room_own = scale * moved[i] + unit * abs(e) + floor, scale * shift[i] + unit * abs(f) + floor
        if _gap(a, e) > first * room:
            first = _gap(a, e) / room
        if _gap(b, e) > second * room:
            second = _gap(b, e) / room
        if _gap(b, f) > third * room_own:
            third = _gap(b, f) / room_own
    most[0], most[1], most[2] = first, second, third
    return beyond, other, unbounded, wrong


@compiled
def sampled(y: Array, held: Array, ends: Array, begin: int, step: int, sample: Array) -> None:
    """Every `step`th element, where these begin at `begin` of all."""
    for place in range(-(-begin // step), -(-(begin + y.size) // step)):
        i = place * step - begin
        sample[0, place], sample[1, place], sample[2, place] = y[i], held[0, i], held[2, i]
        sample[3, place], sample[4, place] = ends[0, i], ends[1, i]


__all__ = ["SOME", "Passed", "figured", "sampled"]
