"""Torch's operations of functions (`torch.cond`, `while_loop`, `map`) as what they are written for: Python's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch


def _cond(asked: Any, yes: Callable[..., Any], no: Callable[..., Any], operands: Sequence[Any] = ()) -> Any:
    return (yes if asked else no)(*operands)


def _while_loop(
    asked: Callable[..., Any], body: Callable[..., Any], carried: Sequence[Any], others: Sequence[Any] = ()
) -> Any:
    while asked(*carried, *others):
        carried = body(*carried, *others)
    return tuple(carried)


def _map(function: Callable[..., Any], rows: Sequence[torch.Tensor], others: Sequence[Any] = ()) -> Any:
    found = [function(*(x[i] for x in rows), *others) for i in range(len(rows[0]))]
    if isinstance(found[0], torch.Tensor):
        return torch.stack(found)
    return type(found[0])([torch.stack(column) for column in zip(*found, strict=True)])


ORDERS: dict[str, Callable[..., Any]] = {"cond": _cond, "while_loop": _while_loop, "map_impl": _map}
"""By the name of the operation; its functions run where somebody follows what they do."""
