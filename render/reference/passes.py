"""Errors of whole arrays in one pass each: as torch operations they take most of the time of a large reference."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch

from interval_ops.compiled import compiled, inlined
from render.reference.twins import extent

F64 = torch.float64
LEAST = 745.0
"""Of the logarithm of what float64 holds."""


class Broadcast(NamedTuple):
    """A tensor that is broadcast to a shape whose last axis is a row: the steps from row to row and within one."""

    numbers: np.ndarray
    down: int
    along: int


def rows(x: torch.Tensor | float, shape: torch.Size) -> Broadcast | None:
    """None where no two steps tell."""
    if not isinstance(x, torch.Tensor):
        return Broadcast(np.array([x]), 0, 0)
    if x.dtype != F64 or not fits(x, shape):
        return None
    x = x.detach().expand(shape)
    *outer, last = [*zip(x.shape, x.stride(), strict=True)] or [(1, 0)]
    step = next((s for n, s in reversed(outer) if n > 1), 0)
    reach = step
    for n, s in reversed(outer):
        if n > 1 and s != reach:
            return None
        reach *= n
    within = last[1] if last[0] > 1 else 0
    return Broadcast(torch.as_strided(x, (extent(x),), (1,), x.storage_offset()).numpy(), step, within)


def flat(x: torch.Tensor) -> np.ndarray:
    return x.detach().view(-1).numpy()


@compiled
def carry_two(value, width, a, b, e, f, rounding, product, out):  # type: ignore[no-untyped-def]
    # `rounding`: (u, floor). False: something is not finite, and a pass of its own has to look. An infinite operand of
    # a sum, as a mask makes, stays where it is and has no error.
    for row in range(out.size // max(width, 1)):
        i, k, n, q, first = row * a.down, row * b.down, row * e.down, row * f.down, row * width
        for col in range(width):
            x, y = abs(a.numbers[i + col * a.along]), abs(b.numbers[k + col * b.along])
            g, h, v = e.numbers[n + col * e.along], f.numbers[q + col * f.along], abs(value[first + col])
            moved = y * g + x * h if product else g + h
            if not (moved < np.inf and v < np.inf):
                if product or not (moved < np.inf and v == np.inf and (x == np.inf or y == np.inf)):
                    return False
                out[first + col] = 0.0
                continue
            out[first + col] = moved + (rounding[0] * v + rounding[1])
    return True


@compiled
def carry_extreme(x, error, value, step, sign, out):  # type: ignore[no-untyped-def]
    # Rows of x, of which `value` is the largest (sign 1) or smallest (-1): how far that moves when all of a row move by
    # step times their errors, either way, over the step. False: there is a NaN.
    width = x.size // max(out.size, 1)
    for row in range(out.size):
        up, down = -np.inf, -np.inf
        for k in range(row * width, row * width + width):
            a, e = sign * x[k], step * error[k]
            above, below = a + e, a - e
            if above != above or below != below:
                return False
            up, down = max(up, above), max(down, below)
        most, largest = sign * value[row], 0.0
        for end in (up, down):
            gap = abs(end - most)
            gap = 0.0 if end == most else gap / step if gap < np.inf else np.inf
            largest = max(largest, gap)
        out[row] = largest
    return True


@compiled
def carry_masked(error, masked, value, out):  # type: ignore[no-untyped-def]
    # The errors of what a mask leaves. False as in `carry_two`.
    for i in range(out.size):
        if masked[i]:
            out[i] = 0.0
            continue
        if not (abs(error[i]) < np.inf and abs(value[i]) < np.inf):
            return False
        out[i] = error[i]
    return True


SERIES = 2.0**-10
"""Of errors: up to here six terms of the series of exp are all of float64."""


@inlined
def _grown(z: float) -> float:
    """expm1 of at most `SERIES`."""
    return z * (1 + z / 2 * (1 + z / 3 * (1 + z / 4 * (1 + z / 5 * (1 + z / 6)))))


@compiled
def carry_softmax(y, x, error, rates, out):  # type: ignore[no-untyped-def]
    # Rows of y, the softmax of x: own y + y expm1(e_i - log1p(sum_j y_j expm1(-e_j))) + floor, with own = (steps +
    # |log y|) inner + u. An infinite x, as a mask makes, moves by nothing. False: an error is no small one.
    steps, inner, u, floor = rates
    for row in range(y.shape[0]):
        top, at, moved, most = -1.0, 0, 0.0, 0.0
        for i in range(y.shape[1]):
            e = error[row, i] if abs(x[row, i]) < np.inf else 0.0
            most = most if e <= most else e if e <= SERIES else np.inf
            moved += y[row, i] * _grown(-e)
            if y[row, i] > top:
                top, at = y[row, i], i
        if not (most <= SERIES and top > 0.0 and moved > -0.5):
            return False
        shift, whole = math.log(top) - x[row, at], math.log1p(moved)
        for i in range(y.shape[1]):
            finite = abs(x[row, i]) < np.inf
            depth = min(abs(x[row, i] + shift), LEAST) if finite else LEAST
            more = (error[row, i] if finite else 0.0) - whole
            out[row, i] = y[row, i] * ((steps + depth) * inner + _grown(more) + u) + floor
    return True


@compiled
def carry_sum(grown, sizes, value, per_term, u, floor, times, out):  # type: ignore[no-untyped-def]
    # False as above.
    for i in range(out.size):
        g, v = grown[i], abs(value[i])
        if not (g < np.inf and v < np.inf):
            return False
        out[i] = times * (per_term * g + (u * v + floor)) + max(g - sizes[i], 0.0)
    return True


@compiled
def gaps(moved: np.ndarray, value: np.ndarray, by: float, out: np.ndarray) -> None:
    # One pass: as torch operations this is most of the time that a large reference takes.
    for i in range(out.size):
        a, b = moved[i], value[i]
        gap = abs(a - b)
        gap = 0.0 if a == b or (a != a and b != b) else gap * by if gap < np.inf else np.inf
        out[i] = gap if gap > out[i] else out[i]


FIRST = 64
"""Elements that nearly always tell of all of them."""


def is_within(error: torch.Tensor, x: torch.Tensor, part: float) -> bool:
    """Whether every error is at most such a part of its number."""
    first, of = error, x
    while first.dim() > 1 and len(first):
        first, of = first[0], of[0]
    if first.dim() == 1 and bool((first[:FIRST] > part * of[:FIRST].abs()).any()):
        return False
    return bool((error <= part * x.abs()).all())


def fits(x: torch.Tensor, shape: torch.Size) -> bool:
    try:
        return bool(torch.broadcast_shapes(x.shape, shape) == shape)
    except RuntimeError:
        return False


def lost_in(x: torch.Tensor, back: torch.Tensor, u: float, floor: float) -> torch.Tensor | None:
    """u |x| + floor where a cast gave another number, 0 elsewhere; None if nothing did."""
    out = torch.empty(x.shape, dtype=F64)
    return out if cast(flat(x.contiguous()), flat(back.contiguous()), u, floor, flat(out)) else None


def lost_beside(x: torch.Tensor, back: torch.Tensor, error: torch.Tensor, u: float, floor: float) -> torch.Tensor:
    """u (|x| + error) + floor where a cast gave another number, and at most the error elsewhere."""
    out = torch.empty(torch.broadcast_shapes(x.shape, error.shape), dtype=F64)
    value, cut, moved = (flat(y.expand(out.shape).contiguous()) for y in (x, back, error.detach()))
    cast_beside(value, cut, moved, u, floor, flat(out))
    return out


@compiled
def cast_beside(value, back, error, u, floor, out):  # type: ignore[no-untyped-def]
    for i in range(out.size):
        rounding = u * (abs(value[i]) + error[i]) + floor
        out[i] = rounding if back[i] != value[i] or not rounding >= error[i] else error[i]


@compiled
def cast(value, back, u, floor, out):  # type: ignore[no-untyped-def]
    lost = False
    for i in range(out.size):
        differs = back[i] != value[i]
        out[i] = u * abs(value[i]) + floor if differs else 0.0
        lost = lost or differs
    return lost


def logarithm(y: torch.Tensor, x: torch.Tensor, dim: int) -> torch.Tensor:
    """|log y| of a softmax y of x, by one logarithm a row; at most that of the least float64."""
    most, at = y.max(dim, keepdim=True)
    found = torch.sub(x, x.gather(dim, at)).add_(most.log()).abs_()
    return found.nan_to_num_(LEAST, LEAST).clamp_(max=LEAST)
