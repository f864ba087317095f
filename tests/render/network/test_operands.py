"""Lengths and largest magnitudes of a layer's operands beside exact arithmetic on windows cut out one by one."""

from fractions import Fraction

import numpy as np
import pytest
import torch
from torch import nn

from render.network.operands import LANES, UP, Image, Images, Operands

TINY = 2.0**-54


def sides(shape, seed, scale=1.0, apart=1e-3):
    made = torch.Generator().manual_seed(seed)
    x = torch.randn(shape, generator=made) * scale
    return x, x + torch.randn(shape, generator=made) * scale * apart


def checked(found, x, y):
    """Rows of what each result is a sum of; a zero of both sides is no part of it."""
    up = Fraction(UP * (1.0 + x.shape[1] * 2.0**-24)) ** 2
    for at, (ours, theirs) in enumerate(zip(x.tolist(), y.tolist(), strict=True)):
        gaps = [abs(Fraction(b) - Fraction(a)) for a, b in zip(ours, theirs, strict=True)]
        square = sum(g * g for g in gaps)
        length = Fraction(float(found.lengths[at]))
        assert (length * Fraction(UP) * (1 + x.shape[1] * Fraction(2) ** -24) + Fraction(TINY)) ** 2 >= square
        assert length**2 <= square * up * Fraction(UP) ** 4 + Fraction(TINY)
        most = max(max(abs(Fraction(a)), abs(Fraction(b))) for a, b in zip(ours, theirs, strict=True))
        assert Fraction(float(found.largest[at])) >= most
        widest = max(abs(Fraction(a)) + g for a, g in zip(ours, gaps, strict=True))
        assert Fraction(float(found.largest[at])) <= widest * Fraction(UP) ** 4 + Fraction(2) ** -140


@pytest.mark.parametrize(("size", "scale"), [(1, 1.0), (LANES - 1, 1e3), (LANES, 1e-30), (3 * LANES + 5, 1e-42)])
def test_rows(size, scale):
    x, y = sides((4, size), size, scale)
    y[1], y[2] = x[1], -x[2]
    checked(Operands(x, y), x, y)


def test_rows_of_a_narrow_type():
    x, y = (t.bfloat16() for t in sides((3, 40), 5, apart=0.1))
    checked(Operands(x, y), x, y)


FORMS = [
    {"kernel_size": 3, "padding": 1},
    {"kernel_size": (3, 2), "stride": (2, 1), "padding": (2, 0), "dilation": (1, 2)},
    {"kernel_size": 1},
    {"kernel_size": (2, 3), "stride": 3, "padding": (1, 3), "dilation": (3, 1)},
    {"kernel_size": 2, "padding": 4},
]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("strided", [False, True])
def test_windows(form, strided):
    m = nn.Conv2d(3, 2, **form)
    x, y = sides((3, 8, 9), 7, 1e2)
    if strided:
        x, y = (t.permute(1, 2, 0).contiguous().permute(2, 0, 1) for t in (x, y))
    columns = nn.functional.unfold(torch.stack([x, y]), m.kernel_size, m.dilation, m.padding, m.stride)
    height = m(x[None]).shape[2]
    grid = columns.reshape(2, columns.shape[1], height, -1)
    image = Image(x, y)
    for rows in (slice(0, height), slice(0, 1), slice(height - 1, height), slice(1, height)):
        if rows.start < rows.stop:
            part = [t[:, rows].reshape(t.shape[0], -1).T for t in grid]
            found = Images.of(image, m, rows)
            checked(found, *part)
            windows = nn.functional.unfold(found.apart, m.kernel_size, m.dilation, 0, m.stride)[0].T
            np.testing.assert_array_equal(windows.numpy(), (part[1] - part[0]).numpy())
            assert bool((found.reach >= found.apart.abs()).all())
