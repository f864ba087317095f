"""The adversary's arithmetic is legal: every step equals the exact rational result rounded once."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from support import exact, random_values, rng, round_fraction, special_values, trials

from interval_ops.formats.model import BF16, FORMATS, FP8E5, FP16, FP32, FP64, Format
from render.lab.adversary import numbers

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered")

NARROW = [f for f in FORMATS.values() if f.name not in ("fp64", "e8m0", "e2m1", "tf32")]


def rounded(x: Fraction, fmt: Format, mode: str = "rtne") -> float:
    r = round_fraction(x, fmt, mode)
    if abs(r) > exact(fmt.max):
        return np.copysign(np.inf, float(np.sign(r)))
    return float(r)


def operands(seed: int, fmt: Format, n: int) -> np.ndarray:
    generator = rng(seed)
    values = special_values(fmt)
    values = values[np.isfinite(values)]
    random = numbers.to_format(np.clip(random_values(generator, fmt, n), -fmt.max, fmt.max), fmt, "rtz")
    plain = numbers.to_format(generator.standard_normal(n) * 4, fmt)
    pool = np.concatenate([values, random.astype(np.float64), plain.astype(np.float64)])
    return generator.choice(pool, n).astype(numbers.carrier(fmt))


@pytest.mark.parametrize("fmt", NARROW, ids=lambda f: f.name)
@pytest.mark.parametrize("mode", ["rtne", "rtz", "away"])
def test_rounding_to_a_format(fmt, mode):
    x = np.concatenate([special_values(fmt, halfway=True), random_values(rng(1), fmt, trials(200))])
    x = x[np.isfinite(x)]
    out = numbers.to_format(x, fmt, mode, "saturate")
    for value, got in zip(x.tolist(), out.tolist(), strict=True):
        r = round_fraction(exact(value), fmt, {"away": "rna"}.get(mode, mode))
        assert exact(got) == max(-exact(fmt.max), min(exact(fmt.max), r))


def test_overflow_modes():
    x = np.array([1e6, -1e6, np.inf])
    assert numbers.to_format(x, FP8E5, "rtne", "saturate").tolist() == [57344, -57344, 57344]
    assert numbers.to_format(x, FP8E5, "rtne", "inf").tolist() == [np.inf, -np.inf, np.inf]
    assert np.isnan(numbers.to_format(x, FORMATS["fp8e4nv"], "rtne", "inf")).all()
    assert numbers.to_format(x[:2], FP16, "rtz").tolist() == [65504, -65504]


@pytest.mark.parametrize("fmt", [FP32, FP16, BF16], ids=lambda f: f.name)
def test_sums_products_and_fused_ones_round_once(fmt):
    n = trials(300)
    x, y, z = (operands(s, fmt, n) for s in (2, 3, 4))
    results = numbers.add(x, y, fmt), numbers.mul(x, y, fmt), numbers.fma(x, y, z, fmt)
    for i in range(n):
        a, b, c = (exact(float(v[i])) for v in (x, y, z))
        for got, want in zip(results, (a + b, a * b, a * b + c), strict=True):
            assert float(got[i]) == rounded(want, fmt)


def test_fp64_fma_rounds_once():
    n = trials(500)
    x, y, z = (operands(s, FP64, n) for s in (5, 6, 7))
    with np.errstate(over="ignore"):
        z[::3] = -(x * y)[::3]  # cancellation shows the low part of the product
    with np.errstate(all="ignore"):
        out = numbers.fma(x, y, z, FP64)
    for i in range(n):
        if not np.isfinite(z[i]):
            continue
        want = exact(float(x[i])) * exact(float(y[i])) + exact(float(z[i]))
        assert float(out[i]) == rounded(want, FP64) or abs(want) < Fraction(2) ** -960


def test_truncation_keeps_ten_bits():
    x = np.array([1 + 2.0**-10 + 2.0**-11, -(2 - 2.0**-23), 2.0**-149], np.float32)
    assert numbers.truncate_fraction(x, 10).tolist() == [1 + 2.0**-10, -(2 - 2.0**-10), 0.0]
