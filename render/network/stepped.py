"""Leaves that both sides have and that are one operation of the table, in parts: E, movements and bounds by its rules.

The rules are those that the walks follow, on so many elements that what stands between operand and result stays in a
cache. As whole arrays the passes of a normalisation fetch each element from memory some thirty times.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from render.interpreter.hosted.call import Bounds, Call, quiet
from render.interpreter.hosted.curves import moved as moved_by_slopes
from render.interpreter.hosted.cuts import WINDOWS, Cut, cut_of
from render.interpreter.hosted.elementwise import function_slopes
from render.interpreter.hosted.norms import batch_norm_sides, layer_norm_sides
from render.interpreter.hosted.pooling import Windows
from render.interpreter.hosted.table import RULES
from render.interpreter.memory import Envelope
from render.interpreter.memory.shadow import hull_of
from render.network.batch_norms import ChannelSides
from render.network.layered import At, CarriedPart, LayerTwin, settled
from render.network.pairs import Pair
from render.network.passed import Passed
from render.network.row_norms import RowNorm
from render.network.twins import is_torchs
from render.reference.figures import stride
from render.reference.local_error import CANCELLING, Unit, base_name
from render.reference.normalised import channel_sides
from render.reference.running_error import Movable
from render.reference.shadow import F64, ShadowMode, default_dtype, leaves_of, mapped
from render.result.defects import caught

PART = 1 << 18
"""Elements: with fewer, the calls of a part take longer than its passes; with more, these leave the last cache."""


class _SeveralStepsError(Exception):
    """A module does more than one operation."""


class _Seen(TorchDispatchMode):
    """The operation of a call on tensors, after views; raises where anything follows it.

    It is not carried out: what comes out has the shape of the call's result, and numbers that nobody wrote.
    """

    def __init__(self, shape: torch.Size) -> None:
        super().__init__()
        self.shape = shape
        self.steps: list[tuple[Any, Any, Any]] = []
        self.whole = False

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        given = [t for t in leaves_of((args, kwargs)) if isinstance(t, torch.Tensor)]
        if given and self.steps:
            raise _SeveralStepsError
        if not given or func.is_view:
            return func(*args, **kwargs)
        self.steps.append((func, args, kwargs))
        if func._schema.is_mutable:
            return args[0]
        made = [given[0].new_empty(self.shape) for _ in func._schema.returns]
        return made[0] if len(made) == 1 else tuple(made)


@dataclass(frozen=True)
class LeafStep:
    """One operation; its operand in the place of which a part is to stand is None among the arguments."""

    func: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    result: torch.Size
    """The shape of all that it returns."""

    @classmethod
    def of(cls, module: nn.Module, x: torch.Tensor, result: torch.Tensor) -> LeafStep | None:
        """What a module does with a tensor like x to return one like `result`, if that is all that it does."""
        seen, given = _Seen(result.shape), torch.empty_like(x)
        with torch.no_grad(), suppress(_SeveralStepsError), seen:
            module.forward(given)
            seen.whole = True
        if not seen.whole or not seen.steps:
            return None
        func, args, kwargs = seen.steps[0]
        if func._schema.is_mutable:  # in place: the operation itself
            func = getattr(getattr(torch.ops.aten, base_name(func), None), "default", None)
        alone = sum(t is given for t in leaves_of((args, kwargs)))
        if func is None or alone != 1 or not args or args[0] is not given:
            return None
        args, kwargs = mapped(lambda t: t.detach() if isinstance(t, torch.Tensor) else t, (args, kwargs))
        return cls(func, (None, *args[1:]), kwargs, result.shape)

    @property
    def name(self) -> str:
        return base_name(self.func)

    def windows(self, x: torch.Tensor) -> Windows | None:
        """Those of planes whose largest elements it takes; torch looks for their places as well, one by one."""
        if self.name not in WINDOWS:
            return None
        return Windows.of(Call(self.func, (x, *self.args[1:]), self.kwargs, {}), tuple(self.result[-2:]))

    @property
    def beside(self) -> list[torch.Tensor]:
        """Its other operands."""
        return [t for t in leaves_of((self.args, self.kwargs)) if isinstance(t, torch.Tensor)]


@dataclass
class StepPart(CarriedPart):
    """Some elements."""

    step: LeafStep
    x: torch.Tensor
    other: torch.Tensor
    unit: Unit

    @cached_property
    def _carried(self) -> tuple[torch.Tensor, torch.Tensor]:
        return self._by_slopes() or self._by_movements()

    def _by_slopes(self) -> tuple[torch.Tensor, torch.Tensor] | None:
        """A function of one number: by the largest slope of its cell, in place of two evaluations more."""
        found = function_slopes(self.step.func, self.step.args, self.step.kwargs)
        if found is None or self.x.dtype != torch.float32:
            return None
        value, u = self._wide(self.x).run()[0], self.unit
        beside = u.cancelling + 8 * u.inner(F64) if self.step.name in CANCELLING else 0.0
        rates = u.inputs, beside, 5 * u.rounding(F64)[0]
        moved = moved_by_slopes(self.x.reshape(-1).numpy(), value.view(-1).numpy(), found, rates)
        return None if moved is None else (value, torch.from_numpy(moved).view(value.shape))

    def _by_movements(self) -> tuple[torch.Tensor, torch.Tensor]:
        mode = ShadowMode(self.unit)
        values, bounds = mode.carried(self._wide(self.x, self.unit.inputs), self.x)
        if bounds[0] is None:
            return values[0], torch.zeros_like(values[0])
        moved, _ = settled(values[0].numpy(), bounds[0].numpy(), self.unit.inputs)
        return values[0], torch.from_numpy(moved)

    def _wide(self, x: torch.Tensor, error: float = 0.0) -> Movable:
        given = self.step.args, self.step.kwargs
        args, kwargs = mapped(lambda t: t.double() if isinstance(t, torch.Tensor) else t, given)
        nested = (x.double(), *args[1:]), kwargs
        errors = [t.abs().mul_(error) for t in leaves_of(nested) if isinstance(t, torch.Tensor)] if error else []
        return Movable(self.step.func, *nested, errors, default_dtype)

    def of_other(self) -> torch.Tensor:
        """E of the reference's operand."""
        found: torch.Tensor = self._wide(self.other).run()[0]
        return found

    def other_moved(self) -> torch.Tensor | None:
        """As far as E of the target's operand."""
        return None

    def bounds(self, device: Any) -> Bounds | None:
        """What the target may make of the hull of both operands, by the rule of host operations; None without one."""
        lo, hi = hull_of(self.x.numpy(), self.other.numpy(), self.other.numpy())
        known = {id(self.x): Envelope(lo, hi, np.ones(1, np.bool_), True, frozenset())}
        call = Call(self.step.func, (self.x, *self.step.args[1:]), self.step.kwargs, known, device)
        call.evaluated = self.x.numpy(), self.value.numpy()
        found: Any = None
        with quiet():
            found = RULES[self.step.name](call)
        found = found[0] if isinstance(found, tuple) else found
        return found if isinstance(found, Bounds) else None


