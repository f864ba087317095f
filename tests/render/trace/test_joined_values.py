"""Operations that join many operands, in real arithmetic, against plain loops over Python's numbers."""

from __future__ import annotations

from fractions import Fraction
from statistics import fmean

import ml_dtypes
import numpy as np
import pytest

from render.trace import joined_values
from render.trace.model import ABSENT, Node
from tests.support import rng


def node(operands: tuple[np.ndarray, ...], **attrs: object) -> Node:
    nothing = np.zeros(len(operands[0]))
    return Node("op", dict(attrs), "", 0, 0, operands, nothing, nothing, nothing)


def test_a_recurrence_along_rows_of_different_lengths() -> None:
    g = rng(1)
    a, b = g.integers(-3, 4, (2, 8, 5)).astype(float)
    numbers = np.where(np.arange(5)[None, :] <= g.integers(0, 5, 8)[:, None], 1, ABSENT)
    found = joined_values.scanned([a, b], node((numbers, numbers)))
    for row in range(8):
        total = 0.0
        for j in np.flatnonzero(numbers[row] != ABSENT):
            total = a[row, j] * total + b[row, j]
        assert found[row] == total


def test_ranks_count_from_the_smallest() -> None:
    terms = rng(2).normal(size=(6, 7))
    rank = np.arange(6)
    found = joined_values.ranked(node((rank, terms)), [rank.astype(float), terms])
    assert found.tolist() == [sorted(row)[k] for k, row in zip(rank, terms.tolist(), strict=True)]


@pytest.mark.parametrize("part", ["mean", "square", "weight"])
def test_merged_moments_are_those_of_the_whole(part: str) -> None:
    """Groups of different sizes, each with its mean and sum of squared deviations, against all numbers at once."""
    g = rng(3)
    groups = [[float(v) for v in g.integers(-9, 10, n)] for n in (1, 4, 2, 7)]
    means = np.array([[fmean(x) for x in groups]])
    squares = np.array([[sum((v - fmean(x)) ** 2 for v in x) for x in groups]])
    weights = np.array([[float(len(x)) for x in groups]])
    whole = [Fraction(v) for x in groups for v in x]
    mean = sum(whole) / len(whole)
    wanted = {"mean": mean, "square": sum((v - mean) ** 2 for v in whole), "weight": len(whole)}[part]
    found = joined_values.welford(node((means, squares, weights), part=part), [means, squares, weights])
    assert found[0] == pytest.approx(float(wanted), rel=1e-14)


def test_codes_of_four_bits_and_scales_of_powers() -> None:
    codes, scales = np.arange(16.0), np.arange(120.0, 136.0)
    given = [codes, scales]
    found = joined_values.scaled(node((codes, scales), code="e2m1", scale="e8m0"), given)
    wanted = codes.astype(np.uint8).view(ml_dtypes.float4_e2m1fn).astype(float)
    assert (found == wanted * scales.astype(np.uint8).view(ml_dtypes.float8_e8m0fnu).astype(float)).all()
    assert (joined_values.scaled(node((codes,), code=None, scale=None), [codes]) == codes).all()
    assert (joined_values.scaled(node((codes, scales), code=None, scale="fp8e4nv"), given) == codes * scales).all()
