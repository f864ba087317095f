"""Runs kernels on Triton's own interpreter, in a process where TRITON_INTERPRET is not set."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

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

    saved = JITFunction.run, JITFunction.__call__
    JITFunction.run, JITFunction.__call__ = run, call
    try:
        yield
    finally:
        JITFunction.run, JITFunction.__call__ = saved
