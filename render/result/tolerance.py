"""A tolerance for a test, derived from a bound: data, computed by `render.judgement.tolerance`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tolerance:
    """`line` is ready to paste. `relative` and `zeros` (a share) are what passes although it is wrong."""

    atol: float
    rtol: float
    line: str
    relative: float
    zeros: float

    @property
    def misses(self) -> str:
        """What it lets through, in words; "" for an exact comparison."""
        if not (self.atol or self.rtol):
            return ""
        text = f"a relative error of {self.relative:.2g} in the whole output"
        if self.zeros:
            text += f", zeros instead of {100 * self.zeros:.2g} % of it"
        return f"that passes every legal execution; it would miss {text}"
