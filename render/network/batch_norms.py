"""Batch norms by statistics that both sides have, in one pass over their operands and results.

E, how far it moves, bounds and figures by the rules that other leaves follow one after the other (`carry_given`,
`around_boxes`), on so many elements that what stands between stays in the first cache.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from render.interpreter.hosted import channels
from render.network.passed import SOME, Passed, figured, sampled
from render.reference.figures import Array, compiled
from render.reference.normalised import OWN, Off, carry_given


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
        sample, most = np.empty((5, -(-rows[0].size // step))), np.zeros(3)
        three = (self.mean, self.factor, self.bias)
        found = _passed(rows, three, self.bounds, (rates[0], OWN * rates[1], *units), step, sample, most)
        return Passed(most[0], most[1], most[2], found[0], found[1], found[2], found[3] == 0, sample)


@compiled
def _passed(
    rows: Any, three: Any, bounds: Any, rates: tuple[float, float, float, float, float], step: int, sample: Array,
    most: Array,
) -> tuple[int, int, int, int]:  # fmt: skip
    (xs, rs, ys, zs), (means, factors, biases), (moves, own, scale, unit, floor) = rows, three, rates
    beyond, other, unbounded, wrong, units = 0, 0, 0, 0, (scale, unit, floor)
    held, wide, off = np.empty((4, SOME)), np.empty(SOME), np.empty(SOME)
    lo, hi, out, ends = np.empty((1, SOME)), np.empty((1, SOME)), np.empty((2, 1, SOME)), np.empty((2, SOME))
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
            cut = slice(start, start + n)
            x, r, y, z = xs[c, cut], rs[c, cut], ys[c, cut], zs[c, cut]
            for i in range(n):
                a, b = np.float64(x[i]), np.float64(r[i])
                wide[i], off[i], lo[0, i], hi[0, i] = a, abs(a) * moves, min(a, b), max(a, b)
                held[0, i], held[1, i] = a * factor + shift, b * factor + shift
            sound = carry_given((wide[:n], off[:n]), mean, slope, bias, 1, 1, own, held[2, :n])
            channels.around_boxes((lo[:, :n], hi[:, :n]), sides, out[:, :, :n])
            wrong += not sound
            for i in range(n):
                moved = np.float64(np.float32(held[2, i]))
                held[2, i], held[3, i], ends[0, i], ends[1, i] = moved, moved, out[0, 0, i], out[1, 0, i]
            found = figured(y, z, held, ends, units, most)
            beyond, other = beyond + found[0], other + found[1]
            unbounded, wrong = unbounded + found[2], wrong + found[3]
            sampled(y, held, ends, c * count + start, step, sample)
    return beyond, other, unbounded, wrong


__all__ = ["ChannelSides"]
