"""What a formula is: (evaluator, operation, place within it) -> value."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from interval_ops.formats.model import FORMATS, Format
from render.witness.document import Operation

if TYPE_CHECKING:
    from render.witness.evaluate import Evaluator

Truth = tuple[bool, bool]
"""(surely, possibly)."""
Value = Any
"""Interval, None (anything) or Truth."""
Rule = Callable[["Evaluator", Operation, int], Value]


class NoFormula(Exception):
    """An operation that the evaluator does not know."""


def fmt_of(op: Operation) -> Format:
    """The format of the operation's first operand."""
    return FORMATS[op.attrs["fmt"]]
