"""Torch's compiler stays out of the way: what it is given runs as eager, and kernels are interpreted as written."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

import torch

from render.interpreter import device
from render.interpreter.scope import PatchScope

NOTE = "torch.compile ran as eager: what its compiler would have changed is not judged"


@contextlib.contextmanager
def uncompiled() -> Iterator[None]:
    """`torch.compile` gives back what it is given, what it compiled before is eager, `wrap_triton` wraps nothing."""
    from torch._library import triton as wrapped

    def compile(model: Any = None, /, *args: Any, **options: Any) -> Any:
        device.current().notes.add(NOTE)
        return compile if model is None else model

    compile.__module__ = "torch"
    with contextlib.ExitStack() as stack:
        scope = stack.enter_context(PatchScope())
        scope.set(torch, "compile", compile)
        if hasattr(wrapped, "wrap_triton_enabled"):
            scope.set(wrapped, "wrap_triton_enabled_default", False)
            scope.set(wrapped.wrap_triton_enabled, "value", False)
        if "torch._dynamo" in sys.modules and hasattr(torch.compiler, "set_stance"):
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        yield
