"""Integer dots: exact, and what an accumulator of 32 bits makes of sums past its range."""

from __future__ import annotations

from typing import Any

import numpy as np

from interval_ops.dot.parameters import INT32_END
from interval_ops.dot.sums import Array
from interval_ops.profiles.profile import Profile


def dot_int(a: Array, b: Array, acc: Array | None, profile: Profile) -> tuple[Array, bool]:
    """Integer dot: exact int32 values, and whether some lane may have left the range of int32.

    Past the range the result wraps or saturates as the profile's `int8` model says; where the profile knows neither,
    and for partial sums that saturate on the way, the second value is the warning. Shapes as in `PendingDot`.
    """
    model = profile.dot("int8")
    mode = model.overflow
    exact = np.rint(np.matmul(a.astype(np.float64), b.astype(np.float64))).astype(np.int64)
    reach = np.matmul(np.abs(a.astype(np.float64)), np.abs(b.astype(np.float64)))
    if acc is not None:
        exact, reach = exact + acc.astype(np.int64), reach + np.abs(acc.astype(np.float64))
    may = bool((reach >= INT32_END).any())
    if may and mode == "saturate":
        exact = np.clip(exact, -(2**31), 2**31 - 1)
    values: np.ndarray[Any, Any] = exact.astype(np.int32)
    return values, may and (mode != "wrap" or bool((np.abs(exact) >= INT32_END).any()))