@dataclass
class SelectedPart(StepPart):
    """Some elements of an operation that takes the largest of some: exact in the operand's own type, and increasing.

    Where every operand moves by a roundoff of itself, which keeps their order, so does the largest.
    """

    @cached_property
    def _carried(self) -> tuple[torch.Tensor, torch.Tensor]:
        value = self._of(self.x).double()
        return value, value.abs().mul_(self.unit.inputs)

    def _of(self, x: torch.Tensor) -> torch.Tensor:
        windows = self.step.windows(x)
        if windows is not None:
            return torch.from_numpy(windows.largest(x.numpy()))
        found = self.step.func(x, *self.step.args[1:], **self.step.kwargs)
        first: torch.Tensor = found[0] if isinstance(found, tuple) else found
        return first

    def of_other(self) -> torch.Tensor:
        return self._of(self.other).double()

    def bounds(self, device: Any) -> Bounds:
        ends = (self._of(end(self.x, self.other)).double().numpy() for end in (torch.minimum, torch.maximum))
        return Bounds(*ends)


@dataclass
class NormedPart(StepPart):
    """Some channels of one image through a batch norm by statistics."""

    def passed(self, y: np.ndarray, z: np.ndarray, units: tuple[float, float, float], device: Any) -> Passed | None:
        """All that is asked of them, in one pass; None where their bounds go another way. `y` and `z`: both results."""
        call = Call(self.step.func, (self.x, *self.step.args[1:]), self.step.kwargs, {}, device)
        with quiet():
            sides = batch_norm_sides(call)
            if sides is None:
                return None
            operation = self._wide(self.x[..., :0], self.unit.inputs)
            u, count = self.unit.rounding(F64)[0], self.x.shape[1]
            rows = tuple(np.ascontiguousarray(t).reshape(count, -1) for t in (self.x.numpy(), self.other.numpy(), y, z))
            found = ChannelSides(*channel_sides(operation, u), sides)
            return found.passed(rows, (self.unit.inputs, u), units, stride(self.x.numel()))
        return None


