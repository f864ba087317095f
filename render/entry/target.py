"""The user's file: load it without running its script part, find the function that launches a kernel.

The entry is found in the syntax tree, not by its name: a module-level function whose body launches a kernel
(`kernel[grid](...)`), directly or through other functions and classes of the file. Functions that only drive such a
function (tests, benchmarks, `main()`) are passed over.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import inspect
import os
import re
import sys
import textwrap
import traceback
from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from render.interpreter.script import LEFT_OUT, execute, source_of
from render.result.errors import KernelError, RenderError, UnsupportedOp, headline, is_users
from render.result.footing import TOOLS, Footing
from render.result.places import relative

NOT_FOUND = "RND902"
_PYTHON = os.path.dirname(os.__file__) + os.sep
_RELATIVE = re.compile(r"^\s*from\s+\.", re.MULTILINE)
_NOT_AN_ENTRY = {"reference", "make_inputs", "main"}
Node = ast.FunctionDef | ast.ClassDef | ast.Assign


def load_module(path: str | Path) -> ModuleType:
    """Import a file under a name of its own, so that `if __name__ == "__main__":` stays asleep.

    Statements that launch kernels are left out (see `script`).
    """
    path = Path(path)
    if not path.is_file():
        kind = "is a folder, not a file" if path.is_dir() else "does not exist"
        file, inside, name = str(path).partition(".py:")
        hint = f"say {file}.py::{name}" if inside and name else "give the Python file that holds the kernel"
        raise RenderError(NOT_FOUND, f"{path} {kind}", hint)
    name = f"render_target_{path.stem}_{hashlib.sha1(os.fsencode(path.resolve())).hexdigest()[:8]}"
    root, package = package_of(path.resolve().parent)
    package = package if _imports_relatively(path) else ""
    name = f"{package}.{name}" if package else name
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise RenderError(NOT_FOUND, f"{path} is not a Python file", "give the .py file that holds the kernel")
    module = importlib.util.module_from_spec(spec)
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        # Stays there: the file may import its neighbours inside functions.
        sys.path.insert(0, folder)
    if package and str(root) not in sys.path:
        sys.path.append(str(root))
    sys.modules[name] = module
    from render.interpreter.compat import import_scope

    try:
        with import_scope(), _surroundings():
            if package:
                importlib.import_module(package)
            execute(module, path)
    except SyntaxError as error:
        raise not_python(path, error) from error
    except BaseException as error:
        if not is_users(error):
            raise
        hint = 'code that must not run on import belongs under `if __name__ == "__main__":`'
        raise failed(f"importing {path}", error, hint) from error
    return module


def package_of(folder: Path) -> tuple[Path, str]:
    """(folder that holds the outermost package around `folder`, its dotted name or '')."""
    names: list[str] = []
    while (folder / "__init__.py").is_file():
        names.append(folder.name)
        folder = folder.parent
    return folder, ".".join(reversed(names))


def _imports_relatively(path: Path) -> bool:
    try:
        return imports_relatively(source_of(path))
    except (SyntaxError, UnicodeDecodeError):
        return False  # which is told when it is run


def imports_relatively(text: str) -> bool:
    """Whether a file is part of a package and says so."""
    return _RELATIVE.search(text) is not None


@contextmanager
def _surroundings() -> Iterator[None]:
    """What the body takes away of what RENDER stands on is given back: what runs next needs it."""
    footing = Footing()
    try:
        yield
    finally:
        footing.mend()


def left_out_note(module: ModuleType) -> str | None:
    """What to tell the user of statements that were not run."""
    lines = getattr(module, LEFT_OUT, ())
    if not lines:
        return None
    where = f"line {lines[0]}" if len(lines) == 1 else f"lines {', '.join(map(str, lines[:8]))}"
    more = f" and {len(lines) - 8} more" if len(lines) > 8 else ""
    return f"{where}{more} of the file launch kernels at the top level: not run"


def failed(doing: str, error: BaseException | None, hint: str, code: str = NOT_FOUND) -> RenderError:
    """An exception of the user's code, raised while `doing` it, as one line with the user's own place."""
    frames = user_frames(error) if error is not None else []
    where = f" at {relative(frames[-1][0])}:{frames[-1][1]}" if frames else ""
    return RenderError(code, f"{doing} raised {type(error).__name__}{where}: {headline(error)}".rstrip(": "), hint)


@contextmanager
def users_code(doing: str, hint: str, code: str = NOT_FOUND) -> Iterator[None]:
    """What the body raises is the user's, `sys.exit()` included: a RenderError with its line. Our own answers pass."""
    try:
        with _surroundings():
            yield
    except (RenderError, UnsupportedOp, KernelError):
        raise
    except BaseException as error:
        if not is_users(error):
            raise
        raise failed(doing, error, hint, code) from error


