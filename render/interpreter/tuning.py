"""Autotuners inside a session: one configuration runs, and nothing is timed."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from render.interpreter.scope import Names, PatchScope

if TYPE_CHECKING:
    from render.interpreter.session import Session

TIME_MS = 1.0
"""What every benchmark takes. Not zero: speeds are divided by it."""


@dataclass
class Tuned:
    """What became of the configurations of one tuned kernel in a session, by their place after pruning.

    `texts` names all of them; `run` are those that ran, `refused` those that stop at their own assertions or do not fit
    on the device, so that a tuner never chooses them.
    """

    tuner: Any = field(repr=False)
    texts: tuple[str, ...]
    run: set[int] = field(default_factory=set)
    refused: set[int] = field(default_factory=set)


def _turn(chosen: int | Mapping[str, int], kernel: str, count: int) -> list[int]:
    """The configurations to try, in this order. ValueError where one was asked for that there is not."""
    if isinstance(chosen, int) and chosen:
        if not 0 <= chosen < count:
            raise ValueError(f"autotune configuration {chosen} was asked for, the kernel has {count}")
        return [chosen]
    first = chosen.get(kernel, 0) if isinstance(chosen, Mapping) else 0
    return [(first + i) % count for i in range(count)]


def patch_autotuner(scope: PatchScope, session: Session) -> None:
    """Autotuners run one configuration: the first that survives pruning and its own static assertions, or the
    session's choice. A subclass with a `run` of its own benchmarks by `_bench`: there the first program of each
    configuration is tried, and undone."""
    from triton.runtime.autotuner import Autotuner

    tuned: dict[tuple[int, tuple[Any, ...]], int] = {}
    bench = Autotuner._bench

    def told(tuner: Any, configs: list[Any]) -> Tuned:
        texts = tuple(", ".join(f"{k}={v}" for k, v in c.all_kwargs().items()) for c in configs)
        found = session.tuned.setdefault(tuner.base_fn.__name__, Tuned(tuner, texts))
        if len(texts) > len(found.texts):  # of several keys, the one that prunes least
            found.texts = texts
        return found

    def run(tuner: Any, /, *args: Any, **kwargs: Any) -> Any:
        tuner.nargs = dict(zip(tuner.arg_names, args, strict=False))
        try:
            configs = _pruned(tuner, kwargs)
            known = told(tuner, configs)
            key = (id(tuner), _tuning_key(tuner, {**tuner.nargs, **kwargs}))
            turn = [tuned[key]] if key in tuned else _turn(session.config, tuner.base_fn.__name__, len(configs))
            for i in turn:
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
                    known.refused.add(i)
                    if i == turn[-1]:
                        raise
                    del session.launches[before[0] :], session.writers[before[1] :]
                    continue
                if key not in tuned and len(tuner.configs) > 1:
                    _tell(tuner, key[1], configs, i)
                tuned[key] = i
                known.run.add(i)
                return result
        finally:
            tuner.nargs = None
        raise AssertionError("no configuration was tried")

    def bench_one(tuner: Any, /, *args: Any, config: Any, **meta: Any) -> Any:
        known = told(tuner, tuner.configs)
        rank = tuner.configs.index(config) if config in tuner.configs else 0
        chosen, count = session.config, len(tuner.configs)
        first = chosen if isinstance(chosen, int) else chosen.get(tuner.base_fn.__name__, 0)

        def once(call: Callable[[], Any], quantiles: Any = None, **_: Any) -> list[float]:
            with session.probing():
                try:
                    call()
                except _refusals():
                    known.refused.add(rank)
                    raise
            return [TIME_MS * (1 + (rank - first) % count)] * len(quantiles or (0.5,))

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


def _tell(tuner: Any, key: tuple[Any, ...], configs: list[Any], chosen: int) -> None:
    """Calls `knobs.autotuning.listener`, as Triton does after a search."""
    from triton import knobs

    listener = getattr(getattr(knobs, "autotuning", None), "listener", None)
    if listener is not None:
        kernel = tuner.fn
        while hasattr(kernel, "fn") and not inspect.isfunction(kernel.fn):
            kernel = kernel.fn
        count = len(configs)
        timings = {c: [TIME_MS * (1 + (i - chosen) % count)] * 3 for i, c in enumerate(configs)}
        listener(fn=kernel, key=key, best_config=configs[chosen], configs_timings=timings, duration=TIME_MS / 1e3,
                 cache_hit=False)  # fmt: skip


def settle(session: Session) -> None:
    """At the end of a session: what tuners that benchmark and run by themselves chose. Another session chooses anew."""
    for found in session.tuned.values():
        if not found.run and getattr(found.tuner, "best_config", None) in found.tuner.configs:
            found.run.add(found.tuner.configs.index(found.tuner.best_config))


def configurations(session: Session) -> Iterator[tuple[str, Tuned]]:
    """(kernel, what became of its configurations), of kernels with more than one."""
    yield from ((kernel, found) for kernel, found in session.tuned.items() if len(found.texts) > 1)


def patch_benchmarks(scope: PatchScope) -> None:
    """`triton.testing.do_bench` and its like run the function once, also where they were imported by name before."""
    for function in _benchmarks():
        scope.set(function, "__code__", _instead(function, True))
    silence_profiler(scope)


def silence_profiler(scope: PatchScope) -> None:
    """`triton.profiler` records nothing: it wants the counters of a GPU, and nothing is timed here. Its scopes look at
    whether a profile was started; sessions may be named by numbers that the user counts."""
    from triton import knobs

    if not hasattr(knobs, "proton"):
        return
    scope.set(type(knobs.proton), "disable", True)  # the knob itself would write the environment
    for proton, silent in _counters():
        scope.update(proton, silent)


@cache
def _counters() -> tuple[tuple[Any, Names], ...]:
    """The profiler's module, if the build has it, and what stands in place of its functions."""
    try:
        from triton._C.libproton import proton
    except ImportError:
        return ()
    asked = [name for name in vars(proton) if name.startswith(("activate", "deactivate", "finalize"))]
    return ((proton, Names(dict.fromkeys(asked, lambda *args, **kwargs: None))),)


def skip_benchmarks(scope: PatchScope, note: Callable[[str], None]) -> None:
    """They return at once, and so do reports of `perf_report`."""
    from triton import testing

    for function in _benchmarks():
        scope.set(function, "__code__", _instead(function, False))

    def run(mark: Any, *args: Any, **kwargs: Any) -> None:
        note(f"benchmark {getattr(mark.fn, '__name__', '')} was not run: nothing is timed here".replace("  ", " "))

    scope.set(testing.Mark, "run", run)


@cache
def _benchmarks() -> list[Any]:
    from triton import testing

    return [f for name, f in vars(testing).items() if name.startswith("do_bench") and inspect.isfunction(f)]


@cache
def _instead(function: Any, once: bool) -> Any:
    """Code of a function with this one's signature that reports `TIME_MS`, and calls `fn` if `once`."""
    signature = inspect.signature(function)
    namespace: dict[str, Any] = {}
    body = (
        f"    {'fn()' if once else 'pass'}\n"
        f"    if quantiles is not None: return [{TIME_MS}] * len(quantiles) if len(quantiles) > 1 else {TIME_MS}\n"
        f"    return [{TIME_MS}] if return_mode == 'all' else {TIME_MS}\n"
    )
    exec(f"def instead{signature}:\n{body}", namespace)
    return namespace["instead"].__code__


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
