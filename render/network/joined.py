"""One operation between borders, of what both sides have there: residual sums, and functions in a container's code.

A region that is one operation on elements of tensors that stand at borders needs no walk of its own: E, movement and
bounds follow from both sides' activations, a part at a time (`columns`). `AnchoredMode` sees that it is one; float64
beside it is put off until the next operation, and never computed where the border takes it over.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np
import torch

from interval_ops.arithmetic.hull import rounding_gate
from interval_ops.formats.model import FP32
from render.interpreter.hosted.call import Bounds, Call, quiet
from render.interpreter.hosted.cuts import cut_of
from render.interpreter.hosted.table import RULES
from render.interpreter.memory import Envelope
from render.interpreter.memory.shadow import hull_of
from render.network import sums
from render.network.capture import Key, Tensors
from render.network.layered import At, LayerTwin, settled
from render.network.pairs import Pair
from render.network.passed import Passed
from render.ops.aten import ATEN, base_name
from render.ops.nested import leaves_of
from render.reference.figures import stride
from render.reference.local_error import Unit
from render.reference.running_error import Movable
from render.reference.shadow import ShadowMode, default_dtype

PART = 1 << 17
"""Elements of a part: two operands of so many, and what is made of them, stay in a cache."""
_PAIRS = frozenset(["add", "sub", "mul", "div", "maximum", "minimum"])


class JoinStep(NamedTuple):
    """An operation on elements, and where its operands stand: (border, place)."""

    func: Any
    places: tuple[tuple[Key, int], ...]


@cache
def plain_step(func: Any, count: int) -> Any:
    """The operation on elements of `count` tensors that `func` is, where it is one, in place or not; else None."""
    if type(func) is not torch._ops.OpOverload:
        return None
    name = base_name(func._schema.name)
    if func._schema.is_mutable:
        func = getattr(getattr(torch.ops.aten, name, None), func._overloadname, None)
    known = name in RULES and name in ATEN and func is not None and not func._schema.is_mutable
    if not known or len(func._schema.returns) != 1 or (count == 1 and cut_of(func, (None,), {}, 1) is None):
        return None
    return func if count == 1 or (count == 2 and name in _PAIRS) else None


class _Anchor(NamedTuple):
    """A tensor that holds what both sides start from."""

    tensor: weakref.ref[torch.Tensor]
    version: int
    place: tuple[Key, int]

    def holds(self, x: torch.Tensor) -> bool:
        return self.tensor() is x and x._version == self.version


@dataclass
class _Waiting:
    """An operation that ran, and what float64 beside it is to be computed of."""

    func: Any
    args: tuple[torch.Tensor, ...]
    out: torch.Tensor
    step: JoinStep


class AnchoredMode(ShadowMode):
    """Knows of the operation that ran last whether it is one step from border to border, and puts its float64 off."""

    def __init__(self, unit: Unit | None = None) -> None:
        super().__init__(unit)
        self._anchors: dict[int, _Anchor] = {}
        self._waiting: _Waiting | None = None

    def anchor(self, x: torch.Tensor, given: torch.Tensor, place: tuple[Key, int]) -> None:
        """x holds `given` from here on, whatever was made of it before."""
        if self._waiting is not None and self._waiting.out is x:
            self._waiting = None
        self.settle()
        self.shadows.lend(x, given)
        if not x.is_inference():
            self._anchors[x.untyped_storage()._cdata] = _Anchor(weakref.ref(x), x._version, place)

    def made_by(self, x: torch.Tensor) -> JoinStep | None:
        """The step that x is the result of, if it is the last one and its operands are those at borders."""
        return self._waiting.step if self._waiting is not None and self._waiting.out is x else None

    def settle(self, *_: Any) -> None:
        """What was put off."""
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            mutable = waiting.func._schema.is_mutable
            twins, errors = self._beside((waiting.args, {}), list(waiting.args), mutable)
            self._follow(waiting.func, twins, errors, waiting.out, [waiting.out], None)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.settle()
        step = None if kwargs or self.decides else self._step(func, args)
        if step is None:
            if getattr(getattr(func, "_schema", None), "is_mutable", True):
                self._forget(args, kwargs)
            return super().__torch_dispatch__(func, types, args, kwargs)
        out: torch.Tensor = func(*args)
        if func._schema.is_mutable:
            self._forget(args[:1])
        self._waiting = _Waiting(func, args, out, step)
        return out

    def _step(self, func: Any, args: Any) -> JoinStep | None:
        if not 0 < len(args) < 3 or not all(type(x) is torch.Tensor and x.dtype == torch.float32 for x in args):
            return None
        plain = plain_step(func, len(args))
        found = [] if plain is None else [self._anchors.get(x.untyped_storage()._cdata) for x in args]
        places = tuple(a.place for a, x in zip(found, args, strict=False) if a is not None and a.holds(x))
        alike = len(places) == len(args) and all(x.shape == args[0].shape for x in args)
        return JoinStep(plain, places) if alike else None

    def _forget(self, *written: Any) -> None:
        for x in leaves_of(written):
            if isinstance(x, torch.Tensor) and x.layout == torch.strided:
                self._anchors.pop(x.untyped_storage()._cdata, None)

    def value(self, x: torch.Tensor) -> torch.Tensor:
        self.settle()
        return super().value(x)

    def error(self, x: torch.Tensor) -> torch.Tensor:
        self.settle()
        return super().error(x)

    def found(self, x: torch.Tensor, value: np.ndarray, error: np.ndarray, estimated: bool) -> None:
        self.settle()
        self._forget(x)
        super().found(x, value, error, estimated)

    def release(self) -> None:
        self._waiting, self._anchors = None, {}
        super().release()


@dataclass
class JoinPart:
    """Some elements; `own` and `other`: both sides' operands."""

    func: Any
    own: Tensors
    other: Tensors
    unit: Unit

    def _wide(self, operands: Tensors, error: float = 0.0) -> Movable:
        wide = tuple(x.double() for x in operands)
        return Movable(self.func, wide, {}, [x.abs().mul_(error) for x in wide] if error else [], default_dtype)

    @cached_property
    def _carried(self) -> tuple[torch.Tensor, torch.Tensor]:
        return self._of(self.own)

    def _of(self, operands: Tensors) -> tuple[torch.Tensor, torch.Tensor]:
        (value,), (bound,) = ShadowMode(self.unit).carried(self._wide(operands, self.unit.inputs), operands[0])
        if bound is None:
            return value, torch.zeros_like(value)
        return value, torch.from_numpy(settled(value.numpy(), bound.numpy(), self.unit.inputs)[0])

    @property
    def value(self) -> torch.Tensor:
        return self._carried[0]

    def moved(self, unit: float) -> torch.Tensor:
        """How far it moves where every operand moves by a roundoff of itself."""
        return self._carried[1].float()

    def of_other(self) -> torch.Tensor:
        """E of the reference's operands."""
        found: torch.Tensor = self._wide(self.other).run()[0]
        return found

    def other_moved(self) -> torch.Tensor:
        """How far that moves."""
        return self._of(self.other)[1].float()

    def bounds(self, device: Any) -> Bounds | None:
        """What the target may make of the hulls of both sides' operands, by the rule of host operations."""
        known = {}
        for x, other in zip(self.own, self.other, strict=True):
            lo, hi = hull_of(x.numpy(), other.numpy(), other.numpy())
            known[id(x)] = Envelope(lo, hi, np.ones(1, np.bool_), True, frozenset())
        with quiet():
            found: Any = RULES[base_name(self.func._schema.name)](Call(self.func, tuple(self.own), {}, known, device))
        return found if isinstance(found, Bounds) else None