def find_entry(module: ModuleType, entry: str | None = None, reference: str | None = None) -> Callable[..., Any]:
    """The function to classify: `entry` if given, else the one that launches a kernel."""
    path = module.__file__ or module.__name__
    if entry is not None:
        return _named(module, entry, path)
    names = launchers(module, exclude={reference} if reference else set())
    if not names:
        note = left_out_note(module)
        wrap = f"{note}; put them into a function that returns the output"
        hint = "name it with --entry NAME" if note is None else wrap
        raise RenderError(NOT_FOUND, f"no function in {path} launches a Triton kernel", hint)
    if len(names) > 1:
        listed = ", ".join(f"{name} (line {line})" for name, line in names)
        raise RenderError(
            NOT_FOUND,
            f"{len(names)} functions in {path} launch kernels: {listed}",
            f"choose one, e.g. --entry {names[0][0]}",
        )
    found: Callable[..., Any] = getattr(module, names[0][0])
    return found


def _named(module: ModuleType, entry: str, path: str) -> Callable[..., Any]:
    owner: Any = module
    for part in entry.split("."):
        owner = getattr(owner, part, None)
    if owner is None:
        known = ", ".join(name for name, _ in launchers(module)) or "none"
        raise RenderError(NOT_FOUND, f"{path} has no {entry}", f"functions that launch kernels: {known}")
    if not callable(owner) or is_kernel(owner):
        what = "a kernel, not the function that launches it" if is_kernel(owner) else "not a function"
        raise RenderError(NOT_FOUND, f"--entry {entry} is {what}", "name the Python function around the launch")
    from render.entry.wrappers import as_function

    found = as_function(owner, module)
    if isinstance(found, type):
        hint = f"write a function around it, e.g. `def run(x): return {entry}(...)(x)`"
        raise RenderError(NOT_FOUND, f"--entry {entry} is a class", hint)
    return found


def is_kernel(value: Any) -> bool:
    """A jitted kernel, autotuned or not (anything that is launched by `value[grid](...)`)."""
    return callable(getattr(value, "run", None)) and hasattr(type(value), "__getitem__")


def launchers(module: ModuleType, exclude: Set[str] = frozenset()) -> list[tuple[str, int]]:
    """(name, line) of the functions that could be the entry, in file order."""
    nodes = _definitions(ast.parse(source_of(Path(inspect.getfile(module)))))
    uses = {name: _names(node) & nodes.keys() - {name} for name, node in nodes.items()}
    launching = {name for name, node in nodes.items() if not _is_jitted(node) and _launches(node, module)}
    while grown := {n for n, used in uses.items() if used & launching and not _is_jitted(nodes[n])} - launching:
        launching |= grown
    usable = {n for n in launching if not isinstance(nodes[n], ast.ClassDef) and callable(getattr(module, n, None))}
    candidates = [n for n in nodes if n in usable - _NOT_AN_ENTRY - exclude]
    candidates = _prefer(candidates, lambda n: not _drives(nodes[n]))
    called = set().union(*(uses[n] for n in candidates)) if candidates else set()
    return [(n, nodes[n].lineno) for n in _prefer(candidates, lambda n: n not in called)]


def _prefer(names: list[str], good: Callable[[str], bool]) -> list[str]:
    """The good ones, or all if none is."""
    return [n for n in names if good(n)] or names


def _definitions(tree: ast.Module) -> dict[str, Node]:
    """Module-level functions, classes, and `name = Class.apply` aliases."""
    found: dict[str, Node] = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found[node.name] = node
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Attribute | ast.Name | ast.Lambda):
            found |= {target.id: node for target in node.targets if isinstance(target, ast.Name)}
    return found


def _names(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}


def _is_jitted(node: ast.AST) -> bool:
    decorators = getattr(node, "decorator_list", [])
    return any(ast.unparse(d).split("(")[0].rsplit(".", 1)[-1] in ("jit", "autotune", "heuristics") for d in decorators)


def _launches(node: ast.AST, module: ModuleType) -> bool:
    """Does the body itself hold `kernel[grid](...)` or `kernel.run(...)`?"""
    local = {n.name for n in ast.walk(node) if isinstance(n, ast.FunctionDef) and _is_jitted(n)}
    return any(isinstance(call, ast.Call) and _is_launch(call, module, local) for call in ast.walk(node))


def _is_launch(call: ast.Call, module: ModuleType, local: set[str]) -> bool:
    target = call.func
    if isinstance(target, ast.Attribute) and target.attr == "run":
        return is_kernel(_value(target.value, module))
    if not isinstance(target, ast.Subscript):
        return False
    if isinstance(target.value, ast.Name) and target.value.id in local:
        return True
    if isinstance(target.value, ast.Subscript):  # a table of kernels
        from torch.utils._pytree import tree_leaves

        table = _value(target.value.value, module)
        return table is None or any(is_kernel(x) for x in tree_leaves(table))
    value = _value(target.value, module)
    # What the module does not know (a local variable, an attribute of self) may be a kernel as well.
    return is_kernel(value) if value is not None else isinstance(target.value, ast.Name | ast.Attribute | ast.Call)


