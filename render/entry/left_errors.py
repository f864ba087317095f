"""Numbers of a reference that leave torch, with their errors, through Python's arithmetic and back."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import torch

from render.entry.outputs import flatten
from render.interpreter.hosted.decisions import by_array, is_users, of_users
from render.interpreter.hosted.mathematics import math_functions as math_functions
from render.interpreter.hosted.numbers import Ends, LeftNumbers
from render.interpreter.hosted.numbers import Number as Number


class LeftErrors(LeftNumbers):
    """Ends by value, asked for as errors. `estimate` is called where the reference decides by a number that its error
    leaves open: what it does the other way nobody has seen. `rounding`: of each step, beside float64's own."""

    def __init__(self, estimate: Callable[[], None], rounding: float = 0.0) -> None:
        def decides(code: str, operation: str, message: str) -> int:
            estimate()
            return 0

        super().__init__(decides, lambda file: False)
        self.estimate = estimate
        self._users: Any = None
        self.rounding = rounding

    def put(self, value: float, error: float) -> None:
        """A number leaves with this error."""
        if error > 0 or error != error:
            self.known[value] = _around(value, error)
        else:
            self.known.pop(value, None)

    def get(self, value: float, default: float = 0.0) -> float:
        """The error of a number."""
        found = self.known.get(value)
        return default if found is None else max(found.hi - value, value - found.lo)

    def as_plain(self, value: float, error: float, frame: FrameType) -> None:
        """A number may have left as a plain float: what the function makes of it keeps the error."""
        if error > 0:
            self._users = self._users or of_users(self)
            self._users.know(_around(value, error), value, frame)

    def is_unknown(self, data: Any, frame: FrameType) -> bool:
        """Whether a tensor is made, in a frame, of a number that the reference returned and may have computed from
        plain floats that left: of what error nobody knows."""
        if not self.known or not isinstance(data, float):
            return False
        value = float(data)  # which is asked nothing that it would take for a decision
        if value.is_integer() or value in self.known:
            return False
        found = frame.f_code.co_filename == flatten.__code__.co_filename
        if found:
            self.estimate()
        return found

    def told(self, x: Any) -> Any:
        """What leaves, as numbers that keep their error in Python's arithmetic."""
        if isinstance(x, list):
            return [self.told(y) for y in x]
        found = self.known.get(x) if type(x) is float else None
        return x if found is None else Number(x, found, self)


def arrays(
    plain: Callable[..., Any], is_off: Callable[[torch.Tensor], bool], estimate: Callable[[], None]
) -> Callable[..., Any]:
    """`Tensor.numpy`, as which values leave at once: `estimate` is called where the reference goes on by values that
    are off, as nobody sees whether their error leaves that open."""

    def array(x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        frame = sys._getframe(1)
        if is_users(frame) and is_off(x) and by_array(frame) is not None:  # our own code reads what is large
            estimate()
        return plain(x, *args, **kwargs)  # the user's call

    return array


def _around(value: float, error: float) -> Ends:
    lo, hi = value - error, value + error
    if not math.isfinite(lo + hi):
        return Ends(-math.inf, math.inf)
    return Ends(math.nextafter(lo, -math.inf), math.nextafter(hi, math.inf))
