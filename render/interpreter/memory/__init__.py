"""Memory that kernels read and write: addresses checked before use, bounds kept beside the bytes, changes undoable."""

from __future__ import annotations

from render.interpreter.memory.core import Memory
from render.interpreter.memory.findings import MemoryFinding, Taint, TaintLog
from render.interpreter.memory.records import Envelope, Hazard, LaunchInfo, LoadResult, Request, Retry, Use
from render.interpreter.memory.registry import Storage

__all__ = [
    "Envelope",
    "Hazard",
    "LaunchInfo",
    "LoadResult",
    "Memory",
    "MemoryFinding",
    "Request",
    "Retry",
    "Storage",
    "Taint",
    "TaintLog",
    "Use",
]  # fmt: skip
