"""`tl.extra.libdevice` and its twins per target: vendor functions by name, each with its documented error.

Types are those of the target's own table, read from the library module. A name without a rule raises UnsupportedOp;
none is evaluated by the host's libm without an error term, unless the session was told to assume it exact.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any

import numpy as np
import triton.language as tl
from triton.language import core

from interval_ops.library.joint import quiet
from render.interpreter.builder.floats import dispatch
from render.interpreter.handle import Handle, taint_of
from render.interpreter.types import float_format
from render.interpreter.values import VALUES, in_format
from render.interpreter.vendor import integers
from render.interpreter.vendor.conversions import METHODS, integer_power
from render.ops.library import ASSUMED, INTEGERS, LIBRARY, REFUSED
from render.result.errors import NoForm, RenderError

Forms = dict[tuple[Any, ...], Any]
"""Types of the arguments -> type of the result."""


class _Anything:
    """Stands for the result of a library call while its table of types is read."""

    def to(self, *args: Any, **kwargs: Any) -> _Anything:
        return self


@cache
def forms(module: Any, name: str) -> Forms:
    """The types that a library function takes, as its own module states them; empty if it states none."""
    function = vars(module).get(name)
    found: Forms = {}
    if function is None:
        return found

    def read(lib: str, path: str, args: list[Any], table: dict[Any, Any], is_pure: bool, _semantic: Any = None) -> Any:
        found.update({types: result for types, (_, result) in table.items()})
        return _Anything()

    count = sum(p != "_semantic" for p in inspect.signature(function).parameters)
    current = core.extern_elementwise
    core.extern_elementwise = read
    try:
        inspect.unwrap(function)(*[None] * count, _semantic=_Anything())
    except (AttributeError, TypeError, ValueError):
        return {}
    finally:
        core.extern_elementwise = current
    return found


PATHS = ("libdevice", "cuda.libdevice", "hip.libdevice")


def module_at(path: str) -> Any:
    module = getattr(tl, "extra", None)
    for part in path.split("."):
        module = getattr(module, part, None)
    return module if inspect.ismodule(module) else None


def modules() -> Iterator[Any]:
    """The libdevice modules of this Triton."""
    return (m for m in map(module_at, PATHS) if m is not None)


def replacements(
    path: str, running: Callable[[], Libdevice]
) -> tuple[dict[int, Callable[..., Any]], dict[str, Callable[..., Any]]]:
    """Replacements of a module's public functions, by the ids of the originals and by name."""
    module = module_at(path)
    found = [] if module is None else list(vars(module).items())
    public = {name: f for name, f in found if not name.startswith("_") and inspect.isfunction(f)}
    table = {name: forms(module, name) or forms(module_at("cuda.libdevice"), name) for name in public}
    made = {name: _replacement(name, table[name], running) for name in public}
    return {id(f): made[name] for name, f in public.items()}, made


def _replacement(name: str, table: Forms, running: Callable[[], Libdevice]) -> Callable[..., Any]:
    def __render_builtin__(*args: Any, **kwargs: Any) -> Any:
        kwargs.pop("_semantic", None)
        return running().call(name, table, args, kwargs)

    return __render_builtin__


@cache
def _builder_methods() -> dict[str, Callable[..., Handle]]:
    return {name: dispatch(rule, VALUES[f"library {name}"]) for name, rule in LIBRARY.items()}


