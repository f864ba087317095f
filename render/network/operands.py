"""How far the operands of a layer lie apart on both sides, and how large they are, from one pass over them.

A sum of products w x moves by no more than |w| |x' - x_t| over the hull of both operands; of what one result is a sum
of, the pass finds the length of x_r - x_t (for the inequality of Cauchy and Schwarz) and the largest |x'|.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import nn

from render.reference.figures import Array, compiled

UP = 1.0 + 2.0**-22
"""Makes a rounding to float32 an upper bound."""
_UP = np.float32(UP)
LANES = 32
"""Numbers of a row that are added up beside each other."""


@compiled
def _of_columns(target: Array, reference: Array, squares: Array, most: Array) -> None:
    """Of matrices of float32, a result for each column: the sum of squares of |x' - x_t|, and the largest |x'|."""
    for row in range(target.shape[0]):
        x, y = target[row], reference[row]
        for i in range(x.size):
            apart = abs(y[i] - x[i]) * _UP
            size = (abs(x[i]) + apart) * _UP
            squares[i] += apart * apart
            most[i] = size if size > most[i] else most[i]


@compiled
def _of_rows(target: Array, reference: Array, squares: Array, most: Array) -> None:
    """The same for each row."""
    sums, sizes = np.empty(LANES, np.float32), np.empty(LANES, np.float32)
    for row in range(target.shape[0]):
        sums[:], sizes[:] = 0.0, 0.0
        for start in range(0, target.shape[1], LANES):
            x, y = target[row, start : start + LANES], reference[row, start : start + LANES]
            for i in range(x.size):
                apart = abs(y[i] - x[i]) * _UP
                size = (abs(x[i]) + apart) * _UP
                sums[i] += apart * apart
                sizes[i] = size if size > sizes[i] else sizes[i]
        squares[row], most[row] = sums.sum(), sizes.max()


@dataclass
class Operands:
    """Rows of a matrix that both sides multiply by the weights."""

    target: torch.Tensor
    reference: torch.Tensor

    @cached_property
    def apart(self) -> torch.Tensor:
        """x_r - x_t in float32."""
        return self.reference.float() - self.target.float()

    @property
    def reach(self) -> torch.Tensor:
        """|x' - x_t| over both operands, rounded up."""
        return self.apart.abs().mul_(UP)

    @property
    def lengths(self) -> torch.Tensor:
        """Of `reach`, for each result; roots of sums in float32, which are off by what these round."""
        return self._passed[0]

    @property
    def largest(self) -> np.ndarray:
        """The largest |x'| that one result is a sum of, rounded up."""
        return self._passed[1].double().numpy()

    @cached_property
    def _passed(self) -> tuple[torch.Tensor, torch.Tensor]:
        x, y = (t.float().contiguous().numpy() for t in (self.target, self.reference))
        squares, most = _passed(_of_rows, x, y, x.shape[0])
        return squares.sqrt_(), most


def _passed(run: Any, target: Array, reference: Array, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    squares, most = np.zeros(count, np.float32), np.zeros(count, np.float32)
    run(target, reference, squares, most)
    return torch.from_numpy(squares), torch.from_numpy(most)


@dataclass
class Image(Operands):
    """One image (channels, height, width) of each side: of each place, all channels."""

    @cached_property
    def planes(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Sums of squares and largest magnitudes."""
        x, y = (t.contiguous().flatten(1).numpy() for t in (self.target, self.reference))
        squares, most = (t.view(1, 1, *self.target.shape[1:]) for t in _passed(_of_columns, x, y, x.shape[1]))
        return squares, most


@dataclass
class Images(Operands):
    """Rows of one image, `around` them zeros, whose windows both sides multiply by the weights."""

    planes: tuple[torch.Tensor, torch.Tensor]
    around: tuple[int, ...]
    module: Any

    @classmethod
    def of(cls, image: Image, module: Any, rows: slice) -> Images:
        """What these rows of the result are sums over."""
        (top, left), (down, _), (apart, _) = module.padding, module.stride, module.dilation
        height = image.target.shape[1]
        first = down * rows.start - top
        last = down * (rows.stop - 1) - top + apart * (module.kernel_size[0] - 1) + 1
        begin, end = min(max(first, 0), height), min(max(last, 0), height)
        x, y = (t[None, :, begin:end] for t in (image.target, image.reference))
        squares, most = (t[:, :, begin:end] for t in image.planes)
        above = min(max(-first, 0), last - first)
        return cls(x, y, (squares, most), (left, left, above, last - first - above - (end - begin)), module)

    @cached_property
    def apart(self) -> torch.Tensor:
        return nn.functional.pad(self.reference - self.target, self.around)

    @cached_property
    def _passed(self) -> tuple[torch.Tensor, torch.Tensor]:
        m = self.module
        squares, most = (nn.functional.pad(x, self.around) for x in self.planes)
        sums = windowed(m, squares, torch.ones(1, 1, *m.kernel_size))[0].sqrt_()
        return sums, nn.functional.max_pool2d(most, m.kernel_size, m.stride, 0, m.dilation).view(-1)


def windowed(m: Any, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """The convolution of an image that is padded already, a row for each channel; in float32 one direct sum."""
    return nn.functional.conv2d(x, weight, None, m.stride, 0, m.dilation)[0].flatten(1)


__all__ = ["UP", "Image", "Images", "Operands", "windowed"]
