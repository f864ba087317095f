"""What ran: RENDER and the packages that decide its numbers. Nothing heavy is imported to say so."""

from __future__ import annotations

import platform
import re
from functools import cache
from importlib import metadata

VERSION = "0.1.0"
OLDEST, NEWEST = (3, 6), (3, 9)


def versions() -> dict[str, str]:
    """What ran: RENDER and the packages that decide its numbers."""
    packages = ("triton", "torch", "numpy", "numba")
    return {"render": VERSION, "python": platform.python_version(), **{name: _installed(name) for name in packages}}


@cache
def _installed(name: str) -> str:
    """Looked up once: it reads the package's records on disk."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "unknown"


def triton_version(text: str) -> tuple[int, int]:
    """(3, 9) of "3.9" or "3.9.0"; ValueError for what is no supported version of Triton."""
    found = re.fullmatch(r"(\d+)\.(\d+)(\.\d+)*([.+-]?[a-z]+[\w.]*)?", text)
    version = (int(found[1]), int(found[2])) if found is not None else (0, 0)
    if not OLDEST <= version <= NEWEST:
        known = f"{OLDEST[0]}.{OLDEST[1]} to {NEWEST[0]}.{NEWEST[1]}"
        raise ValueError(f"{text!r} is no version of Triton that is supported; known: {known}")
    return version


def installed_triton() -> tuple[int, int]:
    """Version of the Triton whose language runs the kernels."""
    import triton

    return triton_version(triton.__version__)