def _value(node: ast.expr, module: ModuleType) -> Any:
    if isinstance(node, ast.Name):
        return getattr(module, node.id, None)
    if isinstance(node, ast.Attribute):
        return getattr(_value(node.value, module), node.attr, None)
    return None


def _drives(node: Node) -> bool:
    """A test, a benchmark or a script: takes nothing, or says so by name or decorator."""
    if not isinstance(node, ast.FunctionDef):
        return False
    arguments = node.args
    takes = arguments.posonlyargs or arguments.args or arguments.kwonlyargs or arguments.vararg or arguments.kwarg
    marks = " ".join(ast.unparse(d) for d in node.decorator_list)
    return not takes or node.name.startswith(("test", "bench")) or "pytest" in marks or "perf_report" in marks


def returned_names(fn: Callable[..., Any]) -> list[str]:
    """The variable names in `return c` or `return out, lse`, the last such statement; empty where there is none."""
    code = getattr(inspect.unwrap(fn), "__code__", None)
    return [] if code is None else list(_returned(code))


def returning(fn: Callable[..., Any]) -> tuple[str, int] | None:
    """File and line of the last such statement."""
    code = getattr(inspect.unwrap(fn), "__code__", None)
    line = None if code is None else _line_returned(code)
    return None if code is None or line is None else (code.co_filename, line)


def _tree(code: CodeType) -> ast.AST | None:
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(code))).body[0]
    except (OSError, TypeError, SyntaxError):
        return None


@lru_cache(maxsize=1024)
def _line_returned(code: CodeType) -> int | None:
    """Read once, as `_returned`."""
    tree = _tree(code)
    lines = [] if tree is None else [value.lineno for value in _returns(tree)]
    return code.co_firstlineno + lines[-1] - 1 if lines else None


@lru_cache(maxsize=1024)
def _returned(code: CodeType) -> list[str]:
    """Read once: every run of an entry names its outputs."""
    tree = _tree(code)
    found: list[str] = []
    for statement in _returns(tree) if tree is not None else ():
        parts = statement.elts if isinstance(statement, ast.Tuple) else [statement]
        names = [p.id for p in parts if isinstance(p, ast.Name)]
        found = names if len(names) == len(parts) else []
    return found


def _returns(node: ast.AST) -> Iterator[ast.expr]:
    """The values returned by this function, not by those defined inside it."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Return) and child.value is not None:
            yield child.value
        elif not isinstance(child, ast.FunctionDef | ast.Lambda | ast.ClassDef):
            yield from _returns(child)


_TYPED = ("<stdin", "<console", "<python-input", "<ipython-input", "<doctest ")
"""What Python calls code that somebody types, or that stands in a page."""


def is_tool_file(file: str) -> bool:
    """A file of RENDER, Triton, PyTorch, Python or their like: nothing the user can fix."""
    if file.startswith("<"):
        return not file.startswith(_TYPED)
    return _in_folder_of_a_tool(file, tuple(getattr(sys.modules.get(name), "__file__", None) for name in TOOLS))


@lru_cache(maxsize=1 << 16)
def _in_folder_of_a_tool(file: str, tools: tuple[str | None, ...]) -> bool:
    """Paths are taken apart once: frames of the user are looked for at every operation that is followed."""
    if file.startswith(_PYTHON) and not {"site-packages", "dist-packages"} & {*Path(file).parts}:
        return True
    return any(Path(file).is_relative_to(Path(tool).parent) for tool in tools if tool)


def not_python(path: Path, error: SyntaxError | ValueError) -> RenderError:
    """The file that is none, which may be one that `path` imports, and the line where there is one."""
    file = getattr(error, "filename", None) or str(path)
    file = str(path) if file.startswith("<") else file
    line, words = getattr(error, "lineno", None), getattr(error, "msg", None) or str(error)
    return RenderError(NOT_FOUND, f"{file}{f':{line}' if line else ''}: {words}", "this is not valid Python")


def user_frames(error: BaseException) -> list[tuple[str, int, str, str]]:
    """(file, line, function, text) of the traceback's frames in the user's files, innermost last."""
    frames = traceback.extract_tb(error.__traceback__)
    return [(f.filename, f.lineno or 0, f.name, f.line or "") for f in frames if not is_tool_file(f.filename)]


def as_kernel_error(error: BaseException) -> KernelError:
    """What the user's code raised. Of Triton's `CompilationError` the report needs the words, not the excerpt."""
    if isinstance(error, KernelError):
        return error
    frames = [*user_frames(error), *(p for p in getattr(error, "places", ()) if not is_tool_file(p[0]))]
    return KernelError(getattr(error, "original", error), frames)
