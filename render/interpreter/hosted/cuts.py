"""How an operation may be carried out on some of its elements at a time: what it does to each part by itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

from render.interpreter.hosted.table import RULES
from render.ops.aten import ATEN, Form, base_name
from render.ops.nested import leaves_of
from render.ops.rows import by_channel, trailing

WINDOWS = frozenset(["max_pool2d_with_indices"])
"""Of planes, the last two axes."""
SELECTING = WINDOWS | {"relu"}
"""Each result is one of the elements, or 0: the largest of some."""
_OF_ELEMENTS = (Form.FUNCTION, Form.ORDER, Form.ARITHMETIC, Form.EXACT)


@dataclass(frozen=True)
class Cut:
    """`seen`: operand and result as the operation works on what the first axis counts by itself. `channels`: the first
    two axes are images and channels in place of that, and its other operands have one number for each channel.
    `selects`: it is one of `SELECTING`."""

    seen: Callable[[torch.Tensor], torch.Tensor]
    cause: str
    channels: bool = False
    selects: bool = False


def cut_of(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], rank: int) -> Cut | None:
    """Of an operation on a contiguous tensor of so many axes, its first operand; None where nothing is known."""
    name = base_name(func._schema.name)
    op = ATEN.get(name)
    if op is None or name not in RULES or kwargs.get("dtype") is not None:
        return None
    if rank == 4 and name == "mean" and sorted(args[1] or ()) == [-2, -1] and args[2:] == (True,):
        return Cut(lambda t: t.view(-1, *t.shape[2:]), op.cause)
    if op.row is not None and op.row.layout is trailing:
        shape = tuple(args[1])
        return Cut(lambda t: t.view(-1, *shape), op.cause)
    if op.row is not None and op.row.layout is by_channel:
        given = not args[5] and args[3] is not None and args[4] is not None
        return Cut(lambda t: t, op.cause, True) if given and rank > 1 else None
    if name in WINDOWS and rank == 4:
        return Cut(lambda t: t.view(-1, *t.shape[2:]), op.cause, selects=True)
    beside = any(isinstance(t, torch.Tensor) for t in leaves_of((args[1:], dict(kwargs))))
    known = bool(op.function or op.formula) and op.form in _OF_ELEMENTS and op.operands == 1 and op.row is None
    return Cut(lambda t: t.view(-1), op.cause, selects=name in SELECTING) if known and not beside else None


def _joins(name: str) -> bool:
    """Whether it is an operation on the elements of two tensors."""
    op = ATEN[name]
    return name == "div" or (op.operands == 2 and op.form in (Form.ARITHMETIC, Form.ORDER))


@cache
def plain_step(func: Any, count: int) -> Any:
    """The operation on elements of `count` tensors, and of nothing else, that `func` is, in place or not; None of
    others."""
    if type(func) is not torch._ops.OpOverload:
        return None
    name = base_name(func._schema.name)
    if func._schema.is_mutable:
        func = getattr(getattr(torch.ops.aten, name, None), func._overloadname, None)
    known = name in RULES and name in ATEN and func is not None and not func._schema.is_mutable
    if not known or len(func._schema.returns) != 1 or (count == 1 and cut_of(func, (None,), {}, 1) is None):
        return None
    return func if count == 1 or (count == 2 and _joins(name)) else None


def cause_of(name: str) -> str:
    """What bounds of an operation are wide of; empty where it rounds nothing."""
    return ATEN[name].cause


__all__ = ["Cut", "cause_of", "cut_of", "plain_step"]
