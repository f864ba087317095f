"""Operations on tensors and on Python numbers that left torch before and have bounds of their own."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_map

from interval_ops.formats import casting
from interval_ops.formats.model import FP64
from interval_ops.profiles.profile import Profile
from render.interpreter.hosted.call import Bounds, Call, Known, Result, held_in
from render.interpreter.hosted.made import FILLS
from render.interpreter.hosted.numbers import Ends
from render.interpreter.hosted.table import RULES
from render.interpreter.memory import Envelope
from render.interpreter.memory.records import NO_TAINT
from render.ops.dtypes import FORMAT_OF

_FACTORS = frozenset(["alpha", "value", "negative_slope", "weight"])
"""Arguments in which a result is linear while the others stand."""


@dataclass(frozen=True)
class GivenNumbers:
    """A call in which each number of `ends` is a tensor without dimensions; `known` has its bounds."""

    func: Any
    plain: tuple[tuple[Any, ...], dict[str, Any]]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    ends: dict[float, Ends]
    known: dict[int, Envelope]

    @classmethod
    def of(
        cls, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], ends: dict[float, Ends], dtype: torch.dtype,
        known: Known,
    ) -> GivenNumbers:  # fmt: skip
        held = {x: torch.tensor(x, dtype=dtype) for x in ends}
        own = {
            id(held[x]): Envelope(np.array(e.lo), np.array(e.hi), np.ones((), np.bool_), True, NO_TAINT)
            for x, e in ends.items()
        }
        given, named = tree_map(lambda x: held.get(x, x) if isinstance(x, float) else x, (args, kwargs))
        return cls(func, (args, kwargs), given, named, ends, {**known, **own})

    def bounds(self, name: str, profile: Profile) -> Result:
        """Of the results, by rule; None without one."""
        if name in FILLS:
            first = next(iter(self.ends.values()))
            lo, hi, fmt = np.array(first.lo), np.array(first.hi), FORMAT_OF.get(held_in(self.func, *self.plain))
            return Bounds(lo, hi) if fmt is None else Bounds(*casting.cast_interval(lo, hi, FP64, fmt, profile))
        if name not in RULES:
            return None
        found = self._ruled(name, self.args, self.kwargs, profile)
        return found or self._between(name, profile)

    def _ruled(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], profile: Profile) -> Result:
        with contextlib.suppress(Exception), np.errstate(all="ignore"):
            return RULES[name](Call(self.func, args, kwargs, self.known, profile))
        return None

    def _between(self, name: str, profile: Profile) -> Result:
        """The hull of what both ends of each number give. With the other operands fixed, exact and rounded results are
        monotone in a factor: products and sums are, and so are their roundings."""
        named = dict(zip((a.name for a in self.func._schema.arguments), self.plain[0], strict=False))
        named |= self.plain[1]
        if not {k for k, v in named.items() if isinstance(v, float) and v in self.ends} <= _FACTORS:
            return None
        found = []
        for chosen in product(*((e.lo, e.hi) for e in self.ends.values())):
            swap = dict(zip(self.ends, map(float, chosen), strict=True))
            args, kwargs = tree_map(lambda x, s=swap: s.get(x, x) if isinstance(x, float) else x, self.plain)
            found.append(self._ruled(name, args, kwargs, profile))
        if not all(isinstance(f, Bounds) for f in found):
            return None
        return Bounds(np.minimum.reduce([f.lo for f in found]), np.maximum.reduce([f.hi for f in found]))  # type: ignore[union-attr]
