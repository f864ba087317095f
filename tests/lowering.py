"""Reads what Triton makes of a kernel: LLVM IR for a named target, compiled here, no GPU needed."""

from __future__ import annotations

import re
from typing import Any

_DEFINED = re.compile(r"\s*(%[\w.]+) = (.*)")
_NAME = re.compile(r"%[\w.]+")
_ADDS = re.compile(r"(tail )?(fadd\b|fsub\b|call .*@llvm\.(fma|fmuladd)\.|call .* asm .*(add|fma)\.)")
_FMA = re.compile(r"\s*(%[\w.]+) = .*@llvm\.(?:fmuladd|fma)\.\w+\((.*?)\)")


def compiled(kernel: Any, types: dict[str, str], constants: dict[str, Any], target: Any, **options: Any) -> Any:
    """The compiled kernel: `types` of its tensors by name ("fp32"), `target` 90 or "gfx942"; `.asm` holds the texts."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    signature = {name: "constexpr" if name in constants else f"*{types[name]}" for name in kernel.arg_names}
    backend = GPUTarget("cuda", target, 32) if isinstance(target, int) else GPUTarget("hip", target, 64)
    return triton.compile(ASTSource(kernel, signature, constants), target=backend, options=options)


def depth(ir: str) -> int:
    """The most additions that one value passes; what is read from shared memory passed as many as anything stored."""
    depths: dict[str, int] = {}
    stored = most = 0
    for line in ir.splitlines():
        names = _NAME.findall(line)
        found = _DEFINED.match(line)
        if found is None:
            if "addrspace(3)" in line:
                stored = max([stored, *(depths.get(n, 0) for n in names)])
            continue
        value = max((depths.get(n, 0) for n in names[1:]), default=0)
        if _ADDS.match(found[2]):
            value += 1
            most = max(most, value)
        elif found[2].startswith("load") and "addrspace(3)" in found[2]:
            value = stored
        depths[found[1]] = value
    return most


def chains(ir: str) -> tuple[int, int, int]:
    """(fused multiply-adds, the longest chain of them, additions and products beside them)."""
    lengths: dict[str, int] = {}
    for line in ir.splitlines():
        found = _FMA.match(line)
        if found:
            lengths[found[1]] = 1 + lengths.get(found[2].split(", ")[2].split()[-1], 0)
    return len(lengths), max(lengths.values(), default=0), len(re.findall(r"= (?:fadd|fmul) ", ir))
