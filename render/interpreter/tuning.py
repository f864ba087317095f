"""Autotuners inside a session: one configuration runs, and nothing is timed."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from render.interpreter.scope import PatchScope

if TYPE_CHECKING:
    from render.interpreter.session import Session

TIME_MS = 1.0
"""What every benchmark takes. Not zero: speeds are divided by it."""


def patch_autotuner(scope: PatchScope, session: Session) -> None:
    """Autotuners run one configuration: the first that survives pruning and its own static assertions, or the
    session's choice. A subclass with a `run` of its own benchmarks by `_bench`: there the first program of each
    configuration is tried, and undone."""
    from triton.runtime.autotuner import Autotuner

    tuned: dict[tuple[int, tuple[Any, ...]], int] = {}
    bench = Autotuner._bench

    def run(tuner: Any, /, *args: Any, **kwargs: Any) -> Any:
        tuner.nargs = dict(zip(tuner.arg_names, args, strict=False))
        try:
            configs = _pruned(tuner, kwargs)
            key = (id(tuner), _tuning_key(tuner, {**tuner.nargs, **kwargs}))
            first = tuned.get(key, session.config)
            if not 0 <= first < len(configs):
                raise ValueError(f"autotune configuration {first} was asked for, the kernel has {len(configs)}")
            last = len(configs) if session.config == 0 else first + 1
            for i in range(first, last):
                tuner.best_config = configs[i]
                full = {**tuner.nargs, **kwargs, **configs[i].all_kwargs()}
                if len(tuner.configs) > 1 and key not in tuned:
                    _reset(tuner, full)
                if configs[i].pre_hook is not None:
                    configs[i].pre_hook(full)
                before = len(session.launches), len(session.writers)
                try:
                    result = tuner.fn.run(*args, **kwargs, **configs[i].all_kwargs())
                except _refusals():
                    if i + 1 == last:
                        raise
                    del session.launches[before[0] :], session.writers[before[1] :]
                    continue
                tuned[key] = i
                return result
        finally:
            tuner.nargs = None
        raise AssertionError("no configuration was tried")

    def bench_one(tuner: Any, /, *args: Any, config: Any, **meta: Any) -> Any:
        rank = tuner.configs.index(config) if config in tuner.configs else 0

        def once(call: Callable[[], Any], quantiles: Any = None, **_: Any) -> list[float]:
            with session.probing():
                call()
            return [TIME_MS * (1 + (rank - session.config) % len(tuner.configs))] * len(quantiles or (0.5,))

        own = tuner.__dict__.get("do_bench")
        tuner.__dict__["do_bench"] = once
        try:
            return bench(tuner, *args, config=config, **meta)
        finally:
            del tuner.__dict__["do_bench"]
            if own is not None:
                tuner.__dict__["do_bench"] = own

    scope.set(Autotuner, "run", run)
    scope.set(Autotuner, "_bench", bench_one)


def patch_benchmarks(scope: PatchScope) -> None:
    """`triton.testing.do_bench` and its like run the function once, also where they were imported by name before."""
    from triton import testing

    for name, function in list(vars(testing).items()):
        if name.startswith("do_bench") and inspect.isfunction(function):
            scope.set(function, "__code__", _once(str(inspect.signature(function))))


@cache
def _once(signature: str) -> Any:
    """Code of a function with this signature that calls `fn` and reports `TIME_MS`."""
    namespace: dict[str, Any] = {}
    body = (
        "    fn()\n"
        f"    if quantiles is not None: return [{TIME_MS}] * len(quantiles) if len(quantiles) > 1 else {TIME_MS}\n"
        f"    return [{TIME_MS}] if return_mode == 'all' else {TIME_MS}\n"
    )
    exec(f"def once{signature}:\n{body}", namespace)
    return namespace["once"].__code__


def _pruned(tuner: Any, kwargs: dict[str, Any]) -> list[Any]:
    configs = tuner.configs
    if len(configs) > 1 and getattr(tuner, "early_config_prune", None) is not None:
        if tuner.perf_model is None:
            return list(tuner.prune_configs(kwargs))
        return list(tuner.early_config_prune(configs, tuner.nargs, **kwargs))
    return list(configs)


@cache
def _refusals() -> tuple[type[BaseException], ...]:
    """What makes a tuner pass over a configuration."""
    from triton.compiler.errors import CompileTimeAssertionFailure
    from triton.runtime import errors

    names = ("OutOfResources", "PTXASError")
    return (CompileTimeAssertionFailure, *(getattr(errors, n) for n in names if hasattr(errors, n)))


def _tuning_key(tuner: Any, arguments: dict[str, Any]) -> tuple[Any, ...]:
    keys = [str(arguments[k]) for k in tuner.keys if k in arguments]
    return (*keys, *(str(a.dtype) for a in arguments.values() if hasattr(a, "dtype")))


def _reset(tuner: Any, arguments: dict[str, Any]) -> None:
    """What the tuner does once per key before the chosen configuration runs for good."""
    try:
        tuner.pre_hook(arguments, reset_only=True)
    except TypeError:
        tuner.pre_hook(arguments)
