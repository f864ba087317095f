"""Runs what the user has as Python would: a script, a module, a notebook, tests; with its arguments and its folders."""

from __future__ import annotations

import ast
import importlib.util
import json
import linecache
import re
import runpy
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import thread as pools
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import render_triton
from render.entry.target import imports_relatively, not_python, package_of
from render.interpreter.refusals import is_own_failure
from render.result.errors import RenderError, is_users
from render.result.footing import Footing, replaced

NOT_FOUND = "RND902"
_MAGIC = re.compile(r"^(\s*)[%!]")


@dataclass(frozen=True)
class Invocation:
    """What to run: `kind` is "file", "module" or "pytest"; `name` of the file or module, `arguments` of its own."""

    kind: str
    name: str
    arguments: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        return self.name if self.kind != "pytest" else " ".join(("pytest", *self.arguments))


def invocation(words: Sequence[str], module: bool = False) -> Invocation:
    """Of the words of a command line: `script.py args`, with `module` `package.module args`, or a command that starts
    with `python` or `pytest`. Raises RenderError for what is none of these."""
    given = list(words)
    if given and Path(given[0]).name in ("python", "python3", sys.executable.rsplit("/", 1)[-1]):
        given = [w for w in given[1:] if w not in ("-u", "-B")] if len(given) > 1 else []
    if given and given[0] == "-m":
        module, given = True, given[1:]
    if not given:
        raise RenderError(
            NOT_FOUND, "nothing to run", "say: render run SCRIPT.py, -m package.module, or -- pytest tests/"
        )
    name, rest = given[0], tuple(given[1:])
    if (Path(name).name in ("pytest", "py.test") and not Path(name).is_file()) or (module and name == "pytest"):
        return Invocation("pytest", "pytest", rest)
    if module:
        return Invocation("module", name, rest)
    if "::" in name and Path(name.split("::")[0]).is_file():
        return Invocation("pytest", "pytest", tuple(given))
    path = Path(name)
    if not path.is_file():
        kind = "is a folder" if path.is_dir() else "does not exist"
        tests = f"render run -- pytest {name}" if path.is_dir() else None
        raise RenderError(NOT_FOUND, f"{name} {kind}", tests or "give a Python file, or -m package.module")
    return Invocation("file", name, rest)


class CalledFloat:
    """`float` as scripts call it: what it makes of a tensor is followed while somebody follows."""

    of: Callable[[Any], float] = float
    NAME = "__render_float__"

    @classmethod
    def called(cls, tree: ast.Module) -> ast.Module:
        """The tree with calls of `float` by that name, if `float` is Python's own in it."""
        for node in ast.walk(tree):
            name = getattr(node, "id", None) if isinstance(getattr(node, "ctx", None), ast.Store) else None
            if "float" in (name, getattr(node, "arg", None)):
                return tree
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                mapped = node.args[:1] if node.func.id == "map" else []
                for name in (node.func, *(x for x in mapped if isinstance(x, ast.Name))):
                    name.id = cls.NAME if name.id == "float" else name.id
        return tree


@dataclass(frozen=True)
class Ended:
    """How it ended: the exit code that Python would have given, and what it raised if that was no SystemExit."""

    exit_code: int
    error: BaseException | None = None

    @property
    def is_own_failure(self) -> bool:
        """Whether it is a defect of RENDER."""
        return isinstance(self.error, Exception) and is_own_failure(self.error) and not replaced()


def run(what: Invocation, footing: Footing | None = None) -> Ended:
    """Executes it as `__main__`; its traceback goes to stderr, without frames of RENDER. `footing`: what there was
    before (by itself: now), and is again afterwards."""
    runners: dict[str, Callable[[Invocation], int | None]] = {"file": _file, "module": _module, "pytest": _pytest}
    before = sys.argv, sys.path[:], sys.modules.get("__main__")
    try:
        with _its_threads(), (footing or Footing()).restored():
            return Ended(int(runners[what.kind](what) or 0))
    except SystemExit as stop:
        if isinstance(stop.code, str):
            print(stop.code, file=sys.stderr)
        return Ended(int(stop.code) if isinstance(stop.code, int) else int(stop.code is not None))
    except BaseException as error:
        if isinstance(error, RenderError) or not is_users(error):
            raise
        with suppress(OSError, ValueError):  # it may have closed that, too
            print("".join(shown(error)), end="", file=sys.stderr)
        return Ended(1, error)
    finally:
        sys.argv, sys.path[:] = before[0], before[1]
        if before[2] is not None:
            sys.modules["__main__"] = before[2]