class Libdevice:
    """Vendor functions, bound to one launch's semantic layer."""

    def __init__(self, semantic: Any) -> None:
        self.semantic = semantic
        self.builder = semantic.builder

    def call(self, name: str, table: Forms, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        tensors = [self.semantic.to_tensor(a) for a in (*args, *kwargs.values())]
        method = self._method(name)
        if name not in METHODS and name not in INTEGERS:
            tensors = self._one_type(tensors, table)
        result = table.get(tuple(t.dtype for t in tensors))
        if result is None:
            self._no_form(name, tensors)
        tensors = list(self.semantic.broadcast_tensors(*tensors)) if len(tensors) > 1 else tensors
        handles = [t.handle for t in tensors]
        own = self.builder.vendor(name)
        if own is not None:
            handle = own(self.builder, *handles)
        elif name == "pow" and tensors[1].dtype.is_int():
            name = "integer_power"
            handle = integer_power(self.builder, result, *handles)
        elif tensors[0].dtype.is_int() and name in integers.VALUES:
            v = integers.VALUES[name](*(h.v for h in handles))
            handle = Handle(v, result, handles[0].shape, taint=taint_of(*handles))
        else:
            handle = method(self.builder, result, *handles)
        self.builder.emit(f"library {name}", handles, (handle,))
        scalar = handle.dtype.scalar
        return tl.tensor(handle, core.block_type(scalar, list(handle.shape)) if handle.shape else scalar)

    def _one_type(self, tensors: list[Any], table: Forms) -> list[Any]:
        """Python numbers beside fp64 operands become fp64, as older Tritons promoted them."""
        kinds = tuple(t.dtype for t in tensors)
        if kinds in table or not all(k in (tl.float32, tl.float64) for k in kinds):
            return tensors
        return [self.semantic.cast(t, tl.float64) for t in tensors]

    def _no_form(self, name: str, tensors: list[Any]) -> None:
        types = ", ".join(str(t.dtype) for t in tensors)
        site = self.builder.ctx.site()
        reason = f"libdevice has no form of it for {types or 'no operand'}"
        raise NoForm(f"tl.libdevice.{name}", reason, site.file, site.line)

    def _method(self, name: str) -> Callable[..., Handle]:
        """(builder, result type, handles...) -> handle; raises UnsupportedOp for a name without a rule."""
        assumed = name in self.builder.ctx.assume_exact
        if name in METHODS:
            return METHODS[name]
        if name in LIBRARY:
            return self._exactly(name, name) if assumed else self._by_rule(name)
        if name in INTEGERS:
            return self._refused(name)
        if assumed and name in ASSUMED:
            return self._exactly(name, ASSUMED[name])
        if self.builder.vendor(name) is None:
            self.builder.unsupported(f"libdevice.{name}", REFUSED.get(name, "this vendor function has no rule yet"))
        return self._by_rule(name)

    def _refused(self, name: str) -> Callable[..., Any]:
        return lambda builder, ty, *handles: self._no_form(name, [])

    @staticmethod
    def _by_rule(name: str) -> Callable[..., Handle]:
        return lambda builder, ty, *handles: _builder_methods()[name](builder, *handles)

    def _exactly(self, name: str, stand_in: str) -> Callable[..., Handle]:
        """The exact function and its rounding, tainted: the user vouches for it."""

        def method(builder: Any, ty: Any, *handles: Handle) -> Handle:
            ctx = builder.ctx
            taint = taint_of(*handles) | ctx.taint("RND302", f"libdevice.{name}", "assumed exact, as asked")
            fmt = float_format(handles[0].dtype)
            with np.errstate(all="ignore"):
                v = in_format(VALUES[f"library {stand_in}"](*(h.v for h in handles)), fmt)
            if not ctx.interval:
                return Handle(v, handles[0].dtype, handles[0].shape, taint=taint)
            pairs = tuple(h.pair for h in handles)
            lo, hi = LIBRARY[stand_in].apply(pairs, fmt, quiet(ctx.profile))  # type: ignore[misc]
            rounded = np.where(np.isnan(lo), np.nan, v)
            return Handle(
                v, handles[0].dtype, handles[0].shape, np.minimum(lo, rounded), np.maximum(hi, rounded), taint
            )

        return method


def computed(builder: Any, name: str, result: Any, handles: list[Handle]) -> Handle:
    """A function with a rule, of handles that have its types already."""
    own = builder.vendor(name)
    found: Handle
    if own is not None:
        found = own(builder, *handles)
    elif name in METHODS:
        found = METHODS[name](builder, result, *handles)
    else:
        found = _builder_methods()[name](builder, *handles)
    return found


def known_functions(names: Iterable[str]) -> frozenset[str]:
    """The names as a set; RenderError (RND902) for one that no vendor library of Triton has."""
    from triton.language.extra import libdevice

    found = frozenset(names)
    for name in sorted(found):
        if name not in LIBRARY and name not in ASSUMED and not callable(getattr(libdevice, name or "-", None)):
            hint = "names are those of tl.extra.libdevice, without the module"
            raise RenderError("RND902", f"no vendor function is called {name!r}", hint)
    return found
