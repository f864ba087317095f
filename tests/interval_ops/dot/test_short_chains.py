"""Short chains of fma in any order: what partial sums can grow to, against published bounds and random trees."""

from __future__ import annotations

import numpy as np
import pytest

from interval_ops.dot.rule import PendingDot
from interval_ops.profiles.profile import load_profile

ULP = 2.0**-24


def bounds(a, b, order="any"):
    """Of one dot; a and b are pairs of arrays of length n."""
    left, right = ([np.asarray(x, np.float64).reshape(shape) for x in pair] for pair, shape in
                   ((a, (1, 1, -1)), (b, (1, -1, 1))))  # fmt: skip
    pending = PendingDot.start(None, (1, 1), "ieee", load_profile("sm_80").chosen(order))
    lo, hi = pending.extend((left[0], left[1]), (right[0], right[1])).interval()
    return float(lo.item()), float(hi.item())


@pytest.mark.parametrize(("n", "known", "satire"), [(8, 25, 59), (128, 5525, 8639)])
def test_dots_over_the_unit_box(n, known, satire):
    """Units of 2^-24 beyond the exact range, at most what Gappa gives in known order and SATIRE in any."""
    one = np.ones(n)
    for order, most in (("tree", known), ("any", satire)):
        lo, hi = bounds((-one, one), (-one, one), order)
        assert lo <= -n and hi >= n and max(hi - n, -n - lo) <= most * ULP


@pytest.mark.parametrize("n", [8, 32, 256])
@pytest.mark.parametrize("kind", ["signed", "positive", "near one"])
def test_no_tree_of_products_and_sums_leaves_the_bound(n, kind):
    rng = np.random.default_rng(n)
    for _ in range(5):
        draw = {"signed": lambda: rng.uniform(-1, 1, n), "positive": lambda: rng.random(n),
                "near one": lambda: 1 - rng.integers(0, 4, n) * ULP}[kind]  # fmt: skip
        a, b = draw().astype(np.float32), draw().astype(np.float32)
        lo, hi = bounds((a, a), (b, b))
        products = (a * b).astype(np.float32)
        for _ in range(20):
            left = list(products[rng.permutation(n)])
            while len(left) > 1:
                i = int(rng.integers(0, len(left) - 1)) if rng.random() < 0.5 else 0
                left[i : i + 2] = [np.float32(left[i] + left[i + 1])]
            assert lo <= float(left[0]) <= hi
