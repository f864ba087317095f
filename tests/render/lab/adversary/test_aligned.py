"""Aligned inputs do what they promise: their rounding errors point one way and add up."""

from __future__ import annotations

import numpy as np
import pytest
from support import rng

from render.interpreter.session import Session
from render.lab.adversary import aligned
from render.lab.adversary.catalogue import every
from render.lab.adversary.material import STYLES, values
from render.lab.adversary.subjects import SPLIT

N = 128


def chain(x: np.ndarray, product: bool = False) -> np.ndarray:
    """Left to right in fp32."""
    total = x[..., 0].astype(np.float32)
    for i in range(1, x.shape[-1]):
        term = x[..., i].astype(np.float32)
        total = total * term if product else total + term
    return total.astype(np.float64)


def test_squares_of_roots_stagnate():
    x = aligned.roots(rng(1), (8, N), 23).astype(np.float32).astype(np.float64)
    error = chain(x * x) / (x * x).sum(-1) - 1
    assert (error > 0.9 * (N - 1) * 2.0**-24).all()


def test_exponentials_of_logs_stagnate():
    x = np.exp(aligned.logs(rng(2), (8, N), 23)).astype(np.float32).astype(np.float64)
    assert (chain(x) / x.sum(-1) - 1 > 0.6 * (N - 1) * 2.0**-24).all()


def test_products_climb_one_way():
    x = aligned.climbing(rng(3), (16, N), 23)
    assert np.array_equal(x, x.astype(np.float32))
    error = chain(x, product=True) / np.prod(x.astype(np.longdouble), -1).astype(np.float64) - 1
    assert (np.abs(error) > 0.7 * (N - 1) * 2.0**-24).all()
    assert {-1.0, 1.0} == set(np.sign(error))


@pytest.mark.parametrize("precision", SPLIT)
def test_split_pairs_lose_more_than_random_ones(precision: str):
    """Several of the split products lose most of a unit when cut at it."""
    bits = 10 if precision == "tf32x3" else 7
    x, y = aligned.split_pair(rng(4), precision, 24)
    assert np.float32(x) == x and np.float32(y) == y

    def parts(v: float) -> list[float]:
        found = []
        for _ in range(3 if precision == "bf16x6" else 2):
            last = 2.0 ** (np.frexp(v)[1] - 1 - bits)
            found.append(float(np.rint(v / last) * last))
            v -= found[-1]
        return found

    a, b = parts(x), parts(y)
    cut = [abs(a[i] * b[j]) * 2.0**24 % 1 for i in range(len(a)) for j in range(len(b)) if i + j < len(a)]
    assert sum(cut) > 1.8


@pytest.mark.parametrize("style", STYLES)
def test_every_style_makes_numbers_of_the_format(style: str):
    for fmt in ("fp32", "fp16", "bf16", "fp64"):
        x = values(rng(5), (4, 16), fmt, style)
        assert x.shape == (4, 16) and bool(x.isfinite().all())
    flat = values(rng(6), (4, 16), "fp32", "flat stagnant")
    assert flat[0, 0] == 1 and float(flat.abs().reshape(-1)[1:].max()) < 2.0**-20


def test_styles_of_subjects_make_inputs():
    """Each style of each kernel gives what its launcher takes."""
    with Session("any", interval=False):
        for subject in every():
            own = subject.inputs(np.random.default_rng(1), "normal")
            for style in subject.styles:
                other = subject.inputs(np.random.default_rng(1), style)
                assert type(other) is type(own) and len(other) == len(own)
