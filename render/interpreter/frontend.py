"""What Triton's own front end refuses about the statements of a kernel: asked before the first launch of its kind.

Plain Python runs statements that Triton has no code for (`try`, `lambda`, `break`, a dictionary), names that it does
not look up (globals that are no constexpr), and variables that change their type in a loop or differ between branches.
Which these are changes with every release, so the front end itself is asked; it needs no GPU and takes 5 to 40 ms per
kind of call, once in a process. Straight-line kernels, which hold none of this, are not asked about.

What functions of the language refuse is left to the interpreter, which calls the same functions: it also runs what
the installed release no longer has. Where a kernel fails here, the front end is asked as well: what it refuses too is
told with its exception, words and line. Of a Gluon kernel it is asked everything: layouts are its business alone.
"""

from __future__ import annotations

import ast
import contextlib
import io
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from render.interpreter import device, gluon
from render.interpreter.arguments import KernelCall
from render.interpreter.compiled import Packed
from render.interpreter.context import TRITON_ROOT
from render.interpreter.refusals import functions_of, located
from render.interpreter.rewrite import code_of
from render.result.defects import caught
from render.result.errors import KernelError, NoForm, RenderError, UnsupportedOp

_LANGUAGE = tuple(str(Path(TRITON_ROOT, name)) for name in ("language", "experimental"))
_OF_STATEMENTS = ("decide_return_type", "static_range.__init__")
"""What of the language looks at a statement: the one type of all returns, the bounds of a loop that is unrolled."""
_STRAIGHT = (
    ast.Module, ast.FunctionDef, ast.arguments, ast.arg, ast.Assign, ast.AugAssign, ast.Expr, ast.Pass, ast.Call,
    ast.keyword, ast.Attribute, ast.Name, ast.Constant, ast.BinOp, ast.Compare, ast.UnaryOp, ast.Subscript, ast.Slice,
    ast.expr_context, ast.operator, ast.cmpop, ast.USub, ast.Invert,
)  # fmt: skip
_REFUSED = (ast.MatMult, ast.Pow, ast.In, ast.NotIn, ast.UAdd)
_BUILTINS = ("min", "max", "float", "int", "len", "print")
_known: dict[Any, Exception | None] = {}
_plain: dict[Any, bool] = {}


def refused(kernel: Any, call: KernelCall) -> Exception | None:
    """The exception that Triton's front end raises for the statements of this kernel under such a call."""
    laid = gluon.is_gluon(kernel)
    if not laid and _straight(kernel):
        return None
    kinds, arch = tuple([_kind(v) for v in call.bound.arguments.values()]), device.current().facts.arch
    key = kernel.fn, kernel.src, kinds, repr(call.options), arch
    if key not in _known:
        with device.unasked():  # what the compiler asks for us is no decision of the host's code
            _known[key] = _laid_out(kernel, call) if laid else _asked(kernel, call)
    return _known[key]


def instead(error: Exception, kernel: Any, call: KernelCall) -> Exception:
    """What Triton's front end says of a kernel that failed here; the error itself where it takes the kernel.

    A function without a form for its operands is told in Triton's words; ours, which name it, are a note to them.
    """
    if isinstance(error, (RenderError, KernelError, UnsupportedOp)) and not isinstance(error, NoForm):
        return error
    if gluon.is_gluon(kernel):
        return _laid_out(kernel, call) or gluon.without_rule(functions_of(kernel)) or error
    found = _asked(kernel, call, _still_there)
    if found is not None and isinstance(error, NoForm):
        getattr(found, "original", found).add_note(f"{error.op}: {error.reason}")
    elif found is not None and not str(getattr(found, "original", found)):  # a verifier speaks on a stream of its own
        found.original = getattr(error, "original", error)  # type: ignore[attr-defined]
    return found or error


def _kind(value: Any) -> Any:
    """What decides how an argument is compiled, and perhaps more; a number of 1 is a constant."""
    if hasattr(value, "dtype"):
        return str(value.dtype)
    if isinstance(value, int) and not isinstance(value, bool):
        return value if value == 1 else "i32" if -(2**31) <= value < 2**31 else "i64" if value < 2**63 else "u64"
    return "fp32" if isinstance(value, float) else repr(value)


def _asked(kernel: Any, call: KernelCall, counts: Callable[[BaseException], bool] | None = None) -> Exception | None:
    """The refusal, with its place in the user's file, if it is one that `counts` (None: of a statement)."""
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            make = _maker(kernel, call)
        except Exception as error:  # what Triton cannot take for other reasons is none of the front end's business
            caught(error, "Triton's front end")
            return None
        try:
            _ = kernel.cache_key  # reads the globals that it depends on, before anything is compiled
        except RuntimeError as error:
            return error
        except Exception as error:  # `a = b = 0` runs here
            caught(error, "Triton's front end")
            return None
        try:
            make()
        except Exception as error:
            if (counts or _of_statements)(error):
                return _alone(located(error, kernel))
            caught(error, "Triton's front end")
    return None


