"""References whose meaning depends on the dtype, or that leave torch: E is what their author wrote."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import triton
import triton.language as tl

from tests.verdicts import classify


@triton.jit
def _product_and_sum(x_ptr, t_ptr, y_ptr, n, fault, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    x = tl.load(x_ptr + i, m, other=0.0).to(tl.float32)
    t = tl.load(t_ptr + i, m, other=0.0).to(tl.float32)
    tl.store(y_ptr + i, (x * t + x) * (1.0 + fault * (i % 3)), m)


def kernel(x: torch.Tensor, t: torch.Tensor, fault: float) -> torch.Tensor:
    x, t = x.contiguous(), t.to(x.dtype).expand_as(x).contiguous()
    y = torch.empty_like(x)
    _product_and_sum[(triton.cdiv(x.numel(), 64),)](x, t, y, x.numel(), fault, 64)
    return y


def formula(x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
    return x * t.to(x.dtype) + x


def of_dtype(x: torch.Tensor) -> torch.Tensor:
    return x * 3 if x.dtype == torch.float64 else x * 2


def drawn_after_a_seed(x: torch.Tensor) -> torch.Tensor:
    torch.manual_seed(3)
    return torch.rand_like(x)


def numpy_loop(x: torch.Tensor) -> torch.Tensor:
    rows, out = x.float().numpy(), np.zeros(tuple(x.shape), np.float32)
    state = np.zeros(x.shape[1], np.float32)
    for i in range(x.shape[0]):
        state = state * np.float32(0.9) + rows[i]
        out[i] = state
    return torch.from_numpy(out)


def numpy_elements(x: torch.Tensor) -> torch.Tensor:
    rows, out = x.float().numpy(), np.empty(tuple(x.shape), np.float32)
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            out[i, j] = np.exp(rows[i, j]) + rows[i, j - 1] / 3
    return torch.from_numpy(out)


def numpy_softmax(x: torch.Tensor) -> torch.Tensor:
    a = x.float().numpy()
    e = np.exp(a - a.max(-1, keepdims=True))
    return torch.from_numpy(e / e.sum(-1, keepdims=True))


MEANINGS: dict[str, Any] = {
    "eps=None": lambda x: F.rms_norm(x * 1e-4, (x.shape[1],)), "dtype": of_dtype, "drawn": drawn_after_a_seed,
    "eps": lambda x: x / (x.abs() + torch.finfo(x.dtype).eps * 1e4), "size": lambda x: x * x.element_size(),
    "least": lambda x: (x * 1e-3).clamp(min=torch.finfo(x.dtype).eps), "bits": lambda x: x * torch.finfo(x.dtype).bits,
    "slopes": lambda x: torch.tensor([2.0 ** (-8 * (i + 1) / 16) for i in range(16)]) * torch.arange(8)[:, None],
    "sines": lambda x: torch.tensor([[math.sin(i + j / 7) for j in range(16)] for i in range(8)]),
    "nan_to_num": lambda x: torch.nan_to_num(torch.full_like(x, math.inf)) * 1e-6,
    "item": lambda x: x * x.float().norm().item(), "largest": lambda x: x / x.abs().max().item(),
    "float": lambda x: x / float(x.float().pow(2).sum()), "list": lambda x: torch.tensor(x.float().sum(0).tolist()),
    "default": lambda x: torch.full((16,), 0.1) * 3, "narrow": lambda x: x * torch.tensor(0.1),
    "numpy softmax": numpy_softmax, "numpy loop": numpy_loop, "numpy elements": numpy_elements,
    "numpy mean": lambda x: torch.from_numpy(x.float().numpy().mean(0)),
    "numpy table": lambda x: torch.from_numpy(np.cos(np.arange(16) / 3).astype(np.float32)),
    "numpy products": lambda x: torch.from_numpy(x.float().numpy().T @ x.float().numpy())[:8],
}  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float32, pytest.param(torch.float16, marks=pytest.mark.slow)], ids=str)
@pytest.mark.parametrize("name", MEANINGS)
def test_the_same_in_wrapper_and_reference_is_round_off(name, dtype):
    part = MEANINGS[name]
    x = torch.randn(8, 16, generator=torch.Generator().manual_seed(1)).to(dtype)
    verdicts = [
        classify(lambda x: kernel(x, part(x), fault), x, ref=lambda x: formula(x, part(x)), budget=False)  # noqa: B023
        for fault in (0.0, 0.05)
    ]
    assert verdicts[0].label == "Type-I", verdicts[0]
    assert verdicts[1].label != "Type-I", verdicts[1]


@pytest.mark.parametrize("dtype", [pytest.param(torch.float32, marks=pytest.mark.slow), torch.float16], ids=str)
@pytest.mark.parametrize("name", MEANINGS)
def test_in_the_reference_behind_a_kernel_as_well(name, dtype):
    part = MEANINGS[name]
    x = torch.randn(8, 16, generator=torch.Generator().manual_seed(1)).to(dtype)
    verdicts = [
        classify(lambda x: part(kernel(x, x, fault)) * 1.5, x, ref=lambda x: part(formula(x, x)) * 1.5, budget=False)  # noqa: B023
        for fault in (0.0, 0.05)
    ]
    if name.startswith("numpy") and name != "numpy table":  # what numpy makes of open numbers is not followed
        assert (verdicts[0].label, verdicts[1].label != "Type-I") == ("Inconclusive", True)
        return
    if name in ("drawn", "slopes", "sines", "nan_to_num", "default", "numpy table"):  # made of its shape and type alone
        assert [(v.label, v.code) for v in verdicts] == [("Inconclusive", "RND310")] * 2
        return
    assert verdicts[0].label == "Type-I", verdicts[0]
    assert verdicts[1].label != "Type-I", verdicts[1]


MADE = {
    "new_tensor": lambda x: x.new_tensor([0.1, -0.3, 0.7]),
    "tensor": lambda x: torch.tensor([0.1, -0.3, 0.7], dtype=x.dtype),
    "as_tensor": lambda x: torch.as_tensor([0.1, -0.3, 0.7], dtype=x.dtype),
}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", MADE)
def test_a_tensor_made_of_numbers_stands_for_them(name: str, dtype: torch.dtype) -> None:
    from render.reference.local_error import Unit
    from render.reference.shadow import ShadowMode

    x = torch.ones(3, dtype=dtype)
    with ShadowMode(Unit(native=False)) as mode:
        y = MADE[name](x)
    wanted = torch.tensor([0.1, -0.3, 0.7], dtype=torch.float64)
    assert torch.equal(mode.value(y), wanted)
    assert bool((mode.error(y) >= (y.double() - wanted).abs()).all())
    assert torch.equal(MADE[name](x), y)  # as before: the patches are gone
