"""Runs kernels on Triton's own interpreter, in a process where TRITON_INTERPRET is not set."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import triton.language as tl
from triton.runtime.interpreter import InterpretedFunction
from triton.runtime.jit import JITFunction


@contextmanager
def stock_interpreter() -> Iterator[None]:
    """Inside, launches of jitted kernels and their calls of jitted helpers go to the stock interpreter.

    TRITON_INTERPRET=1 does the same at decoration time: every `@triton.jit` gives an `InterpretedFunction`, those of
    `triton.language.standard` (`tl.sum`, ...) included. Here each JITFunction gets such a twin when it is used.
    """
    twins: dict[Callable[..., Any], InterpretedFunction] = {}  # by the plain function: hashing a JITFunction parses it

    def twin(function: JITFunction) -> InterpretedFunction:
        if function.fn not in twins:
            twins[function.fn] = InterpretedFunction(function.fn)
        return twins[function.fn]

    def run(self: JITFunction, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> None:
        twin(self).run(*args, grid=grid, warmup=warmup, **kwargs)

    def call(self: JITFunction, *args: Any, **kwargs: Any) -> Any:
        return twin(self)(*args, **kwargs)

    # The stock interpreter patches the language at each helper call and leaves part of that behind.
    patched = (tl, tl.core, tl.math, tl.tensor, tl.dtype, tl.condition, tl.core.tensor_descriptor_base)
    saved = [(owner, dict(vars(owner))) for owner in (JITFunction, *patched)]
    JITFunction.run, JITFunction.__call__ = run, call
    try:
        yield
    finally:
        for owner, names in saved:
            _restore(owner, names)


def _restore(owner: Any, names: dict[str, Any]) -> None:
    for name in set(vars(owner)) - names.keys():
        delattr(owner, name)
    for name, value in names.items():
        if vars(owner).get(name) is not value:
            setattr(owner, name, value)
