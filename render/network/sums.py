"""Sums of two tensors between borders in one pass, from both sides' operands to figures: residual sums above all.

E, movement and bounds by the rules that other regions follow one after the other: `passes.carry_two`, `arithmetic.add`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from render.interpreter.hosted.sum_boxes import around_sums
from render.network.passed import SOME, Passed, figured, sampled
from render.reference.figures import Array, compiled

Operands = tuple[Array, Array]


def passed(own: Operands, other: Operands, results: Operands, sign: float, rates: tuple[float, float, float],
           units: tuple[float, float, float], gate: Any, step: int) -> Passed:  # fmt: skip
    """x + sign y of both sides in float32. `rates`: movement of an operand, roundoff and floor of E; `gate`: of the
    target's rounding; a sample holds every `step`th element."""
    size = results[0].size
    sample, most = np.empty((5, -(-size // step))), np.zeros(3)
    found = _passed(own, other, results, sign, rates, units, gate, step, sample, most)
    return Passed(most[0], most[1], most[2], found[0], found[1], found[2], found[3] == 0, sample)


@compiled
def _passed(own: Any, other: Any, results: Any, sign: float, rates: Any, units: Any, gate: Any, step: int,
            sample: Array, most: Array) -> tuple[int, int, int, int]:  # fmt: skip
    held, sides, ends = np.empty((4, SOME)), np.empty((4, SOME)), np.empty((2, SOME))
    beyond, outside, unbounded, wrong = 0, 0, 0, 0
    swapped = int(sign < 0)
    for start in range(0, results[0].size, SOME):
        cut = slice(start, start + SOME)
        x, y, p, q, one, two = own[0][cut], own[1][cut], other[0][cut], other[1][cut], results[0][cut], results[1][cut]
        n = x.size
        for i in range(n):
            a, b, c, d = np.float64(x[i]), np.float64(y[i]), np.float64(p[i]), np.float64(q[i])
            e, f = a + sign * b, c + sign * d
            held[0, i], held[1, i] = e, f
            # as `of_reference` hands it on: in float32
            moved = rates[0] * abs(a) + rates[0] * abs(b) + (rates[1] * abs(e) + rates[2])
            shift = rates[0] * abs(c) + rates[0] * abs(d) + (rates[1] * abs(f) + rates[2])
            held[2, i], held[3, i] = np.float32(moved), np.float32(shift)
            sides[0, i], sides[1, i] = min(a, c), max(a, c)
            sides[2 + swapped, i], sides[3 - swapped, i] = min(b, d), max(b, d)
        around_sums(sides[0, :n], sides[1, :n], sides[2, :n], sides[3, :n], ends[0, :n], ends[1, :n], sign, gate)
        found = figured(one, two, held, ends, units, most)
        beyond, outside = beyond + found[0], outside + found[1]
        unbounded, wrong = unbounded + found[2], wrong + found[3]
        sampled(one, held, ends, start, step, sample)
    return beyond, outside, unbounded, wrong


__all__ = ["passed"]
