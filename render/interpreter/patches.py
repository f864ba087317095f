"""What replaces names of `triton.language` while a kernel runs: made once, put in place for every launch.

The replacements find the launch that runs in `RunningLaunch`. They are in force for its length only: host code between
launches, and modules that it imports, see Triton as it is.
"""

from __future__ import annotations

import inspect
import io
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

import triton.language as tl
from triton.language import core
from triton.runtime import interpreter, jit

from render.interpreter import gluon, libdevice
from render.interpreter.blockptr import BlockPointer
from render.interpreter.memo import TYPES
from render.interpreter.refusals import StaticAssertion
from render.interpreter.scope import Names
from render.interpreter.statements import unwrap

if TYPE_CHECKING:
    from render.interpreter.language import Language

Function = Callable[..., Any]
# Block pointers left the language in Triton 3.9 (and `advance` its namespace); kernels in the field still use them.
_ALWAYS = {"make_block_ptr", "advance"}


class RunningLaunch:
    """Whose launch runs."""

    language: Language


@dataclass
class Patches:
    """`names`: what each module or class gets. `instead`: by the ids of originals, for names that a file imported.
    `vendor`, `of_gluon`: modules that matter only to kernels that can reach one of them. `tensor`: the class of what
    kernels compute with."""

    tensor: Any = core.tensor
    names: dict[Any, dict[str, Any]] = field(default_factory=dict)
    instead: dict[int, Function] = field(default_factory=dict)
    vendor: frozenset[Any] = frozenset()
    of_gluon: frozenset[Any] = frozenset()

    @cached_property
    def always(self) -> tuple[tuple[Any, dict[str, Any]], ...]:
        """What every kernel needs; of a descriptor's methods, one that makes a descriptor."""
        others = {*self.vendor, *self.of_gluon, core.tensor_descriptor_base}
        return tuple((owner, names) for owner, names in self.names.items() if owner not in others)

    def of(self, owner: Any) -> dict[str, Any]:
        return self.names.setdefault(owner, {})

    def for_kernels(self, value: Any) -> Any:
        """What a kernel finds in place of a global. Code that looks for a function in modules of several versions may
        run Triton's module once more: what comes of it is known by the module's name."""
        found = self.instead.get(id(value))
        if found is not None:
            return found
        if isinstance(value, jit.JITFunction):
            return value
        if inspect.isfunction(value) or inspect.ismodule(value):
            owner = sys.modules.get(value.__name__ if inspect.ismodule(value) else value.__module__)
            if owner in self.names and owner is not value:
                known = owner if inspect.ismodule(value) else self.names[owner].get(value.__name__)
                copied = inspect.ismodule(value) or getattr(owner, value.__name__, None) is not value
                return known if copied and known is not None else value
        return value


def vendor_modules() -> Iterator[Any]:
    """Vendor namespaces besides libdevice."""
    extra = getattr(tl, "extra", None)
    for path in ("cuda", "cuda.utils", "cuda.gdc", "hip", "hip.utils"):
        module = extra
        for part in path.split("."):
            module = getattr(module, part, None)
        if inspect.ismodule(module):
            yield module


