"""The package `render` under the name of its distribution, for programs that have a `render` module of their own.

`import render_triton as rt` gives RENDER, and `import render` in files of that program goes on to mean their own: each
importer gets the one that it means. Nothing changes where there is no other `render`.
"""

from __future__ import annotations

import builtins
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

_HOME = Path(__file__).resolve().parent.parent
_OURS = ("render", "render_triton", "interval_ops")
_THEIRS = "render (of the program)"


def _ours() -> ModuleType:
    """Our package as `sys.modules["render"]`, by which its own modules import each other."""
    known = sys.modules.get("render")
    if known is not None and _is_ours(known):
        return known
    if known is not None:
        for name in [n for n in sys.modules if n.split(".")[0] == "render"]:
            sys.modules[name.replace("render", _THEIRS, 1)] = sys.modules.pop(name)
    file = _HOME / "render" / "__init__.py"
    spec = importlib.util.spec_from_file_location("render", file, submodule_search_locations=[str(file.parent)])
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["render"] = module
    spec.loader.exec_module(module)
    return module


def _is_ours(module: ModuleType) -> bool:
    return Path(getattr(module, "__file__", None) or "/").resolve().parent == _HOME / "render"


def _own_file() -> Path | None:
    """The program's `render`, if it has one on its path before ours."""
    for folder in sys.path:
        here = Path(folder or ".").resolve()
        if here == _HOME:
            return None
        for file in (here / "render.py", here / "render" / "__init__.py"):
            if file.is_file():
                return file
    return None


def _theirs() -> ModuleType | None:
    known, file = sys.modules.get(_THEIRS), _own_file()
    if known is not None or file is None:
        return known
    folder = [str(file.parent)] if file.name == "__init__.py" else None
    spec = importlib.util.spec_from_file_location(_THEIRS, file, submodule_search_locations=folder)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[_THEIRS] = module
    spec.loader.exec_module(module)
    return module


def beside() -> None:
    """From now on `import render` means what its importer means."""
    plain = builtins.__import__
    if getattr(plain, "beside", False) or (_own_file() is None and _THEIRS not in sys.modules):
        return

    def find(name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
        if level == 0 and name == "render" and str((globals or {}).get("__name__", "")).split(".")[0] not in _OURS:
            own = _theirs()
            if own is not None:
                return own
        return plain(name, globals, locals, fromlist, level)

    find.beside = True  # type: ignore[attr-defined]
    builtins.__import__ = find


_package = _ours()
beside()


def main() -> None:
    """The command."""
    from render.cli import main as command

    command()


def __getattr__(name: str) -> Any:
    return getattr(_package, name)


def __dir__() -> list[str]:
    return dir(_package)
