"""tl.dot_scaled inside kernels: numbers decoded by ml_dtypes, products and sums in exact float64."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from support import rng

from render.interpreter.session import Session

M, N, K = 16, 16, 64


@triton.jit
def scaled_kernel(a, sa, b, sb, out, FA: tl.constexpr, FB: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
                  KA: tl.constexpr, KB: tl.constexpr, G: tl.constexpr, HAS: tl.constexpr):  # fmt: skip
    m, n, g = tl.arange(0, M), tl.arange(0, N), tl.arange(0, G)
    x = tl.load(a + m[:, None] * KA + tl.arange(0, KA)[None, :])
    y = tl.load(b + tl.arange(0, KB)[:, None] * N + n[None, :])
    p = tl.load(sa + m[:, None] * G + g[None, :])
    acc = tl.full([M, N], 1.0, tl.float32)
    if HAS:
        q = tl.load(sb + n[:, None] * G + g[None, :])
        acc = tl.dot_scaled(x, p, FA, y, q, FB, acc)
    else:
        acc = tl.dot_scaled(x, p, FA, y, None, FB, acc)
    tl.store(out + m[:, None] * N + n[None, :], acc)


def random_bytes(g: np.random.Generator, fmt: str, shape: tuple[int, int], axis: int) -> tuple[np.ndarray, np.ndarray]:
    """(bytes as the kernel reads them, numbers)."""
    if fmt == "e2m1":
        half = tuple(n // 2 if k == axis else n for k, n in enumerate(shape))
        raw = g.integers(0, 256, half).astype(np.uint8)
        parts = np.stack([raw & 15, raw >> 4], -1).view(ml_dtypes.float4_e2m1fn).astype(float)
        return raw, np.moveaxis(parts, -1, axis + 1).reshape(shape)
    raw = (g.integers(0, 0x70, shape) | g.integers(0, 2, shape) << 7).astype(np.uint8)
    kind = ml_dtypes.float8_e4m3fn if fmt == "e4m3" else ml_dtypes.float8_e5m2
    return raw, raw.view(kind).astype(float)


@pytest.mark.parametrize("device", ["sm_80", "sm_100", "ieee", "gfx942"])
@pytest.mark.parametrize(("left", "right"), [("e4m3", "e5m2"), ("e2m1", "e2m1"), ("e2m1", "e4m3"), ("e4m3", "bf16")])
def test_the_exact_product_lies_inside(left: str, right: str, device: str) -> None:
    g = rng(181)
    scales = [g.integers(120, 132, (rows, K // 32)).astype(np.uint8) for rows in (M, N)]
    a, x = random_bytes(g, left, (M, K), 1)
    if right == "bf16":
        b = torch.from_numpy(g.normal(size=(K, N))).bfloat16()
        y = b.double().numpy()
    else:
        raw, y = random_bytes(g, right, (K, N), 0)
        b = torch.from_numpy(raw)
        y = y * np.repeat(2.0 ** (scales[1].astype(float) - 127), 32, 1).T
    x = x * np.repeat(2.0 ** (scales[0].astype(float) - 127), 32, 1)
    out = torch.empty(M, N)
    with Session(device) as s:
        scaled_kernel[(1,)](torch.from_numpy(a), torch.from_numpy(scales[0]), b, torch.from_numpy(scales[1]), out,
                            left, right, M, N, a.shape[1], b.shape[0], K // 32, right != "bf16")  # fmt: skip
    want = x @ y + 1
    envelope = s.envelope(out)
    assert envelope is not None and not envelope.taints
    assert np.all((envelope.lo <= want) & (want <= envelope.hi))
    assert np.all((envelope.lo <= out.numpy()) & (out.numpy() <= envelope.hi))
    assert np.median((envelope.hi - envelope.lo) / (np.abs(x) @ np.abs(y) + 1)) < 2.0**-8


@pytest.mark.parametrize("scaled", [False, True])
def test_bounds_of_an_operand_are_in_the_product(scaled: bool) -> None:
    """Both ends of a bf16 operand, and the value lane alone as it is without bounds."""
    g = rng(183)
    a, x = random_bytes(g, "e4m3", (M, K), 1)
    p, q = (np.full((rows, K // 32), e, np.uint8) for rows, e in ((M, 126), (N, 129)))
    b = torch.from_numpy(g.integers(-8, 9, (K, N)) / 4.0).bfloat16()
    lo, hi = b.double().numpy() - 0.25, b.double().numpy() + 0.25
    results = []
    for interval in (True, False):
        out, given = torch.empty(M, N), b.clone()
        with Session(device="sm_100", interval=interval) as session:
            if interval:
                session.memory.carry(given, lo, hi, frozenset())
            tensors = [torch.from_numpy(t) for t in (a, p)] + [given, torch.from_numpy(q), out]
            scaled_kernel[(1,)](*tensors, "e4m3", "bf16", M, N, K, K, K // 32, scaled)
        results.append(out.clone())
        if interval:
            found = session.envelope(out)
    assert torch.equal(*results)
    assert found is not None and not found.taints
    for end in (lo, hi):
        exact = 1.0 + (x / 2) @ (end * (4.0 if scaled else 1.0))
        assert ((found.lo <= exact) & (exact <= found.hi)).all()
