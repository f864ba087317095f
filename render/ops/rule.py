"""One entry of the rule table, and the shapes that rules come in."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from interval_ops.formats.model import Format
from interval_ops.profiles.profile import Profile

Domain = tuple[float, float]
EVERYWHERE: Domain = (-math.inf, math.inf)
NON_NEGATIVE: Domain = (0.0, math.inf)

Apply = Callable[[tuple[Any, ...], Format, Profile], Any]
"""(operand pairs, format, profile) -> pair; comparisons give (surely, possibly), `select` takes its condition first."""


class Shape(StrEnum):
    """How a rule works; entries of one shape share an implementation and a property test."""

    PASSTHROUGH = "passthrough"
    """Moves data: exact, the same on both ends."""
    MONOTONE = "monotone"
    """The ends of the operand give the ends of the result, widened by the target's error."""
    LINEAR = "linear"
    """Sum or difference: ends combine with ends."""
    BILINEAR = "bilinear"
    """Product: the four products of ends."""
    UNIMODAL = "unimodal"
    """One extremum inside: ends plus the extremum."""
    SELECTION = "selection"
    """One of the operands, or the hull where the choice is open."""
    COMPARISON = "comparison"
    """Three-valued: surely, possibly, or not at all."""
    CAST = "cast"
    """Conversion to another format."""
    REDUCTION = "reduction"
    """Many operands in any order."""
    DOT = "dot"
    """Sum of products on a matrix unit."""
    MEMORY = "memory"
    """Reads or writes memory: bounds travel with the element."""
    SPECIAL = "special"
    """A rule of its own."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What is known about one builder method.

    `op` is its name without `create_`. `apply` computes bounds (None where the mechanics live with memory, shapes or
    pending sums); `cause` is the error cause it contributes, None for an exact operation; `error` states the error term
    of a profile in one line, with its source; `domain` is where the function is defined; `tight` says that the result
    is the hull of exact and legal values up to one rounding.
    """

    op: str
    shape: Shape
    doc: str
    apply: Apply | None = None
    arity: int = 1
    cause: str | None = None
    error: Callable[[Profile], str] | None = None
    domain: Domain = EVERYWHERE
    source: str = ""
    tight: bool = True
