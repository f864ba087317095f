"""Operands of products with 10 mantissa bits, by the definition and nowhere else."""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch

from render.reference.tf32 import reference_precision, to_tf32
from render.result.errors import RenderError


def nearby(x: float, nearest: bool) -> Fraction:
    """To 11 significant bits: towards zero, or to the nearest with ties away from it."""
    mantissa, exponent = Fraction(abs(x)), 0
    while mantissa >= 2**11:
        mantissa, exponent = mantissa / 2, exponent + 1
    while 0 < mantissa < 2**10:
        mantissa, exponent = mantissa * 2, exponent - 1
    whole = int(mantissa + Fraction(1, 2)) if nearest else int(mantissa)
    return (-1 if x < 0 else 1) * whole * Fraction(2) ** exponent


@pytest.mark.parametrize("nearest", [False, True])
def test_every_number_is_cut_or_rounded(nearest: bool) -> None:
    g = torch.Generator().manual_seed(1)
    x = torch.randn(400, generator=g) * torch.logspace(-20, 20, 400)
    ties = torch.tensor([1 + 2.0**-11, -(1 + 3 * 2.0**-11), 1.0, 0.0])
    for v, found in zip(torch.cat([x, ties]).tolist(), to_tf32(torch.cat([x, ties]), nearest).tolist(), strict=True):
        assert Fraction(found) == nearby(v, nearest)


def test_what_is_not_finite_stays() -> None:
    x = torch.tensor([torch.inf, -torch.inf, torch.nan])
    assert torch.equal(to_tf32(x, True)[:2], x[:2]) and to_tf32(x, False)[2].isnan()


def test_factors_are_rounded_and_addends_are_not() -> None:
    a, b, c = (torch.full((1, 1), 1 + 2.0**-12 * k) for k in (1, 2, 3))
    with reference_precision("tf32"):
        assert torch.addmm(c, a, b).item() == 2 + 3 * 2.0**-12 and (a * b).item() != 1.0
        assert (a.double() @ b.double()).item() == (1 + 2.0**-12) * (1 + 2.0**-11)
    with pytest.raises(RenderError, match="unknown reference precision"):
        reference_precision("tf16")
