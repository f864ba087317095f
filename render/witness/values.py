"""The values of an evaluation: intervals, or the float64 ends of many values that were made at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from render.exact import intervals as iv
from render.exact.points import above, below
from render.witness.rule import Value

Ends = tuple[np.ndarray, np.ndarray]
"""Lower and upper ends; NaN in both is anything."""


class Values:
    """By number. Of truth values the ends are 0 and 1: (surely, possibly)."""

    def __init__(self, total: int) -> None:
        self.low, self.high = np.full(total, np.nan), np.full(total, np.nan)
        self.truth = np.zeros(total, bool)
        self._single: dict[int, Value] = {}

    def __getitem__(self, number: Any) -> Value:
        n = int(number)
        if n in self._single:
            return self._single[n]
        low, high = float(self.low[n]), float(self.high[n])
        return (low != 0, high != 0) if self.truth[n] else iv.interval(low, high)

    def __setitem__(self, n: int, value: Value) -> None:
        self._single[n] = value
        if value is None:
            return
        if isinstance(value[0], bool):
            self.truth[n] = True
            self.low[n], self.high[n] = value
        else:
            self.low[n], self.high[n] = below(value[0]), above(value[1])

    def put(self, numbers: np.ndarray, ends: Ends) -> None:
        self.low[numbers], self.high[numbers] = ends

    def many(self, found: list[Value]) -> Ends:
        """Single intervals as ends."""
        pairs = [(np.nan, np.nan) if x is None else (below(x[0]), above(x[1])) for x in found]
        return tuple(np.array(pairs, np.float64).reshape(-1, 2).T)  # type: ignore[return-value]

    def ends(self, numbers: np.ndarray) -> Ends:
        return self.low[numbers], self.high[numbers]
