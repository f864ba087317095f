"""One operation of the table, the shapes that operations come in, and what a lane has for each of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Generic, TypeVar

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
    BITS = "bits"
    """Bits taken for another type: exact for a point, tainted for an interval."""
    INTEGER = "integer"
    """Integers, exact."""
    ADDRESS = "address"
    """Pointers, indices and program numbers, exact."""
    STRUCTURE = "structure"
    """The compiler's own: it has no value."""
    SPECIAL = "special"
    """A rule of its own."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What is known about one operation.

    `op` is its name: a builder method without `create_`, a function of the vendor library, or what the recorder calls
    it. `apply` computes bounds (None where the mechanics live with memory, shapes or pending sums); `cause` is the
    error cause it contributes, None for an exact operation; `error` states the error term of a profile in one line,
    with its source; `domain` is where the function is defined; `tight` says that the result is the hull of exact and
    legal values up to one rounding. A function of one argument names the exact `function` that it approximates
    (`interval_ops.functions.tables`) and the profile's `entry` with its error. `steps`: it is constant between jumps.
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
    function: str = ""
    entry: str = ""
    steps: bool = False


def exact_rules(shape: Shape, doc: str, names: str) -> dict[str, Rule]:
    """Operations that need no rule: they run on concrete values."""
    return {name: Rule(name, shape, doc) for name in names.split()}


R = TypeVar("R")


class NoRule(LookupError):
    """A lane has nothing for an operation; nothing is guessed in its place."""


@dataclass(frozen=True)
class Lane(Generic[R]):
    """What one lane has for each operation of a key set: by its name, else by its shape, else a reason for nothing.

    `reasons`: operations or shapes that the lane leaves out, and why. What is in none of the three is an error of
    ours, which `missing` finds and a test looks for.
    """

    name: str
    keys: Mapping[str, Rule]
    named: Mapping[str, R]
    shapes: Mapping[Shape, R] = field(default_factory=dict)
    reasons: Mapping[str | Shape, str] = field(default_factory=dict)

    def get(self, op: str) -> R | None:
        found = self.named.get(op)
        if found is None and op in self.keys and op not in self.reasons:
            found = self.shapes.get(self.keys[op].shape)
        return found

    def __getitem__(self, op: str) -> R:
        """Raises NoRule."""
        found = self.get(op)
        if found is None:
            why = self.reasons.get(op) or (self.reasons.get(self.keys[op].shape) if op in self.keys else "")
            raise NoRule(f"{self.name}: no rule for {op!r}" + (f": {why}" if why else ""))
        return found

    def missing(self) -> set[str]:
        """Operations with neither a rule nor a reason."""
        reasons = self.reasons
        return {op for op, rule in self.keys.items()
                if self.get(op) is None and op not in reasons and rule.shape not in reasons}  # fmt: skip

    def stale(self) -> set[str]:
        """Rules and reasons for operations that do not exist, or that have both."""
        listed = {name for name in self.reasons if not isinstance(name, Shape)}
        return ({*self.named} | listed) - {*self.keys} | ({*self.named} & listed)
