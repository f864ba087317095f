"""The last step of the dot rule: sums of products, the addends and the target's rounding become bounds.

`close` takes sums that were evaluated as a whole; `close_near` takes them a few slices at a time, as the matrix
products leave them, and gives the same bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from interval_ops import threads
from interval_ops.bounds import Pair, is_point
from interval_ops.dot import kernels
from interval_ops.dot.kernels import Addends, Evaluated, Parameters, Peaks
from interval_ops.dot.sums import Array, Centred, DotSums
from interval_ops.reduction.grid import last_bits
from interval_ops.reduction.running import FEW


def close(sums: DotSums, addends: Sequence[Pair], parameters: Parameters, ramped: bool) -> Pair:
    """Adds the addends and the target's rounding to the sums."""
    lo, hi, tlo, thi = sums.lo, sums.hi, sums.tlo, sums.thi
    none = np.zeros((1,) * (lo.ndim - 2))
    shape = np.broadcast_shapes(lo.shape, *(c[0].shape for c in addends))
    kind, (less, more, weight, grid) = _addends(addends, lo)
    flats: dict[int, Array] = {}

    def flat(x: Array, drop: tuple[int, ...] = ()) -> Array:
        """All slices of x along one axis; `drop` names the axes of a result that x lacks. Shared arrays stay shared."""
        if id(x) not in flats:
            target = tuple(n for i, n in enumerate(shape) if i - len(shape) not in drop)
            tail = target[len(shape) - 2 :]
            flats[id(x)] = np.ascontiguousarray(np.broadcast_to(x, target)).reshape(-1, *tail)
        return flats[id(x)]

    out_lo, out_hi = np.empty(shape), np.empty(shape)
    nothing = flat(none, (-2, -1)).reshape(-1)
    kernels.finisher(_ramp(ramped, parameters), lo is not tlo, kind, False)(
        Evaluated(flat(lo), flat(hi), flat(tlo), flat(thi), flat(sums.mag), 1.0, nothing, nothing),
        Addends(*(flat(x) for x in (less, more, weight, grid))),
        Peaks(
            flat(sums.rows, (-1,)), flat(sums.columns, (-2,)), flat(sums.row_grid, (-1,)), flat(sums.column_grid, (-2,))
        ),
        parameters, (out_lo.reshape(-1, *shape[-2:]), out_hi.reshape(-1, *shape[-2:])),
    )  # fmt: skip
    return out_lo, out_hi


def close_near(
    shape: tuple[int, ...], spread: bool, runs: Sequence[Iterable[Centred | None]], addends: Sequence[Pair],
    parameters: Parameters, ramped: bool,
) -> Pair | None:  # fmt: skip
    """The same of sums of this shape, runs at once; None where a part has no such form or addends have more slices."""
    if np.broadcast_shapes(shape, *(c[0].shape for c in addends)) != shape:
        return None
    kind, extra = _addends(addends, np.empty(0))
    known: dict[int, Array] = {}
    if kind != kernels.NONE:
        alike = all(x.ndim < 2 or x.shape[-2] == 1 for x in extra)  # one row stands for all, as of a bias
        wide = (*shape[:-2], 1 if alike else shape[-2], shape[-1])
        known = {id(x): np.ascontiguousarray(np.broadcast_to(x, wide)).reshape(-1, *wide[-2:]) for x in extra if x.size}
    bounds = np.empty(shape), np.empty(shape)
    outs = [x.reshape(-1, *shape[-2:]) for x in bounds]

    def finish(run: Iterable[Centred | None]) -> bool:
        for part in run:
            if part is None:
                return False
            (lo, tlo), (hi, thi), at = part.centre, part.radius, part.at
            less, more, weight, grid = (known[id(x)][at] if id(x) in known else lo for x in extra)
            kernels.finisher(_ramp(ramped, parameters), lo is not tlo, kind, spread)(
                Evaluated(lo, hi, tlo, thi, part.mag, part.factor, part.tiny, part.underflow),
                Addends(less, more, weight, grid), Peaks(part.rows, part.columns, part.row_grid, part.column_grid),
                parameters, (outs[0][at], outs[1][at]),
            )  # fmt: skip
        return True

    done = threads.spread(lambda start, stop: all(finish(run) for run in runs[start:stop]), len(runs), threads.HEAVY)
    return bounds if all(done) else None


def _ramp(ramped: bool, parameters: Parameters) -> int:
    if not ramped:
        return kernels.FLAT
    return kernels.SHORT if parameters.blocks <= FEW else kernels.LONG


def _addends(addends: Sequence[Pair], unused: Array) -> tuple[int, tuple[Array, Array, Array, Array]]:
    """What `finish` reads of them: kind, sum of the lower ends, of the upper ends, of the magnitudes, common grid.

    `unused` stands where nothing is read.
    """
    if not addends:
        return kernels.NONE, (unused,) * 4
    wide = [tuple(np.asarray(x, np.float64) for x in pair) for pair in addends]
    if len(addends) == 1:
        low, high = wide[0]
        if is_point(addends[0]):
            return kernels.POINT, (low, low, unused, unused)
        return kernels.INTERVAL, (low, high, unused, unused)
    low, high, weight, grid = np.zeros(1), np.zeros(1), np.zeros(1), np.full(1, np.inf)
    for (less, more), given in zip(wide, addends, strict=True):
        low, high = low + less, high + more
        weight = weight + np.maximum(np.abs(less), np.abs(more))
        grid = np.minimum(grid, last_bits(less) if is_point(given) else 0.0)
    return kernels.SEVERAL, (low, high, weight, grid)
