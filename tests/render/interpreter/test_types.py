"""Types are the language's own objects: a kernel may ask `dtype is tl.float32`, and the compiler answers so."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl
from ttir import emitted

import render


@triton.jit
def told(dtype):
    tl.static_print("called", dtype is tl.float32, dtype is tl.float16, dtype is not tl.int32, dtype is tl.int8)


@triton.jit
def asking_kernel(x, out, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i)
    told(x.dtype.element_ty)
    told(v.dtype)
    told((v + v).dtype)
    told(v.to(tl.float32).dtype)
    told(tl.max(v, 0).dtype)
    told(i.dtype)
    tl.static_print("kept", v.dtype is tl.bfloat16, v.dtype is tl.float64, v.dtype is tl.int64, v.dtype is tl.uint8)
    tl.static_print("made", (v > 0).dtype is tl.int1, tl.program_id(0).dtype is tl.int32, B is None)
    tl.store(out + i, v)


TYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16, "fp64": torch.float64} | {
    name: getattr(torch, name) for name in ("int8", "int32", "int64", "uint8")
}


@pytest.mark.parametrize("name", TYPES)
def test_a_kernel_that_asks_which_type_it_has_is_told_what_the_compiler_says(name, capfd):
    emitted(asking_kernel, {"x": name, "out": name}, {"B": 16})
    compilers = set(capfd.readouterr().out.splitlines())  # it compiles `told` once for each type
    assert len(compilers) > 2
    x = torch.ones(16, dtype=TYPES[name])
    with render.no_gpu():
        asking_kernel[(1,)](x, torch.empty_like(x), 16)
    assert set(capfd.readouterr().out.splitlines()) == compilers
