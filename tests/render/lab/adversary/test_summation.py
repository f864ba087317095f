"""Every order gives a sum that some sequence of rounded additions gives: all trees of few terms, enumerated."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from support import exact, rng, round_fraction, trials

from interval_ops.formats.model import FP16, FP32
from render.lab.adversary import numbers, summation


def all_sums(terms: tuple[Fraction, ...], fmt, product: bool = False) -> set[Fraction]:
    """Results of every binary tree over every order, each node rounded to nearest."""

    @cache
    def over(members: frozenset[int]) -> frozenset[Fraction]:
        if len(members) == 1:
            return frozenset({terms[next(iter(members))]})
        found = set()
        first, *rest = sorted(members)
        for mask in range(1 << len(rest)):
            left = frozenset({first, *(r for j, r in enumerate(rest) if mask >> j & 1)})
            if left == members:
                continue
            for x in over(left):
                for y in over(members - left):
                    found.add(round_fraction(x * y if product else x + y, fmt))
        return frozenset(found)

    return set(over(frozenset(range(len(terms)))))


@pytest.mark.parametrize("fmt", [FP32, FP16], ids=lambda f: f.name)
@pytest.mark.parametrize("kind", ["sum", "prod"])
@pytest.mark.parametrize("order", summation.ORDERS)
def test_reductions(order, kind, fmt):
    generator = rng(1)
    x = numbers.to_format(generator.standard_normal((5, trials(10))) * 10, fmt)
    out = summation.reduce(x, kind, fmt, order, generator)
    for lane in range(x.shape[1]):
        terms = tuple(exact(float(v)) for v in x[:, lane])
        assert exact(float(out[lane])) in all_sums(terms, fmt, kind == "prod")


@pytest.mark.parametrize("order", summation.SCANS)
def test_scans(order):
    generator = rng(2)
    x = numbers.to_format(generator.standard_normal((6, trials(6))) * 10, FP32)
    out = summation.scan(x, "sum", FP32, order, generator)
    for lane in range(x.shape[1]):
        for last in range(6):
            terms = tuple(exact(float(v)) for v in x[: last + 1, lane])
            assert exact(float(out[last, lane])) in all_sums(terms, FP32)


def test_fused_sums_are_chains_of_fma():
    generator = rng(3)
    x, y = (numbers.to_format(generator.standard_normal((4, 8)), FP32) for _ in range(2))
    out = summation.fused(x, y, "forward", FP32, generator)
    for lane in range(8):
        acc = Fraction(0)
        for a, b in zip(x[:, lane], y[:, lane], strict=True):
            acc = round_fraction(exact(float(a)) * exact(float(b)) + acc, FP32)
        assert exact(float(out[lane])) == acc


def test_orders_differ():
    x = np.concatenate([[1.0], np.full(64, 2.0**-24)]).astype(np.float32)[:, None]
    found = {float(summation.reduce(x, "sum", FP32, order, rng(4))[0]) for order in summation.ORDERS}
    assert {1.0, 1 + 64 * 2.0**-24} <= found
