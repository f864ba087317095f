"""Operations as PyTorch itself writes them in smaller ones: what `torch.compile` executes in their place.

A backward pass, attention or a loss without a rule of its own is followed through these steps: each has a rule with its
error, narrow types compute in float32 inside, and what torch's own kernel gave counts as legal beside them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch._ops import OpOverload


@cache
def _table() -> dict[Any, Callable[..., Any]]:
    from torch._decomp import decomposition_table

    return dict(decomposition_table)


@cache
def decomposition(func: Any) -> Callable[..., Any] | None:
    """The steps of an overload, as a function with its arguments; None if there are none."""
    if not isinstance(func, OpOverload):
        return None
    if func in _table():
        return _table()[func]
    return func.decompose if composed(func) else None


@cache
def composed(func: Any) -> bool:
    """Whether torch itself only ever runs it as other operations."""
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd"))
