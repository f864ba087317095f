"""What ran: RENDER and the packages that decide its numbers. Nothing heavy is imported to say so."""

from __future__ import annotations

import platform
import re
from importlib import metadata

VERSION = "0.1.0"
OLDEST, NEWEST = (3, 6), (3, 9)


def versions() -> dict[str, str]:
    """What ran: RENDER and the packages that decide its numbers."""
    found = {"render": VERSION, "python": platform.python_version()}
    for name in ("triton", "torch", "numpy", "numba"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "unknown"
    return found


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
