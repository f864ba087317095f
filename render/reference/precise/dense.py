"""Operations on whole matrices, by what defines them, on numbers of many bits: elimination, factors, scaled products.

PyTorch calls LAPACK; the exact value is the same whatever the algorithm. What it returns beside the result (pivots,
the info of an error check) is not followed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from render.exact.numbers import Num, Numbers
from render.ops.formulas import Refused
from render.reference.precise.elementwise import Rule
from render.reference.precise.graph import Ids
from render.reference.precise.products import product

if TYPE_CHECKING:
    from render.reference.precise.cells import RecordedCells


def _rows_of(
    r: RecordedCells, name: str, fn: Callable[..., np.ndarray], given: Sequence[Ids], inner: tuple[int, ...]
) -> Ids:
    """`fn` of every matrix of a batch, with an inner shape of its own."""
    if any(x.ndim < 2 or x.shape[:-2] != given[0].shape[:-2] for x in given):
        raise Refused(f"no rule for this form of {name}")
    sizes = [x.shape[-2:] for x in given]
    rows = [x.reshape(-1, x.shape[-2] * x.shape[-1]) for x in given]

    def flat_fn(n: Numbers, *flat: list[Num]) -> Sequence[Num]:
        made = []
        for values, size in zip(flat, sizes, strict=True):
            matrix = np.empty(len(values), object)
            matrix[:] = values
            made.append(matrix.reshape(size))
        found: list[Num] = fn(n, *made).ravel().tolist()
        return found

    width = int(np.prod(inner, dtype=np.int64))
    return r.rows(name, flat_fn, rows, (*given[0].shape[:-2], *inner), width, 2.0 * sizes[0][0])


def matrices(name: str, shape: Callable[..., tuple[int, ...]], outputs: int) -> Rule:
    """`solved` of every matrix of a batch."""

    def rule(r: RecordedCells, *given: Any, left: bool = True, **_: Any) -> Any:
        ids = [x for x in given if isinstance(x, np.ndarray)]
        if not left:
            raise Refused(f"no rule for this form of {name}")
        sizes = [x.shape[-2:] for x in ids if x.ndim >= 2]
        if len(sizes) < len(ids):
            raise Refused(f"no rule for this form of {name}")
        found = _rows_of(r, name, lambda n, *xs: n.solved(name, *xs), ids, shape(*sizes))
        return (found, *[None] * (outputs - 1))

    return rule


def _slogdet(r: RecordedCells, a: Ids) -> Any:
    """Sign and logarithm of the magnitude; neither is known where the determinant may be 0."""
    det = _rows_of(r, "det", lambda n, x: n.solved("det", x), [a], ())
    sign = r.map("sign", lambda n, d: n.choose(d, lambda: n.number(1.0), lambda: n.number(-1.0)), det)
    return sign, r.map("log", lambda n, d: n.call("log", abs(d)), det), None, None


def _triangle(r: RecordedCells, a: Ids, upper: bool, unit: bool) -> Ids:
    """The half of a matrix that is read; the diagonal is 1 where `unit`."""
    rows, columns = np.indices(a.shape[-2:])
    kept = np.where((columns >= rows) if upper else (columns <= rows), a, r.constant(0.0, a.shape))
    return np.where(rows == columns, r.constant(1.0, a.shape), kept) if unit else kept


def _solved(r: RecordedCells, a: Ids, b: Ids) -> Ids:
    return _rows_of(r, "solve", lambda n, x, y: n.solved("solve", x, y), [a, b], b.shape[-2:])


def _solve_triangular(
    r: RecordedCells, a: Ids, b: Ids, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Ids:
    """x of A x = B, or x A = B: then of the transposed system."""
    half = _triangle(r, a, upper, unitriangular)
    if left:
        return _solved(r, half, b)
    return np.swapaxes(_solved(r, np.swapaxes(half, -1, -2), np.swapaxes(b, -1, -2)), -1, -2)


def _triangular_solve(
    r: RecordedCells, b: Ids, a: Ids, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> Any:
    half = _triangle(r, a, upper, unitriangular)
    return _solved(r, np.swapaxes(half, -1, -2) if transpose else half, b), None


def _factor(n: Numbers, a: np.ndarray) -> np.ndarray:
    """L of A = L L^T, from the lower half of A: column by column, as it is defined."""
    size = len(a)
    found = np.full((size, size), n.number(0.0), object)
    for j in range(size):
        squares = [found[j, k] * found[j, k] for k in range(j)]
        found[j, j] = n.call("sqrt", a[j, j] - n.sum(squares) if squares else a[j, j])
        for i in range(j + 1, size):
            products = [found[i, k] * found[j, k] for k in range(j)]
            found[i, j] = (a[i, j] - n.sum(products) if products else a[i, j]) / found[j, j]
    return found


def _cholesky(r: RecordedCells, a: Ids, *, upper: bool = False, check_errors: bool = False) -> Any:
    """The factor of the half that is read; of a matrix that is not positive definite the numbers are not known."""
    lower = np.swapaxes(a, -1, -2) if upper else a
    found = _rows_of(r, "cholesky", _factor, [lower], lower.shape[-2:])
    return (np.swapaxes(found, -1, -2) if upper else found), None


def _scaled_product(
    r: RecordedCells, a: Ids, b: Ids, sa: Any, sb: Any, bias: Any = None, scale_result: Any = None,
    out_dtype: torch.dtype | None = None, use_fast_accum: bool = False,
) -> Ids:  # fmt: skip
    """a @ b times the scales of both, which are numbers or stand beside rows and columns; then the bias."""
    sa, sb = r.ids(sa), r.ids(sb)
    if scale_result is not None:
        raise Refused("_scaled_mm: a scale of the result")
    rows, columns = (a.shape[0], 1), (1, b.shape[1])
    if any(s.size > 1 and s.shape != wanted for s, wanted in ((sa, rows), (sb, columns))):
        raise Refused("_scaled_mm: scales of blocks")
    sa, sb = (s.reshape(()) if s.size == 1 else s for s in (sa, sb))
    made = r.map("_scaled_mm", lambda n, p, s, t: p * s * t, product(r, a, b), sa, sb, weight=2)
    return made if bias is None else r.map("add", lambda n, x, y: x + y, made, bias)


DENSE: dict[str, Rule] = {
    "_linalg_det": matrices("det", lambda a: (), 3),
    "_linalg_solve_ex": matrices("solve", lambda a, b: b, 4),
    "linalg_inv_ex": matrices("inv", lambda a: a, 2),
    "_linalg_slogdet": _slogdet,
    "linalg_solve_triangular": _solve_triangular,
    "triangular_solve": _triangular_solve,
    "linalg_cholesky_ex": _cholesky,
    "_scaled_mm": _scaled_product,
}
