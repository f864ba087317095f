"""Torch's operations of functions (`torch.cond`, `while_loop`, `map`, `scan`, `flex_attention`) as what they stand for:
Python's own, and a softmax of scores."""

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


def _scan(
    function: Callable[..., Any], start: Sequence[Any], rows: Sequence[torch.Tensor], others: Sequence[Any] = ()
) -> Any:
    carried, given = list(start), []
    for i in range(len(rows[0])):
        found = function(*carried, *(x[i] for x in rows), *others)
        carried, row = found[: len(carried)], found[len(carried) :]
        given.append(row)
    return (*carried, *(torch.stack(column) for column in zip(*given, strict=True)))


def _flex_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, score_mod: Callable[..., Any], block_mask: Any,
    scale: float, kernel_options: Any, score_mod_other_buffers: Any = (), mask_mod_other_buffers: Any = (),
) -> Any:  # fmt: skip
    from torch._higher_order_ops.flex_attention import math_attention

    out, logarithms, most = math_attention(
        query, key, value, score_mod, block_mask, scale, kernel_options, score_mod_other_buffers, mask_mod_other_buffers
    )
    return out.contiguous(), logarithms, most


ORDERS: dict[str, Callable[..., Any]] = {
    "cond": _cond, "while_loop": _while_loop, "map_impl": _map, "scan": _scan, "flex_attention": _flex_attention,
}  # fmt: skip
"""By the name of the operation; its functions run where somebody follows what they do."""
