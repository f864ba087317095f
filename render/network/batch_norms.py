"""Batch norms by statistics that both sides have, in one pass over their operands and results.

E, how far it moves, bounds and figures by the rules that other leaves follow one after the other (`carry_given`,
`around_boxes`), on so many elements that what stands between stays in the first cache.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from render.interpreter.hosted import channels
from render.reference.figures import Array, compiled
from render.reference.normalised import OWN, Off, carry_given

SOME = 512


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


@dataclass(frozen=True)
class ChannelSides:
    """Of each channel: mean, factor and bias with their movements, and what bounds need."""

    mean: Off
    factor: Off
    bias: Off
    bounds: channels.Sides

    def passed(self, rows: tuple[Array, ...], rates: tuple[float, float], units: tuple[float, float, float],
               step: int) -> Passed:  # fmt: skip
        """`rows`: x, the reference's x, y and z in float32, a row for each channel. `rates`: movement of x, roundoff of
        float64. A sample holds every `step`th element."""
        sample = np.empty((5, -(-rows[0].size // step)))
        three = (self.mean, self.factor, self.bias)
        found = _passed(rows, three, self.bounds, (rates[0], OWN * rates[1], *units), step, sample)
        return Passed(found[0], found[1], found[2], found[3], found[4], found[5], found[6] == 0, sample)


@compiled
def _gap(a: float, b: float) -> float:
    found = abs(a - b)
    return 0.0 if a == b else found if found == found else math.inf


@compiled
def _passed(
    rows: Any, three: Any, bounds: Any, rates: tuple[float, float, float, float, float], step: int, sample: Array
) -> tuple[float, float, float, int, int, int, int]:  # fmt: skip
    (xs, rs, ys, zs), (means, factors, biases), (moves, own, scale, unit, floor) = rows, three, rates
    first, second, third, beyond, other, unbounded, wrong = 0.0, 0.0, 0.0, 0, 0, 0, 0
    held = np.empty((5, SOME))
    wide, off, moved, exact, theirs = held[0], held[1], held[2], held[3], held[4]
    lo, hi, out = np.empty((1, SOME)), np.empty((1, SOME)), np.empty((2, 1, SOME))
    count = xs.shape[1]
    for c in range(xs.shape[0]):
        at = slice(c, c + 1)
        factor = factors[0][c]
        shift = biases[0][c] - means[0][c] * factor
        sides = (bounds[0][at], bounds[1][at], bounds[2][at], bounds[3][at], bounds[4][at])
        mean, slope, bias = (
            (means[0][at], means[1][at]),
            (factors[0][at], factors[1][at]),
            (biases[0][at], biases[1][at]),
        )
        for start in range(0, count, SOME):
            n = min(SOME, count - start)
            x, r, y, z = (xs[c, start : start + n], rs[c, start : start + n], ys[c, start : start + n],
                          zs[c, start : start + n])  # fmt: skip
            for i in range(n):
                a, b = np.float64(x[i]), np.float64(r[i])
                wide[i], off[i], lo[0, i], hi[0, i] = a, abs(a) * moves, min(a, b), max(a, b)
                exact[i], theirs[i] = a * factor + shift, b * factor + shift
            sound = carry_given((wide[:n], off[:n]), mean, slope, bias, 1, 1, own, moved[:n])
            channels.around_boxes((lo[:, :n], hi[:, :n]), sides, out[:, :, :n])
            wrong += not sound
            larger = 0
            for i in range(n):
                a, b, e, f, down, up = (
                    np.float64(y[i]),
                    np.float64(z[i]),
                    exact[i],
                    theirs[i],
                    out[0, 0, i],
                    out[1, 0, i],
                )
                moved[i] = np.float64(np.float32(moved[i]))
                room, room_own = scale * moved[i] + unit * abs(e) + floor, scale * moved[i] + unit * abs(f) + floor
                larger += not ((abs(a - e) <= first * room) & (abs(b - e) <= second * room)
                               & (abs(b - f) <= third * room_own))  # fmt: skip
                beyond += (a < down) | (a > up)
                other += (b < down) | (b > up)
                unbounded += (not (abs(down) < math.inf and abs(up) < math.inf)) & (down != up)
                wrong += (not abs(a) < math.inf) | (not abs(b) < math.inf)
            for i in range(n if larger else 0):
                a, b, e, f = np.float64(y[i]), np.float64(z[i]), exact[i], theirs[i]
                room, room_own = scale * moved[i] + unit * abs(e) + floor, scale * moved[i] + unit * abs(f) + floor
                if _gap(a, e) > first * room:
                    first = _gap(a, e) / room
                if _gap(b, e) > second * room:
                    second = _gap(b, e) / room
                if _gap(b, f) > third * room_own:
                    third = _gap(b, f) / room_own
            begin = c * count + start
            for place in range(-(-begin // step), -(-(begin + n) // step)):
                i = place * step - begin
                sample[0, place], sample[1, place], sample[2, place] = y[i], exact[i], moved[i]
                sample[3, place], sample[4, place] = out[0, 0, i], out[1, 0, i]
    return first, second, third, beyond, other, unbounded, wrong


__all__ = ["ChannelSides", "Passed"]
