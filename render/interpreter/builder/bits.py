"""Bit patterns of carried values."""

from __future__ import annotations

from typing import Any

import numpy as np

from interval_ops.formats import tables
from interval_ops.formats.model import FORMATS
from render.interpreter.types import INT_DTYPES


def bitcast(v: np.ndarray, src: Any, dst: Any) -> np.ndarray:
    """Values of type `src` reinterpreted as `dst` of the same width."""
    if src.is_int1() or dst.is_int1():
        # Triton bitcasts integers to int1 for truth tests; any other width has been refused before.
        return (v != 0) if dst.is_int1() else v.astype(INT_DTYPES[dst.name])
    raw = v if src.is_int() else tables.encode(v, FORMATS[src.name])
    if dst.is_int():
        return np.ascontiguousarray(raw).view(INT_DTYPES[dst.name])
    bits = np.ascontiguousarray(raw).view(f"u{dst.primitive_bitwidth // 8}")
    return tables.decode(bits, FORMATS[dst.name])
