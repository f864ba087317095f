"""Slices through tables that the host makes of numbers alone: linspace, arange, windows, filled tensors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from render.ops.aten import base_name
from render.trace.host_nodes import Formulas, Making, Numbers, Value

Rule = Callable[[Making], Numbers]


def spaced(make: Making) -> Numbers:
    """linspace and logspace: from the nearer end, as many steps as lie between; all in the format of the result."""
    own = _owned(make)
    first, end = (_number(make, make.argument(name)) for name in ("start", "end"))
    last = int(make.argument("steps")) - 1
    early = (make.wanted < (last + 1) // 2) | (last == 0)
    step = (own(end) - own(first)) / own(max(last, 1))
    found = own(np.where(early, first, end)) + own(np.where(early, make.wanted, make.wanted - last)) * step
    if base_name(make.step.name) == "logspace":
        base = own(_number(make, make.argument("base", 10.0)))
        return make.cast(make.function("pow", make.inner, base.numbers, found.numbers), make.inner, make.fmt)
    return found.numbers


def counted(make: Making) -> Numbers:
    """arange: start + i step."""
    n = Formulas(make, make.inner)
    step = n.number(_number(make, make.argument("step", 1)))
    found = n.of(make.constants(make.wanted.astype(np.float64), make.inner)) * step
    return make.cast((found + _number(make, make.argument("start", 0))).numbers, make.inner, make.fmt)


def windowed(weights: Callable[[Making], tuple[float, ...]]) -> Rule:
    """Sums of the weights times 1, cos t, cos 2t with t = 2 pi i / N, N one less for a window that is not periodic."""

    def rule(make: Making) -> Numbers:
        n, own = Formulas(make, make.fmt), _owned(make)
        terms = []
        for k, weight in enumerate(weights(make)):
            turn = own(make.wanted) * own(2 * math.pi * k / _across(make))
            cosine = make.cast(make.function("cos", make.inner, turn.numbers), make.inner, make.fmt)
            terms.append(n.of(cosine) * own(weight) if k else own(weight))
        return sum(terms[-2::-1], terms[-1]).numbers

    return rule


def _owned(make: Making) -> Callable[[Any], Value]:
    """Numbers as the format of the result has them: torch rounds them before it computes with them, or does not."""
    n = Formulas(make, make.fmt)
    wide: Callable[[Any], np.ndarray] = lambda x: np.asarray(x, np.float64).reshape(-1)  # noqa: E731
    return lambda x: n.of(make.cast(make.constants(wide(x), make.inner), make.inner, make.fmt))


def _across(make: Making) -> int:
    return max(int(make.argument("window_length")) - (not make.argument("periodic", True)), 1)


def tent(make: Making) -> Numbers:
    """bartlett_window: up to 1 in the middle, and down again."""
    own, across = _owned(make), _across(make)
    late = make.wanted > across // 2
    return (own(np.where(late, 2, 0)) + own(np.where(late, -make.wanted, make.wanted)) * own(2 / across)).numbers


def filled(make: Making) -> Numbers:
    """One number everywhere."""
    for name in ("fill_value", "value", "s"):
        if (x := make.argument(name)) is not None:
            return make.elements(x) if isinstance(x, torch.Tensor) else make.elements(_number(make, x))
    raise make.refuse("what it is filled with is not known")


def _number(make: Making, x: Any) -> float:
    if not isinstance(x, (int, float)):
        raise make.refuse("its ends are tensors")
    return float(x)
