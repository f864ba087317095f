"""NVIDIA's libdevice, compiled for the CPU: `Library(...).function(name)` calls it on arrays.

The bitcode that Triton links into a kernel ships with Triton. Its functions are plain arithmetic, fused multiply-adds
and a few approximate instructions; `instructions` stands for those. What Triton sets is set here: the flush flag, and
no precise square root. `contract` lets products and sums of the library's own code fuse, as the GPU's compiler may.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from vendor_oracle.instructions import ASSEMBLY, definitions, prelude

Array = np.ndarray

_BODY = re.compile(r"^define [^\n]*@([\w.$]+)\([^\n]*\{\n.*?^\}", re.S | re.M)
_QUERIES = re.compile(r'^(@[\w.]+) = private unnamed_addr constant \[\d+ x i8\] c"(\w+)\\00"', re.M)
_CALLED = re.compile(r"@([\w.$]+)\(")
_SHIFT = re.compile(r"(shl|lshr|ashr)(?: nuw| nsw| exact)* (i32|i64) ([%\w.-]+), (%[\w.]+)")
"""Shifts by a variable amount: PTX clamps it where LLVM IR leaves the result open."""
_TYPE = {32: ("float", np.float32), 64: ("double", np.float64)}


def path() -> Path:
    """The bitcode of the installed Triton. Raises FileNotFoundError."""
    import triton

    found = Path(triton.__file__).parent / "backends" / "nvidia" / "lib" / "libdevice.10.bc"
    if not found.exists():
        raise FileNotFoundError(f"{found}: this Triton has no NVIDIA library")
    return found


class Library:
    """libdevice with the flags of a target; functions are compiled when first asked for.

    `ftz`, `precise_root`: what the library asks by `__nvvm_reflect`. `contract`: fuse a * b + c outside fma calls.
    """

    def __init__(self, ftz: bool = True, precise_root: bool = False, contract: bool = False, arch: int = 800) -> None:
        self.flags = {"__CUDA_FTZ": int(ftz), "__CUDA_PREC_SQRT": int(precise_root), "__CUDA_ARCH": arch}
        self.contract = contract
        self._compiled: dict[tuple[str, int], Callable[..., Array]] = {}

    @cached_property
    def _source(self) -> tuple[str, dict[str, str]]:
        """Types and tables of the module, and its functions by name."""
        from llvmlite import binding

        text = str(binding.parse_bitcode(path().read_bytes()))
        for name, value in _QUERIES.findall(text):
            answer = f"add i32 0, {self.flags.get(value, 0)}"
            text = re.sub(rf"call i32 @__nvvm_reflect\(ptr {re.escape(name)}\)( #\d+)?", answer, text)
        text = text.replace(" addrspace(1)", "").replace("@llvm.nvvm.", "@gpu.")
        if self.contract:
            text = re.sub(r"= (fadd|fsub|fmul) ", r"= \1 contract ", text)
        text = re.sub(r'call ([^"\n]*?) asm (?:\w+ )*"([^"]*)", "[^"]*"(\([^\n]*)', _without_assembly, text)
        text = _SHIFT.sub(r"call \2 @gpu.\1.\2(\2 \3, \2 \4)", text)
        text = re.sub(r"(, ![\w.]+ !\d+)+$", "", re.sub(r" #\d+", "", text), flags=re.M)
        head = "\n".join(re.findall(r"^%[^\n]* = type[^\n]*|^@[^\n]* = [^\n]*", text, re.M))
        return head, {m[1]: m[0] for m in _BODY.finditer(text)}

    def needed(self, name: str) -> set[str]:
        """Every function that `name` reaches."""
        bodies = {**self._source[1], **definitions()}
        todo, seen = [name], {name}
        while todo:
            new = set(_CALLED.findall(bodies.get(todo.pop(), ""))) - seen
            seen |= new
            todo += new
        return seen

    def module(self, name: str) -> str:
        """IR of a loop over arrays that calls `name`, with all that it needs. Raises LookupError."""
        head, bodies = self._source
        if name not in bodies:
            raise LookupError(f"libdevice has no {name}")
        known = {**bodies, **definitions()}
        needed = self.needed(name)
        signature = re.search(rf"define (\w+) @{re.escape(name)}\(([^)]*)\)", bodies[name])
        assert signature is not None
        kinds = [part.split()[0] for part in signature[2].split(",")]
        plain = prelude()
        missing = sorted(n for n in needed if n not in known and n.startswith("llvm.") and f"@{n}(" not in plain)
        parts = [head, plain, *(_declared(n) for n in missing), *(known[n] for n in sorted(needed) if n in known)]
        text = "\n".join([*parts, _loop(name, signature[1], kinds)])
        unknown = sorted(n for n in needed if n.startswith("gpu.") and n not in known and f"@{n}(" not in plain)
        if unknown or " asm " in text:
            raise LookupError(f"{name} needs what nothing here stands for: {', '.join(unknown) or 'inline assembly'}")
        return text

    def function(self, name: str, bits: int = 32) -> Callable[..., Array]:
        """`name` on arrays of fp32 or fp64, by its bare or its full name; `lean_by` as in `instructions`."""
        full = name if name.startswith("__nv_") else f"__nv_{name}{'f' if bits == 32 else ''}"
        if (full, bits) in self._compiled:
            return self._compiled[full, bits]
        text = self.module(full)
        engine = _compiled(text)
        dtype = _TYPE[bits][1]
        lean = ctypes.c_double.from_address(engine.get_global_value_address("lean"))
        arity = text.rsplit("@drive(", 1)[1].split(")")[0].count("ptr %p") - 1
        loop = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * (arity + 1), ctypes.c_int64)(
            engine.get_function_address("drive")
        )

        def call(*args: Array, lean_by: float = 0.0) -> Array:
            assert engine  # what it compiled lives as long as it does
            given = [np.ascontiguousarray(a, dtype) for a in np.broadcast_arrays(*args)]
            out = np.empty(given[0].shape, dtype)
            lean.value = lean_by
            loop(*(a.ctypes.data for a in given), out.ctypes.data, out.size)
            return out

        self._compiled[full, bits] = call
        return call


def _without_assembly(call: re.Match[str]) -> str:
    for piece, name in ASSEMBLY.items():
        if piece in call[2]:
            return f"call {call[1]} @{name}{call[3]}"
    return call[0]


def _declared(name: str) -> str:
    """Declarations of the generic intrinsics that the library itself calls."""
    kind = {"f32": "float", "f64": "double"}.get(name.rsplit(".", 1)[1], name.rsplit(".", 1)[1])
    more = ", i1" if "ctlz" in name else "" if "ctpop" in name or "bitreverse" in name else f", {kind}"
    return f"declare {kind} @{name}({kind}{more})"


def _loop(name: str, result: str, kinds: list[str]) -> str:
    pointers = ", ".join(f"ptr %p{i}" for i in range(len(kinds)))
    loads = "\n".join(
        f"%a{i} = getelementptr {k}, ptr %p{i}, i64 %i\n%v{i} = load {k}, ptr %a{i}" for i, k in enumerate(kinds)
    )
    values = ", ".join(f"{k} %v{i}" for i, k in enumerate(kinds))
    return f"""
define void @drive({pointers}, ptr %pout, i64 %n) {{
entry:
%none = icmp sle i64 %n, 0
br i1 %none, label %end, label %body
body:
%i = phi i64 [0, %entry], [%next, %body]
{loads}
%r = call {result} @{name}({values})
%out = getelementptr {result}, ptr %pout, i64 %i
store {result} %r, ptr %out
%next = add i64 %i, 1
%more = icmp slt i64 %next, %n
br i1 %more, label %body, label %end
end:
ret void
}}
"""


def _compiled(text: str) -> Any:
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    machine = binding.Target.from_default_triple().create_target_machine(
        opt=2, cpu=binding.get_host_cpu_name(), features=binding.get_host_cpu_features().flatten()
    )
    module = binding.parse_assembly(text)
    module.verify()
    passes = binding.create_pass_builder(machine, binding.create_pipeline_tuning_options(speed_level=2))
    passes.getModulePassManager().run(module, passes)
    engine = binding.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    return engine
