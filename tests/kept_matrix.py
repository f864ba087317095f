"""Cases of `kept_bounds`: products of matrices and of windows of images, by tiles or numpy, with all edges of a tile.

Of whole numbers, whose sums neither float64 nor float32 rounds, every processor gives the same bits; of others each its
own, within what their sums may round.
"""

from __future__ import annotations

import numpy as np
from kept_bounds import Cases

from interval_ops.matrix.product import KernelWindows, of_rows

SHAPES = [(1, 1, 1), (8, 192, 48), (9, 193, 49), (7, 15, 23), (17, 400, 97), (16, 33, 72), (3, 0, 5)]
WINDOWS = [
    ((3, 9, 11), 5, KernelWindows((3, 3), (1, 1), (1, 1), (1, 1))),
    ((3, 23, 20), 9, KernelWindows((7, 7), (2, 2), (1, 1), (3, 3))),
    ((2, 12, 12), 8, KernelWindows((1, 1), (2, 2), (1, 1), (0, 0))),
    ((4, 14, 10), 3, KernelWindows((2, 3), (3, 2), (2, 1), (2, 0))),
    ((21, 9, 30), 17, KernelWindows((3, 3), (1, 1), (2, 2), (2, 2))),
]


def _whole(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-63, 64, shape).astype(np.float32)


def _rows() -> object:
    return [of_rows(_whole(m + k, m, k), _whole(k + n, n, k)) for m, k, n in SHAPES]


def _windows() -> object:
    found: list[object] = []
    for i, (image, out, windows) in enumerate(WINDOWS):
        held = windows.of(_whole(i, *image))
        w = _whole(i + 9, out, image[0] * windows.size[0] * windows.size[1])
        found += [held.times(w, 0, held.rows), held.times(w, held.rows // 2, held.rows)]
        found.append(held.times(w, 0, held.rows, magnitudes=False)[0])
    return found


def _rounded() -> object:
    x, w = (np.abs(np.random.default_rng(seed).standard_normal((n, 300))).astype(np.float32) for seed, n in
            ((1, 13), (2, 50)))  # fmt: skip
    return of_rows(x, w)


CASES: Cases = {"rows": (_rows, 0.0), "windows": (_windows, 0.0), "rounded": (_rounded, 2.0**-14)}
