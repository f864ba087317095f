"""A loop's turns, one after the other, where a turn adds and multiplies what the turn before left."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from interval_ops.arithmetic.kernels import (
    add_intervals,
    add_points,
    mul_intervals,
    mul_points,
    scale_intervals,
    square_intervals,
)
from interval_ops.compiled import compiled

ADD, SUB, MUL = 0, 1, 2


@compiled
def _value(code, x, y, out, single):  # type: ignore[no-untyped-def]
    """The value lane: rounded once, in single precision or double."""
    for i in range(out.size):
        if single:
            a, b = np.float32(x[i]), np.float32(y[i])
            c = a * b if code == MUL else (a + b if code == ADD else a - b)
            out[i] = np.float64(np.float32(c))
        else:
            out[i] = x[i] * y[i] if code == MUL else (x[i] + y[i] if code == ADD else x[i] - y[i])


@compiled
def _ends(code, x, y, lo, hi, point, out, gate):  # type: ignore[no-untyped-def]
    """The rules of `arithmetic.rule`, by what is a point; returns whether the result is one."""
    if code == MUL:
        if point[x] and point[y]:
            return mul_points(lo[x], lo[y], lo[out], hi[out], gate)
        if x == y:
            return square_intervals(lo[x], hi[x], lo[out], hi[out], gate)
        if point[y]:
            return scale_intervals(lo[x], hi[x], lo[y], lo[out], hi[out], gate)
        if point[x]:
            return scale_intervals(lo[y], hi[y], lo[x], lo[out], hi[out], gate)
        return mul_intervals(lo[x], hi[x], lo[y], hi[y], lo[out], hi[out], gate)
    sign = 1.0 if code == ADD else -1.0
    if point[x] and point[y]:
        return add_points(lo[x], lo[y], lo[out], hi[out], sign, gate)
    if code == ADD:
        return add_intervals(lo[x], hi[x], lo[y], hi[y], lo[out], hi[out], sign, gate)
    return add_intervals(lo[x], hi[x], hi[y], lo[y], lo[out], hi[out], sign, gate)


class TurnProgram(NamedTuple):
    """What each turn does: `steps` are (code, operand, operand, result) with the roundings `gates`, `moves` (from, to)
    what it leaves to the next, `kept` the registers whose values are wanted. `single`: in single precision. `never`: no
    result counts as a point, as in launches that leave out some roundings."""

    steps: np.ndarray
    gates: np.ndarray
    moves: np.ndarray
    kept: np.ndarray
    single: bool
    never: bool


class Registers(NamedTuple):
    """Values and ends (register, lane), and which registers hold points."""

    v: np.ndarray
    lo: np.ndarray
    hi: np.ndarray
    point: np.ndarray


@compiled
def walk(program: TurnProgram, given: np.ndarray, points: np.ndarray, registers: Registers, out: np.ndarray) -> None:
    """Runs all turns.

    `given` (operand, turn, 3, lane) are values and ends that a turn finds in its first registers, `points` says which
    of them are points; of the registers that are kept each turn's value and ends go to `out` (register, turn, 3, lane).
    """
    steps, gates, moves, kept, single, never = program
    v, lo, hi, point = registers
    lanes = v.shape[1]
    held, was_point = np.empty((len(moves), 3, lanes)), np.empty(len(moves), np.bool_)
    for turn in range(given.shape[1]):
        for k in range(given.shape[0]):
            v[k], lo[k], hi[k] = given[k, turn, 0], given[k, turn, 1], given[k, turn, 2]
            point[k] = points[k]
        for s in range(len(steps)):
            code, x, y, to = steps[s, 0], steps[s, 1], steps[s, 2], steps[s, 3]
            gate = (gates[s, 0], gates[s, 1], gates[s, 2], gates[s, 3])
            _value(code, v[x], v[y], v[to], single)
            point[to] = _ends(code, x, y, lo, hi, point, to, gate) and not never
            if point[to]:
                hi[to] = lo[to]
        for k in range(len(kept)):
            out[k, turn, 0], out[k, turn, 1], out[k, turn, 2] = v[kept[k]], lo[kept[k]], hi[kept[k]]
        for m in range(len(moves)):
            r = moves[m, 0]
            held[m, 0], held[m, 1], held[m, 2], was_point[m] = v[r], lo[r], hi[r], point[r]
        for m in range(len(moves)):
            r = moves[m, 1]
            v[r], lo[r], hi[r], point[r] = held[m, 0], held[m, 1], held[m, 2], was_point[m]
