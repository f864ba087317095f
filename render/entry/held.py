"""The tensors that a function holds: buffers and parameters of modules, what it closes over, its module's globals."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from types import FunctionType, MethodType
from typing import Any

import torch

MOST = 4096
"""Objects that are looked at."""


def held_by(fn: Any) -> list[tuple[str, torch.Tensor]]:
    """(name, tensor), each storage once, in the order in which they are met."""
    found: dict[int, tuple[str, torch.Tensor]] = {}
    for name, x in _HeldTensors().tensors("", fn):
        if x.layout is torch.strided and not x.is_meta:
            found.setdefault(x.untyped_storage()._cdata, (name, x.detach()))
    return list(found.values())


class _HeldTensors:
    def __init__(self) -> None:
        self.seen: set[int] = set()

    def tensors(self, name: str, x: Any) -> Iterator[tuple[str, torch.Tensor]]:
        if id(x) in self.seen or len(self.seen) > MOST:
            return
        self.seen.add(id(x))
        if isinstance(x, torch.Tensor):
            yield name.lstrip("."), x
            return
        for key, inner in _parts(x):
            yield from self.tensors(f"{name}{key}", inner)


def _parts(x: Any) -> list[tuple[str, Any]]:
    """What may hold tensors, by what to write behind the name of x."""
    if isinstance(x, torch.nn.Module):
        known = [*x.named_buffers(recurse=False), *x.named_parameters(recurse=False), *x.named_children()]
        return [(f".{n}", v) for n, v in [*known, *vars(x).items()] if not n.startswith("_")]
    if isinstance(x, partial):
        return [("", x.func), *((f"[{i}]", v) for i, v in enumerate(x.args)), *_named(x.keywords)]
    if isinstance(x, MethodType):
        return [("", x.__self__), ("", x.__func__)]
    if isinstance(x, FunctionType):
        return _of_function(x)
    if isinstance(x, dict):
        return [(f"[{k!r}]", v) for k, v in x.items()]
    if isinstance(x, (list, tuple)):
        return [(f"[{i}]", v) for i, v in enumerate(x)]
    users = type(x).__module__ not in ("builtins", "types") and not isinstance(x, type)
    return _named(vars(x)) if users and callable(x) and hasattr(x, "__dict__") else []


def _named(values: dict[str, Any]) -> list[tuple[str, Any]]:
    return [(f".{n}", v) for n, v in values.items() if not n.startswith("__")]


def _of_function(fn: FunctionType) -> list[tuple[str, Any]]:
    found = []
    for n, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
        try:
            found.append((f".{n}", cell.cell_contents))
        except ValueError:  # not bound yet
            continue
    names = [n for n in fn.__code__.co_names if n in fn.__globals__]
    return found + [(f".{n}", v) for n in names if _worth(v := fn.__globals__[n], fn)]


def _worth(x: Any, fn: FunctionType) -> bool:
    """Tensors, what holds them, and other functions of the same file."""
    if isinstance(x, FunctionType):
        return x.__globals__ is fn.__globals__
    return isinstance(x, (torch.Tensor, torch.nn.Module, dict, list, tuple, partial, MethodType))
