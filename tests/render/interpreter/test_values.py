"""Values of narrow formats against torch; the stock interpreter is wrong for bf16 and fp8."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from render.interpreter.session import Session
from render.result.errors import UnsupportedOp

N = 4096
NARROW = [torch.bfloat16, torch.float16, torch.float32]


@triton.jit
def arithmetic_kernel(x, y, out, N: tl.constexpr):
    i = tl.arange(0, N)
    a, b = tl.load(x + i), tl.load(y + i)
    tl.store(out + i, a + b)
    tl.store(out + N + i, a - b)
    tl.store(out + 2 * N + i, a * b)
    tl.store(out + 3 * N + i, tl.maximum(a, b))
    tl.store(out + 4 * N + i, tl.where(a < b, -a, b))


@triton.jit
def cast_kernel(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.load(x + i).to(out.dtype.element_ty))


@triton.jit
def dot_kernel(x, y, out, N: tl.constexpr):
    i = tl.arange(0, N)
    at = i[:, None] * N + i[None, :]
    tl.store(out + at, tl.dot(tl.load(x + at), tl.load(y + at)))


def operands(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    g = torch.Generator().manual_seed(0)
    scale = torch.exp2(torch.randint(-12, 12, (N,), generator=g).float())
    return ((torch.randn(N, generator=g) * scale).to(dtype), torch.randn(N, generator=g).to(dtype))


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_arithmetic_is_rounded_once(dtype):
    x, y = operands(dtype)
    out = torch.empty(5 * N, dtype=dtype)
    with Session("ieee"):
        arithmetic_kernel[(1,)](x, y, out, N)
    # Rounding the float64 result once is the definition; torch rounds through float32, which is the same here.
    expected = [x + y, x - y, x * y, torch.maximum(x, y), torch.where(x < y, -x, y)]
    assert torch.equal(out, torch.cat(expected))


@pytest.mark.parametrize("source", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("target", [torch.float8_e5m2, torch.float8_e4m3fn, torch.bfloat16, torch.float16], ids=str)
def test_casts_equal_torch_in_range(source, target):
    if source == target:
        pytest.skip("no cast")
    x, _ = operands(source)
    x = x.clamp(-200, 200)  # torch and Triton differ on overflow of fp8; that is tested where casts are
    out = torch.empty(N, dtype=target)
    with Session("ieee"):
        cast_kernel[(1,)](x, out, N)
    assert torch.equal(out.float(), x.to(target).float())


@pytest.mark.parametrize("source", [torch.float8_e5m2, torch.float8_e4m3fn], ids=str)
def test_fp8_widens_exactly(source):
    bits = torch.arange(256, dtype=torch.uint8)
    finite = bits[torch.isfinite(bits.view(source).float())]
    x = finite.repeat(N // len(finite) + 1)[:N].contiguous().view(source)
    out = torch.empty(N, dtype=torch.float32)
    with Session("ieee"):
        cast_kernel[(1,)](x, out, N)
    assert torch.equal(out, x.float())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float8_e5m2], ids=str)
def test_dots_of_narrow_operands(dtype):
    g = torch.Generator().manual_seed(1)
    x, y = (torch.randn(32, 32, generator=g).to(dtype) for _ in range(2))
    out = torch.empty(32, 32)
    with Session("any") as s:
        dot_kernel[(1,)](x, y, out, 32)
    exact = x.double() @ y.double()
    torch.testing.assert_close(out.double(), exact, rtol=1e-5, atol=1e-5)
    env = s.envelope(out)
    assert (env.lo <= exact.numpy()).all() and (exact.numpy() <= env.hi).all()


@pytest.mark.parametrize(
    ("device", "version", "target"),
    [
        ("sm_75", "3.9", torch.float8_e5m2),
        ("sm_80", "3.9", torch.float8_e4m3fn),
        ("sm_90", "3.6", torch.float8_e4m3fnuz),
    ],
    ids=str,
)
def test_conversions_that_triton_does_not_compile_are_named(device, version, target):
    x, _ = operands(torch.float32)
    out = torch.empty(N, dtype=target)
    with Session(device, triton_version=version), pytest.raises(UnsupportedOp) as caught:
        cast_kernel[(1,)](x, out, N)
    assert caught.value.op.startswith("cast fp32 to fp8") and caught.value.line
    assert len(caught.value.reason.split()) > 5


def test_what_compiles_there_still_runs():
    """sm_75: zeros fold away, 3.8 converts, and so does every version towards zero or from fp8."""

    @triton.jit
    def masked(x, out, N: tl.constexpr):
        i = tl.arange(0, N)
        tl.store(out + i, tl.load(x + i, mask=i < 7, other=0.0).to(tl.float32))

    x = torch.ones(16).to(torch.float8_e5m2)
    out = torch.empty(16)
    with Session("sm_75", triton_version="3.9"):
        masked[(1,)](x, out, 16)
    assert out.tolist() == [1.0] * 7 + [0.0] * 9
    y, narrow = operands(torch.float32)[1].clamp(-200, 200), torch.empty(N, dtype=torch.float8_e5m2)
    with Session("sm_75", triton_version="3.8"):
        cast_kernel[(1,)](y, narrow, N)
    assert torch.isfinite(narrow.float()).all()


def test_float_arguments_are_fp32_and_hold_the_number_that_was_passed():
    x, out = torch.ones(16), torch.empty(16)

    @triton.jit
    def scale(x, out, s, N: tl.constexpr):
        i = tl.arange(0, N)
        tl.store(out + i, tl.load(x + i) * s)

    with Session("ieee") as session:
        scale[(1,)](x, out, 0.1, 16)
    env = session.envelope(out)
    assert out[0].item() == torch.tensor(0.1).item()
    assert env.lo[0] <= 0.1 <= env.hi[0]
