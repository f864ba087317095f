"""The operations of a run: recorded as it goes, and carried out again where its source is not at hand.

A program is a list of events in their order: a module is entered or left with tensors, an ATen operation makes tensors
of others. Tensors are numbers; those that no operation made (inputs, parameters, buffers, constants) are kept. As a
model it has the modules' names again, so that borders, walks and bounds are those of a live model.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from render.network.capture import Model, copied, hooked, leaves, unchanged
from render.network.declared import AutocastSwitch
from render.network.walks import plain_attention
from render.reference.shadow import in_parts
from render.result.errors import RenderError

Event = list[Any]
"""["in" | "out", module, tensors] or ["op", overload, arguments, keywords, results, autocast's type if in it]."""


class OperationLog(TorchDispatchMode):
    """Writes the events of what runs inside; `kept`: tensors from outside, as they were when they were first read."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __init__(self) -> None:
        super().__init__()
        self.events: list[Event] = []
        self.kept: dict[int, torch.Tensor] = {}
        self.refused: str | None = None
        self.switch = AutocastSwitch()
        self._numbers: dict[int, int] = {}
        self._alive: list[torch.Tensor] = []
        self._forms: list[tuple[Any, ...]] = []

    def number(self, t: torch.Tensor, made: bool = False) -> int:
        if made or id(t) not in self._numbers:
            self._enter(t)
            if not made:
                self.kept[self._numbers[id(t)]] = t.detach().cpu().clone()
        elif self._forms[self._numbers[id(t)]] != _form(
            t
        ):  # torch's recurrent layers turn a result in its place, unseen
            before = {"tensor": self._numbers[id(t)]}
            shape, stride, offset = _form(t)
            self._enter(t)
            view = [before, list(shape), list(stride), offset]
            self.events.append(["op", "aten.as_strided.default", view, {"keys": {}}, [self._numbers[id(t)]]])
        return self._numbers[id(t)]

    def _enter(self, t: torch.Tensor) -> None:
        self._numbers[id(t)] = len(self._alive)
        self._alive.append(t)
        self._forms.append(_form(t))

    def border(self, way: str, name: str, given: Any) -> None:
        with _disable_current_modes():
            self.events.append([way, name, [self.number(t) for t in leaves(given)]])

    @in_parts
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        try:
            given = [written(x, self.number) for x in (list(args), kwargs or {})]
        except TypeError as error:
            self.refused, given = f"{func}: {error}", []
        before = {id(t) for t in leaves((args, kwargs or {}))}
        out = func(*args, **(kwargs or {}))
        for t in leaves((args, kwargs or {})):  # what the operation itself turns in its place
            if id(t) in self._numbers:
                self._forms[self._numbers[id(t)]] = _form(t)
        made = [self.number(t, made=id(t) not in before) for t in leaves(out)]
        dtype = self.switch.made(func, out)
        self.events.append(["op", str(func), *given, made, *([str(dtype).removeprefix("torch.")] if dtype else [])])
        return out


def _form(t: torch.Tensor) -> tuple[Any, ...]:
    """How it lies in its memory; of a tensor without strides its shape alone."""
    return (t.shape, t.stride(), t.storage_offset()) if t.layout == torch.strided else (t.shape, (), 0)


def record(model: Model, inputs: Sequence[Any], seed: int) -> tuple[list[Event], dict[int, torch.Tensor]] | None:
    """The operations of the model's own code; None where one has arguments that a file does not hold."""
    recorder, modules = OperationLog(), model.modules()
    enter = lambda name, module, given: recorder.border("in", name, given)  # noqa: E731
    leave = lambda name, module, result: recorder.border("out", name, result)  # noqa: E731
    with unchanged(model.module), torch.no_grad(), plain_attention(exact=True), hooked(modules, enter, leave):
        torch.manual_seed(seed)
        given = copied(tuple(inputs))
        with recorder.switch, recorder:
            model.module(*given)
    return None if recorder.refused else (recorder.events, recorder.kept)


def written(x: Any, number: Callable[[torch.Tensor], int]) -> Any:
    """An argument as JSON; TypeError for one that has no form there."""
    if isinstance(x, torch.Tensor):
        return {"tensor": number(x)}
    if x is None or isinstance(x, (bool, int, str)):
        return x
    if isinstance(x, float):
        return x if math.isfinite(x) else {"float": str(x)}
    if isinstance(x, (list, tuple)):
        return [written(v, number) for v in x]
    if isinstance(x, Mapping):
        return {"keys": {k: written(v, number) for k, v in x.items()}}
    if isinstance(x, (torch.dtype, torch.layout, torch.memory_format)):
        return {"torch": str(x).removeprefix("torch.")}
    if isinstance(x, torch.device):
        return {"torch": "cpu"}
    raise TypeError(f"an argument of type {type(x).__name__}")


def _read(x: Any, tensors: Mapping[int, Any]) -> Any:
    if isinstance(x, list):
        return [_read(v, tensors) for v in x]
    if not isinstance(x, dict):
        return x
    ((kind, value),) = x.items()
    if kind == "tensor":
        return tensors[value]
    if kind == "keys":
        return {k: _read(v, tensors) for k, v in value.items()}
    if kind == "float":
        return float(value)
    return torch.device("cpu") if value == "cpu" else getattr(torch, value)


def _operation(name: str) -> Any:
    """The overload of `aten.mm.default`. RenderError for one that this torch does not have."""
    found: Any = torch.ops
    for part in name.split("."):
        found = getattr(found, part, None)
        if found is None:
            raise RenderError("RND902", f"the recorded run calls {name}, which this torch does not have")
    return found


class Program(nn.Module):
    """A recorded run as a model. Called with the recorded number of inputs it carries all operations out again."""

    def __init__(self, events: Sequence[Event], kept: Mapping[int, torch.Tensor], loose: bool = False) -> None:
        """`loose`: operations read what is kept of their own operands, and nothing that others made."""
        super().__init__()
        self.loose = loose
        self.steps = [[e[0], _operation(e[1]), *e[2:]] if e[0] == "op" else list(e) for e in events]
        self.kept, self.at = dict(kept), 0
        self.live: dict[int, torch.Tensor] = {}
        for at, event in enumerate(events):
            if event[0] == "in" and event[1]:
                self._part(event[1], at)

    @classmethod
    def of(cls, text: str, kept: Mapping[int, torch.Tensor]) -> Program:
        return cls(json.loads(text), kept)

    def inputs(self) -> tuple[torch.Tensor, ...]:
        """What the recorded run was given."""
        return tuple(self.kept[i] for i in self.steps[0][2] if i in self.kept)

    def _part(self, name: str, at: int) -> None:
        home: nn.Module = self
        for word in name.split("."):
            if word not in home._modules:
                home._modules[word] = Part(self)
            home = home._modules[word]  # type: ignore[assignment]
        assert isinstance(home, Part)
        home.starts.append(at)

    def forward(self, *inputs: torch.Tensor) -> Any:
        self.live = {i: t.clone() for i, t in self.kept.items()}
        return self.carried_out(0, inputs)

    def carried_out(self, start: int, given: Sequence[torch.Tensor]) -> Any:
        """The events from where a module is entered to where it is left, with `given` for its tensors."""
        numbers = self.steps[start][2]
        self.live.update(zip(numbers, given, strict=True))
        self.at = start + 1
        while self.steps[self.at][0] != "out":
            event = self.steps[self.at]
            if event[0] == "in":
                self.get_submodule(event[1])(*[self.live[i] for i in event[2]])
                continue
            self.at += 1
            args, kwargs = (_read(x, self.live) for x in event[2:4])
            with torch.autocast("cpu", getattr(torch, event[5])) if event[5:] else nullcontext():
                out = leaves(event[1](*args, **kwargs))
            self.live.update(zip(event[4], out, strict=True))
        results = tuple(self.live[i] for i in self.steps[self.at][2])
        self.at += 1
        return results[0] if len(results) == 1 else results


class Part(nn.Module):
    """A module of a recorded run: the events between where it was entered and left."""

    def __init__(self, program: Program) -> None:
        super().__init__()
        self.program = [program]  # in a list: it is no module inside this one
        self.starts: list[int] = []

    def forward(self, *given: torch.Tensor) -> Any:
        program = self.program[0]
        at = program.at if program.at in self.starts else self.starts[0]  # by itself: as in its first call
        return program.carried_out(at, given)


__all__ = ["Event", "Program", "record", "written"]
