"""Lanes without a value taint what depends on them, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from render.interpreter.session import Session

N, BLOCK = 20, 32
FORMS = 7


@triton.jit
def divided(X, Y, Out, n, stored, FORM: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    x, y = tl.load(X + i, mask=i < n, other=0), tl.load(Y + i, mask=i < n, other=0)
    r = x % y
    apart = (r != 0) & ((x < 0) ^ (y < 0))
    if FORM == 0:
        out = x // y
    elif FORM == 1:
        out = tl.where(apart, x // y - 1, x // y)
    elif FORM == 2:
        out = tl.where(r != 0, i, -i)
    elif FORM == 3:
        out = apart.to(tl.int64) + i
    elif FORM == 4:
        out = tl.where(y != 0, r, 7)
    elif FORM == 5:
        out = tl.where(tl.where(y != 0, apart, False), 1, 2)
    else:
        out = tl.where(i < n, tl.where(apart, r + y, r), 0)
    tl.store(Out + i, out, mask=i < stored)


def lost_lanes(form: int, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """By hand: where the formula needs a quotient or remainder by zero."""
    by_zero = np.concatenate([y == 0, np.ones(BLOCK - N, bool)])
    if form in (4, 5):  # the divisor is asked first
        return np.zeros(BLOCK, bool)
    return by_zero & (np.arange(BLOCK) < N) if form == 6 else by_zero


@pytest.mark.parametrize("form", range(FORMS))
@pytest.mark.parametrize("zeros", [(), (3, 11)], ids=["no zeros", "zeros"])
@pytest.mark.parametrize("stored", [3, N, BLOCK])
def test_a_lane_that_divides_by_zero_taints_where_it_is_stored(form: int, zeros: tuple[int, ...], stored: int) -> None:
    g = torch.Generator().manual_seed(form)
    x, y = torch.randint(-50, 50, (N,), generator=g), torch.randint(1, 9, (N,), generator=g)
    y[list(zeros)] = 0
    out = torch.zeros(BLOCK, dtype=torch.int64)
    with Session() as session:
        divided[(1,)](x, y, out, N, stored, form, BLOCK)
    expected = bool(lost_lanes(form, x.numpy(), y.numpy())[:stored].any())
    envelope = session.envelope(out)
    assert envelope is not None and bool(envelope.taints) is expected


@triton.jit
def decided(X, Out, B: tl.constexpr):
    """`(x + 2^24) - 2^24` is x; in float32 it is 0 for |x| below 1, in exact arithmetic never."""
    i = tl.arange(0, B)
    x = tl.load(X + i)
    d = (x + 16777216.0) - 16777216.0
    tl.store(Out + i, tl.where(d > 0, 1.0, 2.0))
    tl.store(Out + B + i, (d > 0).to(tl.float32))
    tl.store(Out + 2 * B + i, tl.where((d > 0) | (d < -0.25), 1.0, 2.0))
    tl.store(Out + 3 * B + i, 5.0, mask=d > 0)
    tl.store(Out + 4 * B + i, tl.sum((d > 0).to(tl.int32), 0).to(tl.float32))
    tl.store(Out + 5 * B + i, tl.where(tl.floor(d).to(tl.int32) < 0, 1.0, 2.0))
    if tl.max(d, 0) > 0:
        tl.store(Out + 6 * B + i, 3.0)


def test_without_rounding_the_exact_value_decides() -> None:
    from interval_ops.profiles.profile import CAUSES

    x = torch.tensor([0.3, -0.3, 0.1, -0.1])
    out = torch.zeros(28)
    with Session(mute=CAUSES) as session:
        decided[(1,)](x, out, 4)
    e = session.envelope(out)
    assert e is not None and not e.taints
    up = np.array([1, 0, 1, 0])
    expected = np.concatenate([2 - up, up, [1, 1, 1, 2], 5 * up, [2] * 4, 1 + up, [3] * 4]).astype(float)
    written = np.broadcast_to(e.written, expected.shape)
    assert np.array_equal(np.where(written, e.lo, 0), expected) and np.array_equal(np.where(written, e.hi, 0), expected)


@triton.jit
def converted(X, Out, n, WAY: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(X + i, mask=i < n, other=1e9)
    q = (x * 10).to(Out.dtype.element_ty if WAY != 2 else tl.int8)
    if WAY == 1:
        q = q + 1
    elif WAY == 2:
        q = q.to(tl.float32) * 0.5
    elif WAY == 3:
        q = tl.where(x > 12.0, 7, q)
    elif WAY == 4:
        q = q * 0 + tl.max(q.to(tl.int32), 0).to(q.dtype)
    tl.store(Out + i, q, mask=i < n)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32], ids=str)
@pytest.mark.parametrize("way", range(4))
def test_a_float_that_no_integer_holds_is_any_of_its_type(dtype: torch.dtype, way: int) -> None:
    """Two elements are out of every range, the padding is too; all others are what they are, once in float32."""
    x = torch.rand(N, generator=torch.Generator().manual_seed(way)) * 12
    x[4], x[11] = 1e12, float("nan") if way != 3 else 1e11
    out = torch.zeros(N, dtype=torch.float32 if way == 2 else dtype)
    with Session() as session:
        converted[(1,)](x, out, N, way, BLOCK)
    found = session.envelope(out)
    assert found is not None
    codes = {session.taints[t].code for t in found.taints}
    if way == 3:  # a lane that is lost and not chosen
        assert not codes and np.array_equal(found.lo, found.hi)
        return
    lost = np.isin(np.arange(N), (4, 11))
    ends = (np.nan, np.nan) if way == 2 else (torch.iinfo(dtype).min, torch.iinfo(dtype).max)
    assert codes == {"RND316"}
    for end, wanted in zip((found.lo, found.hi), ends, strict=True):
        assert np.array_equal(end[lost], np.full(2, wanted), equal_nan=True)
    value = out.double().numpy()
    assert (found.lo[~lost] <= value[~lost]).all() and (value[~lost] <= found.hi[~lost]).all()
    assert (found.hi[~lost] - found.lo[~lost] <= 1).all()


def test_a_maximum_over_a_lost_lane_is_lost() -> None:
    x, out = torch.full((BLOCK,), 2.0), torch.zeros(BLOCK, dtype=torch.int8)
    x[3] = 99.0
    with Session() as session:
        converted[(1,)](x, out, BLOCK, 4, BLOCK)
    found = session.envelope(out)
    assert found is not None and (found.lo == -128).all() and (found.hi == 127).all()
    assert {session.taints[t].code for t in found.taints} == {"RND316"}