@dataclass
class SumPart(JoinPart):
    """Of a sum or difference of two tensors."""

    def passed(self, y: np.ndarray, z: np.ndarray, units: tuple[float, float, float], device: Any) -> Passed:
        """All that is asked of them, in one pass. `y` and `z`: both results."""
        profile = Call(self.func, tuple(self.own), {}, {}, device).profile
        gate = rounding_gate(FP32, profile.muted("arith"))
        rates = (self.unit.inputs, *self.unit.rounding(torch.float32))
        own, other = ((x.numpy(), w.numpy()) for x, w in (self.own, self.other))
        sign = _SIGNS[base_name(self.func._schema.name)]
        return sums.passed(own, other, (y, z), sign, rates, units, gate, stride(y.size))


_SIGNS = {"add": 1.0, "sub": -1.0}


@dataclass
class JoinTwin(LayerTwin):
    """One operation between borders; `entry` is that of its first operand."""

    step: JoinStep
    operands: tuple[tuple[Pair, int], ...]
    unit: Unit

    @classmethod
    def of(cls, step: JoinStep, out: tuple[Pair, int], pairs: Mapping[Key, Pair], unit: Unit) -> JoinTwin | None:
        """None where its tensors are not plain ones in float32."""
        operands = tuple((pairs[key], place) for key, place in step.places)
        tensors = [pair.at(side)[place] for pair, place in (*operands, out) for side in ("target", "reference")]
        plain = all(t.dtype == torch.float32 and t.is_contiguous() and t.shape == tensors[0].shape for t in tensors)
        return cls(None, operands[0][0], step, operands, unit) if plain and tensors[0].numel() else None

    @property
    def cause(self) -> str:
        return ATEN[base_name(self.step.func._schema.name)].cause

    def possible(self) -> bool:
        return True

    def let_go(self) -> None:
        """Nothing is held."""

    def shape(self) -> tuple[int, ...]:
        pair, place = self.operands[0]
        return tuple(pair.target[place].shape)

    def parts(self, side: str) -> Iterator[tuple[At, JoinPart]]:
        sides = [[pair.at(s)[place].detach().view(-1) for pair, place in self.operands] for s in (side, "reference")]
        summed = len(self.operands) == 2 and base_name(self.step.func._schema.name) in _SIGNS
        kind = SumPart if summed else JoinPart
        for start in range(0, sides[0][0].numel(), PART):
            at = slice(start, start + PART)
            own, other = ([t[at] for t in tensors] for tensors in sides)
            yield (at,), kind(self.step.func, own, other, self.unit)
        for pair, _ in self.operands:
            pair.rest()

    def cut(self, whole: torch.Tensor, at: At) -> torch.Tensor:
        return whole.view(-1)[at[0]]

    def put(self, whole: torch.Tensor, at: At, part: torch.Tensor) -> None:
        whole.view(-1)[at[0]] = part


__all__ = ["AnchoredMode", "JoinStep", "JoinTwin"]
