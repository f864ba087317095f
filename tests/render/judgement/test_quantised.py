"""Quantisers to 8 bits: casts are what their authors wrote, and another scale casts other numbers."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from tests.verdicts import classify


@triton.jit
def quantise(X, Q, S, MOST: tl.constexpr, MULTIPLIED: tl.constexpr, B: tl.constexpr):
    p = tl.program_id(0)
    i = p * B + tl.arange(0, B)
    x = tl.load(X + i).to(tl.float32)
    s = tl.max(tl.abs(x), 0) / MOST
    y = x * (1 / s) if MULTIPLIED else x / s
    tl.store(Q + i, y.to(Q.dtype.element_ty))
    tl.store(S + p, s)


def there_and_back(x, most, multiplied, dtype):
    q, s = torch.empty(x.shape, dtype=dtype), torch.empty(x.shape[0])
    quantise[(x.shape[0],)](x, q, s, most, multiplied, x.shape[1])
    return q.float() * s[:, None]


CASES = {torch.float8_e4m3fn: (448.0, 440.0), torch.float8_e5m2: (57344.0, 50000.0)}


@pytest.mark.parametrize("multiplied", [False, True])
@pytest.mark.parametrize("dtype", CASES, ids=str)
def test_what_is_cast_with_another_scale_is_another_function(dtype, multiplied):
    right, wrong = CASES[dtype]

    def reference(x):
        s = x.float().abs().amax(-1, keepdim=True) / right
        return (x.float() / s).to(dtype).float() * s

    x = torch.randn(3, 64, generator=torch.Generator().manual_seed(4), dtype=torch.bfloat16)
    same = classify(there_and_back, x, right, multiplied, dtype, ref=lambda x, *_: reference(x))
    assert same.label in ("Type-I", "Equal"), same
    other = classify(there_and_back, x, wrong, multiplied, dtype, ref=lambda x, *_: reference(x))
    assert (other.label, other.code) == ("Type-II", "RND211"), other