def _laid_out(kernel: Any, call: KernelCall) -> Exception | None:
    """What the compiler refuses about a Gluon kernel, layouts included; that it uses what has no rule here comes first.

    Where no device was named, a layout for warps of another size than the one assumed is a matter of taste.
    """
    with gluon.diagnostics() as said:
        found = _asked(kernel, call, _still_there)
    named = device.current().named
    for place in said if found is None else ():
        if named or "threads per warp" not in place[-1]:
            found = located(_refusal_at(kernel, *place), kernel)
            break
    return found and (gluon.without_rule(functions_of(kernel)) or found)


def _refusal_at(kernel: Any, file: str, line: int, text: str) -> Exception:
    from triton.compiler.errors import CompilationError

    codes = [code_of(fn) for fn in functions_of(kernel)]
    code = max((c for c in codes if c.file == file and c.line <= line), key=lambda c: c.line, default=codes[0])
    at = ast.Pass(lineno=max(1, line - code.line + 1), col_offset=0)
    found: Exception = CompilationError(code.jit_fn.src, at, text)
    return found


def _maker(kernel: Any, call: KernelCall) -> Callable[[], Any]:
    """A function that makes the intermediate code of this call."""
    from triton._C.libtriton import ir

    packed = Packed.of(kernel, call.bound.args, {**call.bound.kwargs, **call.options})
    context = ir.context()
    ir.load_dialects(context)
    packed.backend.load_dialects(context)
    codegen, modules = packed.backend.get_codegen_implementation(packed.options), packed.backend.get_module_map()
    return lambda: packed.source.make_ir(packed.target, packed.options, codegen, modules, context)


def _still_there(error: BaseException) -> bool:
    """A refusal by the compiler, but for what the installed release no longer has."""
    from triton.compiler.errors import CompilationError

    first = list(_before(error))[-1]
    lacking = isinstance(first, AttributeError) and isinstance(first.obj, ModuleType)
    return isinstance(error, CompilationError) and not lacking and "removed in favor of" not in str(first)


def _of_statements(error: BaseException) -> bool:
    """A refusal by the compiler that no function of the language raised, nor an assertion, nor a name that it lacks."""
    from triton.compiler.errors import CompileTimeAssertionFailure

    if not _still_there(error) or isinstance(list(_before(error))[-1], CompileTimeAssertionFailure):
        return False
    places = list(_places(error))
    if any(function.endswith(_OF_STATEMENTS) for _, function in places):
        return True
    return not any(file.startswith(_LANGUAGE) or not file.startswith(TRITON_ROOT) for file, _ in places)


def _alone(error: Exception) -> Exception:
    """Kept as long as the process lives: without the compiler's frames, and what these hold."""
    for one in _before(error):
        one.__traceback__ = None
    return error


def _before(error: BaseException | None) -> Iterator[BaseException]:
    """The error, what it was raised from, and so on."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _places(error: BaseException) -> Iterator[tuple[str, str]]:
    """File and function of all frames that these errors passed, this one and the standard library's aside."""
    for one in _before(error):
        tb = one.__traceback__
        while tb is not None:
            file = tb.tb_frame.f_code.co_filename
            if file != __file__ and not file.startswith(_STANDARD):
                yield file, tb.tb_frame.f_code.co_qualname
            tb = tb.tb_next


_STANDARD = (str(Path(ast.__file__).parent), "<")


def _straight(kernel: Any) -> bool:
    """Whether the function, and each that it calls, is a list of assignments and calls of names that Triton knows."""
    key = kernel.fn, kernel.src
    if key not in _plain:
        _plain[key] = False  # while it is looked at: one that calls itself is none
        _plain[key] = _is_straight(kernel)
    return _plain[key]


def _is_straight(kernel: Any) -> bool:
    try:
        tree = kernel.parse()
    except (SyntaxError, AssertionError):
        return False
    scope = kernel.get_capture_scope() if hasattr(kernel, "get_capture_scope") else kernel.fn.__globals__
    nodes = list(ast.walk(tree))
    known = {n.arg for n in nodes if isinstance(n, ast.arg)}
    known |= {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return (
        all(_is_plain(node) for node in nodes)
        and all(n.id in known or _allowed(scope, n.id) for n in nodes if isinstance(n, ast.Name))
        and sum(isinstance(n, ast.FunctionDef) for n in nodes) == 1
    )


def _is_plain(node: ast.AST) -> bool:
    if isinstance(node, ast.Assign):
        return len(node.targets) == 1 and isinstance(node.targets[0], ast.Name)
    if isinstance(node, ast.AugAssign):
        return isinstance(node.target, ast.Name)
    return isinstance(node, _STRAIGHT) and not isinstance(node, _REFUSED)


def _allowed(scope: dict[str, Any], name: str) -> bool:
    """Whether kernels may read this global."""
    from triton.language import core
    from triton.runtime.jit import JITFunction

    if name not in scope:
        return name in _BUILTINS
    value = scope[name]
    if isinstance(value, JITFunction):
        return value.fn.__code__.co_filename.startswith(TRITON_ROOT) or _straight(value)
    return isinstance(value, ModuleType | core.constexpr | core.dtype) or core.is_builtin(value)