@dataclass
class RowNormedPart(NormedPart):
    """Some rows through a layer norm."""

    def passed(self, y: np.ndarray, z: np.ndarray, units: tuple[float, float, float], device: Any) -> Passed | None:
        _, shape, weight, bias, _ = self.step.args
        if self.step.kwargs or not prod(shape):
            return None
        lo, hi = hull_of(self.x.numpy(), self.other.numpy(), self.other.numpy())
        known = {id(self.x): Envelope(lo, hi, np.ones(1, np.bool_), True, frozenset())}
        with quiet():
            sides = layer_norm_sides(Call(self.step.func, (self.x, *self.step.args[1:]), {}, known, device))
        if sides is None:
            return None
        w, b = (np.empty(0) if t is None else t.double().contiguous().numpy().reshape(-1) for t in (weight, bias))
        rows = tuple(
            np.ascontiguousarray(t).reshape(-1, prod(shape)) for t in (self.x.numpy(), self.other.numpy(), y, z)
        )
        rates = self.unit.inputs, self.unit.rounding(F64)[0]
        return RowNorm(w, b, sides).passed(rows, rates, units, stride(self.x.numel()))


_NORMED = {"native_batch_norm": NormedPart, "native_layer_norm": RowNormedPart}


@dataclass
class StepTwin(LayerTwin):
    """A leaf of torch's that is one operation on elements, rows or channels by themselves."""

    step: LeafStep
    by: Cut
    result: tuple[int, ...]
    unit: Unit

    @classmethod
    def of(cls, module: nn.Module | None, entry: Pair | None, out: Pair, unit: Unit) -> StepTwin | None:
        """None where it is something else, or its tensors are not plain ones in float32."""
        if module is None or entry is None or not _plain(entry, out):
            return None
        if not is_torchs(module) or module.training or "forward" in vars(module):
            return None  # it may keep something of a call, or do another thing to fewer rows
        x = entry.target[0]
        try:
            step = LeafStep.of(module, x, out.target[0])
        except Exception as error:  # the walks will say so
            caught(error, "one operation of a module")
            return None
        cut = None if step is None else cut_of(step.func, step.args, step.kwargs, x.dim())
        if step is None or cut is None or any(t.dtype != x.dtype for t in step.beside):
            return None
        return cls(module, entry, step, cut, tuple(out.target[0].shape), unit)

    @property
    def cause(self) -> str:
        return self.by.cause

    def possible(self) -> bool:
        return True

    def shape(self) -> tuple[int, ...]:
        return self.result

    def parts(self, side: str) -> Iterator[tuple[At, Any]]:
        """A part's operand as its `other` is the reference's."""
        sides = [self.by.seen(t[0]) for t in (self.entry.at(side), self.entry.reference)]
        for at in self._places(sides[0]):
            x, other = (t[at] for t in sides)
            finite = self.by.selects and bool((x.sum() + other.sum()).isfinite())
            kind = SelectedPart if finite else _NORMED.get(self.step.name, StepPart)
            yield at, kind(self._at(at), x, other, self.unit)

    def _places(self, x: torch.Tensor) -> Iterator[At]:
        axis = int(self.by.channels)
        step = max(1, PART // max(1, prod(x.shape[axis + 1 :])))
        for image in range(x.shape[0]) if self.by.channels else (0,):
            for start in range(0, x.shape[axis], step):
                cut = slice(start, min(start + step, x.shape[axis]))
                yield (slice(image, image + 1), cut) if self.by.channels else (cut,)

    def _at(self, at: At) -> LeafStep:
        """With those of its operands that belong to these channels."""
        if not self.by.channels:
            return self.step
        args, kwargs = mapped(lambda t: t[at[1]] if isinstance(t, torch.Tensor) else t,
                              (self.step.args, self.step.kwargs))  # fmt: skip
        return LeafStep(self.step.func, args, kwargs, self.step.result)

    def cut(self, whole: torch.Tensor, at: At) -> torch.Tensor:
        return self.by.seen(whole)[at]

    def put(self, whole: torch.Tensor, at: At, part: torch.Tensor) -> None:
        self.by.seen(whole)[at] = part


def _plain(entry: Pair, out: Pair) -> bool:
    if len(entry.target) != 1 or len(out.target) != 1 or entry.target[0].numel() == 0:
        return False
    tensors = [*entry.target, *entry.reference, *out.target, *out.reference]
    return all(t.dtype == torch.float32 and t.is_contiguous() and t.dim() > 0 for t in tensors)


__all__ = ["StepTwin"]
