"""`tl.extra.libdevice` and its twins per target: vendor functions by name, each with its documented error.

A name without a rule raises UnsupportedOp; none is evaluated by the host's libm without an error term.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import triton.language as tl

from interval_ops import arithmetic, functions
from interval_ops.rule import Rule, Shape
from render.interpreter.builder import Builder
from render.interpreter.builder.floats import dispatch, erf, rsqrt, vendor_function
from render.interpreter.handle import Handle
from render.interpreter.scope import PatchScope

_VALUES: dict[str, Callable[..., np.ndarray]] = {
    "erf": erf,
    "rsqrt": rsqrt,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
}
# Library functions whose error differs from the instruction that the language's own function of that name becomes.
_OWN_ERROR = {"exp": "libdevice_exp", "rsqrt": "libdevice_rsqrt", "sqrt": "sqrt_rn"}
_EXACT: dict[str, tuple[Callable[..., np.ndarray], Callable[..., Any]]] = {
    "trunc": (np.trunc, arithmetic.trunc),
    "rint": (np.rint, arithmetic.rint),
    "nearbyint": (np.rint, arithmetic.rint),
}
# Vendor names of what the builder does itself.
_LANGUAGE = {
    "abs": "fabs", "fabs": "fabs", "floor": "floor", "ceil": "ceil", "fma": "fma", "div_rn": "precise_divf",
    "fmod": "frem", "fmax": "maxnumf", "fmin": "minnumf",
}  # fmt: skip


def _method(name: str) -> Callable[..., Handle] | None:
    """The builder-style function of (builder, handles...) for a vendor function, None if it has no rule."""
    if name in _LANGUAGE:
        return getattr(Builder, f"create_{_LANGUAGE[name]}")
    if name in _EXACT:
        value, rule = _EXACT[name]
        return dispatch(Rule(name, Shape.MONOTONE, name, lambda args, fmt, profile: rule(args[0])), value)
    key = _OWN_ERROR.get(name, name)
    if key in functions.MONOTONE or key in functions.WAVES:
        value = _VALUES.get(name) or getattr(np, name, None)
        return None if value is None else vendor_function(key, value)
    return None


def modules() -> Iterator[Any]:
    """The libdevice modules of this Triton."""
    extra = getattr(tl, "extra", None)
    for path in ("libdevice", "cuda.libdevice", "hip.libdevice"):
        module = extra
        for part in path.split("."):
            module = getattr(module, part, None)
        if inspect.ismodule(module):
            yield module


class Libdevice:
    """Vendor functions, bound to one launch's semantic layer."""

    def __init__(self, semantic: Any) -> None:
        self.semantic = semantic
        self.builder = semantic.builder

    def install(self, scope: PatchScope, wrapped: dict[int, Callable[..., Any]]) -> None:
        """Patches every public name; `wrapped` maps originals to replacements for names imported by a kernel's file."""
        for module in modules():
            for name, member in list(vars(module).items()):
                if name.startswith("_") or not inspect.isfunction(member):
                    continue
                wrapped[id(member)] = replacement = self._function(name)
                scope.set(module, name, replacement)

    def _function(self, name: str) -> Callable[..., Any]:
        def __render_builtin__(*args: Any, **kwargs: Any) -> Any:
            kwargs.pop("_semantic", None)
            return self.call(name, args)

        return __render_builtin__

    def call(self, name: str, args: tuple[Any, ...]) -> Any:
        tensors = [self.semantic.to_tensor(a) for a in args]
        method = self.builder.vendor(name) or _method(name)
        if method is None or not tensors:
            self.builder.unsupported(f"libdevice.{name}", "this vendor function has no rule yet")
        if not all(t.dtype.name in ("fp32", "fp64") for t in tensors):
            self.builder.unsupported(f"libdevice.{name}", f"libdevice has no form of it for {tensors[0].dtype}")
        tensors = list(self.semantic.broadcast_tensors(*tensors)) if len(tensors) > 1 else tensors
        handle = method(self.builder, *(t.handle for t in tensors))
        return tl.tensor(handle, tensors[0].type)
