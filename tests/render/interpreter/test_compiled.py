"""Launchers that ask a compiled kernel for its resources, and launch it."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl
from triton.compiler.compiler import make_backend

from render.interpreter.no_gpu import no_gpu
from render.interpreter.session import Session


@triton.jit
def scale(out, x, n, factor, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + i, tl.load(x + i, mask=i < n) * factor, mask=i < n)


@pytest.fixture
def tensors():
    return torch.zeros(40), torch.arange(40.0)


def test_warmup_launches_nothing(tensors):
    out, x = tensors
    with Session() as session:
        kernel = scale.warmup(out, x, 40, 3.0, B=16, num_warps=8, grid=(1,))
        kernel._init_handles()
    assert not session.launches
    assert torch.equal(out, torch.zeros(40))
    assert (kernel.n_regs > 0, kernel.metadata.shared > 0, kernel.metadata.num_warps) == (True, True, 8)


@pytest.mark.parametrize("constants", [(), (16,)], ids=["without constants", "with constants"])
def test_a_warmed_up_kernel_can_be_launched(tensors, constants):
    out, x = tensors
    with Session() as session:
        kernel = scale.warmup(torch.float32, torch.float32, 40, 3.0, B=16, grid=(1,))
        kernel[(3, 1, 1)](out, x, 40, 3.0, *constants)
        found = session.envelope(out)
    assert torch.equal(out, 3 * x)
    assert (found.lo <= 3 * x.numpy()).all() and (3 * x.numpy() <= found.hi).all()


def test_the_assembly_is_what_the_compiler_makes_for_the_target(tensors):
    out, x = tensors
    with Session():
        kernel = scale[(3,)](out, x, 40, 3.0, B=16)
        assert "ttir" in kernel.asm and "tt.store" in kernel.asm["ttir"]
        other = scale.warmup(out, x, 40, 3.0, B=16, grid=(1,)).asm
        assert {"ttir", "ptx"} < set(other) == set(other.keys()) == {name for name, _ in other.items()}
    assert torch.equal(out, 3 * x)
    with pytest.raises(AttributeError, match="compiles nothing"):
        _ = kernel.nonesuch


@pytest.mark.parametrize("target", ["sm_90", "gfx942", "xpu"])
def test_metadata_are_the_options_of_the_targets_compiler(tensors, target):
    out, x = tensors
    with no_gpu(target):
        plain = scale[(3,)](out, x, 40, 3.0, B=16).metadata
        given = scale[(3,)](out, x, 40, 3.0, B=16, num_stages=5, num_warps=2).metadata
        assert (given.num_stages, given.num_warps) == (5, 2) and plain.num_warps == 4
        if target != "xpu":  # without a compiler in Triton
            options = make_backend(plain.target).parse_options({})
            assert {n: getattr(plain, n) for n in ("num_stages", "num_ctas", "warp_size")} == {
                n: getattr(options, n) for n in ("num_stages", "num_ctas", "warp_size")
            }


def test_a_kept_kernel_runs_in_the_innermost_session(tensors):
    out, x = tensors
    kept = {}
    for warm in (True, False):
        with Session() as session:
            if warm:
                kept["k"] = scale.warmup(torch.float32, torch.float32, 40, 3.0, B=16, grid=(1,))
                assert not session.launches
            kept["k"][(3, 1, 1)](out, x, 40, 3.0)
            assert len(session.launches) == 1
    with Session() as outer, Session() as inner:
        kept["k"][(3, 1, 1)](out, x, 40, 3.0)
        grid = scale[(3,)]
        grid(out, x, 40, 3.0, B=16)
    assert (len(outer.launches), len(inner.launches)) == (0, 2)
    with Session() as later:
        grid(out, x, 40, 3.0, B=16)
    assert len(later.launches) == 1
