"""Differences between Triton versions, and what unedited files need on a machine without a GPU."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any

from render.interpreter.scope import PatchScope
from render.interpreter.script import LaunchOnImport

OLDEST = (3, 6)


def version(text: str) -> tuple[int, int]:
    """(3, 9) of "3.9" or "3.9.0"; ValueError for what is no supported version of Triton."""
    found = re.match(r"(\d+)\.(\d+)(?:\.|$)", text)
    if found is None or (int(found[1]), int(found[2])) < OLDEST:
        raise ValueError(f"{text!r} is no version of Triton that is supported; known: 3.6 and later")
    return int(found[1]), int(found[2])


def installed() -> tuple[int, int]:
    """Version of the Triton whose language runs the kernels."""
    import triton

    return version(triton.__version__)


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

    from render.interpreter.host import cuda_on_cpu

    with PatchScope() as scope, cuda_on_cpu():
        known_keys(scope)
        for owner in (jit.JITFunction, interpreter.InterpretedFunction, Autotuner, testing.Mark):
            scope.set(owner, "run", _no_launch)
        for name in ("do_bench", "do_bench_cudagraph"):
            scope.set(testing, name, _no_launch)
        yield
