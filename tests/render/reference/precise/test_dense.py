"""Operations on whole matrices in more bits, against exact rationals and mpmath: what defines them, not our rule."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
import torch
from oracle_zoo import oracle
from support import rng

from render.reference.precise.evaluation import evaluate, record


def evaluated(fn, *args):
    """Enclosures of every output that is followed."""
    found = oracle(fn, *args)
    recording = record(found, found.exact().widened)
    wanted = {i: np.arange(x.size) for i, x in enumerate(recording.outputs) if x is not None}
    narrow = lambda i, e: bool((e.hi - e.lo <= 2.0**-50 * np.abs(e.value)).all())  # noqa: E731
    outcome = evaluate(recording, wanted, narrow)
    return [outcome.found[i] for i in outcome.found]


def matrix(seed, *shape, dtype=torch.float64):
    return torch.from_numpy(rng(seed).standard_normal(shape)).to(dtype)


def definite(seed, n):
    x = matrix(seed, 2, n, n)
    return x @ x.mT + torch.eye(n, dtype=torch.float64)


def exact(x):
    """A matrix of mpmath numbers, one of a batch."""
    return [mpmath.matrix(m.tolist()) for m in x]


def holds(found, wanted):
    with mpmath.workdps(60):
        for low, high, exact in zip(found.lo, found.hi, wanted, strict=True):
            assert low <= exact <= high and high - low <= abs(exact) * 2.0**-49


@pytest.mark.parametrize("upper", [False, True])
def test_cholesky_reads_one_half(upper):
    a = definite(1, 5)
    half = a.triu() if upper else a.tril()
    (found,) = evaluated(lambda m: torch.linalg.cholesky(m, upper=upper), half)
    with mpmath.workdps(60):
        factors = [mpmath.cholesky(m) for m in exact(a)]
        wanted = [f[j, i] if upper else f[i, j] for f in factors for i in range(5) for j in range(5)]
        holds(found, wanted)


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("left", [False, True])
def test_triangular_systems(upper, unit, left):
    a, b = matrix(2, 4, 4) + 3 * torch.eye(4, dtype=torch.float64), matrix(3, 4, 4)
    (found,) = evaluated(
        lambda m, y: torch.linalg.solve_triangular(m, y, upper=upper, left=left, unitriangular=unit), a, b
    )
    half = a.triu() if upper else a.tril()
    half = half - torch.diag(half.diagonal()) + torch.eye(4, dtype=torch.float64) if unit else half
    with mpmath.workdps(60):
        m, y = exact(half[None])[0], exact(b[None])[0]
        x = mpmath.inverse(m) * y if left else y * mpmath.inverse(m)
        holds(found, [x[i, j] for i in range(4) for j in range(4)])


def test_sign_and_logarithm_of_a_determinant():
    a = matrix(4, 3, 4, 4)
    sign, log = evaluated(lambda m: tuple(torch.linalg.slogdet(m)), a)
    with mpmath.workdps(60):
        dets = [mpmath.det(m) for m in exact(a)]
        holds(sign, [mpmath.sign(d) for d in dets])
        holds(log, [mpmath.log(abs(d)) for d in dets])


@pytest.mark.parametrize("by_rows", [False, True])
def test_scaled_products(by_rows):
    a, b = (matrix(k, 16, 16, dtype=torch.float8_e4m3fn) for k in (5, 6))
    scales = (torch.rand(16, 1) + 0.5, torch.rand(1, 16) + 0.5) if by_rows else (torch.tensor(0.3), torch.tensor(0.7))
    (found,) = evaluated(
        lambda x, y, s, t: torch._scaled_mm(x, y.t(), scale_a=s, scale_b=t, out_dtype=torch.bfloat16), a, b, *scales
    )
    with mpmath.workdps(60):
        left, right, *factors = (
            mpmath.matrix(x.double().tolist() if x.dim() else [[float(x)]]) for x in (a, b, *scales)
        )
        whole = left * right.T
        first, second = (f if by_rows else f[0] for f in factors)
        holds(found, [whole[i, j] * (first[i] if by_rows else first) * (second[j] if by_rows else second)
                      for i in range(16) for j in range(16)])  # fmt: skip
