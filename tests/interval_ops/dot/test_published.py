"""Widths against the published rule, and the oracle against published outputs."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from block_fma import UNITS, Unit, fractions, in_order, quantise
from dot_support import adversarial, dot
from support import rng

from interval_ops.formats.model import BF16, FP8E4NV, FP16, FP32
from interval_ops.profiles.profile import load_profile

pytestmark = pytest.mark.filterwarnings("error")


@pytest.mark.parametrize(
    ("kind", "fmt", "charged", "k", "most"),
    (
        ("fp16", FP16, 2.0**-23, 64, 0.35),
        ("fp16", FP16, 2.0**-23, 512, 0.35),
        ("bf16", BF16, 2.0**-23, 512, 0.35),
        ("tf32", FP32, 2.0**-10, 512, 0.5),
        ("ieee", FP32, 2.0**-10, 64, 0.002),
    ),
)
def test_width_against_the_published_rule(kind, fmt, charged, k, most):
    """Algorithm 1 of the RENDER paper as its package charges it: operands, product and 2^-23 per term."""
    a, b = (quantise(rng(72 + i).standard_normal(s), fmt)[None] for i, s in enumerate(((16, k), (k, 16))))
    lo, hi = dot(a, b, kind, load_profile("sm_90"))
    magnitude = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64)
    published = magnitude * ((1 + charged) ** 3 * (1 + (k - 1) * 2.0**-23) - 1)
    assert np.median((hi - lo) / 2 / published) <= most


def test_unit_of_the_oracle_against_published_outputs():
    """The oracle itself: the examples of the published analysis come out as stated."""
    a, b, *_ = adversarial("V100", 8)
    assert in_order(Fraction(0), fractions(a, b), Unit(4, 23), FP16) == 1
    a, b, *_ = adversarial("H100 fp8", 64)
    assert in_order(Fraction(0), fractions(a, b), UNITS["sm_90", "fp8"], FP8E4NV) == 1
