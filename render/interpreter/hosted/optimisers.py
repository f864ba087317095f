"""Which code is that of torch's optimisers, whose numbers are followed as tensors are."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from inspect import signature
from types import FrameType
from typing import Any

import torch

_OPTIMISERS = os.path.join(os.path.dirname(torch.__file__), "optim", "")


def of_optimiser(file: str) -> bool:
    """Whether a file is one of torch's optimisers: these compute with numbers as they get them, so that a float that
    turns up there later comes from others that it had. Not a scheduler, which decides by a metric."""
    return file.startswith(_OPTIMISERS) and not file.endswith("lr_scheduler.py")


def asked_by_optimiser() -> bool:
    """Whether one of them runs an operation that takes a tensor as a number (a learning rate): Python never sees it."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OURS):
        frame = frame.f_back
    return of_optimiser(frame.f_code.co_filename)


def asking() -> torch.optim.Optimizer | None:
    """The optimiser that runs an operation."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_OURS):
        frame = frame.f_back
    while frame is not None and of_optimiser(frame.f_code.co_filename):
        found = frame.f_locals.get("self")
        if isinstance(found, torch.optim.Optimizer):
            return found
        frame = frame.f_back
    return None


def numbers_of(optimiser: torch.optim.Optimizer) -> Iterator[float]:
    """The floats that it was given: learning rates, decays, and so on. Those of its signature are its own."""
    own = {y for p in signature(type(optimiser)).parameters.values() for y in _floats(p.default)}
    for group in optimiser.param_groups:
        yield from (y for v in group.values() for y in _floats(v) if y not in own)


def numbers_in(value: Any) -> Iterator[float]:
    """Floats among the attributes of an object, and in groups of them such as an optimiser's."""
    for x in vars(value).values():
        for group in x if isinstance(x, list) and len(x) < 64 else [x]:
            yield from (y for v in (group.values() if type(group) is dict else [group]) for y in _floats(v))


def _floats(x: Any) -> list[float]:
    return [y for y in (x if isinstance(x, tuple) else [x]) if type(y) is float]


_OURS = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "")
