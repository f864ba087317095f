"""How much of its bound each element of an output uses, counted: what histograms and maps are drawn from.

Usage is |value - middle| / half width: at most 1 is inside the bound, NaN means that there is no bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from render.result.blockwise import blocks, flat

MAX_TILES = 32
NO_BOUND = -1.0
_BINS = 20
_SMALL = 0.02
_SAMPLE = 1 << 20
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
    parts = [flat(usage, at) for at in blocks(usage.size)]
    inside = sum(int(np.count_nonzero(x <= 1.0)) for x in parts)
    outside = sum(int(np.count_nonzero(x > 1.0)) for x in parts)
    if not inside + outside:
        return (), (), 0, False
    small = sum(int(np.count_nonzero(x < _SMALL)) for x in parts)
    log = 2 * small > inside and any(bool(((x > 0) & (x <= 1)).any()) for x in parts)
    edges = _log_edges(parts) if log else np.linspace(0.0, 1.0, _BINS + 1)
    counts = sum(np.histogram(np.maximum(x[x <= 1.0], edges[0]), bins=edges)[0] for x in parts)
    if log:
        edges = np.concatenate([[0.0], edges[1:]])
    return tuple(map(float, edges)), tuple(map(int, np.asarray(counts))), outside, log


def _log_edges(parts: list[np.ndarray]) -> np.ndarray:
    """Four bins per decade from the smallest hundredth of what is used; taken from a sample of large outputs."""
    every = -(-sum(x.size for x in parts) // _SAMPLE)
    sample = np.concatenate([x[(x > 0) & (x <= 1)][::every] for x in parts])
    smallest = float(np.quantile(sample, 0.01)) if sample.size else _SMALL
    low = min(-1, max(-12, math.floor(math.log10(smallest))))  # bins below 1 even where all that is used is the edge
    return np.logspace(low, 0.0, max(1, min(-low, 12)) * 4 + 1)


def tiles(usage: np.ndarray, most: int = MAX_TILES) -> tuple[tuple[tuple[float, ...], ...], tuple[int, int]]:
    """(largest usage of each tile, tile extents): at most `most` tiles per side."""
    rows, columns = usage.shape
    th, tw = _extent(rows, most), _extent(columns, most)
    starts = np.arange(0, columns, tw)
    with np.errstate(invalid="ignore"):
        bands = (np.fmax.reduce(usage[i : i + th], axis=0) for i in range(0, rows, th))
        known = [np.minimum(np.nan_to_num(np.fmax.reduceat(b, starts), nan=NO_BOUND, posinf=_FAR), _FAR) for b in bands]
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
