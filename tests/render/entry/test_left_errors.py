"""References in Python's numbers: their conditioning and their roundings count as those of torch's operations do."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

import render
from render.entry.left_errors import LeftErrors
from render.reference.figures import flat
from render.reference.local_error import Unit
from render.reference.shadow import ShadowMode

EXPRESSIONS: tuple[Callable[[Any, Any], Any], ...] = (
    lambda x, y: math.exp(x) * y + 1.5, lambda x, y: x / (1.0 + abs(y)) - y * y, lambda x, y: math.sqrt(x * x + y * y),
    lambda x, y: 0.5 * x * (1 + math.erf(y / math.sqrt(2))), lambda x, y: math.sin(x) - math.cos(3 * y),
    lambda x, y: math.log1p(math.exp(-abs(x))) + math.tanh(y), lambda x, y: (x - y) ** 2 + (2.5 + x) ** 1.5,
)  # fmt: skip


@pytest.mark.parametrize("f", EXPRESSIONS, ids=range(len(EXPRESSIONS)))
def test_no_operand_within_its_error_takes_a_result_out_of_its_own(f: Callable[[Any, Any], Any]) -> None:
    draw = random.Random(7)
    with ShadowMode(Unit(native=True)):  # Python's functions keep errors inside
        for _ in range(60):
            left = LeftErrors(lambda: None)
            x, y = draw.uniform(-2, 2), draw.uniform(-2, 2)
            errors = [10 ** draw.uniform(-9, -1) for _ in range(2)]
            for value, error in zip((x, y), errors, strict=True):
                left.put(value, error)
            found = f(*left.told([x, y]))
            reach = left.get(float(found))
            others = [f(x + draw.uniform(-1, 1) * errors[0], y + draw.uniform(-1, 1) * errors[1]) for _ in range(40)]
            others += [f(x + i * errors[0], y + j * errors[1]) for i in (-1, 1) for j in (-1, 1)]
            assert reach > 0 and all(abs(float(other) - float(found)) <= reach for other in others)


@triton.jit
def kernel(x, y, n, KIND: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i, mask=i < n)
    if KIND == "exp":
        r = tl.exp(v)
    elif KIND == "gelu":
        r = 0.5 * v * (1 + tl.erf(v * 0.7071067811865476))
    elif KIND == "steep":
        r = tl.exp(v * 10.1)
    elif KIND == "wave":
        r = tl.sin(v * 3.3) + 2.0
    else:
        r = tl.exp(v) - 1.0
    tl.store(y + i, r, mask=i < n)


RIGHT: dict[str, Callable[[float], float]] = {
    "exp": lambda v: math.exp(v),
    "gelu": lambda v: 0.5 * v * (1.0 + math.erf(v / math.sqrt(2.0))),
    "steep": lambda v: math.exp(v * 10.1),
    "wave": lambda v: math.sin(v * 3.3) + 2.0,
}


def judged(kind: str, reference: Callable[[float], float], dtype: torch.dtype, x: torch.Tensor) -> Any:
    with render.watch() as w:
        x = x.clone()
        y = torch.empty_like(x)
        kernel[(1,)](x, y, len(x), kind, B=128)
        expected = torch.tensor([reference(v) for v in x.tolist()], dtype=dtype)
        torch.allclose(y.to(dtype), expected)
    (found,) = w.verdicts
    return found


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", RIGHT)
def test_a_right_kernel_is_no_unstable_one(kind: str, dtype: torch.dtype) -> None:
    x = torch.randn(100, generator=torch.Generator().manual_seed(3))
    found = judged(kind, RIGHT[kind], dtype, x)
    assert found.label == "Type-I" and found.code not in ("RND111", "RND206")
    wrong = judged(kind, lambda v: RIGHT[kind](v) * 1.0005, dtype, x)
    assert wrong.label == "Type-II"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_an_unstable_one_is_seen(dtype: torch.dtype) -> None:
    x = torch.linspace(1e-5, 1e-3, 100)
    assert judged("cancels", math.expm1, dtype, x).code in ("RND111", "RND206")


def test_nobody_looks_whether_an_array_is_off_that_our_own_code_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(ShadowMode, "_is_off", lambda mode, x: bool(asked.append(x.numel())))
    with ShadowMode(Unit(native=True)):
        x = torch.ones(3) * 0.1
        assert flat(x).size == 3 and not asked
        assert x.numpy().size == 3 and asked == [3]
