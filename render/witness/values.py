"""The values of an evaluation: intervals, or the float64 ends of many values that were made at once."""

from __future__ import annotations

import numpy as np

from render.exact import intervals as iv
from render.exact.intervals import Maybe
from render.exact.points import above, below
from render.witness.rule import Value

Ends = tuple[np.ndarray, np.ndarray]
"""Lower and upper ends; NaN in both is anything."""


class Values:
    """By number: intervals, and truth values (surely, possibly)."""

    def __init__(self, total: int) -> None:
        self._low, self._high = np.full(total, np.nan), np.full(total, np.nan)
        self.truth = np.zeros(total, bool)
        self._single: dict[int, Value] = {}
        self._late: list[int] = []
        """Numbers whose float64 ends are not written down yet."""

    def __getitem__(self, n: int) -> Value:
        if n in self._single:
            return self._single[n]
        return iv.interval(self._low.item(n), self._high.item(n))

    def __setitem__(self, n: int, value: Value) -> None:
        self._single[n] = value
        if value is not None and isinstance(value[0], bool):
            self.truth[n] = True
        else:
            self._late.append(n)

    def some(self, numbers: np.ndarray) -> list[Maybe]:
        """Intervals, none of them a truth value."""
        single, lows, highs = self._single, self._low[numbers].tolist(), self._high[numbers].tolist()
        return [
            single[n] if n in single else iv.interval(low, high)
            for n, low, high in zip(numbers.tolist(), lows, highs, strict=True)
        ]

    def put(self, numbers: np.ndarray, ends: Ends) -> None:
        self._low[numbers], self._high[numbers] = ends

    def narrow(self, numbers: np.ndarray, ends: Ends) -> None:
        """Puts narrower ends in the place of what is there."""
        for n in numbers.tolist():
            self._single.pop(n, None)
        self.put(numbers, ends)

    def many(self, found: list[Value]) -> Ends:
        """Single intervals as ends."""
        pairs = [(np.nan, np.nan) if x is None else (below(x[0]), above(x[1])) for x in found]
        return tuple(np.array(pairs, np.float64).reshape(-1, 2).T)  # type: ignore[return-value]

    def ends(self, numbers: np.ndarray) -> Ends:
        late, self._late = [n for n in self._late if n in self._single], []
        self.put(np.array(late, np.int64), self.many([self._single[n] for n in late]))
        return self._low[numbers], self._high[numbers]
