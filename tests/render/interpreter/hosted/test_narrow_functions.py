"""Functions of 16-bit types over all of their numbers: neighbours are the ends of a box, and what torch gives for
either lies in its bounds."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch

from render.interpreter.host import HostTracker
from render.interpreter.memory import Memory

F = torch.nn.functional
FUNCTIONS: dict[str, Callable[[torch.Tensor], Any]] = {
    **{name: getattr(torch, name) for name in ("erf", "erfc", "exp", "exp2", "expm1", "tanh", "sigmoid", "log", "log1p",
       "log2", "sqrt", "rsqrt", "sin", "cos", "atan", "reciprocal", "square", "round")},
    **{name: getattr(F, name) for name in ("silu", "mish", "softplus", "elu", "hardswish", "hardsigmoid", "selu",
       "logsigmoid")},
    "gelu": F.gelu, "tanh gelu": partial(F.gelu, approximate="tanh"),
    "third": lambda x: x / 3, "tenth": lambda x: x * 0.1, "rest": lambda x: 0.1 - x, "power": lambda x: x**2.5,
    "cut": lambda x: torch.div(x, 0.3, rounding_mode="trunc"),
    "floor": lambda x: torch.div(x, 0.3, rounding_mode="floor"),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_what_torch_gives_for_every_number_lies_in_the_bounds(dtype: torch.dtype) -> None:
    every = torch.arange(1 << 16, dtype=torch.int32).to(torch.int16).view(dtype)
    numbers = torch.unique(every[every.double().abs() < 1e38].double())  # beyond, products inside gelu overflow
    low, high = numbers[:-1], numbers[1:]
    for name, function in FUNCTIONS.items():
        memory, x = Memory(), low.to(dtype)
        with HostTracker(memory):
            memory.carry(x, low.numpy(), high.numpy(), frozenset())
            found = memory.envelope(function(x))
        assert found is not None and not found.taints, name
        for end in (low, high):
            y = function(end.to(dtype)).double().numpy()
            assert not ((y < found.lo) | (y > found.hi)).any(), name


@pytest.mark.parametrize("dim", [1, -1])
@pytest.mark.parametrize("function", [torch.softmax, torch.log_softmax, torch.logsumexp])
def test_what_is_kept_in_a_narrow_type_may_be_subnormal(function: Callable[..., torch.Tensor], dim: int) -> None:
    torch.manual_seed(0)
    low = (torch.rand(500, 8, 8) * -18).half()  # the middle axis is what torch keeps them of
    high = torch.nextafter(low, torch.tensor(1.0).half())
    memory, x, at = Memory(), low.clone(), torch.arange(8).reshape((8, 1) if dim == 1 else (1, 8))
    with HostTracker(memory):
        memory.carry(x, low.double().numpy(), high.double().numpy(), frozenset())
        found = memory.envelope(function(x, dim))
    assert found is not None and not found.taints
    for k in range(8):
        for there, elsewhere in ((high, low), (low, high)):
            y = function(torch.where(at == k, there, elsewhere), dim).double().numpy()
            assert ((y >= found.lo) & (y <= found.hi)).all()


@pytest.mark.parametrize("mode", ["trunc", "floor"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_quotients_of_narrow_types_are_rounded_before_they_are_cut(dtype: torch.dtype, mode: str) -> None:
    torch.manual_seed(1)
    low, y = torch.randn(20000).to(dtype) * 9, torch.randn(20000).to(dtype) * 0.05
    high = torch.nextafter(low, torch.tensor(100.0).to(dtype))
    memory, x = Memory(), low.clone()
    with HostTracker(memory):
        memory.carry(x, low.double().numpy(), high.double().numpy(), frozenset())
        found = memory.envelope(torch.div(x, y, rounding_mode=mode))
    assert found is not None and not found.taints
    for end in (low, high):
        q = torch.div(end, y, rounding_mode=mode).double().numpy()
        wide = torch.div(end.float(), y.float(), rounding_mode=mode).to(dtype).double().numpy()  # as a GPU has it
        for value in (q, wide):
            assert not ((value < found.lo) | (value > found.hi)).any()
