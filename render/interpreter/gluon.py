"""Gluon on the rules of Triton's own language: a layout says which thread holds an element, never what it is.

Functions of Gluon that the language has too are the language's, without the layout; what only arranges elements passes
them on. Whether layouts fit each other is what Triton's front end says, which is asked about every Gluon kernel
(`frontend`). What works on shared memory, barriers, asynchronous copies or the registers of a matrix unit means more
than its values, and is refused.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from triton.language import core, math

from render.interpreter.rewrite import code_of, namespace_of
from render.result.errors import UnsupportedOp

Function = Callable[..., Any]
HOME = "triton.experimental.gluon.language"
_PLAIN = ("", "._core", "._math", "._standard")
"""Its modules whose names mean what the language's mean."""
WHY = "shared memory, asynchronous copies and matrix units of Gluon have no rule here, which is no mistake of yours"


def is_gluon(kernel: Any) -> bool:
    asked = getattr(kernel, "is_gluon", None)
    return bool(asked()) if callable(asked) else type(kernel).__name__ == "GluonJITFunction"


def modules() -> tuple[ModuleType, ...]:
    """Those of the language that are loaded."""
    home = sys.modules.get(HOME)
    found = [] if home is None else map(sys.modules.get, _within(*home.__path__))
    return tuple([m for m in found if m is not None])


@cache
def _within(*folders: str) -> list[str]:
    """The names of the language's modules: looking through all that is loaded takes a millisecond."""
    files = [path.relative_to(folder).with_suffix("") for folder in folders for path in Path(folder).rglob("*.py")]
    return [".".join([HOME, *(part for part in file.parts if part != "__init__")]) for file in files]


class OpenTruth:
    """What the compiler knows about a layout that it infers, and nobody here."""

    def __bool__(self) -> bool:
        raise _refusal("layout", "a layout that the compiler infers decides what the kernel does")


class OpenLayout:
    """The layout of a value that Triton's compiler infers. It may be handed on; nothing can be decided by it."""

    def __eq__(self, other: object) -> Any:
        return OpenTruth()

    __ne__ = __eq__
    __hash__ = object.__hash__

    def __getattr__(self, name: str) -> Any:
        return bool(OpenTruth())


def _refusal(name: str, why: str = WHY) -> UnsupportedOp:
    from render.interpreter.patches import RunningLaunch

    site = RunningLaunch.language.ctx.site()
    return UnsupportedOp(f"Gluon's {name}", why, site.file, site.line)


def own(module: ModuleType, name: str) -> str:
    """How users write it."""
    path = module.__name__.removeprefix(HOME).split(".")
    return ".".join(["gl", *(part for part in path if part and not part.startswith("_")), name])


def refused(module: ModuleType, name: str, member: Any) -> bool:
    """Whether it is a function of the compiler that is refused."""
    plain = module.__name__.removeprefix(HOME) in _PLAIN
    return core.is_builtin(member) and not (plain and (name in _OWN or hasattr(core, name) or hasattr(math, name)))


def replacements(module: ModuleType, language: Mapping[str, Function]) -> Iterator[tuple[str, Any, Function]]:
    """(name, what the module has there, what it gets while a kernel runs); `language`: what Triton's own gets."""
    plain = module.__name__.removeprefix(HOME) in _PLAIN
    for name, member in inspect.getmembers(module):
        if refused(module, name, member):
            yield name, member, _refuse(own(module, name))
        elif plain and name in _OWN and core.is_builtin(member):
            yield name, member, _OWN[name](language)
        elif plain and name in language and (core.is_builtin(member) or member is getattr(core, name, None)):
            yield name, member, language[name]


def without_rule(functions: Iterable[Any]) -> UnsupportedOp | None:
    """The refusal of the first operation without a rule that these jitted functions name."""
    names = {id(f): own(m, n) for m in modules() for n, f in inspect.getmembers(m) if refused(m, n, f)}
    for fn in functions:
        code, scope = code_of(fn), namespace_of(fn.fn)
        for node in ast.walk(fn.parse()):
            name = names.get(id(_named(node, scope)))
            if name is not None:
                return UnsupportedOp(f"Gluon's {name}", WHY, code.file, code.line + getattr(node, "lineno", 1) - 1)
    return None


def _named(node: ast.AST, scope: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Name):
        return scope.get(node.id)
    return getattr(_named(node.value, scope), node.attr, None) if isinstance(node, ast.Attribute) else None


_DIAGNOSTIC = re.compile(r"^(.+?):(\d+):\d+: error: (.*(?:\n(?!.*: (?:error|note): ).*)*)", re.MULTILINE)


@contextlib.contextmanager
def diagnostics() -> Iterator[list[tuple[str, int, str]]]:
    """What the compiler says of layouts meanwhile: (file, line, text). It writes past Python's `sys.stderr`."""
    found: list[tuple[str, int, str]] = []
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            yield found
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            file.seek(0)
            told = file.read().decode(errors="replace")
    found += [(name, int(line), text.split("\n    ")[0].strip()) for name, line, text in _DIAGNOSTIC.findall(told)]


def _refuse(name: str) -> Function:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise _refusal(name)

    return refuse


def _same(language: Mapping[str, Function]) -> Function:
    def same(value: Any, layout: Any, assert_trivial: Any = False) -> Any:
        return value

    return same


def _arange(language: Mapping[str, Function]) -> Function:
    return lambda start, end, layout=None: language["arange"](start, end)


def _full(language: Mapping[str, Function]) -> Function:
    return lambda shape, value, dtype, layout=None: language["full"](shape, value, dtype)


def _histogram(language: Mapping[str, Function]) -> Function:
    return lambda input, num_bins, mask=None, layout=None: language["histogram"](input, num_bins, mask)


def _barrier(language: Mapping[str, Function]) -> Function:
    return lambda *, cluster=False: language["debug_barrier"]()


def _dot_fma(language: Mapping[str, Function]) -> Function:
    """Multiplications and additions in the accumulator's type, none on a matrix unit."""

    def dot_fma(a: Any, b: Any, acc: Any) -> Any:
        if acc.dtype not in (core.float32, core.float64):
            raise _refusal("gl.dot_fma", f"it has no rule for sums in {acc.dtype}")
        return language["dot"](a, b, acc, input_precision="ieee", out_dtype=acc.dtype)

    return dot_fma


def _num_warps(language: Mapping[str, Function]) -> Function:
    from render.interpreter.patches import RunningLaunch

    return lambda: RunningLaunch.language.ctx.num_warps


def _static_assert(language: Mapping[str, Function]) -> Function:
    """The front end, which knows the layouts, has made these assertions."""

    def static_assert(cond: Any, msg: Any = "") -> None:
        if not isinstance(cond, OpenTruth):
            language["static_assert"](cond, msg)

    return static_assert


_OWN: dict[str, Callable[[Mapping[str, Function]], Function]] = {
    "arange": _arange,
    "full": _full,
    "histogram": _histogram,
    "convert_layout": _same,
    "set_auto_layout": _same,
    "to_linear_layout": lambda language: lambda layout, shape: OpenLayout(),
    "barrier": _barrier,
    "thread_barrier": _barrier,
    "num_warps": _num_warps,
    "static_assert": _static_assert,
    "dot_fma": _dot_fma,
}
"""What differs from the language in how it is called, or is not there."""
