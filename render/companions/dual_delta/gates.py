"""Acceptance rules that teams use by hand, on the same inputs, kernel outputs and oracle.

y: what is tested (f1), r: the reference (f2), e: the oracle, all of one input. A gate passes where every input does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from interval_ops.formats.model import Format

Array = np.ndarray
Check = Callable[[Array, Array, Array, Format], tuple[bool, float]]


@dataclass(frozen=True)
class Gate:
    """`check` of one input: (passed, the number that was compared with 1: above 1 is a failure)."""

    name: str
    rule: str
    source: str
    check: Check | None


def _over(gap: float, limit: float) -> tuple[bool, float]:
    return gap <= limit, gap / limit if limit else 0.0 if not gap else np.inf


def _largest(x: Array, y: Array) -> float:
    with np.errstate(invalid="ignore"):
        gap = np.where((x == y) | (np.isnan(x) & np.isnan(y)), 0.0, np.abs(x - y))
    return float(np.where(np.isnan(gap), np.inf, gap).max(initial=0.0))


def _rms(x: Array, y: Array) -> float:
    with np.errstate(invalid="ignore", over="ignore"):
        return float(np.sqrt(np.mean(np.square(np.where(x == y, 0.0, x - y))))) if x.size else 0.0


def _beyond(y: Array, r: Array, rtol: float, atol: float) -> float:
    """max |y - r| / (atol + rtol |r|)."""
    with np.errstate(invalid="ignore", over="ignore"):
        gap = np.where(y == r, 0.0, np.abs(y - r) / (atol + rtol * np.abs(r)))
    return float(np.where(np.isnan(gap), np.inf, gap).max(initial=0.0))


def _half(fmt: Format) -> bool:
    return fmt.p <= 11


def _dynamo(y: Array, r: Array, e: Array, fmt: Format) -> tuple[bool, float]:
    tol = 1e-3 if _half(fmt) else 1e-4
    if _beyond(y, r, tol, tol) <= 1:
        return True, 0.0
    factor = 3.0 if _half(fmt) or y.size < 1000 else 2.0
    return _over(_rms(y, e), factor * _rms(r, e) + tol / 10)


def _flash(y: Array, r: Array, e: Array, fmt: Format) -> tuple[bool, float]:
    return _over(_largest(y, e), 2 * _largest(r, e) + 1e-5)


def _titan(y: Array, r: Array, e: Array, fmt: Format) -> tuple[bool, float]:
    return _over(_rms(y, e), 1.5 * _rms(r, e) + fmt.u * float(np.abs(e[np.isfinite(e)]).max(initial=0.0)))


def _helion(y: Array, r: Array, e: Array, fmt: Format) -> tuple[bool, float]:
    worst = _beyond(y, r, 1e-2, 1e-2) if fmt.p > 4 else 0.0 if np.array_equal(y, r, equal_nan=True) else np.inf
    return worst <= 1, worst


def _matched(y: Array, r: Array, e: Array, fmt: Format) -> tuple[bool, float]:
    with np.errstate(invalid="ignore"):
        missed = ~((np.abs(y - r) <= 1e-2 + 1e-2 * np.abs(r)) | (y == r))
    return _over(float(missed.mean()) if missed.size else 0.0, 0.01)


GATES: dict[str, Gate] = {
    g.name: g
    for g in (
        Gate("ks", "Kolmogorov-Smirnov test of D1 and D2: p > alpha", "the Dual-Delta paper, Proposition 1", None),
        Gate("dynamo", "allclose(y, r, tol), or rms(y - e) <= k rms(r - e) + tol / 10; k = 2, 3 for half precision and "
             "small outputs; tol = 1e-4, half precision 1e-3", "torch._dynamo.utils.same", _dynamo),
        Gate("flash-attn", "max |y - e| <= 2 max |r - e| + 1e-5", "tests of flash-attention", _flash),
        Gate("titan", "rms(y - e) <= 1.5 rms(r - e) + one rounding of the largest output: target, reference and golden "
             "run", "golden comparisons of training code; the factor is a choice of ours", _titan),
        Gate("helion", "assert_close(y, r, rtol=1e-2, atol=1e-2), bit for bit in fp8", "baseline check of Helion's "
             "autotuner", _helion),
        Gate("matched-ratio", "at least 99 % of the elements within 1e-2 + 1e-2 |r|", "required matched ratio of "
             "kernel benchmarks; its numbers are a choice", _matched),
    )
}  # fmt: skip


def checked(
    name: str, ys: Sequence[Array], rs: Sequence[Array], es: Sequence[Array], formats: Sequence[Format]
) -> tuple[bool, float]:
    """One gate on one input, over all outputs; the gate needs a `check`."""
    check = GATES[name].check
    assert check is not None
    found = [check(y, r, e, fmt) for y, r, e, fmt in zip(ys, rs, es, formats, strict=True)]
    return all(ok for ok, _ in found), max((x for _, x in found), default=0.0)
