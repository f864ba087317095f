"""Makes `triton.language` run on our builder, for the duration of one launch."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

import triton.language as tl
from triton.language import core
from triton.runtime import interpreter, jit

from render.interpreter.blockptr import BlockPointer, BlockPointers
from render.interpreter.libdevice import Libdevice
from render.interpreter.mapping import Mapping
from render.interpreter.memo import remember_types
from render.interpreter.ordering import Ordering
from render.interpreter.planted import Helpers
from render.interpreter.reduce import Reductions
from render.interpreter.refusals import StaticAssertion, codes_within
from render.interpreter.rewrite import RewrittenKernel, code_of, namespace_of
from render.interpreter.scope import PatchScope
from render.interpreter.statements import Statements, uniform, unwrap

# Block pointers left the language in Triton 3.9 (and `advance` its namespace); kernels in the field still use them.
_ALWAYS = {"make_block_ptr", "advance"}


def wrap_builtin(name: str, member: Callable[..., Any], semantic: Any) -> Callable[..., Any]:
    def __render_builtin__(*args: Any, **kwargs: Any) -> Any:
        name  # noqa: B018  (kept in the frame: an unsupported operation is named after it)
        kwargs.pop("_generator", None)
        kwargs["_semantic"] = semantic
        return member(*args, **kwargs)

    return __render_builtin__


def _vendor_modules() -> Iterator[Any]:
    """Vendor namespaces besides libdevice."""
    extra = getattr(tl, "extra", None)
    for path in ("cuda", "cuda.utils", "cuda.gdc", "hip", "hip.utils"):
        module = extra
        for part in path.split("."):
            module = getattr(module, part, None)
        if inspect.ismodule(module):
            yield module


def _same(x: Any, *hint: Any, **_: Any) -> Any:
    """Alignment and contiguity hints do not change a value."""
    return x


class Language:
    """Everything that must be true of Triton while one kernel runs; `install` puts it in place in a scope."""

    def __init__(self, ctx: Any, semantic: Any) -> None:
        self.ctx = ctx
        self.semantic = semantic
        self.statements = Statements(ctx, semantic)
        self.blocks = BlockPointers(semantic)
        self.reductions = (semantic.builder.reductions or Reductions)(ctx, semantic, self.call)
        self.mapping = Mapping(ctx, semantic, self.call)
        self._natives = Ordering(ctx, semantic).natives()
        self._bound: dict[Any, Callable[..., Any]] = {}
        self.sources: dict[CodeType, RewrittenKernel] = {}
        self._wrapped: dict[int, Callable[..., Any]] = {}
        self._core_builtins: dict[str, Any] = {}

    # jitted functions
    def bind(self, jit_fn: Any) -> Callable[..., Any]:
        """The rewritten body of a jitted function over today's globals."""
        fn = jit_fn.fn
        key = fn, getattr(jit_fn, "src", None)
        if key not in self._bound:
            change = self.ctx.change
            code = code_of(jit_fn) if change is None else RewrittenKernel(jit_fn, change)
            if code.is_user:
                self.ctx.files.add(code.file)
            self.sources.update(dict.fromkeys(codes_within(code.code), code))
            self._bound[key] = code.bind(self._namespace(fn))
        return self._bound[key]

    def _namespace(self, fn: Any) -> dict[str, Any]:
        live = namespace_of(fn, {})
        for name, value in live.items():
            if id(value) in self._wrapped:
                live[name] = self._wrapped[id(value)]
        planted = {} if self.ctx.change is None else Helpers(self.ctx, self.semantic.builder, uniform).table()
        return {**self.statements.overrides(), **live, **self.statements.helpers(), **planted}

    def call(self, jit_fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        native = self._natives.get(id(jit_fn))
        return native(*args, **kwargs) if native is not None else self.bind(jit_fn)(*args, **kwargs)

    # patches
    def install(self, scope: PatchScope) -> None:
        for owner in (tl, core, tl.math, core.tensor, core.tensor_descriptor_base, *_vendor_modules()):
            self._wrap_all(scope, owner)
        Libdevice(self.semantic).install(scope, self._wrapped)
        self._patch_tensor(scope)
        self._patch_types(scope)
        remember_types(scope)
        self._patch_functions(scope)
        language = self
        for cls in (jit.JITFunction, interpreter.InterpretedFunction):
            scope.set(cls, "__call__", lambda fn, /, *a, **k: language.call(fn, *a, **k))
        if hasattr(jit, "ConstexprFunction"):
            scope.set(jit.ConstexprFunction, "__call__", _call_constexpr)

    def _wrap_all(self, scope: PatchScope, owner: Any) -> None:
        for name, member in inspect.getmembers(owner):
            if core.is_builtin(member):
                wrapped = self._wrapped.get(id(member)) or wrap_builtin(name, member, self.semantic)
                self._wrapped[id(member)] = wrapped
                if owner is core:
                    self._core_builtins[name] = member
                scope.set(owner, name, wrapped)
            elif owner is core.tensor and isinstance(member, jit.JITFunction):
                scope.set(owner, name, self._method(member))

    def _method(self, jit_fn: Any) -> Callable[..., Any]:
        return lambda tensor, /, *args, **kwargs: self.call(jit_fn, tensor, *args, **kwargs)

    def _patch_tensor(self, scope: PatchScope) -> None:
        s = self.statements
        scope.set(core.tensor, "__bool__", lambda t: s.bool_of(t))
        scope.set(core.tensor, "__index__", lambda t: s.index_of(t))
        scope.set(core.tensor, "__int__", lambda t: s.index_of(t))
        scope.set(core.tensor, "T", property(self._transposed))
        if hasattr(core, "condition"):
            scope.set(core.condition, "__bool__", lambda c: bool(c.condition))

    def _transposed(self, t: Any) -> Any:
        dims = list(range(len(t.shape)))
        dims[-1], dims[-2] = dims[-2], dims[-1]
        return self.semantic.permute(t, dims)

    def _patch_types(self, scope: PatchScope) -> None:
        for cls in (core.dtype, core.block_type, core.pointer_type):
            scope.set(cls, "to_ir", lambda ty, builder: ty)

    def _patch_functions(self, scope: PatchScope) -> None:
        s, r = self.statements, self.reductions
        functions = {
            "range": s.range,
            "static_range": s.static_range,
            "static_assert": _static_assert,
            "static_print": lambda *a, **k: self.ctx.printer(" ".join(map(str, a))),
            "reduce": r.reduce,
            "associative_scan": r.scan,
            "map_elementwise": self.mapping.map_elementwise,
            "multiple_of": _same,
            "max_contiguous": _same,
            "max_constancy": _same,
            "make_block_ptr": self.blocks.make,
            "advance": self._advance(),
            "load": self._load(),
            "store": self._store(),
            "make_tensor_descriptor": self._descriptor(),
            "dot_scaled": _scaled_dot(vars(core).get("dot_scaled")),
        }
        for name, function in functions.items():
            for owner in (tl, core):
                if name in vars(owner) or name in _ALWAYS:
                    scope.set(owner, name, function)
        for name in ("reduce", "associative_scan"):
            scope.set(core.tensor, name, lambda t, /, *a, _f=functions[name], **k: _f(t, *a, **k))
        for name, function in functions.items():
            if name in self._core_builtins:  # kernels that imported it by name get the replacement too
                self._wrapped[id(self._core_builtins[name])] = function

    def _load(self) -> Callable[..., Any]:
        plain = vars(core)["load"]

        def load(pointer: Any, mask: Any = None, other: Any = None, boundary_check: Any = (), padding_option: Any = "",
                 **kwargs: Any) -> Any:  # fmt: skip
            if isinstance(pointer, BlockPointer):
                return self.blocks.load(pointer, boundary_check, padding_option)
            return plain(pointer, mask, other, **kwargs)

        return load

    def _store(self) -> Callable[..., Any]:
        plain = vars(core)["store"]

        def store(pointer: Any, value: Any, mask: Any = None, boundary_check: Any = (), **kwargs: Any) -> Any:
            if isinstance(pointer, BlockPointer):
                return self.blocks.store(pointer, value, boundary_check)
            return plain(pointer, value, mask, **kwargs)

        return store

    def _advance(self) -> Callable[..., Any]:
        return lambda base, offsets, **kwargs: self.blocks.advance(base, offsets)

    def _descriptor(self) -> Callable[..., Any]:
        plain = vars(core).get("make_tensor_descriptor")

        def make_tensor_descriptor(base: Any, shape: Any, strides: Any, block_shape: Any, *a: Any, **k: Any) -> Any:
            # A stride of 1 is specialised to a constant by the compiler, which the language then asks for.
            last = unwrap(strides[-1])
            last = int(self.statements.index_of(last)) if isinstance(last, core.tensor) else last
            return plain(base, shape, [*strides[:-1], last], block_shape, *a, **k)

        return make_tensor_descriptor


def _scaled_dot(plain: Any) -> Callable[..., Any]:
    """Triton up to 3.7 asks the names of formats for their `value`, as the compiler passes them."""

    def dot_scaled(lhs: Any, lhs_scale: Any, lhs_format: Any, rhs: Any, rhs_scale: Any, rhs_format: Any, *a: Any,
                   **kwargs: Any) -> Any:  # fmt: skip
        left, right = (core.constexpr(unwrap(name)) for name in (lhs_format, rhs_format))
        return plain(lhs, lhs_scale, left, rhs, rhs_scale, right, *a, **kwargs)

    return dot_scaled


def _call_constexpr(fn: Any, /, *args: Any, _semantic: Any = None, **kwargs: Any) -> Any:
    return unwrap(fn.fn(*(unwrap(a) for a in args), **{k: unwrap(v) for k, v in kwargs.items()}))


def _static_assert(cond: Any, msg: Any = "", **_: Any) -> None:
    if not unwrap(cond):
        raise StaticAssertion(unwrap(msg) or "")