@contextmanager
def _its_threads() -> Iterator[None]:
    """Waits for the threads that the body started, as Python does at its end: what they do is the script's, too. Those
    of a pool that nobody shut down wait for more work, and end with the process."""
    others = {*threading.enumerate()}
    try:
        yield
    finally:
        for thread in threading.enumerate():
            if thread not in others and not thread.daemon and thread not in pools._threads_queues:  # type: ignore[attr-defined]
                thread.join()


def shown(error: BaseException) -> Iterator[str]:
    """The traceback as Python prints it, without RENDER's own frames."""
    told = traceback.TracebackException.from_exception(error, capture_locals=False)
    chain, seen = [told], set()
    while chain:
        one = chain.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        one.stack = traceback.StackSummary.from_list(
            [
                f
                for f in one.stack
                if not Path(f.filename).is_relative_to(_HOME) and not f.filename.startswith("<frozen")
            ]
        )
        chain += [x for x in (one.__cause__, one.__context__) if x is not None]
    return told.format()


_HOME = Path(__file__).resolve().parent.parent


def _file(what: Invocation) -> int | None:
    path = Path(what.name)
    sys.argv = [what.name, *what.arguments]
    folder = path.resolve().parent
    source = path.read_bytes()
    main = _main(path)
    sys.path[:0] = [str(folder)]
    render_triton.beside()  # a script with a module `render` beside it imports its own
    root, package = package_of(folder)
    sys.path += [p for p in (str(root), str(Path.cwd())) if p not in sys.path]
    if path.suffix == ".ipynb":
        _cells(path, source, main)
        return None
    try:
        text = importlib.util.decode_source(source)
        code = _compiled(text, str(path))
    except (SyntaxError, UnicodeDecodeError, ValueError) as error:
        raise not_python(path, error) from None
    if package and imports_relatively(text):
        importlib.import_module(package)
        main.__package__ = package
    if "get_ipython(" in text:
        main.__dict__["get_ipython"] = _NoShell
    exec(code, main.__dict__)
    return None


def _compiled(text: str, name: str) -> CodeType:
    return compile(CalledFloat.called(ast.parse(text, name)), name, "exec", dont_inherit=True)


def _main(path: Path) -> ModuleType:
    main = ModuleType("__main__")
    main.__file__, main.__builtins__ = str(path), __builtins__  # type: ignore[attr-defined]
    main.__dict__["__cached__"], main.__dict__[CalledFloat.NAME] = None, CalledFloat.of
    sys.modules["__main__"] = main
    return main


class _NoShell:
    """In place of the notebook's shell in an exported notebook: its commands do nothing."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *args, **kwargs: None


def _cells(path: Path, source: bytes, main: ModuleType) -> None:
    """The code cells of a notebook, each a file of its own in tracebacks; magics and shell commands are left out."""
    try:
        cells = [c for c in json.loads(source)["cells"] if c["cell_type"] == "code"]
    except (ValueError, KeyError, TypeError):
        raise RenderError(NOT_FOUND, f"{path} is no notebook", "give an .ipynb file of version 4") from None
    main.__dict__["get_ipython"] = _NoShell
    for number, cell in enumerate(cells, 1):
        text = cell["source"] if isinstance(cell["source"], str) else "".join(cell["source"])
        if text.startswith("%%") and not text.startswith(("%%time", "%%capture")):
            continue
        text = "".join(
            _MAGIC.sub(r"\1pass  # ", line) if _MAGIC.match(line) else line for line in text.splitlines(True)
        )
        name = f"{path}#cell{number}"
        linecache.cache[name] = (len(text), None, text.splitlines(True), name)
        exec(_compiled(text, name), main.__dict__)


def _module(what: Invocation) -> int | None:
    sys.path[:0] = [str(Path.cwd())]
    sys.argv = [what.name, *what.arguments]
    try:
        found = importlib.util.find_spec(what.name)
    except (ImportError, ValueError) as error:
        raise RenderError(NOT_FOUND, f"-m {what.name}: {error}", "run from the folder that holds the package") from None
    if found is None:
        raise RenderError(NOT_FOUND, f"no module named {what.name}", "run from the folder that holds the package")
    runpy.run_module(what.name, run_name="__main__", alter_sys=True)
    return None


_LOADED = "ignore:Module already imported so cannot be rewritten; render:pytest.PytestAssertRewriteWarning"


def _pytest(what: Invocation) -> int | None:
    try:
        import pytest
    except ImportError:
        raise RenderError(NOT_FOUND, "tests need pytest", "pip install pytest") from None
    sys.path[:0] = [str(Path.cwd())]
    sys.argv = ["pytest", *what.arguments]
    return int(pytest.main(["-W", _LOADED, *what.arguments]))
