"""What a kernel is refused for, as Triton's compiler says it: its exception classes, the source and the place.

The compiler wraps what goes wrong in a jitted function into `CompilationError` with the function's source and the node;
in a called function, into one for each call on the way. Errors of RENDER itself, and its own words about operations
without a rule, stay what they are.
"""

from __future__ import annotations

import ast
import sys
import traceback
from collections.abc import Iterator, Mapping
from copy import copy
from pathlib import Path
from types import CodeType, TracebackType
from typing import Any

from interval_ops.profiles.profile import MissingRule
from render.interpreter.context import TRITON_ROOT
from render.interpreter.rewrite import code_of, namespace_of
from render.result.defects import forwarded
from render.result.errors import KernelError, RenderError, UnsupportedOp


class StaticAssertion(AssertionError):
    """`tl.static_assert` failed."""


def is_own_failure(error: BaseException) -> bool:
    """Did RENDER itself break, as opposed to telling the user something?

    True where the innermost frame is RENDER's and does not stand at a `raise`: what it says on purpose about a kernel
    it raises; an operation that fails there by itself is a defect, which must not be blamed on the kernel. A call that
    is only handed on (`forwarded`) is the user's.
    """
    frames = traceback.extract_tb(error.__traceback__)
    if not frames or forwarded(frames[-1]) or (frames[-1].line or "").startswith("raise"):
        return False
    own = [Path(sys.modules[name].__file__ or "").parent for name in ("render", "interval_ops") if name in sys.modules]
    return any(Path(frames[-1].filename).is_relative_to(home) for home in own)


def as_compilation_error(error: Exception, sources: Mapping[CodeType, Any]) -> Exception:
    """The error as Triton raises it; the same one where it is not the kernel's. `sources`: code -> `Code`."""
    from triton.compiler import errors

    if isinstance(error, (RenderError, UnsupportedOp, KernelError, MissingRule, errors.CompilationError)):
        return error
    frames = list(_kernel_frames(error.__traceback__, sources))
    if not frames or is_own_failure(error):
        return error
    code, node = frames[-1]
    kind = errors.CompileTimeAssertionFailure if isinstance(error, StaticAssertion) else errors.CompilationError
    text = str(error) if isinstance(node, ast.Call) or isinstance(error, StaticAssertion) else repr(error)
    found = _made(kind, code, node, text, error, error)
    for code, node in reversed(frames[:-1]):
        found = _made(errors.CompilationError, code, node, None, found, error)
    return found.with_traceback(error.__traceback__)


def _made(kind: Any, code: Any, node: ast.AST, text: str | None, cause: Exception, original: Exception) -> Exception:
    made: Exception = kind(code.jit_fn.src, node, text)
    made.__cause__ = cause
    made.original = original  # type: ignore[attr-defined]
    return made


def located(error: Exception, kernel: Any) -> Exception:
    """A refusal of Triton's front end, with what was refused as `original` and the kernel's own lines as `places`."""
    from triton.compiler.errors import CompilationError

    chain: list[Any] = [error]
    while isinstance(chain[-1].__cause__, CompilationError):
        chain.append(chain[-1].__cause__)
    found = {fn.src: code_of(fn) for fn in reversed(functions_of(kernel))}
    places = []
    for one in chain:
        code, line = found.get(one.src), getattr(one.node, "lineno", None)
        if code is not None and line is not None:
            text = one.src.split("\n")[line - 1 : line]
            places.append((code.file, code.line + line - 1, code.jit_fn.fn.__name__, "".join(text).strip()))
    last = chain[-1]
    first = last.__cause__ or last.__context__
    if first is None:  # the compiler's own words, without the excerpt
        first = copy(last)
        first.message = last.error_message or "refused by Triton's front end"
    error.original, error.places = first.with_traceback(None), places  # type: ignore[attr-defined]
    return error


def functions_of(kernel: Any) -> list[Any]:
    """The jitted function and those that it names, and so on."""
    return list(_functions(kernel, set()))


def _functions(kernel: Any, seen: set[Any]) -> Iterator[Any]:
    if kernel in seen:
        return
    seen.add(kernel)
    yield kernel
    scope = namespace_of(kernel.fn)
    for node in ast.walk(kernel.parse()):
        named: Any = None
        if isinstance(node, ast.Name):
            named = scope.get(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            named = getattr(scope.get(node.value.id), node.attr, None)
        if type(named) is type(kernel) and not named.fn.__code__.co_filename.startswith(TRITON_ROOT):
            yield from _functions(named, seen)


def _kernel_frames(tb: TracebackType | None, sources: Mapping[CodeType, Any]) -> Iterator[tuple[Any, ast.AST]]:
    """(code of the jitted function, node that was executed), outermost call first."""
    found: list[tuple[Any, ast.AST]] = []
    while tb is not None:
        code = sources.get(tb.tb_frame.f_code)
        if code is not None:
            if tb.tb_frame.f_code is not code.code and found and found[-1][0] is code:
                found.pop()  # a lambda of the function that the frame before stands in
            found.append((code, _node_at(code, tb)))
        tb = tb.tb_next
    yield from found


def _node_at(code: Any, tb: TracebackType) -> ast.AST:
    """The node of `code.jit_fn.parse()` that a frame executes, or one that only has its place."""
    positions = list(tb.tb_frame.f_code.co_positions())
    line, _, column, _ = positions[tb.tb_lasti // 2]
    at = ((line or tb.tb_lineno) - code.line + 1, max(0, (column or 0) - code.indent))
    try:
        nodes = [
            n for n in ast.walk(code.jit_fn.parse()) if (getattr(n, "lineno", 0), getattr(n, "col_offset", 0)) == at
        ]
    except (SyntaxError, AssertionError):
        nodes = []
    calls = [n for n in nodes if isinstance(n, ast.Call)]
    return (calls or nodes or [ast.Pass(lineno=at[0], col_offset=at[1])])[0]