@cache
def patches(vendor: tuple[Any, ...], of_gluon: tuple[Any, ...] = ()) -> Patches:
    """All of them, read from Triton as it is; `vendor`, `of_gluon`: loaded modules of these."""
    found, builtins = Patches(), {}
    for owner in (tl, core, tl.math, core.tensor, core.tensor_descriptor_base, *vendor):
        for name, member in inspect.getmembers(owner):
            if core.is_builtin(member):
                if owner is core:
                    builtins[name] = member
                found.of(owner)[name] = found.instead.setdefault(id(member), _builtin(name, member))
            elif owner is core.tensor and isinstance(member, jit.JITFunction):
                found.of(owner)[name] = _method(member)
    for path in libdevice.PATHS:
        originals, replacements = libdevice.replacements(path, lambda: RunningLaunch.language.libdevice)
        found.instead.update(originals)
        if replacements:
            found.of(libdevice.module_at(path)).update(replacements)
    _tensors_and_types(found)
    functions = _functions(found.of(core))
    for name, function in functions.items():
        for owner in (tl, core):
            if name in vars(owner) or name in _ALWAYS:
                found.of(owner)[name] = function
        if name in builtins:
            found.instead[id(builtins[name])] = function
    for name in ("reduce", "associative_scan"):
        found.of(core.tensor)[name] = functions[name]
    for cls in (jit.JITFunction, interpreter.InterpretedFunction):
        found.of(cls)["__call__"] = lambda fn, /, *a, **k: RunningLaunch.language.call(fn, *a, **k)
    if hasattr(jit, "ConstexprFunction"):
        found.of(jit.ConstexprFunction)["__call__"] = _call_constexpr
    found.vendor = frozenset(libdevice.modules()) | frozenset(vendor)
    if of_gluon:
        _gluon(found, of_gluon)
        found.of_gluon = frozenset(of_gluon)
    found.tensor = _own_tensor(found.names.pop(core.tensor))
    for owner in (tl, core):
        found.of(owner)["tensor"] = found.tensor
    several = {owner: names for owner, names in found.names.items() if len(names) > 1 and inspect.ismodule(owner)}
    found.names |= {owner: Names(names) for owner, names in several.items()}
    return found


def _own_tensor(members: dict[str, Any]) -> Any:
    """A class of its own for tensors with these members: to replace as many names of a class for each launch takes
    longer than to replace the one of the class, and Python forgets each time where it finds the others."""
    plain = core.tensor
    named = {name: getattr(plain, name) for name in ("__module__", "__qualname__", "__doc__")}
    return type(plain.__name__, (plain,), {**named, **members})


def _gluon(found: Patches, modules: tuple[Any, ...]) -> None:
    found.of(core.block_type)["layout"] = property(lambda ty: gluon.OpenLayout())
    language = {**found.of(tl.math), **found.of(core)}
    for owner in modules:
        for name, member, function in gluon.replacements(owner, language):
            found.of(owner)[name] = found.instead.setdefault(id(member), function)


def _builtin(name: str, member: Function) -> Function:
    def __render_builtin__(*args: Any, **kwargs: Any) -> Any:
        name  # noqa: B018  (kept in the frame: an unsupported operation is named after it)
        if kwargs:
            kwargs.pop("_generator", None)
            kwargs.pop("_semantic", None)
        own = RunningLaunch.language
        return own.recipes.run(member, args, kwargs, own.semantic)

    return __render_builtin__


def _method(jit_fn: Any) -> Function:
    return lambda tensor, /, *args, **kwargs: RunningLaunch.language.call(jit_fn, tensor, *args, **kwargs)


def _tensors_and_types(found: Patches) -> None:
    found.of(core.tensor).update(
        __bool__=lambda t: RunningLaunch.language.statements.bool_of(t),
        __index__=lambda t: RunningLaunch.language.statements.index_of(t),
        __int__=lambda t: RunningLaunch.language.statements.index_of(t),
        T=property(_transposed),
    )
    if hasattr(core, "condition"):
        found.of(core.condition)["__bool__"] = lambda c: bool(c.condition)
    for cls in (core.dtype, core.block_type, core.pointer_type):
        found.of(cls)["to_ir"] = lambda ty, builder: ty
    for cls, make in TYPES.items():
        found.of(cls)["__init__"] = make(cls.__init__)


def _transposed(t: Any) -> Any:
    dims = list(range(len(t.shape)))
    dims[-1], dims[-2] = dims[-2], dims[-1]
    return RunningLaunch.language.semantic.permute(t, dims)


def _late(find: Callable[[Language], Function]) -> Function:
    return lambda *args, **kwargs: find(RunningLaunch.language)(*args, **kwargs)


