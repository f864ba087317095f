"""Dots of operands with equal rows or columns: computed once, with the bounds of the operand written out."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

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
