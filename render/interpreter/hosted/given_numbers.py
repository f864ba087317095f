"""Operations on tensors and on Python numbers that left torch before and have bounds of their own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_map

from interval_ops.formats import casting
from interval_ops.formats.model import FP32, FP64
from interval_ops.profiles.profile import Profile
from render.interpreter.hosted.call import TYPED, Bounds, Call, Exact, Known, Result, held_in
from render.interpreter.hosted.made import FILLS
from render.interpreter.hosted.numbers import Ends
from render.interpreter.hosted.table import RULES
from render.interpreter.memory import Envelope
from render.interpreter.memory.records import NO_TAINT
from render.ops.aten import base_name
from render.ops.dtypes import FORMAT_OF

ROUNDINGS = 16
"""By so many roundings to a result's type a rule may tell a number from a tensor that holds it."""
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
        cls, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], ends: dict[float, Ends],
        tensors: Sequence[torch.Tensor], known: Known, profile: Profile,
    ) -> GivenNumbers:  # fmt: skip
        dtype = meeting(tensors)
        held = {x: torch.tensor(x, dtype=dtype) for x in ends}
        typed = base_name(func._schema.name) in TYPED
        own = {
            id(held[x]): Envelope(*_read(e, dtype, typed, profile), np.ones((), np.bool_), True, NO_TAINT)
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
        fmt, whole = FORMAT_OF.get(held_in(self.func, *self.plain)), found
        for at_end in self._at_ends(name, profile):
            whole = None if whole is None else _joined(whole, at_end, ROUNDINGS * (fmt.u if fmt else 0.0))
        # where nothing rounds, a number is not read in float32 either
        return (found if whole and profile.muted("cast") else whole) or self._between(name, profile)

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
        found = list(self._at_ends(name, profile))
        if not all(isinstance(f, Bounds) for f in found):
            return None
        return Bounds(np.minimum.reduce([f.lo for f in found]), np.maximum.reduce([f.hi for f in found]))  # type: ignore[union-attr]

    def _at_ends(self, name: str, profile: Profile) -> Iterator[Result]:
        """What the rule says of each corner of the numbers' bounds, as numbers that are written."""
        for chosen in product(*((e.lo, e.hi) for e in self.ends.values())):
            swap = dict(zip(self.ends, map(float, chosen), strict=True))
            args, kwargs = tree_map(lambda x, s=swap: s.get(x, x) if isinstance(x, float) else x, self.plain)
            yield self._ruled(name, args, kwargs, profile)


def _joined(found: Result, at_end: Result, room: float) -> Result:
    """Bounds for a number with those at one of its ends, which may lie beyond by roundings (of a quotient by a written
    number) and no further: a rule that reads it as a plain number knows nothing of its bounds, and None is known."""
    if isinstance(found, tuple) and isinstance(at_end, tuple):
        parts = tuple(_joined(f, e, room) for f, e in zip(found, at_end, strict=True))
        return None if any(p is None for p in parts) else parts  # type: ignore[return-value]
    if not (isinstance(found, Bounds) and isinstance(at_end, Bounds)):
        return found if type(found) is type(at_end) or isinstance(at_end, Exact) else None  # decided there
    with np.errstate(all="ignore"):
        reach = room * np.maximum(np.abs(found.lo), np.abs(found.hi)) + 2.0**-20 * (found.hi - found.lo)
        reach = np.where(np.isfinite(reach), reach, 0.0)
        within = (at_end.lo >= found.lo - reach) & (at_end.hi <= found.hi + reach)
    return Bounds(np.minimum(found.lo, at_end.lo), np.maximum(found.hi, at_end.hi)) if within.all() else None


def meeting(tensors: Sequence[torch.Tensor]) -> torch.dtype:
    """The type of a tensor without dimensions that gives results their type as a number does.

    A number has no say in it: floats of any kind keep theirs, integers and truth values become the default type. One
    of float64 leaves those that have dimensions alone, not those that have none.
    """
    floats = [t.dtype for t in tensors if t.is_floating_point()]
    if not floats:
        return torch.get_default_dtype() if tensors else torch.float64
    if any(t.dim() for t in tensors if t.is_floating_point()):
        return torch.float64
    return reduce(torch.promote_types, floats)


def _read(ends: Ends, dtype: torch.dtype, typed: bool, profile: Profile) -> tuple[np.ndarray, np.ndarray]:
    """A number as it is and as operations in `dtype` read it: in float32 where they compute in that, and some
    (`typed`) in the result's own type."""
    lo, hi = np.array(ends.lo), np.array(ends.hi)
    own = FORMAT_OF.get(dtype, FP64)
    pairs = [(lo, hi)]
    if own.bits <= 32:
        pairs.append(casting.cast_interval(lo, hi, FP64, FP32, profile))
    if own.bits < 32 and typed:
        pairs.append(casting.cast_interval(*pairs[-1], FP32, own, profile))
    return np.minimum.reduce([p[0] for p in pairs]), np.maximum.reduce([p[1] for p in pairs])
