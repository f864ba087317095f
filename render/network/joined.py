"""One operation between borders, of what both sides have there: residual sums, and functions in a container's code.

A region that is one operation on elements of tensors that stand at borders needs no walk of its own: E, movement and
bounds follow from both sides' activations, a part at a time (`columns`). `AnchoredMode` sees that it is one; float64
beside it is put off until the next operation, and never computed where the border takes it over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.multiprocessing.reductions import StorageWeakRef

from render.interpreter.hosted.call import Bounds, Call, quiet
from render.interpreter.hosted.cuts import cause_of, plain_step
from render.interpreter.hosted.sum_boxes import sum_gate
from render.interpreter.hosted.table import RULES
from render.interpreter.memory import Envelope
from render.interpreter.memory.shadow import hull_of
from render.network import sums
from render.network.capture import Key, Tensors
from render.network.layered import At, CarriedPart, LayerTwin, settled
from render.network.pairs import Pair
from render.network.passed import Passed
from render.reference.figures import stride
from render.reference.local_error import Unit, base_name
from render.reference.running_error import Movable
from render.reference.shadow import ShadowMode, default_dtype, leaves_of

PART = 1 << 17
"""Elements of a part: two operands of so many, and what is made of them, stay in a cache."""


class Seat(NamedTuple):
    """Where an operand stands: a border, which of its tensors, and what of that tensor's memory it is."""

    key: Key
    place: int
    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int

    def of(self, pair: Pair, side: str) -> torch.Tensor:
        """What a side has there, flat."""
        whole = pair.at(side)[self.place].detach()
        return torch.as_strided(whole, self.size, self.stride, whole.storage_offset() + self.offset).reshape(-1)


class JoinStep(NamedTuple):
    """An operation on elements, or None where its operand is all that there is, and where its operands stand."""

    func: Any
    seats: tuple[Seat, ...]


class _Anchor(NamedTuple):
    """The memory of a tensor that holds what both sides start from, and nothing else."""

    storage: StorageWeakRef
    version: int
    place: tuple[Key, int]

    def seat(self, x: torch.Tensor) -> Seat:
        return Seat(*self.place, tuple(x.size()), tuple(x.stride()), int(x.storage_offset()))


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
        self._forget(x)
        storage = x.untyped_storage()
        whole = x.is_contiguous() and x.nbytes == storage.nbytes() and x.shape == given.shape
        if whole and not x.is_inference():
            self._anchors[storage._cdata] = _Anchor(StorageWeakRef(storage), x._version, place)

    def made_by(self, x: torch.Tensor) -> JoinStep | None:
        """The step that x is the result of, if it is the last one and its operands are those at borders; of what
        stands at one, it is none."""
        if self._waiting is not None and self._waiting.out is x:
            return self._waiting.step
        seat = self._seat(x)
        return None if seat is None else JoinStep(None, (seat,))

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
        if not 0 < len(args) < 3 or not all(type(x) is torch.Tensor for x in args):
            return None
        plain = plain_step(func, len(args))
        seats = () if plain is None else tuple(seat for x in args if (seat := self._seat(x)) is not None)
        alike = len(seats) == len(args) and all(seat.size == seats[0].size for seat in seats)
        return JoinStep(plain, seats) if alike else None

    def _seat(self, x: torch.Tensor) -> Seat | None:
        """Nothing but views was made of what stands there; `.data` has a count of its own, and is forgotten."""
        if x.dtype != torch.float32 or x.layout != torch.strided or x.is_inference() or x.is_neg():
            return None
        anchor = self._anchors.get(x.untyped_storage()._cdata)
        return anchor.seat(x) if anchor is not None and x._version == anchor.version else None

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
class JoinPart(CarriedPart):
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
            found: Any = RULES[base_name(self.func)](Call(self.func, tuple(self.own), {}, known, device))
        return found if isinstance(found, Bounds) else None


