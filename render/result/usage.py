"""How much of its bound each element of an output uses, counted: what histograms and maps are drawn from.

Usage is |value - middle| / half width: at most 1 is inside the bound, NaN means that there is no bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

MAX_TILES = 32
NO_BOUND = -1.0
_BINS = 20
_FAR = 1e6


@dataclass(frozen=True)
class Usage:
    """`counts` elements between neighbours of `edges`, and `outside` elements beyond 1; by decades if `log`.

    `grid` of a 2-D output: the largest usage of each tile of `tile` elements, three digits; NO_BOUND where none of a
    tile has a bound, 1e6 for all that is farther outside. Without elements that have a bound `edges` is empty.
    """

    edges: tuple[float, ...] = ()
    counts: tuple[int, ...] = ()
    outside: int = 0
    log: bool = False
    shape: tuple[int, ...] = ()
    tile: tuple[int, ...] = ()
    grid: tuple[tuple[float, ...], ...] = ()


def counted(usage: np.ndarray) -> Usage:
    """The counts of one output."""
    usage = np.asarray(usage, np.float64)
    edges, counts, outside, log = histogram(usage)
    grid, tile = tiles(usage) if usage.ndim == 2 and usage.size else ((), ())
    return Usage(edges, counts, outside, log, tuple(usage.shape), tile, grid)


def histogram(usage: np.ndarray) -> tuple[tuple[float, ...], tuple[int, ...], int, bool]:
    """(edges up to 1, counts between them, how many lie outside, whether edges are spaced by decades).

    Decades are used where half of the elements use less than 2 % of their bound: linear bins would show one bar.
    """
    values = usage[~np.isnan(usage)].ravel()
    inside = values[values <= 1.0]
    if not values.size:
        return (), (), 0, False
    log = bool(inside.size and np.median(inside) < 0.02 and np.any(inside > 0))
    edges = _log_edges(inside) if log else np.linspace(0.0, 1.0, _BINS + 1)
    counts, _ = np.histogram(np.clip(inside, edges[0], 1.0), bins=edges)
    if log:
        edges = np.concatenate([[0.0], edges[1:]])
    return tuple(map(float, edges)), tuple(map(int, counts)), int(values.size - inside.size), log


def _log_edges(inside: np.ndarray) -> np.ndarray:
    smallest = float(np.quantile(inside[inside > 0], 0.01))
    low = min(-1, max(-12, math.floor(math.log10(smallest))))  # bins below 1 even where all that is used is the edge
    return np.logspace(low, 0.0, max(1, min(-low, 12)) * 4 + 1)


def tiles(usage: np.ndarray, most: int = MAX_TILES) -> tuple[tuple[tuple[float, ...], ...], tuple[int, int]]:
    """(largest usage of each tile, tile extents): at most `most` tiles per side."""
    rows, columns = usage.shape
    th, tw = _extent(rows, most), _extent(columns, most)
    pad = np.full((-(-rows // th) * th, -(-columns // tw) * tw), np.nan)
    pad[:rows, :columns] = usage
    blocks = pad.reshape(pad.shape[0] // th, th, pad.shape[1] // tw, tw).swapaxes(1, 2)
    known = np.minimum(np.where(np.isnan(blocks), NO_BOUND, blocks).max(axis=(2, 3)), _FAR)
    return tuple(tuple(_short(float(x)) for x in row) for row in known), (th, tw)


def _short(x: float) -> float:
    """Three digits; never across the edge of the bound."""
    short = float(f"{x:.3g}")
    return x if (short > 1.0) != (x > 1.0) else short


def _extent(n: int, most: int) -> int:
    """Smallest power of two that leaves at most `most` tiles: kernels tile by powers of two."""
    extent = 1
    while -(-n // extent) > most:
        extent *= 2
    return extent
