"""What a launch gives back in place of a compiled kernel.

Launchers ask a compiled kernel for its registers and shared memory, to choose a grid, and may launch it directly. Here
nothing is compiled: the figures are plain placeholders, and a launch is interpreted like any other.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from render.interpreter.arguments import constexpr_names

_REGISTERS, _SHARED = 32, 16384


class Compiled:
    """Stands for `triton.compiler.CompiledKernel`. `launch(kernel, grid, args, kwargs)` interprets a launch."""

    def __init__(self, launch: Callable[..., Any], kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._launch, self._kernel, self._args, self._kwargs = launch, kernel, args, kwargs
        self.name = kernel.fn.__name__
        self.n_regs, self.n_spills, self.n_max_threads = _REGISTERS, 0, 1024
        options = {name: kwargs.get(name, default) for name, default in (("num_warps", 4), ("num_stages", 2))}
        self.metadata = SimpleNamespace(shared=_SHARED, num_ctas=1, name=self.name, **options)

    def _init_handles(self) -> None:
        """The real one loads the binary."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"RENDER interprets {self.name} and compiles nothing: there is no {name!r}")

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        constant = constexpr_names(self._kernel)
        names = list(self._kernel.arg_names)
        variable = [n for n in names if n not in constant]
        compiled = dict(zip(names, self._args, strict=False)) | self._kwargs
        # Constants are part of a compiled kernel: a call may leave them out (up to Triton 3.2 it had to).
        kept = {n: v for n, v in compiled.items() if n in constant or n not in names}

        def run(*args: Any, **kwargs: Any) -> Any:
            taken = names if len(args) > len(variable) else variable
            given = dict(zip(taken, args, strict=False)) | kwargs
            return self._launch(self._kernel, grid, (), kept | given)

        return run
