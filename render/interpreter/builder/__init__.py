"""The object that stands in for Triton's IR builder: an explicit list of operations, no fall-through."""

from __future__ import annotations

from render.interpreter.builder.access import AccessOperations
from render.interpreter.builder.descriptors import Descriptors
from render.interpreter.builder.integers import Integers
from render.interpreter.builder.scaled_dots import ScaledDots
from render.interpreter.builder.shapes import Shapes


class Builder(ScaledDots, Integers, Shapes, AccessOperations, Descriptors):
    """Every `create_*` that Triton's language may call and that has a rule; any other raises UnsupportedOp."""
