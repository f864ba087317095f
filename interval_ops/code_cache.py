"""Where compiled kernels are kept, and when they are still good.

One file per function and state of its sources, in the user's folder for caches: a second installation of the same
sources finds what the first compiled, and two states side by side do not push each other out. The state is a digest of
the function's module and of all that it imports, however far, from `interval_ops` and from its own package: kernels
take helpers, which are inlined, and constants, which are frozen, from there alone. Numba adds its own version,
Python's, the processor and its features, the signature and the bytecode.

Reading a kernel needs no registry of numba's (a third of a second of imports): what machine code refers to are symbols
of Python, of numba's runtime and of libm. What must be compiled loads them, as always, and sees Python's own `math` and
numpy's own functions: a session in which user code runs puts functions there that numba does not know, and what it
registered while it saw those would stay unknown for the rest of the process.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numba.core import caching, config
from numba.core.runtime import rtsys
from numba.core.typing import mathdecl  # noqa: F401  registers the functions of `math` as they are now
from numba.cpython import mathimpl  # noqa: F401
from platformdirs import user_cache_path

_OWN = [(module, dict(vars(module))) for module in (math, np)]
_compiling = threading.RLock()
OURS = ("interval_ops", "render")
FOLDER = "compiled"
_IMPORT = re.compile(
    rf"^[ \t]*(?:from[ \t]+((?:{'|'.join(OURS)})(?:\.\w+)*)[ \t]+import[ \t]+(\([^)]*\)|[^\n]*)"
    rf"|import[ \t]+((?:{'|'.join(OURS)})(?:\.\w+)*))",
    re.MULTILINE,
)


def folders(beside: Path) -> list[Path]:
    """Where kernels may be kept, best first: where numba was told to, the user's caches, beside the source. Never a
    folder that others can write to: what is read from there is executed."""
    told = [Path(config.CACHE_DIR) / "render"] if config.CACHE_DIR else []
    return [*told, user_cache_path("render", appauthor=False) / FOLDER, beside / "__pycache__"]


@cache
def writable(folder: Path) -> bool:
    """Whether the folder is there, or can be made, and takes files."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True


@cache
def _content(file: Path) -> bytes:
    return file.read_bytes()


@cache
def _named(file: Path, root: Path) -> frozenset[Path]:
    """The files of ours that a file imports, wherever the statement stands."""
    found = set()
    for home, names, whole in _IMPORT.findall(_content(file).decode("utf-8", "replace")):
        below = [f"{home}.{name}" for name in re.findall(r"\w+", names)] if home else []
        for module in (home or whole, *below):
            path = root.joinpath(*module.split("."))
            found |= {p for p in (path.with_suffix(".py"), path / "__init__.py") if p.is_file()}
    return frozenset(found)


@cache
def digest(file: Path, root: Path) -> str:
    """Of a module under the folder `root`, and of what its kernels may be made of."""
    seen, left = {file}, [file]
    while left:
        named = _named(left.pop(), root) - seen
        new = {path for path in named if path.parent == file.parent or path.is_relative_to(root / OURS[0])}
        seen |= new
        left += new
    state = hashlib.sha256()
    for one in sorted(seen):
        name = one.relative_to(root) if one.is_relative_to(root) else one.name
        state.update(f"{name}\0{hashlib.sha256(_content(one)).hexdigest()}\n".encode())
    return state.hexdigest()[:16]


def _root(module: str, file: Path) -> Path:
    """The folder that a module's first package lies in; that of the file for a module without a package of ours."""
    depth = len(module.split(".")) - (file.name != "__init__.py")
    return file.parents[depth] if module.split(".")[0] in OURS and depth < len(file.parents) else file.parent


class CachePlace:
    """Numba's locator: one folder for all kernels, and a name that changes with their sources."""

    def __init__(self, function: Callable[..., Any], file: Path, folder: Path) -> None:
        module = function.__module__
        self._folder, self._line = folder, function.__code__.co_firstlineno
        self._state = digest(file, _root(module, file))
        self._module = hashlib.sha256(module.encode()).hexdigest()[:8]
        self._py_file = str(file)  # numba's own name, for its warnings

    @classmethod
    def from_function(cls, function: Callable[..., Any], file: str) -> CachePlace | None:
        path = Path(os.path.abspath(file))
        if not path.is_file() or getattr(sys, "frozen", False):
            return None
        return next((cls(function, path, folder) for folder in folders(path.parent) if writable(folder)), None)

    def ensure_cache_path(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def get_cache_path(self) -> str:
        return str(self._folder)

    def get_source_stamp(self) -> str:
        return self._state

    def get_disambiguator(self) -> str:
        return f"{self._line}-{self._module}-{self._state}"


class _Contents(caching.CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes = (CachePlace,)


class Kept(caching.FunctionCache):  # type: ignore[misc]
    """The compiled forms of one function on disk."""

    _impl_class = _Contents

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The kernel of a signature, or None. A file that cannot be read is none: it is compiled again."""
        rtsys.initialize(target_context)
        try:
            return self._load_overload(sig, target_context)
        except Exception:  # cut off, of another class layout, without permission: a cache is no reason to fail
            return None


@contextmanager
def _own_functions() -> Iterator[None]:
    """`math` and `numpy` as they were imported, inside."""
    changed = []
    for module, own in _OWN:
        other = {name: value for name, value in vars(module).items() if own.get(name, value) is not value}
        vars(module).update((name, own[name]) for name in other)
        changed.append((vars(module), other))
    try:
        yield
    finally:
        for names, other in changed:
            names.update(other)


def keep(dispatcher: Any, function: Callable[..., Any]) -> None:
    """Has numba keep what it compiles of a function; where no folder takes it, it is compiled in each process."""
    plain = dispatcher.compile

    def compile(signature: Any) -> Any:
        with _compiling, _own_functions():
            return plain(signature)

    dispatcher.compile = compile
    try:
        dispatcher._cache = Kept(function)
    except RuntimeError:  # numba: no locator available
        return
