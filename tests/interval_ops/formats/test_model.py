"""Format parameters against ml_dtypes, numpy and the published numbers."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from support import exact, round_fraction

from interval_ops.formats.model import FORMATS, FP16, FP32, FP64, Format, format_of

FINFO = {
    "fp64": np.float64,
    "fp32": np.float32,
    "fp16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "fp8e5": ml_dtypes.float8_e5m2,
    "fp8e4nv": ml_dtypes.float8_e4m3fn,
    "fp8e4b8": ml_dtypes.float8_e4m3fnuz,
    "fp8e5b16": ml_dtypes.float8_e5m2fnuz,
    "e2m1": ml_dtypes.float4_e2m1fn,
}
THRESHOLDS = {"fp16": 65520, "fp8e5": 61440, "fp8e4nv": 464, "fp8e4b8": 248, "fp32": 2.0**128 * (1 - 2.0**-25)}
ALL = tuple(FORMATS.values())


@pytest.mark.parametrize("name", FINFO)
def test_parameters_equal_finfo(name: str) -> None:
    info, fmt = ml_dtypes.finfo(FINFO[name]), FORMATS[name]
    assert float(info.max) == fmt.max
    assert float(info.smallest_normal) == fmt.min_normal
    assert float(info.smallest_subnormal) == fmt.min_subnormal
    assert info.bits == fmt.bits
    assert info.nmant == fmt.p - 1
    assert float(info.eps) == 2 * fmt.u


@pytest.mark.parametrize("name", THRESHOLDS)
def test_overflow_thresholds_are_the_published_ones(name: str) -> None:
    assert FORMATS[name].overflow_threshold == THRESHOLDS[name]


@pytest.mark.parametrize("fmt", [f for f in ALL if f not in (FP64, FORMATS["e8m0"])], ids=lambda f: f.name)
def test_threshold_separates_overflow(fmt: Format) -> None:
    """Just below it rounding stays at max; just above it leaves it."""
    edge = fmt.overflow_threshold
    assert round_fraction(exact(np.nextafter(edge, 0)), fmt) == exact(fmt.max)
    assert round_fraction(exact(np.nextafter(edge, np.inf)), fmt) > exact(fmt.max)


@pytest.mark.parametrize("fmt", [f for f in ALL if f != FP64], ids=lambda f: f.name)
def test_derived_numbers(fmt: Format) -> None:
    assert 2 * fmt.half_subnormal == fmt.min_subnormal
    smallest, trick, spacing, largest = fmt.gate
    assert (smallest, spacing, largest) == (fmt.min_normal, 2 * fmt.u, fmt.max)
    assert trick == 1.5 * 2.0**52 * 2.0 ** (1 - fmt.p)


def test_lookup_by_name() -> None:
    assert format_of("fp16") is FP16
    assert format_of("fp32") is FP32
    with pytest.raises(KeyError, match="fp8e4nv"):
        format_of("float8")
