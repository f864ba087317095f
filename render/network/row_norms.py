"""Layer norms that both sides have, in one pass over their operands and results, row by row.

E, how far it moves, bounds and figures by the rules that other leaves follow one after the other (`carry_rows`,
`around_affine`); what stands between is a row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from render.interpreter.hosted.normalising import around_affine
from render.interpreter.hosted.norms import RowSides
from render.network.operands import LANES
from render.network.passed import Passed, figured, sampled
from render.reference.figures import Array, compiled
from render.reference.normalised import carry_rows


@dataclass(frozen=True)
class RowNorm:
    """Weight and bias in float64, of no elements where there is none, and what bounds need."""

    weight: Array
    bias: Array
    bounds: RowSides

    def passed(self, rows: tuple[Array, ...], rates: tuple[float, float], units: tuple[float, float, float],
               step: int) -> Passed:  # fmt: skip
        """`rows`: x, the reference's x, y and z in float32. `rates`: movement of x, weight and bias, roundoff of
        float64. A sample holds every `step`th element."""
        sample, most = np.empty((5, -(-rows[0].size // step))), np.zeros(3)
        sides = self.weight, self.bias
        beyond, outside, unbounded, wrong = _passed(rows, self.bounds, sides, rates, units, step, sample, most)
        return Passed(most[0], most[1], most[2], beyond, outside, unbounded, wrong == 0, sample)


@compiled
def _normed(x: Array, weight: Array, bias: Array, eps: float, lanes: Array, out: Array) -> None:
    """One row in float64, mean and variance one after the other, in `LANES` sums beside each other."""
    lanes[:] = 0.0
    for start in range(0, x.size, LANES):
        part = x[start : start + LANES]
        for i in range(part.size):
            lanes[i] += part[i]
    mean = lanes.sum() / x.size
    lanes[:] = 0.0
    for start in range(0, x.size, LANES):
        part = x[start : start + LANES]
        for i in range(part.size):
            lanes[i] += (part[i] - mean) * (part[i] - mean)
    squares = lanes.sum()
    scale = 1.0 / math.sqrt(squares / x.size + eps)
    for i in range(x.size):
        out[i] = (x[i] - mean) * scale
    for i in range(weight.size):
        out[i] *= weight[i]
    for i in range(bias.size):
        out[i] += bias[i]


@compiled
def _passed(rows: Any, bounds: Any, sides: Any, rates: Any, units: Any, step: int, sample: Array,
            most: Array) -> tuple[int, int, int, int]:  # fmt: skip
    (xs, rs, ys, zs), (weight, bias), (moves, u) = rows, sides, rates
    (lows, highs), moments, slack, gate = bounds
    count, n = xs.shape
    wide, off, moved, factor, added = np.empty(n), np.empty(n), np.empty(n), np.ones(n), np.zeros(n)
    of_mean, of_scale, lanes = np.empty(1), np.empty(1), np.empty(LANES)
    held, between, out = np.empty((4, n)), np.empty((4, n)), np.empty((2, n))
    factor[: weight.size], added[: bias.size] = weight, bias
    off_factor, off_added = np.zeros(n), np.zeros(n)
    off_factor[: weight.size], off_added[: bias.size] = np.abs(weight) * moves, np.abs(bias) * moves
    beyond, outside, unbounded, wrong = 0, 0, 0, 0
    for r in range(count):
        for i in range(n):
            a = np.float64(xs[r, i])
            wide[i], off[i] = a, abs(a) * moves
        sound = carry_rows(
            (wide, off), (factor, off_factor), (added, off_added), slack[0], u, (moved, of_mean, of_scale)
        )
        _normed(wide, weight, bias, slack[0], lanes, held[0])
        for i in range(n):
            held[2, i] = held[3, i] = np.float64(np.float32(moved[i]))
            wide[i] = np.float64(rs[r, i])
        _normed(wide, weight, bias, slack[0], lanes, held[1])
        given = (moments[0, r], moments[1, r], moments[2, r], moments[3, r], moments[4, r], moments[5, r])
        around_affine(lows[r], highs[r], given, slack, weight, bias, gate, between, out)
        found = figured(ys[r], zs[r], held, out, units, most)
        beyond, outside, unbounded = beyond + found[0], outside + found[1], unbounded + found[2]
        wrong += found[3] + int(not sound)
        sampled(ys[r], held, out, r * n, step, sample)
    return beyond, outside, unbounded, wrong


__all__ = ["RowNorm"]
