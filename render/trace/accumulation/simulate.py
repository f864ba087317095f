"""An accumulator of m_acc mantissa bits, bit by bit, on given terms: a measurement of what swamping loses there."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numba
import numpy as np

from interval_ops.formats.model import FORMATS

Rounding = Literal["nearest", "truncate", "stochastic"]
_MODES: dict[str, int] = {"nearest": 0, "truncate": 1, "stochastic": 2}


@dataclass(frozen=True)
class Simulated:
    """`sums` of rows of terms. `exact`: correctly rounded float64 sums; `swamped`: share of the non-zero terms that
    left their accumulator as it was, per row.

        found = render.accumulation.simulate_accumulator(10, terms=products)
        found.loss, found.worst, found.variance_ratio
    """

    sums: np.ndarray
    exact: np.ndarray
    swamped: np.ndarray

    @property
    def loss(self) -> float:
        """Root mean square of the error over that of the exact sums; infinite after an overflow, 0 for no error."""
        error = _rms(self.sums - self.exact)
        return 0.0 if error == 0 else error / whole if (whole := _rms(self.exact)) else math.inf

    @property
    def worst(self) -> float:
        """The largest |error| over the root mean square of the exact sums."""
        error, whole = np.abs(self.sums - self.exact).max(initial=0.0), _rms(self.exact)
        return 0.0 if error == 0 else float(error) / whole if whole else math.inf

    @property
    def variance_ratio(self) -> float:
        """Mean square of the sums over that of the exact sums: what the VRR predicts for terms of zero mean."""
        return (_rms(self.sums) / _rms(self.exact)) ** 2


def _rms(x: np.ndarray) -> float:
    with np.errstate(over="ignore", invalid="ignore"):
        found = math.sqrt(float(np.mean(np.square(x)))) if x.size else 0.0
    return math.inf if math.isnan(found) else found


def simulate_accumulator(
    m_acc: int | str,
    rounding: Rounding = "nearest",
    chunk: int | None = None,
    terms: Any = (),
    *,
    tree: bool = False,
    seed: int = 0,
) -> Simulated:
    """Sums the last axis of `terms` one by one, every partial sum rounded to `m_acc` mantissa bits.

        render.accumulation.simulate_accumulator("fp16", chunk=64, terms=a * b).loss

    `m_acc`: fraction bits with any exponent, or the name of a format (fp16, bf16, ...) with its range, subnormals and
    overflow. `chunk`: sums of so many terms are added in a second accumulator of the same kind. `tree`: neighbours are
    added pairwise. `rounding`: "nearest", "truncate" (towards zero) or "stochastic", which rounds up with the
    probability of what is cut off, drawn by `seed`. Raises ValueError for another word, and for a chunk of nothing.
    """
    if rounding not in _MODES:
        raise ValueError(f"rounding {rounding!r}: one of {', '.join(_MODES)}")
    if chunk is not None and (chunk < 1 or tree):
        raise ValueError("a chunk has at least one term, and no tree")
    given = np.atleast_1d(np.asarray(terms, np.float64))
    rows = np.ascontiguousarray(given.reshape(math.prod(given.shape[:-1]), given.shape[-1]))
    sums, swamped = np.zeros(len(rows)), np.zeros(len(rows))
    _simulate(rows, *_format(m_acc), _MODES[rounding], 0 if chunk is None else chunk, tree, seed, sums, swamped)
    exact = np.array([_exact(row) for row in rows])
    shape = given.shape[:-1]
    return Simulated(sums.reshape(shape), exact.reshape(shape), swamped.reshape(shape))


def suffices(
    terms: np.ndarray, loss: float, m_acc: int | str, rounding: Rounding, tree: bool = False
) -> tuple[int | None, int | None]:
    """(fewest mantissa bits, longest chunk with the present bits) that lose at most `loss`; None where none does."""
    bits = next(
        (m for m in range(1, 31) if simulate_accumulator(m, rounding, None, terms, tree=tree).loss <= loss), None
    )
    if bits is None or tree:
        return bits, None
    lengths = [2**k for k in range(1, max(1, math.ceil(math.log2(max(2, terms.shape[-1])))))]
    good = [c for c in lengths if simulate_accumulator(m_acc, rounding, c, terms).loss <= loss]
    return bits, max(good, default=None)


def _exact(row: np.ndarray) -> float:
    try:
        return math.fsum(row)
    except (OverflowError, ValueError):  # an infinity or a NaN among the terms
        with np.errstate(invalid="ignore"):
            return float(row.sum())


def _format(m_acc: int | str) -> tuple[int, int, float]:
    """(fraction bits, exponent of the smallest normal number, largest number)."""
    if isinstance(m_acc, str):
        if m_acc not in FORMATS:
            raise ValueError(f"no format {m_acc!r}")
        fmt = FORMATS[m_acc]
        return fmt.p - 1, fmt.emin, fmt.max
    if m_acc < 1:
        raise ValueError("an accumulator has at least one mantissa bit")
    return m_acc, -1022, np.inf


@numba.njit(cache=True)
def _add(s, p, m, emin, most, mode):  # type: ignore[no-untyped-def]
    """s + p rounded once to m fraction bits: the float64 sum and its exact error together decide ties and cuts."""
    t = s + p
    if m >= 52 or t == 0.0 or not np.isfinite(t):
        return t
    back = t - s
    rest = (s - (t - back)) + (p - back)
    _, e = math.frexp(t)
    shift = m + 1 - max(e, emin + 1)
    size = math.ldexp(abs(t), shift)
    rest = math.ldexp(rest, shift) if t > 0 else math.ldexp(-rest, shift)
    whole = np.floor(size)
    part = size - whole
    if mode == 1 and part == 0.0 and rest < 0.0:
        whole -= 0.5 if whole == 2.0**m else 1.0  # just below a number; below a power of two the grid is finer
    elif mode == 0:
        if part > 0.5 or (part == 0.5 and (rest > 0.0 or (rest == 0.0 and whole % 2.0 == 1.0))):
            whole += 1.0
    elif mode == 2 and np.random.random() < part + rest:  # noqa: NPY002 (numba knows this stream alone)
        whole += 1.0
    found = math.ldexp(whole, -shift)
    if found > most:
        found = most if mode == 1 else np.inf
    return found if t > 0 else -found


@numba.njit(cache=True)
def _simulate(rows, m, emin, most, mode, chunk, tree, seed, sums, swamped):  # type: ignore[no-untyped-def]
    np.random.seed(seed)  # noqa: NPY002
    n = rows.shape[1]
    for r in range(rows.shape[0]):
        lost = busy = 0
        if tree:
            left = rows[r].copy()
            count = n
            while count > 1:
                for i in range(count // 2):
                    a, b = left[2 * i], left[2 * i + 1]
                    s = _add(a, b, m, emin, most, mode)
                    if a != 0.0 and b != 0.0:
                        busy += 1
                        lost += s in (a, b)
                    left[i] = s
                if count % 2:
                    left[count // 2] = left[count - 1]
                count = (count + 1) // 2
            sums[r] = left[0] if n else 0.0
        else:
            total = part = 0.0
            for i in range(n):
                p = rows[r, i]
                s = _add(part, p, m, emin, most, mode)
                if p != 0.0:
                    busy += 1
                    lost += s == part
                part = s
                if chunk and (i + 1) % chunk == 0:
                    total, part = _add(total, part, m, emin, most, mode), 0.0
            sums[r] = _add(total, part, m, emin, most, mode) if chunk else part
        swamped[r] = lost / busy if busy else 0.0


__all__ = ["Rounding", "Simulated", "simulate_accumulator", "suffices"]
