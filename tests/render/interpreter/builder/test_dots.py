"""Dots of operands with equal rows or columns: computed once, with the bounds of the operand written out."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from triton.compiler.errors import CompilationError

from render.interpreter.session import Session

N = 16


@triton.jit
def repeated(X, W, Y, ROWS: tl.constexpr, COLUMNS: tl.constexpr, SCALE: tl.constexpr, N: tl.constexpr):
    """Y = (SCALE X) W with the first row of X in place of all, the first column of W in place of all, or neither."""
    pid, i = tl.program_id(0), tl.arange(0, N)
    same = tl.zeros((N,), dtype=tl.int32)
    rows = same if ROWS else i
    columns = same if COLUMNS else i
    x = tl.load(X + pid * N * N + rows[:, None] * N + i[None, :]) * SCALE
    w = tl.load(W + i[:, None] * N + columns[None, :])
    tl.store(Y + pid * N * N + i[:, None] * N + i[None, :], tl.dot(x, w))


def envelope(x: torch.Tensor, w: torch.Tensor, device: str, rows: bool, columns: bool, scale: float):
    y = torch.empty_like(x)
    with Session(device) as s:
        repeated[(len(x),)](x, w, y, ROWS=rows, COLUMNS=columns, SCALE=scale, N=N)
    assert not s.findings
    found = s.envelope(y)
    return y.double().numpy(), found.lo, found.hi


@pytest.mark.parametrize("device", ["any", "sm_90", "ieee"])
@pytest.mark.parametrize("scale", [1.0, 1.1])
@pytest.mark.parametrize(("rows", "columns"), [(True, False), (False, True), (True, True)])
def test_equal_lines_have_the_bounds_of_the_operand_written_out(device, scale, rows, columns):
    g = torch.Generator().manual_seed(3)
    x, w = torch.randn(3, N, N, generator=g), torch.randn(N, N, generator=g)
    value, lo, hi = envelope(x, w, device, rows, columns, scale)
    full_x = x[:, :1].expand_as(x).contiguous() if rows else x
    full_w = w[:, :1].expand_as(w).contiguous() if columns else w
    _, low, high = envelope(full_x, full_w, device, False, False, scale)
    exact = np.float64(np.float32(scale)) * full_x.double().numpy() @ full_w.double().numpy()
    assert (lo <= exact).all() and (exact <= hi).all()
    assert (lo <= value).all() and (value <= hi).all()
    np.testing.assert_allclose(hi - lo, high - low, rtol=1e-5)
    np.testing.assert_allclose(lo, low, rtol=0, atol=1e-5 * float((high - low).max()))


@triton.jit
def narrow(a, b, c, K: tl.constexpr):
    i, k = tl.arange(0, 4), tl.arange(0, K)
    x, y = tl.load(a + i[:, None] * K + k[None, :]), tl.load(b + k[:, None] * 4 + i[None, :])
    tl.store(c + i[:, None] * 4 + i[None, :], tl.dot(x, y))


@pytest.mark.parametrize("device", ["any", "sm_80", "sm_100", "gfx942", "ieee"])
@pytest.mark.parametrize(("fmt", "short"), [("fp16", "fp16"), ("fp32", "fp32"), ("int8", "i8")])
@pytest.mark.parametrize("k", [4, 8, 16, 32])
def test_dots_that_the_compiler_finds_too_short_are_refused(device: str, fmt: str, short: str, k: int) -> None:
    """As Triton's own front end for the target says, which differs between versions; a profile of no GPU has none."""
    kind = {"fp16": torch.float16, "fp32": torch.float32, "int8": torch.int8}[fmt]
    out = "i32" if fmt == "int8" else "fp32"
    c = torch.zeros(4, 4, dtype=torch.int32 if fmt == "int8" else torch.float32)
    expected = ""
    if device != "ieee":
        target = "gfx942" if device == "gfx942" else 100 if device == "sm_100" else 80
        expected = refusal(narrow, {"a": short, "b": short, "c": out}, {"K": k}, target)
    found = ""
    try:
        with Session(device):
            narrow[(1,)](torch.ones(4, k, dtype=kind), torch.ones(k, 4, dtype=kind), c, k)
    except CompilationError as error:
        found = str(error).splitlines()[-1]
    assert found == expected
    assert ("should have" in found) == bool(found)
    assert found or (c == k).all()


def refusal(kernel, types: dict[str, str], constants: dict[str, int], target: int | str) -> str:
    """The last line of what Triton's front end says; "" if it takes the kernel."""
    from triton._C.libtriton import ir
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource, make_backend

    gpu = GPUTarget("cuda", target, 32) if isinstance(target, int) else GPUTarget("hip", target, 64)
    backend = make_backend(gpu)
    options = backend.parse_options({})
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    signature = {n: "constexpr" if n in constants else f"*{types[n]}" for n in kernel.arg_names}
    source = ASTSource(kernel, signature, constants)
    given = [gpu, options, backend.get_codegen_implementation(options), backend.get_module_map(), context]
    try:
        source.make_ir(*given[-source.make_ir.__code__.co_argcount + 1 :])
    except CompilationError as error:
        return str(error).splitlines()[-1]
    return ""
