"""What ran: RENDER and the packages that decide its numbers. Nothing heavy is imported to say so."""

from __future__ import annotations

import platform
from importlib import metadata

VERSION = "0.1.0"


def versions() -> dict[str, str]:
    """What ran: RENDER and the packages that decide its numbers."""
    found = {"render": VERSION, "python": platform.python_version()}
    for name in ("triton", "torch", "numpy", "numba"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "unknown"
    return found
