"""Sums of many intervals against exact fractions, whatever pieces they are taken in."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from render.exact import intervals as iv
from render.witness import chains, tally
from render.witness.tally import Tally
from tests.render.exact.oracle import fraction
from tests.support import rng, trials


def terms(r, size, grid):
    if grid:
        return [(float(x), float(x)) for x in r.integers(-9, 9, size)]
    low = r.normal(size=size) * 10.0 ** r.integers(-12, 12, size)
    width = np.abs(r.normal(size=size)) * (r.random(size) < 0.5)
    return [(float(a), float(a + w)) for a, w in zip(low, width, strict=True)]


@pytest.mark.parametrize("grid", [True, False])
@pytest.mark.parametrize("piece", [1, 7, 1 << 16])
def test_sums_are_those_of_fractions(grid, piece, monkeypatch):
    monkeypatch.setattr(tally, "PIECE", piece)
    given = terms(rng(9), trials(300), grid)
    found = Tally(iv.interval(*x) for x in given)
    exact = [(Fraction(a), Fraction(b)) for a, b in given]
    low, high = map(fraction, found.total)
    wants = sum(a for a, _ in exact), sum(b for _, b in exact)
    assert found.known and found.count == sum(x != (0, 0) for x in exact)
    assert low <= wants[0] <= wants[1] <= high
    assert wants[0] - low <= abs(wants[0]) / 2**185 and high - wants[1] <= abs(wants[1]) / 2**185
    sizes = [max(abs(a), abs(b)) for a, b in exact]
    assert sum(sizes) <= fraction(found.size) <= sum(sizes) * (1 + Fraction(1, 2**185))
    assert fraction(found.largest) == max(sizes)
    assert (found.step is not None) == grid
    if found.step is not None:
        low, high = found.total
        assert low is high
        assert all(a % Fraction(2) ** found.step == 0 for a, _ in exact)
        assert any(a % Fraction(2) ** (found.step + 1) for a, _ in exact)


def test_infinite_terms_and_such_that_are_anything_are_told():
    found = Tally([iv.point(1.0), iv.interval(2.0, math.inf), iv.point(-math.inf), iv.point(3.0)])
    assert not found.known and found.total == iv.point(4.0) and len(found.endless) == 2 and not found.open
    assert Tally([iv.point(1.0), None]).open


@pytest.mark.parametrize("truncate", ["", "tf32"])
@pytest.mark.parametrize("piece", [3, 1000])
def test_products_are_those_of_fractions(truncate, piece):
    model = {"truncate": truncate, "flush": False, "terms": 1, "emin": -126}
    x, y = rng(10).normal(size=(2, trials(200))).astype(np.float32).astype(float).tolist()
    chain = chains.Chain()
    pairs = [(iv.point(a), iv.point(b)) for a, b in zip(x, y, strict=True)]
    for at in range(0, len(pairs), piece):
        chain.take(pairs[at : at + piece], model)
    made = [Fraction(a) * Fraction(b) for a, b in zip(x, y, strict=True)]
    assert fraction(chain.exact.total[0]) == fraction(chain.exact.total[1]) == sum(made)
    assert fraction(chain.exact.size) == sum(map(abs, made)) and fraction(chain.exact.largest) == max(map(abs, made))
    assert fraction(chain.operands.size) == sum(abs(Fraction(v)) for v in x + y)
    cut = [[Fraction(float(np.uint32(np.float32(v).view(np.uint32) & 0xFFFFE000).view(np.float32))) for v in side]
           for side in (x, y)] if truncate else [list(map(Fraction, side)) for side in (x, y)]  # fmt: skip
    assert fraction(chain.read.total[0]) == sum(a * b for a, b in zip(*cut, strict=True))
    chain.take([(iv.point(math.inf), iv.point(0.0))], model)
    assert not chain.known
