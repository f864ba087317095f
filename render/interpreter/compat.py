"""Differences between Triton versions, and what unedited files need on a machine without a GPU."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from render.interpreter.scope import PatchScope
from render.interpreter.script import LaunchOnImport


def _no_launch(*args: Any, **kwargs: Any) -> Any:
    raise LaunchOnImport


def known_keys(scope: PatchScope) -> None:
    """Autotune keys that are no kernel argument are an error in newer Triton; older files carry them: dropped."""
    from triton.runtime.autotuner import Autotuner

    original = Autotuner.__init__

    def init(self: Any, fn: Any, arg_names: Any, configs: Any, key: Any, *args: Any, **kwargs: Any) -> None:
        known = [k for k in key or [] if k in arg_names]
        original(self, fn, arg_names, configs, known, *args, **kwargs)

    scope.set(Autotuner, "__init__", init)


@contextlib.contextmanager
def import_scope() -> Iterator[None]:
    """What importing a user's file needs on a machine without a GPU; a launch or a benchmark raises LaunchOnImport."""
    from triton import testing
    from triton.runtime import interpreter, jit
    from triton.runtime.autotuner import Autotuner

    from render.interpreter.cuda_redirect import cuda_on_cpu

    with PatchScope() as scope, cuda_on_cpu():
        known_keys(scope)
        for owner in (jit.JITFunction, interpreter.InterpretedFunction, Autotuner, testing.Mark):
            scope.set(owner, "run", _no_launch)
        for name in ("do_bench", "do_bench_cudagraph"):
            scope.set(testing, name, _no_launch)
        yield
