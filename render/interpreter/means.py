r"""Combine functions of one value that are associative and grow: a bound for every tree.

    shifts    f(a + c, b + c) = f(a, b) + c, as log(e^a + e^b)           an error is absolute
    scales    f(c a, c b) = c f(a, b), as sqrt(a^2 + b^2), 1 / (1/a + 1/b)   an error is relative
    free      neither, as (a + b) / (1 + a b), 1.01 a b                  relative where all is positive, else absolute

If f grows in both operands, errors of these do no more than the larger of them does in the first two kinds:
df/da + df/db = 1, and a f_a + b f_b = f (Euler). So after n - 1 steps the error is at most that of n - 1 single ones,
in every tree. In the third kind the error of one node reaches the root through f(f(l, v), r), for the tree around it
may be grouped so: it grows by at most the largest f_b f_a. (The nodes' roundings are put in one after the other, from
the leaves on; between two of these trees one node has moved by its own error.)

What kind f is follows from its formula (`mean_forms`). That it grows is shown by derivatives over boxes (`gain_of`),
which cover all values that a tree may meet: those of k elements lie between f of k copies of the least and of the
largest of them. The error of one step is the largest over the same boxes, with the target's functions; of narrow types,
with the casts that the formula makes.

Padding is apart (`_idle`): elements that are all one number e (-inf, 0, -1e30, the largest number) so that f(e, x) is x
but for a known error. What is made of them alone stays as far away; a step that takes one of them is a step.

That trees agree without rounding does not follow from such a formula, as (a + b) / 2 shows, nor from elements, which
may all be equal: it is tried with numbers that lie apart (`_regroups`). The caller has tried it with the elements.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from interval_ops.bounds import Pair
from interval_ops.formats.model import Format
from interval_ops.profiles.profile import Profile
from render.interpreter.mean_forms import Mean, Motion
from render.interpreter.mean_growth import BESIDE, CELLS, LINE, Reach, folded, gain_of, largest, step_error
from render.interpreter.mean_steps import ExactNumbers, Slopes, StepErrors, errors_in

LONGEST = 1 << 14
APART = np.array([0.0, 0.21, 0.57, 1.0])
"""Where in a range numbers lie with which groupings are tried."""
NARROW = 2.0**-36
"""What such a trial may be off by, of itself and of 1."""
ROOMS = (2.0**-8, 2.0**-5, 2.0**-2)
"""What errors may take, of the range of all values or of each: the first that is enough."""


class _Idle(NamedTuple):
    """What is made of padding alone, and how far a step with it moves the other operand."""

    low: float
    high: float
    step: float


def along(found: Mean, pair: Pair, axis: int, reverse: bool, fmt: Format, profile: Profile) -> Pair | None:
    """Bounds of every prefix along an axis, for every tree; None where f is not seen to grow, or says too little.

    The result of the whole is the last prefix.
    """
    lo, hi = (np.moveaxis(np.asarray(end, np.float64), axis, 0) for end in pair)
    first = (lo[-1], hi[-1]) if reverse else (lo[0], hi[0])
    if found.even:
        low = np.where((lo <= 0) & (hi >= 0), 0.0, np.minimum(np.abs(lo), np.abs(hi)))
        lo, hi = low, np.maximum(np.abs(lo), np.abs(hi))
    if reverse:
        lo, hi = lo[::-1], hi[::-1]
    if not 2 <= len(lo) <= LONGEST or np.isnan(lo + hi).any():
        return None
    with np.errstate(all="ignore"):
        made = next((m for e in _paddings(lo, hi) if (m := _bounds(found, (lo, hi), e, fmt, profile))), None)
    if made is None:
        return None
    low, high = made
    low[0], high[0] = first
    if reverse:
        low, high = low[::-1], high[::-1]
    return np.moveaxis(low, 0, axis), np.moveaxis(high, 0, axis)


def _paddings(lo: np.ndarray, hi: np.ndarray) -> Iterator[tuple[float, float] | None]:
    """None, and what the least or the largest elements are: a number, or a literal and its rounding."""
    yield None
    for at in (int(np.argmin(lo)), int(np.argmax(hi))):
        e = float(lo.flat[at]), float(hi.flat[at])
        if (lo != e[0]).any():
            yield e


def _bounds(found: Mean, pair: Pair, padding: tuple[float, float] | None, fmt: Format, profile: Profile) -> Pair | None:
    (lo, hi), n = pair, len(pair[0])
    idle = np.zeros(lo.shape, bool) if padding is None else (lo == padding[0]) & (hi == padding[1])
    least, most = float(lo[~idle].min()), float(hi[~idle].max())
    errors = errors_in(fmt, profile)
    if errors is None or not (math.isfinite(least) and math.isfinite(most)):
        return None
    box = None if padding is None else _of_itself(found, padding, n, errors)
    reach = None if padding and not box else _reach(found, least, most, n)
    if reach is None or not _regroups(found, reach):
        return None
    for share in ROOMS:
        wide = reach.wider(share)
        step = step_error(found, wide, errors)
        if step is None or (n - 1) * step > wide.room or (gain := gain_of(found, wide)) is None:
            continue
        alone = None if box is None else _idle(found, box, wide, errors)
        if box is not None and alone is None:
            return None
        grown = _grown(max(step, alone.step if alone else 0.0), gain, np.arange(n), wide.relative)
        if grown[-1] <= wide.room:
            return _around(found, pair, (idle, alone), grown, wide.relative, fmt)
    return None


def _grown(step: float, gain: float, steps: np.ndarray, relative: bool) -> np.ndarray:
    """The error of so many steps."""
    if relative and step >= 1:
        return np.full(steps.shape, np.inf)
    grown = np.expm1(-gain * np.log1p(-step) * steps) if relative else gain * step * steps
    return np.asarray(grown * (1 + 2 * BESIDE) ** len(steps))


def _around(
    found: Mean, pair: Pair, padding: tuple[np.ndarray, _Idle | None], grown: np.ndarray, relative: bool, fmt: Format
) -> Pair | None:
    """The ends of exact prefixes, with this error; prefixes of padding are that."""
    idle, alone = padding
    low, high = (np.stack(list(folded(found, x, idle, end))) for end, x in enumerate(pair))
    error = grown.reshape(-1, *(1,) * (low.ndim - 1)) * (np.maximum(np.abs(low), np.abs(high)) if relative else 1.0)
    error = error + BESIDE * len(low) * float(np.max(pair[1] - pair[0], where=~idle, initial=0.0))
    low, high = np.nextafter(low - error, -np.inf), np.nextafter(high + error, np.inf)
    if alone is not None:
        nothing = np.logical_and.accumulate(idle, axis=0)
        low, high = np.where(nothing, alone.low, low), np.where(nothing, alone.high, high)
        idle = nothing
    if np.isnan(low + high).any() or np.max(np.abs([low, high]), initial=0.0, where=~idle) >= fmt.max:
        return None
    return low, high


def _reach(found: Mean, least: float, most: float, n: int) -> Reach | None:
    """f of up to n copies of the least and of the largest element."""
    ends = []
    for end, x in enumerate((least, most)):
        copies = np.full((n, 1), x)
        ends += list(folded(found, copies, np.zeros(copies.shape, bool), end))
    low, high = float(np.min(ends)), float(np.max(ends))
    if not (math.isfinite(low) and math.isfinite(high)) or (found.kind is Motion.SCALES and low <= 0):
        return None
    relative, beside = found.kind is Motion.SCALES or (found.kind is Motion.FREE and low > 0), n * BESIDE
    beside *= math.log(high / low) if relative else high - low  # derivatives may be as far below 0 as `gain_of` sees
    return (
        Reach(low * (1 - beside), high * (1 + beside), True) if relative else Reach(low - beside, high + beside, False)
    )


def _regroups(found: Mean, reach: Reach) -> bool:
    """Whether three numbers give the same in each grouping and order, near to each other and as far as values are."""
    exact, (low, high) = ExactNumbers(), reach[:2]
    near = {
        Motion.SHIFTS: 1.0,
        Motion.SCALES: math.e,
        Motion.FREE: (high / low) ** 0.125 if reach.relative else (high - low) / 8,
    }
    for span in (near[found.kind], high / low if reach.relative else high - low):
        points = low * span**APART if reach.relative else low + span * APART
        a, b, c = (exact.point(x.ravel()) for x in np.meshgrid(points, points, points))
        first, swapped = (found.formula(exact, *pair) for pair in ((a, b), (b, a)))
        made = (found.formula(exact, first, c), found.formula(exact, a, found.formula(exact, b, c)),
                found.formula(exact, swapped, c))  # fmt: skip
        lows, highs = (np.stack([x.pair[end] for x in made]) for end in (0, 1))
        meet = lows.max(0) <= highs.min(0)
        narrow = (highs - lows).max(0) <= NARROW * (np.abs(highs).max(0) + (not reach.relative))
        if not (meet & narrow).all():
            return False
    return True


# --- padding ------------------------------------------------------------------------------------------------------


def _idle(found: Mean, box: tuple[float, float], reach: Reach, errors: StepErrors) -> _Idle | None:
    """What is made of padding alone, and the error of a step that takes it and a value; None where that is no value
    left as it is."""
    below, above = reach.cells(CELLS[1])
    own = (np.full(CELLS[1], box[0]), np.full(CELLS[1], box[1]))
    value = below, above
    steps = [largest(found, a, b, reach.relative, errors) for a, b in ((own, value), (value, own))]
    moved = max(_moved(found, box, way, reach) for way in (0, 1))
    if None in steps or not moved < 1:
        return None
    step = max(s for s in steps if s is not None)
    # twice: the padding itself may be the literal or its rounding
    return _Idle(*box, step + 2 * moved * (1 + (step if reach.relative else 0.0)))


def _number(e: tuple[float, float], fmt: Format) -> float | None:
    """The one number of the format that is there."""
    if e[0] == e[1]:
        return e[0]
    spacing = _spacing(e[0], fmt)
    number = math.ceil(e[0] / spacing) * spacing
    return number if number <= e[1] and e[1] - e[0] < spacing else None


def _of_itself(found: Mean, pair: tuple[float, float], n: int, errors: StepErrors) -> tuple[float, float] | None:
    """What steps make of padding: itself, or near it by less than a quarter of it."""
    e = _number(pair, errors.fmt)
    if e is None:
        return None
    one = found.formula(errors, errors.of((np.full(1, e),) * 2), errors.of((np.full(1, e),) * 2))
    if one.lo[0] == one.hi[0] == e and one.error[0] == 0:
        return e, e
    if not math.isfinite(e) or found.kind is Motion.FREE:
        return None
    plain = np.zeros((n, 1), bool)
    ends = [y for end, x in enumerate(pair) for y in folded(found, np.full((n, 1), x), plain, end)]
    low, high = float(np.min(ends)), float(np.max(ends))
    if max(abs(one.lo[0] - e), abs(one.hi[0] - e)) + one.error[0] < _spacing(e, errors.fmt):
        return low, high  # no other number of the format is as near: every step gives e again
    if found.kind is Motion.SHIFTS or low <= 0:
        return None
    near = Reach(low, high, True, ROOMS[-1])
    step, gain = step_error(found, near, errors), gain_of(found, near)
    if step is None or gain is None or not _grown(step, gain, np.arange(n), True)[-1] <= near.room:
        return None
    return near.ends


def _spacing(e: float, fmt: Format) -> float:
    """To the nearest other number of the format."""
    fraction, exponent = math.frexp(e)
    return math.ldexp(0.5 if abs(fraction) == 0.5 else 1.0, exponent - fmt.p)


def _moved(found: Mean, box: tuple[float, float], way: int, reach: Reach) -> float:
    """How far f of padding and a value is from the value, without rounding; `way`: which of the operands it is."""
    formula = found.ordered[int((box[0] > reach.high) == way)] if found.kind is not Motion.FREE else found.formula
    low, high = reach.ends
    if found.kind is Motion.SHIFTS:
        own, value = (np.array([box[0] - high]), np.array([box[1] - low])), np.zeros(1)
    elif found.kind is Motion.SCALES:
        own, value = (np.array([box[0] / high]), np.array([box[1] / low])), np.ones(1)
    else:
        return _moved_anyhow(found, box, way, reach)
    exact = ExactNumbers()
    pairs = [exact.of(own), exact.point(value)]
    (least,), (most,) = formula(exact, *(pairs if way == 0 else pairs[::-1])).pair
    off = max(abs(least - value[0]), abs(most - value[0]))
    return float(off) if math.isfinite(off) else math.inf


def _moved_anyhow(found: Mean, box: tuple[float, float], way: int, reach: Reach) -> float:
    """By the mean value: at the middle of each cell, and what the derivative beside 1 makes of its width."""
    below, above = reach.cells(LINE)
    middle = (below + above) / 2
    slopes, exact = Slopes(), ExactNumbers()
    own = (np.full(LINE, box[0]), np.full(LINE, box[1]))
    wide, point = ((own, x) if way == 0 else (x, own) for x in ((below, above), (middle, middle)))
    slope = found.formula(slopes, *slopes.operands(*wide)).by[1 - way].pair
    value = found.formula(exact, exact.of(point[0]), exact.of(point[1])).pair
    off = np.maximum(np.abs(value[0] - middle), np.abs(value[1] - middle))
    off = off + np.maximum(np.abs(slope[0] - 1), np.abs(slope[1] - 1)) * (above - below)
    worst = float(np.max(off / np.minimum(np.abs(below), np.abs(above)) if reach.relative else off))
    return worst if math.isfinite(worst) else math.inf
