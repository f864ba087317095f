"""Conversions of the witness against numpy's and ml_dtypes' roundings, and what targets do past the largest number."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

from interval_ops.formats.model import FORMATS
from render.exact.intervals import Maybe, interval, point
from render.exact.points import number
from render.witness.casts import converted, directed, towards

TYPES = {"fp16": np.float16, "bf16": ml_dtypes.bfloat16, "fp8e5": ml_dtypes.float8_e5m2,
         "fp8e4nv": ml_dtypes.float8_e4m3fn}  # fmt: skip


def floats(x: Maybe) -> tuple[float, float] | None:
    return None if x is None else (float(x[0]), float(x[1]))


@pytest.mark.parametrize("name", TYPES)
def test_to_nearest(name: str) -> None:
    g, fmt = np.random.default_rng(4), FORMATS[name]
    for x in np.float32(g.standard_normal(60) * 2.0 ** g.integers(fmt.emin - fmt.p, 5, 60)):
        y = float(x.astype(TYPES[name]))
        assert floats(converted(point(float(x)), fmt, "rtne", "inf")) == (min(float(x), y), max(float(x), y))


@pytest.mark.parametrize("name", TYPES)
def test_directions_are_neighbours_that_enclose(name: str) -> None:
    g, fmt = np.random.default_rng(6), FORMATS[name]
    for x in g.standard_normal(60) * 2.0 ** g.integers(fmt.emin - fmt.p, 5, 60):
        down, up, cut = (float(directed(number(float(x)), fmt, way)) for way in ("rd", "ru", "rz"))
        assert down < x < up and cut == (down if x > 0 else up)
        nearest = float(np.float32(x).astype(TYPES[name]))
        assert nearest in (down, up) or abs(np.float32(x) - x) > 0
        assert float(np.nextafter(TYPES[name](down), TYPES[name](np.inf if name != "fp8e4nv" else 448))) == up


@pytest.mark.parametrize(("overflow", "expected"), [
    ("inf", (math.inf, math.inf)), ("saturate", (65504.0, 1e6)), ("either", (65504.0, math.inf)), ("nan", None),
])  # fmt: skip
def test_past_the_largest_number(overflow: str, expected: tuple[float, float] | None) -> None:
    found = floats(converted(point(1e6), FORMATS["fp16"], "rtne", overflow))
    assert found == (None if expected is None else (min(1e6, expected[0]), expected[1]))


def test_cutting_stops_at_the_largest_number() -> None:
    assert floats(converted(point(-1e6), FORMATS["fp16"], "rtz", "inf")) == (-1e6, -65504.0)
    assert floats(towards(interval(-1e6, 1e6), FORMATS["fp16"], "ru")) == (-1e6, math.inf)
    assert float(directed(number(-1e6), FORMATS["fp16"], "ru")) == -65504.0
    assert converted(None, FORMATS["fp16"], "rtne", "inf") is None