def _functions(plain: dict[str, Any]) -> dict[str, Function]:
    """What is ours as a whole; `plain` holds the wrapped builtins."""
    return {
        "range": _late(lambda own: own.statements.range),
        "static_range": _late(lambda own: own.statements.static_range),
        "static_assert": _static_assert,
        "static_print": _static_print,
        "reduce": _late(lambda own: own.reductions.reduce),
        "associative_scan": _late(lambda own: own.reductions.scan),
        "map_elementwise": _late(lambda own: own.mapping.map_elementwise),
        **dict.fromkeys(("multiple_of", "max_contiguous", "max_constancy"), _hint),
        "make_block_ptr": _late(lambda own: own.blocks.make),
        "advance": lambda base, offsets, **kwargs: RunningLaunch.language.blocks.advance(base, offsets),
        "load": _load(plain["load"]),
        "store": _store(plain["store"]),
        "make_tensor_descriptor": _descriptor(plain.get("make_tensor_descriptor")),
        "dot_scaled": _scaled_dot(plain.get("dot_scaled")),
    }


def _hint(input: Any, values: Any, **_: Any) -> Any:
    """Hints of alignment and contiguity do not change a value; a constant integer for each axis makes one."""
    values = unwrap(values)
    numbers = [unwrap(v) for v in (values if isinstance(values, (tuple, list, core.tuple)) else (values,))]
    if not all(isinstance(number, int) for number in numbers):
        raise TypeError("a hint takes constant integers")
    if isinstance(input, core.tensor) and max(1, len(input.shape)) != len(numbers):
        raise ValueError("a hint takes an integer for each axis")
    return input


def _load(plain: Function) -> Function:
    def load(pointer: Any, mask: Any = None, other: Any = None, boundary_check: Any = (), padding_option: Any = "",
             **kwargs: Any) -> Any:  # fmt: skip
        if isinstance(pointer, BlockPointer):
            return RunningLaunch.language.blocks.load(pointer, boundary_check, padding_option)
        return plain(pointer, mask, other, **kwargs)

    return load


def _store(plain: Function) -> Function:
    def store(pointer: Any, value: Any, mask: Any = None, boundary_check: Any = (), **kwargs: Any) -> Any:
        if isinstance(pointer, BlockPointer):
            return RunningLaunch.language.blocks.store(pointer, value, boundary_check)
        return plain(pointer, value, mask, **kwargs)

    return store


def _descriptor(plain: Any) -> Function:
    def make_tensor_descriptor(base: Any, shape: Any, strides: Any, block_shape: Any, *a: Any, **k: Any) -> Any:
        # A stride of 1 is specialised to a constant by the compiler, which the language then asks for.
        last = unwrap(strides[-1])
        last = int(RunningLaunch.language.statements.index_of(last)) if isinstance(last, core.tensor) else last
        return plain(base, shape, [*strides[:-1], last], block_shape, *a, **k)

    return make_tensor_descriptor


def _scaled_dot(plain: Any) -> Function:
    """Triton up to 3.7 asks the names of formats for their `value`, as the compiler passes them."""

    def dot_scaled(lhs: Any, lhs_scale: Any, lhs_format: Any, rhs: Any, rhs_scale: Any, rhs_format: Any, *a: Any,
                   **kwargs: Any) -> Any:  # fmt: skip
        left, right = (core.constexpr(unwrap(name)) for name in (lhs_format, rhs_format))
        return plain(lhs, lhs_scale, left, rhs, rhs_scale, right, *a, **kwargs)

    return dot_scaled


def _call_constexpr(fn: Any, /, *args: Any, _semantic: Any = None, **kwargs: Any) -> Any:
    return unwrap(fn.fn(*(unwrap(a) for a in args), **{k: unwrap(v) for k, v in kwargs.items()}))


def _static_print(*values: Any, file: Any = None, flush: Any = None, _semantic: Any = None, **how: Any) -> None:
    text = io.StringIO()
    print(*values, file=text, **how)
    RunningLaunch.language.ctx.memory.say(text.getvalue().removesuffix("\n"))


def _static_assert(cond: Any, msg: Any = "", **_: Any) -> None:
    if not unwrap(cond):
        raise StaticAssertion(unwrap(msg) or "")
