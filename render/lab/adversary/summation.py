"""Sums, products and prefixes in the orders that a target may choose, each step rounded to nearest."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from interval_ops.formats.model import FP32, Format
from render.lab.adversary import numbers
from render.lab.adversary.numbers import Array

ORDERS = (
    "forward", "backward", "shuffled", "tree", "random tree", "growing", "shrinking", "rising", "falling", "by sign",
)  # fmt: skip
"""Orders of a reduction. The last five sort the terms of each result on its own, by magnitude or by value."""

TREES = ("tree", "shuffled tree", "growing tree", "by sign tree")
"""Balanced trees: halves are added to halves, of the terms as they are, at random, or sorted for each result."""

SCANS = ("forward", "doubling", "chunks", "prefixes")

Step = Callable[[Array, Array], Array]


def step(kind: str, fmt: Format) -> Step:
    return (lambda x, y: numbers.add(x, y, fmt)) if kind == "sum" else (lambda x, y: numbers.mul(x, y, fmt))


def reduce(x: Array, kind: str, fmt: Format, order: str, rng: np.random.Generator) -> Array:
    """Combines along axis 0. `fmt` is the format of every step."""
    if order in TREES:
        return _tree(arranged(x, order.removesuffix("tree").strip(), rng), step(kind, fmt))
    x = arranged(x, order, rng)
    if order == "random tree":
        return _random_tree(x, step(kind, fmt), rng)
    return _chain(x, step(kind, fmt))


def arranged(x: Array, order: str, rng: np.random.Generator) -> Array:
    if order == "backward":
        return x[::-1]
    if order in ("shuffled", "random tree"):
        return x[rng.permutation(len(x))]
    if order in ("growing", "shrinking"):
        keys = np.abs(x)
    elif order in ("rising", "falling"):
        keys = x
    elif order == "by sign":
        keys = np.where(x < 0, -1.0, 1.0) * rng.random(x.shape)
    else:
        return x
    at = np.argsort(keys if order in ("growing", "rising", "by sign") else -keys, axis=0)
    return np.take_along_axis(x, at, axis=0)


def _chain(x: Array, combine: Step) -> Array:
    total = x[0]
    for term in x[1:]:
        total = combine(total, term)
    found: Array = total
    return found


def _tree(x: Array, combine: Step) -> Array:
    while len(x) > 1:
        half = len(x) // 2
        left = combine(x[:half], x[half : 2 * half])
        x = np.concatenate([left, x[2 * half :]]) if len(x) % 2 else left
    found: Array = x[0]
    return found


def _random_tree(x: Array, combine: Step, rng: np.random.Generator) -> Array:
    """Merges a random number of random pairs at a time, so that leaves end at any depth."""
    while len(x) > 1:
        pairs = int(rng.integers(1, len(x) // 2 + 1))
        x = x[rng.permutation(len(x))]
        x = np.concatenate([combine(x[:pairs], x[pairs : 2 * pairs]), x[2 * pairs :]])
    found: Array = x[0]
    return found


def fused(x: Array, y: Array, order: str, fmt: Format, rng: np.random.Generator) -> Array:
    """Sum of products along axis 0 as a chain of fused multiply-adds."""
    at = rng.permutation(len(x)) if order == "shuffled" else np.arange(len(x))
    at = at[::-1] if order == "backward" else at
    total = numbers.mul(x[at[0]], y[at[0]], fmt)
    for i in at[1:]:
        total = numbers.fma(x[i], y[i], total, fmt)
    return total


def scan(x: Array, kind: str, fmt: Format, order: str, rng: np.random.Generator) -> Array:
    """All prefixes along axis 0."""
    combine = step(kind, fmt)
    if order == "doubling":
        return _doubling(x, combine)
    if order == "chunks":
        return _chunks(x, combine, rng)
    if order == "prefixes":
        return np.stack([reduce(x[: i + 1], kind, fmt, "random tree", rng) for i in range(len(x))])
    return _forward(x, combine)


def _forward(x: Array, combine: Step) -> Array:
    out = [x[0]]
    for term in x[1:]:
        out.append(combine(out[-1], term))
    return np.stack(out)


def _doubling(x: Array, combine: Step) -> Array:
    """Hillis and Steele: at distance 1, 2, 4, ..."""
    distance = 1
    while distance < len(x):
        x = np.concatenate([x[:distance], combine(x[:-distance], x[distance:])])
        distance *= 2
    return x


def _chunks(x: Array, combine: Step, rng: np.random.Generator) -> Array:
    """Threads scan pieces of their own, then add what came before each piece."""
    size = int(rng.integers(1, len(x) + 1))
    out, before = [], None
    for start in range(0, len(x), size):
        piece = _forward(x[start : start + size], combine)
        out.append(piece if before is None else combine(np.broadcast_to(before, piece.shape), piece))
        before = piece[-1] if before is None else combine(before, piece[-1])
    return np.concatenate(out)


def formats(fmt: Format) -> tuple[Format, ...]:
    """Formats in which a target may add: its own, or fp32 with one rounding at the end."""
    return (fmt,) if fmt.bits >= 32 else (fmt, FP32)
