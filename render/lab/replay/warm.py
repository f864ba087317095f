"""Small kernels that use what most kernels use, run once in the server process before it forks itself.

Numba reads its registries and every compiled function from its cache on first use, half a second in all; each case
would pay for that again. The arrays are tiny, so that no operation starts a thread.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def usual(X, Y, Z, N, BLOCK: tl.constexpr):
    rows = tl.arange(0, BLOCK)
    Y += tl.program_id(0) * BLOCK * BLOCK
    places = rows[:, None] * BLOCK + rows[None, :]
    mask = places < N
    x = tl.load(X + places, mask=mask, other=0.0)
    y = tl.load(X + rows[:, None] + rows[None, :] * BLOCK)
    acc = tl.zeros([BLOCK, BLOCK], dtype=tl.float32)
    for _ in range(tl.cdiv(N, 100)):
        acc += tl.dot(x, y)
        acc = tl.dot(x, y.T, acc)
    acc = acc * 0.5 + y
    acc = tl.where(mask, tl.exp(acc - tl.max(acc, 1)[:, None]), 0.0)
    acc = acc / tl.sum(acc, 1)[:, None]
    tl.store(Y + places, acc.to(Y.dtype.element_ty), mask=mask)
    tl.atomic_add(Z + places, acc.to(Z.dtype.element_ty), mask=mask)


@triton.jit
def further(X, Y, Z, Places, BLOCK: tl.constexpr):
    places = tl.arange(0, BLOCK)[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]
    x = tl.load(X + places).to(tl.float32)
    x += tl.load(X + tl.load(Places + tl.program_id(0)) + tl.arange(0, BLOCK)).to(tl.float32)
    z = x * x + x
    z = tl.dot(tl.dot(z, x), x, allow_tf32=False)
    z = tl.maximum(z - x, tl.max(z, 1)[:, None])
    z = tl.exp2(tl.where(z <= 1.0, z, 0.0)) * tl.rsqrt(x)
    tl.store(Y + places, z.to(Y.dtype.element_ty))
    tl.store(Z + tl.arange(0, BLOCK), tl.load(Z + tl.arange(0, BLOCK)))


def warm() -> None:
    """Interprets the kernels in the formats of the corpus and reads their bounds."""
    from numba.core.registry import cpu_target

    from render.interpreter.session import Session

    cpu_target.typing_context.refresh()
    cpu_target.target_context.refresh()
    for dtype in (torch.float32, torch.float16):
        # Numbers of many sizes: sums of small integers would be exact, and take other ways.
        x = torch.linspace(-6, 6, 256).exp().reshape(16, 16).to(dtype)
        places = torch.arange(16, dtype=torch.int32)
        with Session(device="sm_80") as session:
            z = torch.zeros(16, 16, dtype=dtype)
            for y in (torch.empty(2, 16, 16, dtype=dtype), torch.zeros(2, 16, 16, dtype=dtype)):
                usual[(2,)](x, y, z, 200, BLOCK=16)
                further[(1,)](x, y, z, places, BLOCK=16)
        session.envelope(y)
