"""Numbers beyond any data, as their bounds show them: `render.interpreter.builder.sentinels` says what they are for."""

from __future__ import annotations

import struct
import zlib

import numpy as np


def marked(exact: float, rounded: float) -> tuple[float, float]:
    """The hull of a number beyond any data and its rounding, moved out by units of float64 that depend on the number.

    A result of arithmetic does not have such ends; the negated number has them negated.
    """
    low, high = min(exact, rounded), max(exact, rounded)
    mark = zlib.crc32(struct.pack("<d", abs(exact)))
    far, near = 3 + mark % 61, 3 + mark // 61 % 59  # away from 0, towards 0: the same number for both signs
    below, above = (far, near) if exact < 0 else (near, far)
    return low - below * float(np.spacing(abs(low))), high + above * float(np.spacing(abs(high)))
