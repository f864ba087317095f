"""What host code is told of a target: architecture, capability, sizes. It decides paths of a library, never a bound."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """One part of the target's kind, as its vendor documents it. Sizes in bytes, clocks in kHz.

    `backend`: "cuda", "hip" or "xpu"; `arch` as compilers call it (sm_90, gfx942); `capability` as torch reports it;
    `multiprocessors` as the vendor's run time counts them (compute units, on RDNA pairs of them; Xe cores).
    """

    backend: str
    arch: str
    part: str
    capability: tuple[int, int]
    multiprocessors: int
    memory: int
    l2: int
    clock: int
    memory_clock: int
    bus: int
    source: str
    warp_size: int = 32
    threads: int = 2048
    registers: int = 65536
    shared_block: int = 49152
    shared_optin: int = 49152
    shared_multiprocessor: int = 49152
    integrated: bool = False

    @property
    def torch_type(self) -> str:
        """What `torch.device.type` says: PyTorch for AMD calls its devices cuda as well."""
        return "xpu" if self.backend == "xpu" else "cuda"


_KEYS = {f.name for f in fields(DeviceFacts)}
_NEEDED = {f.name for f in fields(DeviceFacts)} - {
    "warp_size", "threads", "registers", "shared_block", "shared_optin", "shared_multiprocessor", "integrated",
}  # fmt: skip


def read(table: Mapping[str, Any], sources: Mapping[str, str], where: str) -> DeviceFacts | None:
    """The facts of a `[device]` table; None without one. ValueError names what is missing or unknown."""
    if not table:
        return None
    unknown, missing = sorted(set(table) - _KEYS), sorted(_NEEDED - set(table))
    if unknown or missing:
        raise ValueError(f"{where} [device]: unknown keys {unknown}, missing keys {missing}")
    if table["source"] not in sources:
        raise ValueError(f"{where} [device]: source {table['source']!r} is not in [sources]")
    major, minor = table["capability"]
    return DeviceFacts(**{**table, "capability": (major, minor), "source": sources[table["source"]]})
