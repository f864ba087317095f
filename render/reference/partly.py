"""A part of what a careful implementation loses, for a fraction of the work: what lies within a part is within all.

An attention has as many scores as it has pairs of rows, and what their errors do to its output takes most of the time
of carrying errors; what the last product loses, and what its values are off by, are enough to explain most outputs. Of
products of many more elements than their operands have only the sums are looked at, not their terms; left out are
functions of these, and estimates. Errors of operands go on only where more of them is never less in the result: sums,
products, quotients by their numerators, moves, maxima and casts. Each error that is found is then at most the one that
all of the reference has (`running_error`), as every rule of these operations adds magnitudes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from render.ops.aten import ATEN, Form, of_form
from render.reference.local_error import MULTILINEAR, PRODUCTS, Unit, sum_rates

if TYPE_CHECKING:
    from render.reference.running_error import Movable

GROWN = 2
"""Results per element of the operands from which on a product is left out."""
MUCH = 16
"""Elements computed per element of inputs and outputs from which on a part is worth a run of its own."""
_SUMS = frozenset(name for name, op in ATEN.items() if op.keywords == ("alpha",))
_GO_ON = of_form(Form.MOVE, Form.ORDER, Form.CAST) | MULTILINEAR | _SUMS | {"mul"}
_BY_NUMERATOR = frozenset(["div"])
_OF_TWO = _SUMS | {"mul"} | _BY_NUMERATOR


@dataclass
class LeastErrors:
    """Of one run: results of `least` elements or more that are made of exact operands, or of two tensors by an element
    of each, are left out."""

    least: float = math.inf

    def of(self, op: Movable, values: list[Any], dtype: Any, unit: Unit) -> list[torch.Tensor | None] | None:
        """What is known of these results without another evaluation; if that is not all, None, and `op` has those
        errors of its operands that go on."""
        made = max((x.numel() for x in values if _is_float(x)), default=0)
        if op.name in PRODUCTS and made > GROWN * sum(op.leaves[i].numel() for i in op.tensors):
            self.least = min(self.least, made)
            return [_of_result(op, x, dtype, unit) for x in values]
        if op.adds or op.name not in _GO_ON:
            op.errors = {i: e for i, e in op.errors.items() if op.name in _BY_NUMERATOR and i == 0}
        apart = op.name in _OF_TWO and len(op.tensors) > 1
        return [None] * len(values) if made >= self.least and (apart or not op.errors) else None


def _of_result(op: Movable, value: Any, dtype: Any, unit: Unit) -> torch.Tensor | None:
    """What a product loses at least: a sum of products is at most the sum of their magnitudes."""
    if (least := least_growth(op)) is None or not _is_float(value):
        return None
    per_term, u, _ = sum_rates(op.name, op.args, value.numel(), dtype, unit)
    found: torch.Tensor = value.abs().mul_((per_term + u + (least - 1.0)) * (1 - 2.0**-20))
    return found


def is_much(computed: int, given: Iterable[Any]) -> bool:
    """Whether so many elements, beside these inputs and outputs, are worth a run for a part alone."""
    return computed > MUCH * sum(x.numel() for x in given if isinstance(x, torch.Tensor))


def least_growth(op: Movable) -> float | None:
    """By how much magnitudes of a product of two operands grow at least, less what float64 may lose; else None."""
    if op.name not in PRODUCTS or sum(_is_float(x) for x in op.leaves) != 2:
        return None
    found = 1.0
    for i, error in op.errors.items():
        size = op.leaves[i].abs()
        if error.shape == size.shape and size.numel():
            share = float(torch.where(size > 0, error / size, math.inf).min())
            found *= 1.0 + max(0.0, min(share, 1.0)) * (1 - 2.0**-20)
    return found


def _is_float(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and x.is_floating_point()
