"""What ran: RENDER and the packages that decide its numbers. Nothing heavy is imported to say so."""

from __future__ import annotations

import platform
import re
from importlib import metadata

VERSION = "0.1.0"
OLDEST = (3, 6)


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
    found = re.match(r"(\d+)\.(\d+)(?:\.|$)", text)
    if found is None or (int(found[1]), int(found[2])) < OLDEST:
        raise ValueError(f"{text!r} is no version of Triton that is supported; known: 3.6 and later")
    return int(found[1]), int(found[2])


def installed_triton() -> tuple[int, int]:
    """Version of the Triton whose language runs the kernels."""
    import triton

    return triton_version(triton.__version__)
