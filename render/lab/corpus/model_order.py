"""Modelled stores of several programs to the same addresses: the program that runs last wins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

Values = Mapping[str, Any]


def batched_tiles(values: Values, order: list[int], tile: list[int], masked: bool = False) -> list[Any]:
    """a @ b + c, one program per batch, each of which stores a whole tile over a smaller result.

    Rows and columns of the tile wrap around in a and b (addresses modulo M and N); c is read under its mask. Lanes past
    the memory of the result are dropped; among those that hit it, later programs and later lanes (row-major) win.
    Order (0, 1, 2) happens to leave the right numbers behind, (2, 1, 0) leaves 32 of 48 wrong as in the issue.
    """
    a, b, c = (values[name].to(torch.float32) for name in ("a", "b", "c"))
    _, m, n = c.shape
    rows, cols = torch.arange(tile[0]), torch.arange(tile[1])
    inside = (rows[:, None] < m) & (cols[None, :] < n)
    places = rows[:, None] * n + cols[None, :]
    flat = torch.zeros(c.numel(), dtype=torch.float16)
    for batch in order:
        product = torch.zeros((m, n))
        for k in range(a.shape[2]):
            product = product + a[batch, :, k, None] * b[batch, k]
        values_ = product[rows[:, None] % m, cols[None, :] % n]
        values_ = values_ + torch.where(inside, c[batch][rows[:, None] % m, cols[None, :] % n], 0.0)
        where = places + batch * m * n
        kept = where < flat.numel()
        if masked:
            kept &= inside
        for place, value in zip(where[kept].tolist(), values_[kept].to(torch.float16), strict=True):
            flat[place] = value
    return [flat.reshape(c.shape)]


MODELS = {"batched-tiles": batched_tiles}
