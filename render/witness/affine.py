r"""Affine forms: every value of a small document as c + sum k_s x_s with |x_s| <= 1, each x_s shared by many values.

With the slopes g in [g_m - g_r, g_m + g_r] of one operation and its `away` (`slopes`), the mean value theorem gives

    v - c = sum g_m,i (v_i - c_i) + x_new (away + sum g_r,i R_i),    R = sum |k_s|,

so that what the operands share is added up with its signs, and each value is narrowed before it is an operand itself:
the plain formulas go on from there (Stolfi and de Figueiredo, Self-Validated Numerical Methods and Applications, 1997,
3). All coefficients are kept, which is why this is for small documents; `meanvalue` is for the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from render.witness.slopes import Link, linked

if TYPE_CHECKING:
    from render.witness.document import Operation
    from render.witness.evaluate import Evaluator

_U = 2.0**-52
LARGEST = 1 << 24
"""Coefficients: 128 MB."""
MORE = 64
"""Values by which the room for them grows."""


def fits(wide: int) -> bool:
    """Whether there is room for a document of so many values that are no single number."""
    return wide * wide <= LARGEST


class Forms:
    """The forms of the values so far, of an evaluation that is made a second time; `wide` are no single number.

    A few more may be none now: what was one number of more bits than float64 has is narrowed to float64 ends.
    """

    def __init__(self, e: Evaluator, wide: int) -> None:
        self.e = e
        self._centre = np.full(e.used.size, np.nan)
        self._reach = np.zeros(e.used.size)
        self._row = np.zeros(e.used.size, np.int64)
        """Where the coefficients of a value stand; row 0 is that of numbers."""
        self._known = np.zeros((wide + 1, wide + 1))
        self._rows = 1

    def take(self, op: Operation, rows: np.ndarray) -> None:
        """The forms of some values of an operation, which narrow what the plain formulas gave."""
        numbers = op.start + rows
        if self.e.values.truth[numbers].any():
            return
        with np.errstate(all="ignore"):
            link = linked(self.e, op, rows, self._centre)
            self._centre[numbers] = link.centre
            for i, n in enumerate(numbers.tolist()):
                self._form(i, n, link)
            low, high = self.e.values.ends(numbers)
            reach = self._reach[numbers] * (1 + 2 * _U) + 2 * _U * np.abs(link.centre)
            fewer = np.isfinite(reach) & (reach > 0)
            low = np.where(fewer, np.fmax(low, link.centre - reach), low)
            self.e.values.narrow(numbers, (low, np.where(fewer, np.fmin(high, link.centre + reach), high)))

    def _form(self, i: int, n: int, link: Link) -> None:
        own, made = float(link.away[i]), None
        for operand, low, high in link.slopes:
            there = np.atleast_1d(operand[i]) >= 0
            o, a, b = (np.atleast_1d(x[i])[there] for x in (operand, low, high))
            slope, reach = (a + b) / 2, self._reach[o]
            # the slope may be off, and float64 is where the terms are added up
            off = (b - a) / 2 * (1 + 4 * _U) + (o.size + len(link.slopes) + 8) * _U * np.abs(slope)
            own += float(off @ reach) * (1 + (o.size + 8) * _U)
            part = slope @ self._known[self._row[o], : self._rows]
            made = part if made is None else made + part
        if not np.isfinite(own):
            self._reach[n] = np.inf
            return
        if own == 0 and (made is None or not made.any()):
            return
        row, self._rows = self._rows, self._rows + 1
        if row == len(self._known):
            self._known = np.pad(self._known, (0, MORE))
        if made is not None:
            self._known[row, : made.size] = made
        self._known[row, row] = own
        self._row[n] = row
        self._reach[n] = float(np.abs(self._known[row, : row + 1]).sum()) * (1 + (row + 8) * _U)
