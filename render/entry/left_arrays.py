"""numpy in a reference whose inputs are float64, or have float64 beside them: floats stay float64 there.

E rounds nothing, in torch by float64 beside each value. An array of float64 keeps that through casts to other floats,
and so do arrays that the reference makes to write into; constants are as their author rounded them.
"""

from __future__ import annotations

import linecache
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache, wraps
from itertools import islice
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import _disable_current_modes

from render.entry.target import is_tool_file
from render.interpreter.scope import PatchScope

_AROUND = frozenset(["array", "leaves"])
_HERE = str(Path(__file__).parents[1])
_MADE = re.compile("(zeros|ones|empty|full)(_like)?|arange|linspace")
_CONVERTED = re.compile("array|as(any|contiguous)?array")
"""numpy's functions that make arrays, of nothing and of others, by their names."""


class WidenedArray(np.ndarray):
    """Stays float64 through casts to other floats."""

    def astype(self, dtype: Any, *args: Any, **kwargs: Any) -> Any:
        kept = self.dtype == np.float64 and np.dtype(dtype).kind == "f"
        return super().astype(self.dtype if kept else dtype, *args, **kwargs)


def is_asked_outside(frame: FrameType | None) -> bool:
    """Whether the user's code calls `Tensor.numpy`, which each of those who watch it stands around."""
    while frame is not None and (
        frame.f_code.co_name == "__array__"
        or (frame.f_code.co_name in _AROUND and frame.f_code.co_filename.startswith(_HERE))
    ):
        frame = frame.f_back
    return frame is not None and not is_tool_file(frame.f_code.co_filename)


@contextmanager
def watched(tell: Callable[[torch.Tensor], None], *names: str) -> Iterator[None]:
    """`tell` hears in the body of each tensor of which the user's code takes all numbers at once, by these methods."""

    def telling(plain: Callable[..., Any]) -> Callable[..., Any]:
        def leaves(x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            if is_asked_outside(sys._getframe(1)):
                tell(x)
            return plain(x, *args, **kwargs)  # the user's call

        return leaves

    with PatchScope() as scope:
        for name in names:
            scope.set(torch.Tensor, name, telling(getattr(torch.Tensor, name)))
        yield


@contextmanager
def widened_arrays(computes: bool, value: Callable[[torch.Tensor], torch.Tensor] = lambda x: x) -> Iterator[None]:
    """Arrays of tensors are such ones in the body, with the numbers that `value` gives for them, and where the body
    `computes` in numpy, not only makes tables there, arrays that it makes itself."""
    numpy = torch.Tensor.numpy

    def array(x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if not x.is_floating_point() or not is_asked_outside(sys._getframe(1)):
            return numpy(x, *args, **kwargs)
        with _disable_current_modes():
            wide = value(x).detach()
        found = numpy(wide, *args, **kwargs)  # the user's call
        return found.view(WidenedArray) if found.dtype == np.float64 else found

    with PatchScope() as scope:
        scope.set(torch.Tensor, "numpy", array)
        if computes:
            scope.update(np, {n: _maker(made) for n, made in vars(np).items() if _MADE.fullmatch(n)})
            scope.update(np, {n: _converter(made) for n, made in vars(np).items() if _CONVERTED.fullmatch(n)})
        yield


def _wide(found: Any) -> Any:
    floats = isinstance(found, np.ndarray) and found.dtype.kind == "f"
    return np.ndarray.astype(found, np.float64, copy=False).view(WidenedArray) if floats else found


def _calls(frame: FrameType, name: str) -> bool:
    """Whether the user's code is at a call by this name, and not at one of compiled code, which has no frame of its own
    and takes the types that it asks for as given: `rng.random(n, dtype=np.float32)` fills what `numpy.empty` gives."""
    return not is_tool_file(frame.f_code.co_filename) and _called(frame.f_code, frame.f_lasti) == name


@lru_cache(maxsize=1 << 12)
def _called(code: CodeType, at: int) -> str:
    """The name of what an instruction calls, as its line has it; "" where there is no source."""
    line, _, column, _ = next(islice(code.co_positions(), at // 2, None), (None,) * 4)
    text = linecache.getline(code.co_filename, line or 0).encode()[column or 0 :].decode(errors="replace")
    return text.partition("(")[0].strip().rpartition(".")[2]


def _maker(plain: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(plain)
    def made(*args: Any, **kwargs: Any) -> Any:
        found = plain(*args, **kwargs)
        return _wide(found) if _calls(sys._getframe(1), plain.__name__) else found

    return made


def _converter(plain: Callable[..., Any]) -> Callable[..., Any]:
    """Of what is wide already no number is rounded."""

    @wraps(plain)
    def converted(data: Any, dtype: Any = None, **kwargs: Any) -> Any:
        if not _calls(sys._getframe(1), plain.__name__):
            return plain(data, dtype, **kwargs)
        wide = isinstance(data, WidenedArray) or (isinstance(data, torch.Tensor) and data.is_floating_point())
        if wide and dtype is not None and np.dtype(dtype).kind == "f":
            dtype = None
        return _wide(plain(data, dtype, **kwargs))

    return converted
