"""Reductions, softmax, norms and losses as formulas of rows, written once for every kind of number.

A formula gets the arithmetic `n` and all elements of a row; what is one number per row combines with every element. A
lane joins the reduced axes (`Joined`), evaluates the formula in its arithmetic and puts the results back: slices as
nodes, references in more bits as balls, host bounds as intervals where they have no tighter form.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from render.ops.formulas import Formula, Num, NumberKind, Refused

Named = Mapping[str, Any]
"""Arguments by the names of PyTorch's schema."""


class RowKind(NumberKind, Protocol):
    """What formulas of rows need besides: one number per row."""

    def sum(self, x: Num) -> Num: ...
    def product(self, x: Num) -> Num: ...
    def most(self, x: Num) -> Num: ...
    def least(self, x: Num) -> Num: ...
    def power(self, x: Num, y: Num) -> Num: ...
    def count(self, x: Num) -> int: ...


# --- formulas -----------------------------------------------------------------------------------------------------


def mean(n: RowKind, x: Num) -> Num:
    return n.sum(x) / n.number(float(n.count(x)))


def variance(n: RowKind, x: Num, correction: float | None = None, unbiased: bool = True) -> Num:
    """Two passes: sum (x - mean)^2 / (N - correction)."""
    left = n.count(x) - (float(unbiased) if correction is None else float(correction))
    if left <= 0:
        raise Refused("the variance of too few elements has no rule")
    return n.sum((x - mean(n, x)) ** 2) / n.number(left)


def deviation(n: RowKind, x: Num, **named: Any) -> Num:
    return n.call("sqrt", variance(n, x, **named))


def vector_norm(n: RowKind, x: Num, ord: float | None = 2, p: float | None = None) -> Num:
    order = 2.0 if ord is None and p is None else float(ord if p is None else p)  # type: ignore[arg-type]
    if order == 2:
        return n.call("sqrt", n.sum(x**2))
    if order == 0:
        raise Refused("a norm of order 0 has no rule")
    if order == 1:
        return n.sum(abs(x))
    if math.isinf(order):
        return n.most(abs(x)) if order > 0 else n.least(abs(x))
    exponent = n.number(order)
    return n.power(n.sum(n.power(abs(x), exponent)), 1 / exponent)


def logsumexp(n: RowKind, x: Num) -> Num:
    top = n.most(x)
    return n.call("log", n.sum(n.call("exp", x - top))) + top


def softmax(n: RowKind, x: Num) -> Num:
    powers = n.call("exp", x - n.most(x))
    return powers / n.sum(powers)


def log_softmax(n: RowKind, x: Num) -> Num:
    below = x - n.most(x)
    return below - n.call("log", n.sum(n.call("exp", below)))


def normalised(n: RowKind, x: Num, eps: float) -> tuple[Num, Num, Num]:
    """((x - mean) / sigma, mean, 1 / sigma), sigma^2 = var + eps."""
    middle = mean(n, x)
    apart = x - middle
    scale = n.call("rsqrt", mean(n, apart**2) + n.number(float(eps)))
    return apart * scale, middle, scale


def batch_normalised(n: RowKind, x: Num, running_mean: Num, running_var: Num, training: bool, eps: float) -> Any:
    """By the row's own statistics, or by given ones."""
    if training and running_mean is not None:
        raise Refused("batch_norm that updates its statistics has no rule")
    if training:
        return normalised(n, x, eps)
    return (x - running_mean) * n.call("rsqrt", running_var + n.number(float(eps)))


def rms_normalised(n: RowKind, x: Num, eps: float | None = None) -> Any:
    """(x / root mean square, the reciprocal of that); eps None is that of a dtype, which formulas do not know."""
    if eps is None:
        raise Refused("rms_norm with the eps of its dtype has no rule")
    scale = n.call("rsqrt", mean(n, x**2) + n.number(float(eps)))
    return x * scale, scale


# --- where the elements of rows lie -------------------------------------------------------------------------------


def axes_of(dim: Any, rank: int) -> list[int]:
    """The axes that `dim` names; all for None and for an empty list."""
    given = [dim] if isinstance(dim, int) else list(dim or [])
    return sorted({d % rank for d in given}) if given and rank else list(range(rank))


class Joined:
    """An operand of shape `given`, seen as `shape`, with `axes` joined as the last of two.

    `keep`: a result of one number per row keeps the axes, with length 1. `side`: the shape in which a factor or addend
    of a norm broadcasts over the operand.
    """

    def __init__(
        self, given: Sequence[int], axes: list[int], keep: bool = False, side: Sequence[int] = (),
        shape: Sequence[int] | None = None,
    ) -> None:  # fmt: skip
        self.given, self.axes, self.side = tuple(given), axes, tuple(side)
        self.shape = tuple(given if shape is None else shape)
        self.rest = [d for d in range(len(self.shape)) if d not in axes]
        self.n = math.prod(self.shape[d] for d in axes)
        self.kept = tuple(1 if d in axes else s for d, s in enumerate(self.shape) if keep or d not in axes)

    def rows(self, x: np.ndarray) -> np.ndarray:
        """(rows, elements of each)."""
        count = math.prod(self.shape[d] for d in self.rest)
        return x.reshape(self.shape).transpose(self.rest + self.axes).reshape(count, self.n)

    def back(self, rows: np.ndarray) -> np.ndarray:
        """Rows in the operand's own order of elements."""
        order = self.rest + self.axes
        found: np.ndarray = rows.reshape([self.shape[d] for d in order]).transpose(np.argsort(order))
        return found.reshape(self.given)


def along(named: Named, shape: Sequence[int]) -> Joined:
    """Over `dim`, or all."""
    return Joined(shape, axes_of(named.get("dim"), len(shape)), bool(named.get("keepdim", False)))


def trailing(named: Named, shape: Sequence[int]) -> Joined:
    """Over the axes of `normalized_shape`, the last ones."""
    side = named["normalized_shape"]
    return Joined(shape, list(range(len(shape) - len(side), len(shape))), True, side)


def by_channel(named: Named, shape: Sequence[int]) -> Joined:
    """Over all but the second axis."""
    return Joined(shape, [d for d in range(len(shape)) if d != 1], side=(shape[1], *[1] * (len(shape) - 2)))


def by_group(named: Named, shape: Sequence[int]) -> Joined:
    """Over groups of channels."""
    seen = named["N"], named["group"], math.prod(shape) // max(named["N"] * named["group"], 1)
    return Joined(shape, [2], side=(shape[1], *[1] * (len(shape) - 2)), shape=seen)


@dataclass(frozen=True)
class RowFormula:
    """`formula(n, row, *beside, **keywords)`, with the arguments called `keywords`, gives one result or several.

    `results` has a letter for each: x of the operand's shape, r one number per row. `beside`: operands of one number
    per row. The first result of a norm is multiplied by `weight` and added to `bias`, where such arguments are given.
    """

    formula: Formula
    layout: Callable[[Named, Sequence[int]], Joined] = along
    results: str = "r"
    keywords: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()

    def evaluated(self, n: Any, x: Num, beside: Sequence[Num | None], named: Named) -> tuple[Num, ...]:
        """The results. Raises Refused for arguments that the formula does not know."""
        found = self.formula(n, x, *beside, **{name: named[name] for name in self.keywords if name in named})
        return found if isinstance(found, tuple) else (found,)

    def kinds(self, named: Named) -> str:
        """`results` of this call: with statistics that are given a norm returns no others."""
        return self.results[:1] if named.get("training") is False else self.results
