"""What a server must have in common with a caller, and where its socket lies: nothing heavy is imported here.

The socket's name is a digest of the interpreter, of every source file of ours, of the packages that were imported, and
of the environment that is read while they are. A caller in another state finds no socket, and runs by itself.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import stat
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

PACKAGES = ("torch", "triton", "numba", "llvmlite", "numpy", "scipy", "ml_dtypes", "flint", "mpmath", "msgspec",
            "safetensors", "rich", "typer", "platformdirs", "threadpoolctl")  # fmt: skip
OURS = ("render", "interval_ops", "render_triton")
READ_ON_IMPORT = (
    "PYTHON", "LD_", "OMP_", "MKL_", "OPENBLAS_", "GOMP_", "KMP_", "NUMBA_", "TRITON_", "TORCH", "PYTORCH", "CUDA_",
    "ATEN_", "LLVM_", "GLIBC_", "MALLOC_", "LANG", "LC_", "RENDER_", "HOME", "XDG_",
)  # fmt: skip
"""Beginnings of names of environment variables that change what an import does."""
NOT_OURS = {"PYTHONPATH"}
"""Read by the interpreter: `sys.path` says what became of it."""
_ROOT = Path(__file__).resolve().parents[3]


def folder() -> Path:
    """$XDG_RUNTIME_DIR/render, or the user's cache where there is no such folder."""
    given = os.environ.get("XDG_RUNTIME_DIR")
    if given and os.path.isdir(given) and os.access(given, os.W_OK):
        return Path(given) / "render"
    from platformdirs import user_cache_path

    return user_cache_path("render", appauthor=False) / "serve"


def is_private(path: Path) -> bool:
    """Whether the folder is this user's and nobody else's."""
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077


def socket_path() -> Path:
    return folder() / f"{digest()}.sock"


def digest() -> str:
    return _digest((code(), *_interpreter(), *_environment()))


def code() -> str:
    """Of the sources alone: what may change below a server that runs."""
    return _digest((*_sources(), *_packages()))


def _digest(lines: Iterable[str]) -> str:
    state = hashlib.sha256()
    for line in lines:
        state.update(line.encode("utf-8", "surrogateescape") + b"\n")
    return state.hexdigest()[:20]


def _interpreter() -> Iterator[str]:
    yield f"{sys.executable} {sys.prefix} {sys.version} {sys.flags} {sys._xoptions}"
    # The first entry is the script's own folder, and each job gets its caller's.
    yield repr(sorted(set(sys.path[1:]) - {str(_ROOT)}))


def _environment() -> Iterator[str]:
    for name in sorted(os.environ):
        if name.startswith(READ_ON_IMPORT) and name not in NOT_OURS:
            yield f"{name}={os.environ[name]}"


def _sources() -> Iterator[str]:
    for package in OURS:
        yield from _files(os.path.join(_ROOT, package))


def _files(where: str) -> Iterator[str]:
    try:
        with os.scandir(where) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            if entry.name not in ("__pycache__", "_data"):
                yield from _files(entry.path)
        elif entry.name.endswith((".py", ".toml")):
            yield _stamp(entry.path)


def _packages() -> Iterator[str]:
    for name in PACKAGES:
        try:
            found = importlib.util.find_spec(name)
        except (ImportError, ValueError):
            found = None
        yield _stamp(found.origin) if found is not None and found.origin else f"no {name}"


def _stamp(path: str) -> str:
    try:
        found = os.stat(path)
    except OSError:
        return f"{path} gone"
    return f"{path} {found.st_mtime_ns} {found.st_size} {found.st_ino}"
