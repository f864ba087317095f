"""The second model of a matrix unit is as close as the first, on targets that differ in how they align and round."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from render.entry.execution import Entry
from render.entry.inputs import of_call
from render.trace import slice_of
from render.witness.make import Claim, make

N = 16


@triton.jit
def product(A, B, C, N: tl.constexpr, K: tl.constexpr, BK: tl.constexpr, P: tl.constexpr):
    n, k = tl.arange(0, N), tl.arange(0, BK)
    acc = tl.zeros((N, N), tl.float32)
    for start in range(0, K, BK):
        a = tl.load(A + n[:, None] * K + (start + k)[None, :])
        acc += tl.dot(a, tl.load(B + (start + k)[:, None] * N + n[None, :]), input_precision=P)
    tl.store(C + n[:, None] * N + n[None, :], acc)


def multiplied(a, b, precision):
    c = torch.empty(N, N)
    product[(1,)](a, b, c, N, a.shape[1], 32, precision)
    return c


def widths(device, a, b, precision="tf32"):
    call = Entry(multiplied, of_call(multiplied, (a, b, precision), {}), device)
    run = call.run()
    (out,) = run.outputs
    lo, hi = float(out.lo[3, 4]), float(out.hi[3, 4])
    _, answer = make(slice_of(call, run, out.name, (3, 4)), Claim("reference", hi + 1e4, hi + 1e4))
    assert answer.agrees, answer.why
    low, high = (float.fromhex(end) for end in answer.enclosure)
    assert low <= hi and lo <= high
    return high - low, hi - lo


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
@pytest.mark.parametrize("device", ["any", "sm_70", "sm_90", "gfx90a", "gfx942"])
def test_it_is_as_close_as_the_bound(device, dtype):
    g = torch.Generator().manual_seed(1)
    a, b = (torch.randn(*shape, generator=g).to(dtype) for shape in ((N, 256), (256, N)))
    found, bound = widths(device, a, b, "ieee" if dtype == torch.float32 else "tf32")
    assert found <= 1.05 * bound


@pytest.mark.parametrize("device", ["sm_90", "sm_100", "gfx942"])
def test_sums_on_a_common_grid_are_exact(device):
    g = torch.Generator().manual_seed(2)
    a, b = (torch.randint(-8, 8, shape, generator=g).to(torch.float8_e4m3fn) for shape in ((N, 64), (64, N)))
    assert widths(device, a, b) == (0.0, 0.0)


def test_a_grid_that_the_unit_cannot_hold_is_not_exact():
    a, b = torch.ones(N, 64).half(), torch.ones(64, N).half()
    a[:, 0], b[0] = 2.0**15, 2.0**14
    a[:, 1] = 1 + 2.0**-10
    found, bound = widths("sm_80", a, b)
    assert 0 < found <= 1.05 * bound
