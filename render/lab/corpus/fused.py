"""A correctly rounded fp32 fused multiply-add in numpy.

x * y is exact in float64 (48 bits). The sum with z is not, so it is rounded to odd in float64: the last bit is set
wherever something was cut off. float64 has more than 24 + 2 bits, so rounding that to float32 equals rounding once
(Boldo and Melquiond, IEEE Trans. Computers 57, 2008). Trap: `float32(x64 * y64 + z64)` rounds twice.
"""

from __future__ import annotations

import numpy as np


def multiply_add(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """fl(x * y + z) with one rounding to nearest even; finite float32 arrays."""
    product = x.astype(np.float64) * y.astype(np.float64)
    addend = np.broadcast_to(z.astype(np.float64), product.shape)
    total = product + addend
    virtual = total - product
    lost = (product - (total - virtual)) + (addend - virtual)
    return _odd(total, lost).astype(np.float32)


def _odd(total: np.ndarray, lost: np.ndarray) -> np.ndarray:
    """total + lost rounded to odd: truncated towards zero, then the last bit set, wherever `lost` is not zero."""
    toward_zero = np.where(np.sign(lost) * np.sign(total) < 0, np.nextafter(total, 0.0), total)
    bits = np.ascontiguousarray(toward_zero).view(np.int64)
    return np.where(lost != 0, bits | 1, bits).view(np.float64)
