"""Tiles that a matrix unit of fp8 or of scaled numbers does not take are widened to 16 bits: the profiles hold both.

Which tiles these are is read in the PTX by `tests/render/interpreter/test_lowering.py`.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from block_fma import STYLES, UNITS, Unit, fractions, in_order, operand_pair, run
from support import exact, rng, trials

from interval_ops.dot.integer import dot_int
from interval_ops.dot.rule import PendingDot
from interval_ops.formats.model import BF16, FP8E4NV, FP8E5, FP16
from interval_ops.profiles.profile import load_profile

WIDENED = {"fp8": UNITS["sm_90", "fp16"], "fp8_fp16acc": UNITS["sm_90", "fp16acc"]}
NATIVE = {"fp8": UNITS["sm_100", "fp8"], "fp8_fp16acc": Unit(32, 25, 10, FP16, True)}


def bounds(name: str, kind: str, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    shape = (a.shape[-2], b.shape[-1])
    return PendingDot.start(None, shape, kind, load_profile(name)).extend((a, a), (b, b)).interval()


@pytest.mark.parametrize("kind", WIDENED)
@pytest.mark.parametrize("name", ("sm_90", "sm_100", "any"))
def test_fp8_widened_to_fp16(name, kind):
    generator = rng(1501)
    for trial in range(trials(40)):
        fmt, k = (FP8E4NV, FP8E5)[trial % 2], int(generator.integers(1, 100))
        a, b = operand_pair(generator, 1, 2, 2, k, fmt, STYLES[trial % len(STYLES)])
        lo, hi = bounds(name, kind, a, b)
        for i, j in np.ndindex(2, 2):
            pairs = fractions(a[0, i], b[0, :, j])
            units = [(WIDENED[kind], FP16), *([(NATIVE[kind], fmt)] if name == "sm_100" else [])]
            values = [f(Fraction(0), pairs, unit, seen, *more) for unit, seen in units
                      for f, more in ((run, (generator,)), (in_order, ()))]  # fmt: skip
            for value in (sum((x * y for x, y in pairs), Fraction(0)), *values):
                assert exact(float(lo[0, i, j])) <= value <= exact(float(hi[0, i, j])), (kind, k)


def worst_row() -> tuple[np.ndarray, np.ndarray]:
    """One product of 2^17, then per 16: all lose as much as they can to alignment, and their sum to the rounding.

    The unit of the sum is 2^-6 and that of the alignment 2^-8: products are 0.98 of that, or 1.97 of it three times,
    which leaves three quarters of the former.
    """
    left, right = np.full((1, 1, 512), 1.125 * 2.0**-6, np.float32), np.full((1, 512, 1), 1.75 * 2.0**-3, np.float32)
    left[..., 0], right[:, 0] = 256.0, 512.0
    for k in range(512 // 16):
        right[:, 1 + 16 * k : 4 + 16 * k] = 1.75 * 2.0**-2
    return left, right


def test_the_fp8_unit_alone_is_not_enough():
    """The widened sum leaves the bounds of the native unit (sm_120) and stays in those of sm_100."""
    a, b = worst_row()
    value = in_order(Fraction(0), fractions(a[0, 0], b[0, :, 0]), WIDENED["fp8"], FP16)
    inside = {}
    for name in ("sm_100", "sm_120"):
        lo, hi = bounds(name, "fp8", a, b)
        inside[name] = exact(float(lo.item())) <= value <= exact(float(hi.item()))
    assert inside == {"sm_100": True, "sm_120": False}


def test_rounding_to_fp16_after_sixteen_products_is_not_enough_of_one_after_32():
    a, b = np.ones((1, 1, 1025), np.float32), np.ones((1, 1025, 1), np.float32)
    a[..., 0], b[:, 1:] = 1.0, 2.0**-4 * 2.0**-11 * 0.9375
    value = in_order(Fraction(0), fractions(a[0, 0], b[0, :, 0]), WIDENED["fp8_fp16acc"], FP16)
    assert value == 1  # every sixteen of them are less than half of the last place
    for name, holds in (("sm_100", True), ("sm_120", False)):
        lo, hi = bounds(name, "fp8_fp16acc", a, b)
        assert (exact(float(lo.item())) <= value <= exact(float(hi.item()))) == holds


@pytest.mark.parametrize("kind", ("mxfp8", "mxfp4"))
@pytest.mark.parametrize("name", ("sm_100", "any"))
def test_scaled_numbers_widened_to_bf16(name, kind):
    """Products as the bf16 unit sums them, for numbers that bf16 holds whatever their scales."""
    generator, unit = rng(1502), UNITS["sm_90", "bf16"]
    for trial in range(trials(30)):
        k = 64 * int(generator.integers(1, 4))
        a, b = operand_pair(generator, 1, 2, 2, k, FP8E4NV, STYLES[trial % len(STYLES)])
        if kind == "mxfp4":
            a, b = (np.sign(x) * generator.choice([0.5, 1, 1.5, 2, 3, 4, 6], x.shape) for x in (a, b))
        scale = np.repeat(np.exp2(generator.integers(-12, 12, (1, 2, k // 32)).astype(np.float32)), 32, -1)
        a, b = (a * scale).astype(np.float32), b.astype(np.float32)
        lo, hi = bounds(name, kind, a, b)
        for i, j in np.ndindex(2, 2):
            pairs = fractions(a[0, i], b[0, :, j])
            for value in (run(Fraction(0), pairs, unit, BF16, generator), in_order(Fraction(0), pairs, unit, BF16)):
                assert exact(float(lo[0, i, j])) <= value <= exact(float(hi[0, i, j])), k


@pytest.mark.parametrize("name", ("sm_90", "sm_100", "any"))
def test_int8_may_saturate_or_wrap(name):
    """A sum that leaves int32 on the way and comes back is right in a unit that wraps only."""
    a = np.full((1, 1, 2), 127, np.int8)
    b = np.array([127, -127], np.int8).reshape(1, 2, 1)
    c = np.full((1, 1, 1), 2**31 - 1, np.int32)
    assert dot_int(a, b, c, load_profile(name))[1]
