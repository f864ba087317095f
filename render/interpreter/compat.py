"""Differences between Triton versions, and what unedited files need on a machine without a GPU."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from render.interpreter.scope import PatchScope
from render.interpreter.script import LaunchOnImport

if TYPE_CHECKING:
    from render.interpreter.session import Session

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


def patch_autotuner(scope: PatchScope, session: Session) -> None:
    """Autotuners run one configuration: the first that survives pruning, or the session's choice."""
    from triton.runtime.autotuner import Autotuner

    seen: set[tuple[int, tuple[Any, ...]]] = set()

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        self.nargs = dict(zip(self.arg_names, args, strict=False))
        try:
            config = _choose(self, kwargs, session.config)
            self.best_config = config
            full = {**self.nargs, **kwargs, **config.all_kwargs()}
            key = (id(self), _tuning_key(self, {**self.nargs, **kwargs}))
            if len(self.configs) > 1 and key not in seen:
                seen.add(key)
                _reset(self, full)
            if config.pre_hook is not None:
                config.pre_hook(full)
            return self.fn.run(*args, **{**kwargs, **config.all_kwargs()})
        finally:
            self.nargs = None

    scope.set(Autotuner, "run", run)


def _choose(tuner: Any, kwargs: dict[str, Any], index: int) -> Any:
    configs = tuner.configs
    if len(configs) > 1 and getattr(tuner, "early_config_prune", None) is not None:
        configs = (
            tuner.prune_configs(kwargs)
            if tuner.perf_model is None
            else tuner.early_config_prune(configs, tuner.nargs, **kwargs)
        )
    if not 0 <= index < len(configs):
        raise ValueError(f"autotune configuration {index} was asked for, the kernel has {len(configs)}")
    return configs[index]


def _tuning_key(tuner: Any, arguments: dict[str, Any]) -> tuple[Any, ...]:
    keys = [str(arguments[k]) for k in tuner.keys if k in arguments]
    return (*keys, *(str(a.dtype) for a in arguments.values() if hasattr(a, "dtype")))


def _reset(tuner: Any, arguments: dict[str, Any]) -> None:
    """What the tuner does once per key before the chosen configuration runs for good."""
    try:
        tuner.pre_hook(arguments, reset_only=True)
    except TypeError:
        tuner.pre_hook(arguments)


def _no_launch(*args: Any, **kwargs: Any) -> Any:
    raise LaunchOnImport


@contextlib.contextmanager
def import_scope() -> Iterator[None]:
    """What importing a user's file needs on a machine without a GPU; a launch or a benchmark raises LaunchOnImport.

    Autotune keys that are no kernel argument are an error in newer Triton; older files carry them, so they are dropped.
    """
    from triton import testing
    from triton.runtime import interpreter, jit
    from triton.runtime.autotuner import Autotuner

    from render.interpreter.host import cuda_on_cpu

    original = Autotuner.__init__

    def init(self: Any, fn: Any, arg_names: Any, configs: Any, key: Any, *args: Any, **kwargs: Any) -> None:
        known = [k for k in key or [] if k in arg_names]
        original(self, fn, arg_names, configs, known, *args, **kwargs)

    with PatchScope() as scope, cuda_on_cpu():
        scope.set(Autotuner, "__init__", init)
        for owner in (jit.JITFunction, interpreter.InterpretedFunction, Autotuner, testing.Mark):
            scope.set(owner, "run", _no_launch)
        for name in ("do_bench", "do_bench_cudagraph"):
            scope.set(testing, name, _no_launch)
        yield
