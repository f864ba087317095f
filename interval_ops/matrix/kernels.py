"""Matrix products in float64 and those of magnitudes in float32, some of k at a time, from operands in float32."""

from __future__ import annotations

from typing import Any

import numpy as np

from interval_ops.compiled import compiled
from interval_ops.matrix.tile import DOUBLES, ROWS, SINGLES, SQUARE, tile32, tile64, turned

Array = np.ndarray[Any, Any]
DEPTH = 192
"""Of k at once: the panels of both operands then lie in the caches."""


@compiled
def _left(x: Array, cut: tuple[int, int], wide: Array, sizes: Array) -> None:
    """Columns of a matrix as they are and as magnitudes; rows of zeros to the end of a tile."""
    for row in range(wide.shape[0]):
        one, two = wide[row], sizes[row]
        if row < x.shape[0]:
            given = x[row, cut[0] : cut[1]]
            for k in range(given.size):
                one[k] = given[k]
                two[k] = abs(given[k])
        else:
            one[:] = 0.0
            two[:] = 0.0


@compiled
def _right(w: Array, cut: tuple[int, int], out: Array) -> None:
    """Columns of a matrix as panels (panel, k, `SINGLES` rows), zeros behind the last row."""
    total, depth = w.shape[1], cut[1] - cut[0]
    squares = depth // SQUARE * SQUARE
    for panel in range(out.shape[0]):
        here = min(SINGLES, w.shape[0] - panel * SINGLES)
        rows = w[panel * SINGLES : panel * SINGLES + here]
        whole = here // SQUARE * SQUARE
        for r in range(0, whole, SQUARE):
            for k in range(0, squares, SQUARE):
                turned(rows[r:, cut[0] + k :].ctypes.data, total, out[panel, k:, r:].ctypes.data, SINGLES)
        for k in range(depth):
            line = out[panel, k]
            for r in range(whole if k < squares else 0, here):
                line[r] = rows[r, cut[0] + k]
            line[here:] = 0.0


@compiled
def _multiply(
    left: tuple[Array, Array], right: Array, starts: Array, shifts: Array, depth: int, products: Array, sums: Array,
) -> None:  # fmt: skip
    """products += left[0] B, sums += left[1] |B|; each `SINGLES` columns of B begin at `starts` of `right`.

    Without sums, which are then empty, the products alone.
    """
    (m, n), b, shift = products.shape, right.ctypes.data, shifts.ctypes.data
    edge, edge32 = np.empty((ROWS, DOUBLES)), np.empty((ROWS, SINGLES), np.float32)
    for panel in range(starts.size):
        for half in range(2):
            at = panel * SINGLES + half * DOUBLES
            columns = min(DOUBLES, n - at)
            for i in range(0, m if columns > 0 else 0, ROWS):
                rows = min(ROWS, m - i)
                a, start = left[0][i:].ctypes.data, b + 4 * (starts[panel] + half * DOUBLES)
                if rows == ROWS and columns == DOUBLES:
                    tile64(a, start, products[i:, at:].ctypes.data, depth, shift, left[0].shape[1], n)
                else:
                    edge[:] = 0.0
                    tile64(a, start, edge.ctypes.data, depth, shift, left[0].shape[1], DOUBLES)
                    products[i : i + rows, at : at + columns] += edge[:rows, :columns]
        at, start = panel * SINGLES, b + 4 * starts[panel]
        columns = min(SINGLES, n - at)
        for i in range(0, m if sums.size else 0, ROWS):
            rows, a = min(ROWS, m - i), left[1][i:].ctypes.data
            if rows == ROWS and columns == SINGLES:
                tile32(a, start, sums[i:, at:].ctypes.data, depth, shift, left[1].shape[1], n)
            else:
                edge32[:] = 0.0
                tile32(a, start, edge32.ctypes.data, depth, shift, left[1].shape[1], SINGLES)
                sums[i : i + rows, at : at + columns] += edge32[:rows, :columns]


@compiled
def of_rows(x: Array, w: Array, products: Array, sums: Array) -> None:
    """products += x w', sums += |x| |w|', of rows of float32."""
    (m, total), most = x.shape, min(x.shape[1], DEPTH)
    padded, panels = -(-m // ROWS) * ROWS, -(-w.shape[0] // SINGLES)
    left = np.empty((padded, most)), np.empty((padded, most), np.float32)
    right = np.empty((panels, most, SINGLES), np.float32)
    starts, shifts = np.arange(panels) * (most * SINGLES), np.arange(most) * SINGLES
    for k in range(0, total, DEPTH):
        cut = (k, min(k + DEPTH, total))
        _left(x, cut, left[0], left[1])
        _right(w, cut, right)
        _multiply(left, right, starts, shifts, cut[1] - k, products, sums)


@compiled
def of_shifts(w: Array, flat: Array, shifts: Array, products: Array, sums: Array) -> None:
    """products[o, p] += sum over k of w[o, k] flat[p + shifts[k]], sums those of magnitudes.

    `flat` is read up to the end of a panel behind the last column.
    """
    (m, total), most = w.shape, min(w.shape[1], DEPTH)
    padded, panels = -(-m // ROWS) * ROWS, -(-products.shape[1] // SINGLES)
    left = np.empty((padded, most)), np.empty((padded, most), np.float32)
    starts = np.arange(panels) * SINGLES
    for k in range(0, total, DEPTH):
        cut = (k, min(k + DEPTH, total))
        _left(w, cut, left[0], left[1])
        _multiply(left, flat, starts, shifts[k:], cut[1] - k, products, sums)
