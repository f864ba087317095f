"""Numbers that numpy gave of followed arrays, `x[i].mean()` or `x[i, j]`, followed on through numpy's arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from render.interpreter.hosted.numbers import ARITHMETIC

_UFUNCS = (np.add, np.subtract, np.multiply, np.true_divide, np.floor_divide, np.remainder, np.power)
_BINARY = {f.__name__: ufunc for f, ufunc in zip(ARITHMETIC, _UFUNCS, strict=True)}
"""numpy's functions by the names of Python's operators."""
_UNARY = {"neg": np.negative, "abs": np.absolute, "pos": np.positive}


class Float32(np.float32):
    """A float32 whose value is that of `twin`, a tensor of no dimension; or of an element of an array that nobody has
    asked for yet: (the array, the index, when). Pickled and copied, it is numpy's own."""

    twin: torch.Tensor | None
    element: tuple[np.ndarray, Any, int] | None

    def __reduce__(self) -> Any:
        return np.float32(self).__reduce__()


class Float64(np.float64):
    """The same of float64."""

    twin: torch.Tensor | None
    element: tuple[np.ndarray, Any, int] | None

    def __reduce__(self) -> Any:
        return np.float64(self).__reduce__()


FOLLOWED = (Float32, Float64)
_KINDS: dict[Any, Any] = {np.float32: Float32, np.float64: Float64}


def followed_number(value: Any, twin: torch.Tensor | None, element: tuple[np.ndarray, Any, int] | None = None) -> Any:
    """`value` with where it comes from; as it is, where numpy has it in another format."""
    kind = _KINDS.get(type(value))
    if kind is None:
        return value
    found = kind(value)
    found.twin, found.element = twin, element
    return found


def own(x: Any) -> Any:
    """numpy's own number."""
    return (np.float32 if isinstance(x, Float32) else np.float64)(x) if isinstance(x, FOLLOWED) else x


def _forward(function: np.ufunc) -> Callable[[Any, Any], Any]:
    return lambda self, other: function(self, other)


def _swapped(function: np.ufunc) -> Callable[[Any, Any], Any]:
    return lambda self, other: function(other, self)


def _alone(function: np.ufunc) -> Callable[[Any], Any]:
    return lambda self: function(self)


for _kind in FOLLOWED:
    _kind.__name__ = _kind.__bases__[0].__name__  # as numpy prints it
    for _name, _two in _BINARY.items():
        setattr(_kind, f"__{_name}__", _forward(_two))
        setattr(_kind, f"__r{_name}__", _swapped(_two))
    for _name, _one in _UNARY.items():
        setattr(_kind, f"__{_name}__", _alone(_one))
