"""Inputs whose rounding errors all point the same way: found by construction or by a greedy search.

Random numbers round up and down in turn, so a sum of n of them errs by about sqrt(n) units where n are legal. These
inputs reach a large part of the n.
"""

from __future__ import annotations

import numpy as np

Array = np.ndarray

CANDIDATES = 64


def stagnant(rng: np.random.Generator, shape: tuple[int, ...], shift: int, bits: int) -> Array:
    """Ones at the start of each row, then numbers near 2**-shift that round all up, all down or are all cut."""
    rows = (*shape[:-1], 1)
    scale = np.ldexp(1.0, -shift - rng.integers(-1, 2, rows))
    parts = rng.choice([1.0, 1 + 2.0**-bits, 1.5, 2 - 2.0 ** (1 - bits)], rows)
    x = np.broadcast_to(scale * parts, shape) * rng.choice([-1.0, 1.0], rows)
    x = x.copy()
    x[..., 0] = 1.0
    found: Array = x
    return found


def roots(rng: np.random.Generator, shape: tuple[int, ...], bits: int) -> Array:
    """Numbers whose squares stagnate: 1, then roots just above half a unit of it."""
    rows = (*shape[:-1], 1)
    half = 2.0 ** (-(bits + 1) / 2)
    x = half * (1 + np.ldexp(rng.uniform(1, 2, rows), -bits // 3)) * np.ones(shape)
    x[..., 0] = 1.0
    found: Array = x * rng.choice([-1.0, 1.0], shape)
    return found


def logs(rng: np.random.Generator, shape: tuple[int, ...], bits: int) -> Array:
    """Numbers whose exponentials stagnate, after the largest is taken off."""
    rows = (*shape[:-1], 1)
    x = np.log(2.0 ** -(bits + 1) * (1 + rng.uniform(0.01, 0.3, rows))) * np.ones(shape)
    x[..., 0] = 0.0
    return x


def climbing(rng: np.random.Generator, shape: tuple[int, ...], bits: int) -> Array:
    """Factors near 1 whose product, taken from the left, rounds the same way every time, by nearly half a unit."""
    *rows, n = shape
    unit = 2.0**-bits
    down = rng.random((*rows, 1)) < 0.5
    total: Array = np.ones((*rows, 1))
    out = np.ones(shape)
    for i in range(n):
        steps = rng.integers(1, 2 ** min(bits // 2 + 2, 14), (*rows, CANDIDATES)) * unit
        factors = 1 + np.where(total > 1 + 8 * unit, rng.choice([-1.0, 1.0], steps.shape), 1.0) * steps
        exact = total * factors
        last = np.ldexp(unit, np.frexp(exact)[1] - 1)
        rounded = np.rint(exact / last) * last
        error = (rounded - exact) / exact
        best = np.argmax(np.where((rounded >= 1) & (rounded < 1.3), np.where(down, -error, error), -np.inf), -1)
        out[..., i] = np.take_along_axis(factors, best[..., None], -1)[..., 0]
        total = np.take_along_axis(rounded, best[..., None], -1)
    return out


def _nearest(x: Array, bits: int) -> Array:
    last = np.ldexp(1.0, np.frexp(x)[1] - 1 - bits)
    found: Array = np.rint(x / last) * last
    return found


def split_pair(
    rng: np.random.Generator, precision: str, fraction: int, candidates: int = 1 << 16
) -> tuple[float, float]:
    """Two fp32 numbers whose split products are each just below a multiple of 2**-fraction, where 1 is cut.

    tf32x3 splits into parts of 11 bits, bf16x3 and bf16x6 into parts of 8.
    """
    bits = 10 if precision == "tf32x3" else 7
    x: Array = rng.uniform(1, 2, candidates).astype(np.float32).astype(np.float64)
    y: Array = rng.uniform(1, 2, candidates).astype(np.float32).astype(np.float64)
    y = np.ldexp(y, -rng.integers(8, 18, candidates))
    unit = 2.0**-fraction
    most = {"tf32x3": 1, "bf16x3": 1, "bf16x6": 2}[precision]
    parts = []
    for v in (x, y):
        rest, split = np.array(v), []
        for _ in range(most + 1):
            part = np.where(rest == 0, 0.0, _nearest(np.where(rest == 0, 1.0, rest), bits))
            split.append(part)
            rest = rest - part
        parts.append(split)
    score: Array = np.zeros(candidates)
    for i in range(most + 1):
        for j in range(most + 1 - i):
            ratio = np.abs(parts[0][i] * parts[1][j]) / unit
            score += ratio - np.floor(ratio)
    best = int(np.argmax(score))
    return float(x[best]), float(y[best])


def split_operands(
    rng: np.random.Generator, precision: str, left: tuple[int, ...], right: tuple[int, ...], chunk: int
) -> tuple[Array, Array]:
    """(..., M, K) and (..., N, K): a product of 1 at the start of each `chunk`, which is summed from zero, the others
    one pair of `split_pair`."""
    x, y = split_pair(rng, precision, int(rng.choice([24, 25])))
    a, b = np.full(left, x), np.full(right, y)
    a[..., ::chunk], b[..., ::chunk] = 1.0, 1.0
    return a, b


def halves(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """One number per row, just below half a unit of tf32 or bf16 above 1, or a whole one of tf32: the largest second
    parts and leftovers."""
    rows = (*shape[:-1], 1)
    near = rng.choice(
        [2.0**-11 - 2.0**-23, 2.0**-10 - 2.0**-23, 2.0**-8 - 2.0**-17, 2.0**-8 - 2.0**-17 + 2.0**-23], rows
    )
    return np.broadcast_to(1 + near, shape).copy()
