"""Runs one kernel launch inside a session."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import lru_cache, partial
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from threadpoolctl import ThreadpoolController
from triton.language.semantic import TritonSemantic

from render.interpreter.arguments import Converter, KernelCall, constant_value, constexpr_names, grid_of, warps_of
from render.interpreter.context import Site
from render.interpreter.gluon import is_gluon
from render.interpreter.grid import Grid, GridStats
from render.interpreter.handle import Meter, metered
from render.interpreter.language import Language
from render.interpreter.patches import RunningLaunch
from render.interpreter.refusals import as_compilation_error
from render.interpreter.rewrite import code_of
from render.interpreter.scope import PatchScope
from render.interpreter.steps import Steps
from render.interpreter.waiting import Activity

if TYPE_CHECKING:
    from render.interpreter.session import Session


@dataclass
class Launch:
    """Record of one launch.

    `seconds` is wall time, `work` counts lanes and `made` handles (`Meter`), `steps` turns of loops and passes over the
    body, `args` maps names to (dtype, shape, strides) or the scalar.
    """

    kernel: str
    file: str
    line: int
    grid: tuple[int, int, int]
    args: dict[str, Any]
    options: dict[str, Any]
    seconds: float = 0.0
    work: int = 0
    made: int = 0
    steps: int = 0
    stats: GridStats = field(default_factory=GridStats)
    stored: tuple[str, ...] = ()

    @property
    def programs(self) -> int:
        return self.stats.programs

    @property
    def chunks(self) -> int:
        return self.stats.chunks

    @property
    def rollbacks(self) -> int:
        return self.stats.rollbacks

    @property
    def sequential(self) -> bool:
        return self.stats.sequential


class RealSemantic(TritonSemantic):
    """Triton's semantic layer, with float atomics kept whole.

    The language splits a float atomic_max into two integer atomics on the bits; an interval has no bit pattern, so the
    operation goes to the builder as what it is.
    """

    def make_tensor_descriptor(self, *args: Any, **named: Any) -> Any:
        RunningLaunch.language.descriptors()
        return super().make_tensor_descriptor(*args, **named)

    def _float_atomic(self, kind: str, ptr: Any, val: Any, mask: Any) -> Any:
        ptr, val, mask = self.atom_red_typechecking_impl(ptr, val, mask, kind)
        handle = self.builder._atomic(kind, ptr.handle, val.handle, None, mask.handle)
        return self.tensor(handle, val.type)

    def atomic_max(self, ptr: Any, val: Any, mask: Any, sem: str, scope: str) -> Any:
        if ptr.type.scalar.element_ty.is_floating():
            return self._float_atomic("max", ptr, val, mask)
        return super().atomic_max(ptr, val, mask, sem, scope)

    def atomic_min(self, ptr: Any, val: Any, mask: Any, sem: str, scope: str) -> Any:
        if ptr.type.scalar.element_ty.is_floating():
            return self._float_atomic("min", ptr, val, mask)
        return super().atomic_min(ptr, val, mask, sem, scope)


@contextmanager
def _refused_as_by_triton(language: Language) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        found = as_compilation_error(error, language.sources)
        if found is error:
            raise
        raise found  # noqa: B904 - it has its cause


def _progressed(session: Session, done: int, total: int) -> None:
    assert session.progress is not None
    session.progress(done, total, sum(storage.bounded for storage in session.memory.registry))


@lru_cache(maxsize=1)
def _blas() -> ThreadpoolController:
    return ThreadpoolController()


def _one_thread() -> AbstractContextManager[Any]:
    """Matrix products here are many and small: threads cost more than they bring, and results may depend on them."""
    if all(library.num_threads == 1 for library in _blas().lib_controllers if library.user_api == "blas"):
        return nullcontext()
    limit: AbstractContextManager[Any] = _blas().limit(limits=1, user_api="blas")
    return limit


def _describe(value: Any) -> Any:
    """(dtype, shape, strides) of a tensor; an object that only points somewhere has no shape."""
    if hasattr(value, "data_ptr"):
        strides = value.stride() if callable(getattr(value, "stride", None)) else ()
        return (str(value.dtype), tuple(getattr(value, "shape", ())), tuple(strides))
    return value


def run_launch(session: Session, kernel: Any, grid: Any, call: KernelCall, probe: bool = False) -> Launch:
    """Converts and executes; the session's memory holds the results and findings.

    `probe`: the first program is tried and undone, and the launch is not recorded.
    """
    began = time.perf_counter()
    arguments, options = call.arguments, call.options
    extents = grid_of(grid, arguments)
    ctx = session.context(extents)
    ctx.num_warps = warps_of(options)
    ctx.unordered.by_layout = is_gluon(kernel)
    builder = session.builder(ctx)
    semantic = RealSemantic(builder)
    language = Language(ctx, semantic)
    code = code_of(kernel)
    with torch._C.DisableTorchFunction():  # what a tensor is like is no host code's question
        described = {k: _describe(v) for k, v in arguments.items()}
    ctx.steps, ctx.activity = Steps(ctx, prod(extents), session.steps), Activity()
    record = Launch(kernel.fn.__name__, code.file, code.line, extents, described, options)
    ctx.home = Site(code.file, code.line)
    constant = constexpr_names(kernel)
    session.memory.begin_launch(record)
    meter = Meter(bool(ctx.mute))
    try:
        with (
            metered(meter),
            _refused_as_by_triton(language),
            PatchScope() as scope,
            np.errstate(all="ignore"),
            _one_thread(),
        ):
            language.install(scope)
            convert = Converter(ctx, session.memory.register, semantic.make_tensor_descriptor, session.number_ends)
            for name in constant & arguments.keys():
                session.number_ends(arguments[name], constant=True)
            with torch._C.DisableTorchFunction():
                values = {k: constant_value(v) if k in constant else convert(k, v) for k, v in arguments.items()}
            body = language.bind(kernel)
            language.given(values[name] for name in constant & values.keys())
            positional, named = call.given(values)
            builder.given(values)
            grid_run = Grid(
                ctx,
                lambda: body(*positional, **named),
                session.chunk,
                None if session.progress is None else partial(_progressed, session),
                builder.order,
                builder.begin_pass,
                1 if builder.first_alone else session.together.get(len(session.launches)),
            )
            record.stats = grid_run.stats
            if probe:
                grid_run.probe()
            else:
                grid_run.run()
    finally:
        session.memory.end_launch()
        ctx.unordered = ctx.unordered.anew()  # what it knows of holds memory
        record.seconds = time.perf_counter() - began
        record.work, record.made, record.steps = meter.work, meter.made, ctx.steps.count
        if probe:
            session.writers.pop()
        else:
            session.launches.append(record)
    builder.ended()
    return record