@dataclass
class SeenPart(JoinPart):
    """Of what stands at a border, as it is."""

    def _wide(self, operands: Tensors, error: float = 0.0) -> Movable:
        raise NotImplementedError

    def _of(self, operands: Tensors) -> tuple[torch.Tensor, torch.Tensor]:
        value = operands[0].double()
        return value, value.abs().mul_(self.unit.inputs)

    def of_other(self) -> torch.Tensor:
        return self.other[0].double()

    def bounds(self, device: Any) -> Bounds:
        x, other = self.own[0], self.other[0]
        return Bounds(*(end(x, other).double().numpy() for end in (torch.minimum, torch.maximum)))


@dataclass
class SumPart(JoinPart):
    """Of a sum or difference of two tensors."""

    def passed(self, y: np.ndarray, z: np.ndarray, units: tuple[float, float, float], device: Any) -> Passed:
        """All that is asked of them, in one pass. `y` and `z`: both results."""
        gate = sum_gate(Call(self.func, tuple(self.own), {}, {}, device))
        rates = (self.unit.inputs, *self.unit.rounding(torch.float32))
        own, other = ((x.numpy(), w.numpy()) for x, w in (self.own, self.other))
        sign = _SIGNS[base_name(self.func)]
        return sums.passed(own, other, (y, z), sign, rates, units, gate, stride(y.size))


_SIGNS = {"add": 1.0, "sub": -1.0}


@dataclass
class JoinTwin(LayerTwin):
    """One operation between borders; `entry` is that of its first operand."""

    step: JoinStep
    operands: tuple[Pair, ...]
    unit: Unit
    _flat: dict[int, tuple[torch.Tensor, torch.Tensor]] = field(default_factory=dict, repr=False)
    """Results that lie in another order, and their elements in that of their axes."""

    @classmethod
    def of(cls, step: JoinStep, out: tuple[Pair, int], pairs: Mapping[Key, Pair], unit: Unit) -> JoinTwin | None:
        """None where its tensors are not plain ones in float32."""
        (made, at), operands = out, tuple(pairs[seat.key] for seat in step.seats)
        places = [(made, at), *((pair, seat.place) for pair, seat in zip(operands, step.seats, strict=True))]
        tensors = [pair.at(side)[place] for pair, place in places for side in ("target", "reference")]
        plain = all(t.dtype == torch.float32 and not t.is_neg() for t in tensors)
        plain = plain and all(t.is_contiguous() for t in tensors[2:])
        fits = plain and tensors[0].numel() > 0 and tuple(tensors[0].shape) == step.seats[0].size
        return cls(None, operands[0], step, operands, unit) if fits else None

    @property
    def name(self) -> str:
        return "" if self.step.func is None else base_name(self.step.func)

    @property
    def cause(self) -> str:
        return cause_of(self.name) if self.name else ""

    def possible(self) -> bool:
        return True

    def let_go(self) -> None:
        self._flat.clear()

    def shape(self) -> tuple[int, ...]:
        return self.step.seats[0].size

    def parts(self, side: str) -> Iterator[tuple[At, JoinPart]]:
        held = list(zip(self.step.seats, self.operands, strict=True))
        sides = [[seat.of(pair, s) for seat, pair in held] for s in (side, "reference")]
        summed = len(held) == 2 and self.name in _SIGNS
        kind = SumPart if summed else JoinPart if self.name else SeenPart
        for start in range(0, sides[0][0].numel(), PART):
            at = slice(start, start + PART)
            own, other = ([t[at] for t in tensors] for tensors in sides)
            yield (at,), kind(self.step.func, own, other, self.unit)
        for pair in self.operands:
            pair.rest()

    def cut(self, whole: torch.Tensor, at: At) -> torch.Tensor:
        if whole.is_contiguous():
            return whole.view(-1)[at[0]]
        if id(whole) not in self._flat:
            self._flat[id(whole)] = whole, whole.reshape(-1)
        return self._flat[id(whole)][1][at[0]]

    def put(self, whole: torch.Tensor, at: At, part: torch.Tensor) -> None:
        whole.view(-1)[at[0]] = part


__all__ = ["AnchoredMode", "JoinStep", "JoinTwin"]
