r"""Errors of linear systems and factors, verified after the fact: whatever LAPACK did, the residual tells.

X is what float64 found for A X = B, operands off by E and F, R an approximate inverse of A. Of the true solution Y for
any operands in that range R (A + E') Y = R (B + F'), so that with D = I - R (A + E')

    Y - X = (I - D)^-1 R r,    r = (B + F') - (A + E') X,    |r| <= |B - A X| + F + E |X| + rounding
    |D| <= |I - R A| + |R| E + rounding,    g = max row sum of |D| < 1
    |Y - X| <= z + g / (1 - g) max z over its column,    z = |R| |r|

by the Neumann series. Factors: with A + E' = (L + dL)(L + dL)' and F = L^-1 dL, F + F' + F F' = L^-1 E'' L^-T = G, and
sqrt(2) |F| <= |F + F'| as F is triangular: |F| <= sqrt(2) g / (1 + sqrt(1 - 2 g)), g = |G| < 1/2 (norms of Frobenius;
the smaller root by continuity; Sun, BIT 31, 1991). Of L U likewise F_L + F_U + F_L F_U = G with parts that do not
overlap: |F| <= 1 - sqrt(1 - 2 g). Determinants have the factors 1 + F_ii.

Sums of n products in float64 are off by (n + 2) u times the sum of magnitudes (Higham, ASNA, 3.1 and 14.1; Rump,
Verification methods, 2010, section 10). Nothing is known where g is too large.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from render.reference.local_error import Unit
from render.reference.running_error import Movable

F64 = torch.float64
Carried = tuple[list[Any], list[torch.Tensor | None]]
Operand = tuple[torch.Tensor, torch.Tensor]
"""A matrix and its error."""
LARGEST = 1 << 10
"""Rows of a matrix."""
U = 2.0**-53


def solved(op: Movable, unit: Unit) -> Carried | None:
    """(values, error bounds) of an operation on whole matrices, in float64; None for others, and where unknown."""
    rule = _RULES.get(op.name)
    if rule is None or unit.native or unit.attainable or unit.least or unit.scale != 1.0:
        return None
    values = op.run()
    given = [op.leaves[i] for i in op.tensors if op.leaves[i].is_floating_point()]
    if not all(x.numel() and bool(x.isfinite().all()) and x.shape[-1] <= LARGEST for x in given):
        return None
    errors = rule(op, values)
    return None if errors is None else (values, [*errors, *[None] * (len(values) - len(errors))])


def _gamma(n: int) -> float:
    return (n + 2) * U * (1 + 2.0**-20)


def _product(*factors: torch.Tensor) -> torch.Tensor:
    """Upper bound of a product of matrices that are not negative."""
    found = factors[0]
    for x in factors[1:]:
        found = (found @ x) * (1 + _gamma(x.shape[-2]))
    return found


def _norm(x: torch.Tensor) -> torch.Tensor:
    """An upper bound of the norm of Frobenius."""
    found: torch.Tensor = torch.linalg.matrix_norm(x)[..., None, None] * (1 + _gamma(x.shape[-1] ** 2))
    return found


def _error(a: Operand, b: Operand, x: torch.Tensor) -> torch.Tensor | None:
    """How far X is from any solution."""
    (matrix, off), (right, moved) = a, b
    n = matrix.shape[-1]
    inverse, info = torch.linalg.inv_ex(matrix)
    if bool(info.any()) or not bool(inverse.isfinite().all()):
        return None
    size, gamma = inverse.abs(), _gamma(n)
    rest = torch.eye(n, dtype=F64) - inverse @ matrix
    contraction = rest.abs() + _product(size, off) + gamma * (_product(size, matrix.abs()) + 1)
    g = contraction.sum(-1).amax(-1)[..., None, None] * (1 + gamma)
    if not bool((g < 1).all()):
        return None
    left = (right - matrix @ x).abs() + moved + _product(off, x.abs())
    z = _product(size, left + gamma * (_product(matrix.abs(), x.abs()) + right.abs()))
    found: torch.Tensor = (z + g / (1 - g) * z.amax(-2, keepdim=True)) * (1 + 8 * U)
    return found


def _inverted(x: torch.Tensor) -> torch.Tensor | None:
    """Upper bounds of the magnitudes of an inverse."""
    one = torch.eye(x.shape[-1], dtype=F64).expand_as(x)
    inverse, _ = torch.linalg.inv_ex(x)
    zero = torch.zeros_like(x)
    error = _error((x, zero), (one, zero), inverse)
    return None if error is None else inverse.abs() + error


def _given(op: Movable, place: int) -> Operand:
    x = op.args[place]
    at = next(i for i in op.tensors if op.leaves[i] is x)
    found = op.errors.get(at)
    return x, torch.zeros_like(x) if found is None else found


def _named(op: Movable, name: str, default: Any, place: int | None = None) -> Any:
    return op.args[place] if place is not None and len(op.args) > place else op.kwargs.get(name, default)


def _half(x: Operand, upper: bool, unit: bool) -> Operand:
    """What is read of a triangular matrix."""
    matrix, off = (t.triu() if upper else t.tril() for t in x)
    if unit:
        matrix, off = (t - torch.diag_embed(t.diagonal(dim1=-2, dim2=-1)) for t in (matrix, off))
        matrix = matrix + torch.eye(matrix.shape[-1], dtype=F64)
    return matrix, off


# --- systems -------------------------------------------------------------------------------------------------------

Errors = list[torch.Tensor | None] | None


def _dense(op: Movable, values: list[Any]) -> Errors:
    """_linalg_solve_ex(A, B, *, left) -> X, LU, pivots, info"""
    a, b = _given(op, 0), _given(op, 1)
    if not _named(op, "left", True) or b[0].dim() != a[0].dim():
        return None
    found, factors = _error(a, b, values[0]), _lu_error(a, values[1], values[2])
    return None if found is None or factors is None else [found, factors]


def _inverse(op: Movable, values: list[Any]) -> Errors:
    """linalg_inv_ex(A) -> X, info"""
    a = _given(op, 0)
    found = _error(a, (torch.eye(a[0].shape[-1], dtype=F64).expand_as(a[0]), torch.zeros_like(a[0])), values[0])
    return None if found is None else [found]


def _triangular(op: Movable, values: list[Any]) -> Errors:
    """linalg_solve_triangular(A, B, *, upper, left, unitriangular)"""
    a = _half(_given(op, 0), _named(op, "upper", False), _named(op, "unitriangular", False))
    b, x = _given(op, 1), values[0]
    if not _named(op, "left", True):  # the same of transposed matrices
        a, b, x = (a[0].mT, a[1].mT), (b[0].mT, b[1].mT), x.mT
    found = _error(a, b, x)
    return None if found is None else [found if x is values[0] else found.mT]


def _older(op: Movable, values: list[Any]) -> Errors:
    """triangular_solve(B, A, upper, transpose, unitriangular) -> X, A"""
    a = _half(_given(op, 1), _named(op, "upper", True, 2), _named(op, "unitriangular", False, 4))
    a = (a[0].mT, a[1].mT) if _named(op, "transpose", False, 3) else a
    found = _error(a, _given(op, 0), values[0])
    return None if found is None else [found, _given(op, 1)[1]]


def _of_factor(op: Movable, values: list[Any]) -> Errors:
    """cholesky_solve(B, L, upper): A = L L', or U' U"""
    upper = _named(op, "upper", False, 2)
    half, off = _half(_given(op, 1), upper, False)
    half, off = (half.mT, off.mT) if upper else (half, off)
    found = _error(_multiplied((half, off), (half.mT, off.mT)), _given(op, 0), values[0])
    return None if found is None else [found]


def _of_lu(op: Movable, values: list[Any]) -> Errors:
    """linalg_lu_solve(LU, pivots, B, *, left, adjoint)"""
    if not _named(op, "left", True):
        return None
    lu = _given(op, 0)
    p = torch.lu_unpack(lu[0], op.args[1], unpack_data=False)[0].to(F64)
    matrix, off = _multiplied(_half(lu, False, True), _half(lu, True, False))
    a = p @ matrix, p @ off
    found = _error((a[0].mT, a[1].mT) if _named(op, "adjoint", False) else a, _given(op, 2), values[0])
    return None if found is None else [found]


def _multiplied(a: Operand, b: Operand) -> Operand:
    (x, e), (y, f) = a, b
    size, other = x.abs(), y.abs()
    off = _product(size + e, f) + _product(e, other) + _gamma(x.shape[-1]) * _product(size, other)
    return x @ y, off


# --- factors -------------------------------------------------------------------------------------------------------


def _lu_error(a: Operand, lu: torch.Tensor, pivots: torch.Tensor) -> torch.Tensor | None:
    """Of factors in one matrix."""
    grown = _growth(a, lu, pivots)
    if grown is None:
        return None
    lower, upper = lu.tril(-1) + torch.eye(lu.shape[-1], dtype=F64), lu.triu()
    rows = torch.linalg.vector_norm(lower, dim=-1, keepdim=True) * grown
    columns = torch.linalg.vector_norm(upper, dim=-2, keepdim=True) * grown
    wider = 1 + _gamma(lu.shape[-1])
    found: torch.Tensor = rows.expand_as(lu).tril(-1) * wider + columns.expand_as(lu).triu() * wider
    return found


def _growth(a: Operand, lu: torch.Tensor, pivots: torch.Tensor) -> torch.Tensor | None:
    """|F| of P A = L U."""
    (matrix, off), n = a, lu.shape[-1]
    if not bool(lu.isfinite().all()):
        return None
    p = torch.lu_unpack(lu, pivots, unpack_data=False)[0].to(F64).mT
    lower, upper = lu.tril(-1) + torch.eye(n, dtype=F64), lu.triu()
    left, right = _inverted(lower), _inverted(upper)
    if left is None or right is None:
        return None
    rest = (p @ matrix - lower @ upper).abs() + p @ off + _gamma(n) * _product(lower.abs(), upper.abs())
    g = _norm(_product(left, rest, right))
    if not bool((g < 0.5).all()):
        return None
    return (1 - (1 - 2 * g).sqrt()) * (1 + 2.0**-20) + 2 * U  # what is lost where 1 - 2 g rounds to 1


def _det(op: Movable, values: list[Any]) -> Errors:
    """_linalg_det(A) -> det, LU, pivots"""
    return _of_diagonal(op, values, 1, lambda det, moved: det.abs() * (torch.expm1(moved) + 4 * U))


def _slogdet(op: Movable, values: list[Any]) -> Errors:
    """_linalg_slogdet(A) -> sign, log |det|, LU, pivots"""
    found = _of_diagonal(op, values, 2, lambda _, moved: moved)
    if found is None:
        return None
    logs = values[2].diagonal(dim1=-2, dim2=-1).abs().log().abs().sum(-1)
    moved = found[0]
    assert moved is not None
    return [torch.zeros_like(values[0]), moved + _gamma(values[2].shape[-1]) * (logs + 4), found[1]]


def _of_diagonal(
    op: Movable, values: list[Any], place: int, rule: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
) -> Errors:
    """`rule` of the value and of |log| of the product of 1 + F_ii; the error of the factors behind it."""
    a, (lu, pivots) = _given(op, 0), values[place : place + 2]
    if not bool(lu.isfinite().all()) or not bool(lu.diagonal(dim1=-2, dim2=-1).all()):
        return None
    if _growth(a, lu, pivots) is None:  # LAPACK's matrices stand by columns: of one by rows the transposed is factored
        a = a[0].mT, a[1].mT
    grown, factors = _growth(a, lu, pivots), _lu_error(a, lu, pivots)
    if grown is None or factors is None or not bool((grown < 1).all()):
        return None
    n = lu.shape[-1]
    moved = -n * torch.log1p(-grown[..., 0, 0]) * (1 + _gamma(n)) + _gamma(n)
    return [rule(values[0], moved), factors]


def _cholesky(op: Movable, values: list[Any]) -> Errors:
    """linalg_cholesky_ex(A, *, upper) -> L, info"""
    (matrix, off), factor, n = _given(op, 0), values[0], values[0].shape[-1]
    upper = _named(op, "upper", False)
    if bool(values[1].any()):
        return None
    matrix, off, half = (x.mT if upper else x for x in (matrix, off, factor))
    matrix, off = (x.tril() + x.tril(-1).mT for x in (matrix, off))  # the half that is read
    inverse = _inverted(half)
    if inverse is None:
        return None
    rest = (matrix - half @ half.mT).abs() + off + _gamma(n) * _product(half.abs(), half.abs().mT)
    g = _norm(_product(inverse, rest, inverse.mT))
    if not bool((g < 0.5).all()):
        return None
    grown = 2**0.5 * g / (1 + (1 - 2 * g).sqrt()) * (1 + 2.0**-20)
    error = (torch.linalg.vector_norm(half, dim=-1, keepdim=True) * grown * (1 + _gamma(n))).expand_as(half).tril()
    return [error.mT if upper else error]


_RULES: dict[str, Callable[[Movable, list[Any]], Errors]] = {
    "_linalg_solve_ex": _dense, "linalg_inv_ex": _inverse, "linalg_solve_triangular": _triangular,
    "triangular_solve": _older, "cholesky_solve": _of_factor, "linalg_lu_solve": _of_lu, "_linalg_det": _det,
    "_linalg_slogdet": _slogdet, "linalg_cholesky_ex": _cholesky,
}  # fmt: skip

__all__ = ["solved"]
