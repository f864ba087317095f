"""What unedited kernels do wrong with memory: the code, the line, the tensor, and no crash."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from render.interpreter.session import Session


@triton.jit
def copy_kernel(x, out, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i)  # no mask
    tl.store(out + i, v, mask=i < n)


@triton.jit
def careless_store_kernel(x, out, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n)
    tl.store(out + i, v)  # no mask


@triton.jit
def partly_written_kernel(x, out, n, B: tl.constexpr, SEEN: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i) * 2.0 + 1.0
    tl.store(out + i, tl.where(i < SEEN, v, 0.0))


@triton.jit
def same_place_kernel(x, out, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + tl.arange(0, B), tl.load(x + i, mask=i < n, other=0.0))  # every program


@triton.jit
def accumulate_kernel(x, out, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.atomic_add(out, tl.sum(tl.load(x + i, mask=i < n, other=0.0), 0))


@triton.jit
def wild_kernel(out):
    p = tl.load(out).to(tl.pointer_type(tl.float32))
    tl.store(out + 1, tl.load(p).to(tl.int64))  # an address out of thin air


@triton.jit
def special_kernel(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    tl.store(out + i, tl.exp(v) / tl.sum(tl.exp(v), 0))


def line_of(marker: str) -> int:
    lines = Path(__file__).read_text().splitlines()
    return next(k for k, text in enumerate(lines, 1) if marker in text and "line_of" not in text)


def run(kernel, grid, *args):
    with Session("any") as s:
        kernel[grid](*args)
    return s


def test_reads_outside():
    x, out = torch.randn(50), torch.zeros(50)
    (finding,) = run(copy_kernel, (2,), x, out, 50, 32).findings
    assert (finding.code, finding.tensor, finding.count) == ("RND207", "x", 14)
    assert (finding.file, finding.line) == (__file__, line_of("# no mask"))
    assert torch.equal(out, x)


def test_writes_outside_are_dropped():
    backing = torch.full((64,), 7.0)
    x, out = torch.randn(50), torch.zeros(50)
    s = run(careless_store_kernel, (2,), x, out, 50, 32)
    (finding,) = s.findings
    assert (finding.code, finding.tensor, finding.count) == ("RND207", "out", 14)
    assert torch.equal(out, x) and (backing == 7).all()


def test_conflicting_stores():
    x, out = torch.randn(64), torch.zeros(32)
    (finding,) = run(same_place_kernel, (2,), x, out, 64, 32).findings
    assert finding.code == "RND209" and finding.line == line_of("# every program")
    equal = run(same_place_kernel, (2,), torch.ones(64), torch.zeros(32), 64, 32)
    assert not equal.findings


def test_sums_into_memory_that_nobody_wrote():
    x = torch.randn(64)
    with Session("any") as s:
        accumulate_kernel[(2,)](x, out := torch.empty(1), 64, 32)
    assert [f.code for f in s.findings] == ["RND208"] and np.isnan(s.envelope(out).lo).all()
    with Session("any") as s:
        accumulate_kernel[(2,)](x, out := torch.empty(1).zero_(), 64, 32)
    assert not s.findings and np.isfinite(s.envelope(out).lo).all()


@pytest.mark.parametrize("seen", [20, 21])
def test_memory_that_nobody_wrote_counts_only_where_it_is_looked_at(seen):
    """A lower triangle is stored, the whole square loaded and the rest selected away: nothing of it arrives."""
    with Session("any") as s:
        x, out = torch.empty(32), torch.zeros(32)
        x[:20] = 3.0
        partly_written_kernel[(1,)](x, out, 32, 32, seen)
        env = s.envelope(out)
    (finding,) = s.findings
    assert finding.code == "RND208" and finding.count == 12
    assert (finding.taint in env.taints) == (seen > 20)
    assert np.isfinite(env.lo).all() == (seen == 20)


def test_a_wild_pointer_is_a_finding_not_a_crash():
    s = run(wild_kernel, (1,), torch.tensor([12345678, 0]))
    assert [f.code for f in s.findings] == ["RND207"]


def test_nan_and_inf_travel():
    x, out = torch.tensor([0.0, 1.0, float("inf"), float("nan")]), torch.zeros(4)
    env = (s := run(special_kernel, (1,), x, out, 4)).envelope(out)
    assert np.isnan(env.lo).all() and torch.isnan(out).all() and not s.findings


def test_host_writes_between_launches_reset_the_bounds():
    x, mid, out = torch.rand(32), torch.zeros(32), torch.zeros(32)
    with Session("any") as s:
        special_kernel[(1,)](x, mid, 32)
        wide = s.envelope(mid)
        mid[:16] = 0.5
        copy_kernel[(1,)](mid, out, 32, 32)
        env = s.envelope(out)
    assert (wide.hi > wide.lo).all()
    assert (env.lo[:16] == 0.5).all() and (env.hi[:16] == 0.5).all() and (env.hi[16:] > env.lo[16:]).all()


def test_views_aliases_and_slices_share_one_storage():
    base = torch.zeros(3, 32)
    x = torch.rand(32)
    with Session("any") as s:
        special_kernel[(1,)](x, base[1], 32)
        env, row = s.envelope(base), s.envelope(base[1])
        strided = s.envelope(base.t()[::2])
    assert np.array_equal(env.lo[1], row.lo) and np.array_equal(env.hi[1], row.hi)
    assert (row.hi > row.lo).all() and (env.lo[[0, 2]] == 0).all() and (env.hi[[0, 2]] == 0).all()
    assert np.array_equal(strided.lo, env.lo.T[::2])


@triton.jit
def spilling_kernel(x, y, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i % n)
    above = v * 0.1 - tl.load(y + i % n) > 0  # fused or not: 0 or a rounding of it
    tl.store(out + i, v, mask=(i < n) | above)


def test_a_store_that_may_lie_outside_says_so():
    x = torch.rand(16, generator=torch.Generator().manual_seed(0)) + 1
    y, out = x * torch.tensor(0.1), torch.empty(16)
    with Session(device="sm_90") as s:
        spilling_kernel[(1,)](x, y, out, 16, 32)
        found = s.envelope(out)
    said = [s.taints[i].message for i in found.taints]
    assert any("a lane that the bounds leave open lies outside out" in text for text in said)
    assert not s.findings and torch.equal(out, x)
