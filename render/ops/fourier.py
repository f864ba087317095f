r"""Fourier transforms as products with the matrix of their definition, and what a fast algorithm loses besides.

A fast transform of length n goes through one stage for each prime factor r of n; in each, an output is r inputs times
roots of unity. From an output to each input leads exactly one path, of factors of modulus 1, so that the stages' errors
add up to at most

    sum over the factors of (r + 7) u, times sum |x_j|        (roots are off by u, r - 1 additions; Higham, ASNA, 24)

for each part of each output. Where a factor is larger than 13 libraries may turn to Bluestein's convolution with
transforms of some power of two m < 4 n: three of them, between them a product with numbers of root mean square
sqrt(2 n), so 3 sqrt(2 n) times the error of one. These errors are rooms of the matrix's elements here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from render.ops.rooms import about, unit

LONGEST = 1024
"""Of a transform that is followed: its matrix has the square of that."""
REAL = {torch.complex64: torch.float32, torch.complex128: torch.float64}


def _factors(n: int) -> list[int]:
    found, p = [], 2
    while n > 1:
        while n % p == 0:
            found.append(p)
            n //= p
        p = p + 1 if p * p <= n else max(n, p + 1)
    return found


def roundings(n: int) -> float:
    """Of a fast transform of n elements, in units of sum |x_j|."""
    factors = _factors(n)
    if max(factors, default=1) <= 13:
        return sum(r + 7.0 for r in factors) + 2
    return 3 * math.sqrt(2 * n) * 9 * (math.log2(4 * n) + 1)


def _angles(rows: int, columns: int, n: int, dtype: torch.dtype) -> torch.Tensor:
    """2 pi j k / n, of whole turns less; in the type itself, so that nothing is cast, from pi that is no number."""
    turns = torch.arange(rows)[:, None] * torch.arange(columns) % n
    return turns.to(dtype) * (8 * torch.ones((), dtype=dtype).atan()) / n


def _table(parts: torch.Tensor, n: int) -> torch.Tensor:
    return about(parts, roundings(n) * unit(parts.dtype))


def _along(x: torch.Tensor, dim: int, table: torch.Tensor) -> torch.Tensor:
    """Real and imaginary parts (the last axis) along `dim`, joined and multiplied."""
    moved = x.movedim(dim, -2)
    found = torch.mm(moved.flatten(-2).reshape(-1, table.shape[0]), table)
    return found.reshape(*moved.shape[:-2], -1, 2).movedim(-2, dim)


def _both(n: int, dtype: torch.dtype, forward: bool, rows: int | None = None) -> torch.Tensor:
    """(element, part) x (element, part) of the complex transform; `rows` of its results."""
    angle = _angles(n, n if rows is None else rows, n, dtype)
    c, s = angle.cos(), angle.sin() if forward else -angle.sin()
    # (re, im) -> (re c + im s, im c - re s)
    parts = torch.stack([torch.stack([c, -s], -1), torch.stack([s, c], -1)], 1)
    return _table(parts.reshape(2 * n, -1), n)


def _scaled(x: torch.Tensor, sizes: Sequence[int], how: int) -> torch.Tensor:
    n = math.prod(sizes)
    return x if how == 0 else x * (1 / math.sqrt(n) if how == 1 else 1 / n)


def of_complex(x: torch.Tensor, dim: Sequence[int], how: int, forward: bool) -> torch.Tensor:
    parts, dims = torch.view_as_real(x.resolve_conj()), [d % x.dim() for d in dim]
    for d in dims:
        parts = _along(parts, d, _both(x.shape[d], parts.dtype, forward))
    return torch.view_as_complex(_scaled(parts, [x.shape[d] for d in dims], how).contiguous())


def of_real(x: torch.Tensor, dim: Sequence[int], how: int, onesided: bool) -> torch.Tensor:
    dims = [d % x.dim() for d in dim]
    last, n = dims[-1], x.shape[dims[-1]]
    table = _both(n, x.dtype, True, n // 2 + 1 if onesided else n)[::2]
    parts = torch.mm(x.movedim(last, -1).reshape(-1, n), table).reshape(*x.movedim(last, -1).shape[:-1], -1, 2)
    parts = parts.movedim(-2, last)
    for d in dims[:-1]:
        parts = _along(parts, d, _both(x.shape[d], x.dtype, True))
    return torch.view_as_complex(_scaled(parts, [x.shape[d] for d in dims], how).contiguous())


def to_real(x: torch.Tensor, dim: Sequence[int], how: int, size: int) -> torch.Tensor:
    """Of half a spectrum; what a whole one would have there beside the mirror's is not read."""
    parts, dims = torch.view_as_real(x.resolve_conj()), [d % x.dim() for d in dim]
    for d in dims[:-1]:
        parts = _along(parts, d, _both(x.shape[d], parts.dtype, False))
    last, half = dims[-1], size // 2 + 1
    angle = _angles(half, size, size, parts.dtype)
    ends = torch.arange(half)[:, None] % (size / 2) == 0  # what has no mirror
    count = torch.where(ends, 1.0, 2.0).to(parts.dtype)
    imaginary = torch.where(ends, torch.zeros((), dtype=parts.dtype), -count * angle.sin())
    table = _table(torch.stack([count * angle.cos(), imaginary], 1).reshape(2 * half, size), size)
    moved = parts.movedim(last, -2)[..., :half, :]
    found = torch.mm(moved.flatten(-2).reshape(-1, 2 * half), table).reshape(*moved.shape[:-2], size).movedim(-1, last)
    return _scaled(found, [*(x.shape[d] for d in dims[:-1]), size], how)


def is_followed(x: torch.Tensor, dim: Sequence[int], *more: object) -> bool:
    """Of float32 or float64 and of moderate length."""
    sizes = [x.shape[d] for d in dim]
    last = more[-1]
    sizes += [last] if isinstance(last, int) and not isinstance(last, bool) else []
    wide = x.dtype in (torch.float32, torch.float64, *REAL)
    return wide and x.numel() > 0 and bool(sizes) and max(sizes) <= LONGEST
