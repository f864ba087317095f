"""Products of matrices and of windows of images in single precision: in float64, and of their magnitudes in float32.

Each element is one sum of K products, in some order: off by no more than gamma_K of the sum of magnitudes in float64,
and in float32 by gamma_K of itself and what K underflows lose (Higham, ASNA, sec. 3.1). Processors without the vectors
of `tile` use numpy's products, to which the same applies.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from interval_ops import threads
from interval_ops.matrix import kernels
from interval_ops.matrix.tile import ROWS, SINGLES, is_fast

Array = np.ndarray[Any, Any]
Two = tuple[int, int]
FAST = is_fast()
FEW = 2 * SINGLES
"""Columns that make so few panels leave much of them empty."""


def of_rows(x: Array, w: Array) -> tuple[Array, Array]:
    """(x w', |x| |w|') of rows of float32."""
    if not FAST or not x.shape[1]:
        return x.astype(np.float64) @ w.T.astype(np.float64), np.abs(x) @ np.abs(w).T
    found = np.zeros((len(x), len(w))), np.zeros((len(x), len(w)), np.float32)
    x, w = (np.ascontiguousarray(t) for t in (x, w))
    _spread(lambda at: kernels.of_rows(x[at], w, *(t[at] for t in found)), len(x), w.size)
    return found


def _spread(run: Callable[[slice], None], rows: int, each: int) -> None:
    """Whole tiles of rows on several cores; `each`: products of a row."""
    tiles = -(-rows // ROWS)
    threads.spread(lambda i, j: run(slice(i * ROWS, min(j * ROWS, rows))), tiles, ROWS * each // 8)


@dataclass(frozen=True)
class KernelWindows:
    """A kernel's windows of an image: how large it is, how far windows and what they read are apart, zeros around."""

    size: Two
    step: Two
    apart: Two
    around: Two

    def of(self, image: Array) -> ImageWindows:
        """Of an image (channels, height, width) of float32.

        Rows and columns are laid out by what is left of their number when it is divided by the step: of each number of
        a window, those of neighbouring windows then lie side by side.
        """
        channels = image.shape[0]
        sizes = [n + 2 * p for n, p in zip(image.shape[1:], self.around, strict=True)]
        height, width = (-(-n // s) for n, s in zip(sizes, self.step, strict=True))
        whole = (channels, *self.step, height, width)
        flat = np.zeros(int(np.prod(whole)) + SINGLES + self.apart[1] * self.size[1], np.float32)
        laid = flat[: int(np.prod(whole))].reshape(whole)
        for i in range(self.step[0]):
            for j in range(self.step[1]):
                rows, columns = (_laid(*told) for told in zip((i, j), self.step, self.around, strict=True))
                part = image[:, rows[1] :: self.step[0], columns[1] :: self.step[1]]
                laid[:, i, j, rows[0] : rows[0] + part.shape[1], columns[0] : columns[0] + part.shape[2]] = part
        shifts = self._shifts(channels, height, width)
        rows, count = ((n - d * (k - 1) - 1) // s + 1
                       for n, d, k, s in zip(sizes, self.apart, self.size, self.step, strict=True))  # fmt: skip
        return ImageWindows(flat, shifts, width, rows, count)

    def _shifts(self, channels: int, height: int, width: int) -> Array:
        """Where each number of a window lies beside the window's place."""
        c, i, j = np.ogrid[:channels, : self.size[0], : self.size[1]]
        i, j, (s, t) = i * self.apart[0], j * self.apart[1], self.step
        found: Array = ((((c * s + i % s) * t + j % t) * height) + i // s) * width + j // t
        return found.reshape(-1).astype(np.int64)


def _laid(left: int, step: int, around: int) -> Two:
    """Of the rows whose number leaves `left`: which is the first that the image has, and its number in the image."""
    first = max(0, -(-(around - left) // step))
    return first, first * step + left - around


@dataclass(frozen=True)
class ImageWindows:
    """Number k of window c in row r is flat[r * width + c + shifts[k]]; `rows` of `count` windows."""

    flat: Array
    shifts: Array
    width: int
    rows: int
    count: int

    def times(self, w: Array, first: int, last: int, magnitudes: bool = True) -> tuple[Array, Array]:
        """(W x, |W| |x|) of rows of weights and the windows x in rows `first` to `last`, a column for each.

        `magnitudes` False: the second is empty.
        """
        rows = last - first
        if FAST and 0 < rows * self.count <= FEW:  # as rows they fill tiles better
            places = np.arange(first, last)[:, None] * self.width + np.arange(self.count)
            turned = of_rows(self.flat[places.reshape(-1, 1) + self.shifts], w)
            return tuple(np.ascontiguousarray(t.T) for t in turned)  # type: ignore[return-value]
        flat, shape = self.flat[first * self.width :], (len(w), rows, self.width)
        if FAST and self.shifts.size:
            size = rows * self.width
            found = np.zeros((len(w), size)), np.zeros((len(w), size if magnitudes else 0), np.float32)
            w = np.ascontiguousarray(w)
            each = self.shifts.size * size
            _spread(lambda at: kernels.of_shifts(w[at], flat, self.shifts, *(t[at] for t in found)), len(w), each)
        else:
            x = flat[self.shifts[:, None] + np.arange(rows * self.width)]
            sums = np.abs(w) @ np.abs(x) if magnitudes else np.empty((len(w), 0), np.float32)
            found = w.astype(np.float64) @ x.astype(np.float64), sums
        kept = (t.reshape(shape)[:, :, : self.count].reshape(len(w), -1) if t.size else t for t in found)
        return tuple(kept)  # type: ignore[return-value]


__all__ = ["ImageWindows", "KernelWindows", "of_rows"]
