"""The teaching page runs, is short, and its bounds hold what its adversary executes."""

from __future__ import annotations

import importlib.util
import random
from fractions import Fraction
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "from_scratch.py"


def _page() -> ModuleType:
    spec = importlib.util.spec_from_file_location("from_scratch", PAGE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    import sys

    sys.modules["from_scratch"] = module
    spec.loader.exec_module(module)
    return module


page = _page()


def test_it_is_short() -> None:
    assert len(PAGE.read_text().splitlines()) <= 300


def test_its_examples() -> None:
    found = page.examples()
    assert {name: label for name, (label, _) in found.items()} == {
        "dot": "Type-I", "softmax": "Type-I", "no maximum": "Type-II", "no mask": "Type-II",
    }  # fmt: skip
    assert found["no maximum"][1].startswith("RND201")
    assert found["no mask"][1].startswith("RND207: the kernel reads outside x in program 3, offset 96")


@pytest.mark.parametrize("scale", [1.0, 1e-20, 1e18])
def test_no_legal_execution_leaves_the_bound(scale: float) -> None:
    """Random orders and contractions; for tiny numbers products underflow."""
    random.seed(0)
    rng = np.random.default_rng(1)
    x, y = (page.Tensor(name, rng.normal(size=(2, 9)) * scale) for name in "xy")
    out = page.Tensor("out", np.zeros(2))
    page.launch(page.dot, 2, page.Language(), x, y, out, 9, 16)
    a, b = (t.v.reshape(2, 9) for t in (x, y))
    for row in range(2):
        pairs = [(Fraction(float(p)), Fraction(float(q))) for p, q in zip(a[row], b[row], strict=True)]
        exact = sum(p * q + p for p, q in pairs)
        assert Fraction(float(out.lo[row])) <= exact <= Fraction(float(out.hi[row]))
    seen = []
    for _ in range(40):
        tried = page.Tensor("out", np.zeros(2))
        page.launch(page.dot, 2, page.Attack(), x, y, tried, 9, 16)
        assert ((out.lo <= tried.v) & (tried.v <= out.hi)).all()
        seen.append(tuple(tried.v))
    assert len(set(seen)) > 3, "the adversary does not vary"


def test_every_operation_encloses_exact_rationals() -> None:
    rng = np.random.default_rng(2)
    for kind in (lambda n: rng.normal(size=n), lambda n: rng.normal(size=n) * 2.0 ** rng.integers(-140, 100, n)):
        v, w = (kind(400).astype(np.float32) for _ in range(2))
        a, b = page.Block(v), page.Block(w)
        for name, exact in (("__add__", lambda p, q: p + q), ("__sub__", lambda p, q: p - q),
                            ("__mul__", lambda p, q: p * q), ("__truediv__", lambda p, q: p / q)):  # fmt: skip
            with np.errstate(all="ignore"):
                c = getattr(a, name)(b)
            for i in range(400):
                x = exact(Fraction(float(v[i])), Fraction(float(w[i])))
                assert c.lo[i] <= c.v[i] <= c.hi[i]
                assert c.lo[i] == -np.inf or Fraction(float(c.lo[i])) <= x
                assert c.hi[i] == np.inf or x <= Fraction(float(c.hi[i]))


def test_sums_that_may_overflow_on_the_way_are_unbounded() -> None:
    with np.errstate(over="ignore"):
        found = page.total(page.Block([3e38, 3e38, -3e38]))
    assert (found.lo, found.hi) == (-np.inf, np.inf)
