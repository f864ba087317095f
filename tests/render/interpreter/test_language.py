"""Unedited kernels: each language feature runs and gives what torch gives."""

from __future__ import annotations

import linecache
from pathlib import Path

import pytest
import torch
import triton
import triton.language as tl
import zoo

from render.interpreter.session import Session
from render.result.errors import UnsupportedOp


def run(kernel, grid, *args, **kwargs):
    with Session("ieee") as s:
        kernel[grid](*args, **kwargs)
    return s


def test_heuristics_choose_a_constant():
    out = torch.zeros(1, dtype=torch.int32)
    run(zoo.heuristic_kernel, (1,), out, 8)
    assert out.item() == 1


def test_logic_on_blocks_is_elementwise():
    out = torch.zeros(8, dtype=torch.int32)
    run(zoo.logic_kernel, [1], out, 8)
    assert out.tolist() == [0, 1, 1, 1, 1, 1, 0, 0]


def test_chained_assignment():
    out = torch.zeros(2, dtype=torch.int32)
    run(zoo.double_assign_kernel, (1,), out)
    assert out.tolist() == [3, 0]


def test_nested_jit_helpers_and_names_imported_from_the_language():
    x = torch.randn(64)
    out = torch.empty(64)
    run(zoo.nested_kernel, (4,), x, out, 16)
    assert torch.equal(out, (x + 2 * x) * (x - 2 * x) + 1)


def test_closures_and_kernels_defined_in_functions():
    scale = tl.constexpr(7)

    @triton.jit
    def kernel(o):
        tl.store(o, scale)

    out = torch.zeros(1, dtype=torch.int32)
    run(kernel, (1,), out)
    assert out.item() == 7


def test_kernel_made_by_exec():
    source = "import triton\nimport triton.language as tl\n@triton.jit\ndef made(o):\n    tl.store(o, 41 + 1)\n"
    name = "<made by a test>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    space: dict = {"__name__": "made_by_test"}
    exec(compile(source, name, "exec"), space)
    out = torch.zeros(1, dtype=torch.int32)
    run(space["made"], (1,), out)
    assert out.item() == 42


def test_autotune_runs_one_configuration_and_resets():
    x = torch.ones(100)
    out = torch.full((1,), 5.0)
    run(zoo.tuned_kernel, lambda meta: (triton.cdiv(100, meta["B"]),), x, out, 100)
    assert out.item() == 100.0


def test_autograd_function_forward_and_backward():
    x = torch.randn(100, requires_grad=True)
    w = torch.randn(100)
    with Session("ieee"):
        y = zoo.Multiply.apply(x, w)
        y.sum().backward()
    assert torch.equal(y, x * w)
    assert torch.equal(x.grad, w)


def test_persistent_loop_with_a_batched_start():
    x = torch.randn(40 * 16)
    out = torch.empty_like(x)
    s = run(zoo.persistent_kernel, (8,), x, out, 40, 16, 8)
    assert torch.equal(out, x * 2)
    assert s.launches[0].rollbacks == 0


def test_pointers_stored_in_memory():
    rows = [torch.randn(n) for n in (3, 8, 5)]
    table = torch.tensor([r.data_ptr() for r in rows])
    sizes = torch.tensor([3, 8, 5], dtype=torch.int32)
    out = torch.empty(3, 8)
    with Session("ieee") as s:
        for r in rows:
            s.memory.register(r, "row")
        zoo.pointer_table_kernel[(3,)](table, sizes, out, 8)
    for i, r in enumerate(rows):
        assert torch.equal(out[i, : len(r)], r) and not out[i, len(r) :].any()
    assert not s.findings


def test_maximum_with_indices():
    x = torch.randn(6, 32)
    values, places = torch.empty(6), torch.empty(6, dtype=torch.int32)
    run(zoo.argmax_kernel, (6,), x, values, places, 32)
    assert torch.equal(values, x.max(1).values) and torch.equal(places.long(), x.argmax(1))


def test_random_numbers_are_the_stock_interpreters():
    x = torch.ones(100)
    out = torch.empty(100)
    run(zoo.dropout_kernel, (4,), x, out, 100, 0.5, 123, 32)
    kept = out != 0
    assert 20 < kept.sum() < 80 and torch.equal(out[kept], torch.full((int(kept.sum()),), 2.0))


def test_block_pointers_on_every_version():
    x = torch.randn(13, 21)
    out = torch.zeros(13, 21)
    s = run(zoo.block_pointer_kernel, (4,), x, out, 13, 21, 4, 8)
    assert torch.equal(out, x + 1) and not s.findings


def test_tensor_descriptors():
    x = torch.randn(12, 24)
    out = torch.zeros(12, 24)
    s = run(zoo.descriptor_kernel, (2, 2), x, out, 12, 24, 8, 16)
    assert torch.equal(out, x * 3) and not s.findings


def test_methods_of_tensors():
    x = torch.randn(16, 16)
    out = torch.empty(16)
    run(zoo.method_kernel, (1,), x, out, 16)
    torch.testing.assert_close(out, x.sum(1) + x.max(1).values + x.sum())


def test_none_arguments_and_constants():
    x = torch.randn(16)
    out = torch.empty(16)
    run(zoo.none_kernel, (1,), x, None, out, False, 16)
    assert torch.equal(out, -x)


def test_unsupported_operation_names_op_and_line():
    with pytest.raises(UnsupportedOp) as caught:
        run(zoo.unsupported_kernel, (1,), torch.randn(16), torch.empty(16), 16)
    assert "inline_asm" in caught.value.op and caught.value.file == zoo.__file__
    line = Path(zoo.__file__).read_text().splitlines()[caught.value.line - 1]
    assert "inline_asm_elementwise" in line


def test_patches_are_gone_after_an_exception():
    from triton.runtime import jit

    before = (jit.JITFunction.run, tl.load, tl.tensor.__add__, tl.dtype.to_ir)
    with pytest.raises(UnsupportedOp):
        run(zoo.unsupported_kernel, (1,), torch.randn(16), torch.empty(16), 16)
    assert before == (jit.JITFunction.run, tl.load, tl.tensor.__add__, tl.dtype.to_ir)
