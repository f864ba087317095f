"""What a host operation adds, multiplies or picks, as nodes: the second evaluation holds what torch gives, and float64.

The oracle is torch itself: the operation in the operands' type, and in float64. Wrong factors, partners or places leave
the enclosure, which is a few hundred roundings wide.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch.utils._python_dispatch import TorchDispatchMode

from render.entry.execution import Entry
from render.entry.inputs import of_call
from render.ops.aten import base_name
from render.trace import slice_of
from render.witness.make import Claim, make
from tests.verdicts import classify

Host = Callable[[torch.Tensor], torch.Tensor]
AT, WEIGHTS = torch.arange(12) % 4, torch.tensor([1.0, 1.5, 2.0, 1.25])


def _even(*shape: int) -> torch.Tensor:
    count = torch.tensor(shape).prod().item()
    return torch.linspace(-1, 1, int(count), dtype=torch.float64).reshape(shape)


def _attention(**more: torch.Tensor | bool | float) -> Host:
    def run(y: torch.Tensor) -> torch.Tensor:
        given = {k: v.to(y.dtype) if isinstance(v, torch.Tensor) and v.is_floating_point() else v
                 for k, v in more.items()}  # fmt: skip
        return F.scaled_dot_product_attention(y, y.flip(2), y.roll(1, 2), **given)  # type: ignore[arg-type]

    return run


OPERATIONS: dict[str, tuple[tuple[int, ...], Host]] = {
    "linear": ((4, 6), lambda y: F.linear(y, _even(3, 6).to(y.dtype), _even(3).to(y.dtype))),
    "conv1d": ((2, 3, 8), lambda y: F.conv1d(y, _even(4, 3, 3).to(y.dtype), padding=1)),
    "conv2d": ((2, 4, 6, 5), lambda y: F.conv2d(y, _even(4, 2, 3, 3).to(y.dtype), _even(4).to(y.dtype), 2, 1, 1, 2)),
    "transposed": ((1, 3, 4, 4), lambda y: F.conv_transpose2d(y, _even(3, 2, 3, 3).to(y.dtype), stride=2)),
    "bilinear": ((4, 3), lambda y: F.bilinear(y, y.flip(0), _even(2, 3, 3).to(y.dtype))),
    "addbmm": ((3, 4, 4), lambda y: torch.addbmm(_even(4, 4).to(y.dtype), y, y, beta=0.5, alpha=2.0)),
    "addr": ((6,), lambda y: torch.addr(_even(6, 6).to(y.dtype), y, y, beta=0.5, alpha=2.0)),
    "index_add": ((12, 3), lambda y: _even(4, 3).to(y.dtype).index_add(0, AT, y, alpha=0.3)),
    "scatter_add": ((12,), lambda y: _even(4).to(y.dtype).scatter_add(0, AT, y)),
    "index_put": ((12,), lambda y: _even(4).to(y.dtype).index_put((AT,), y, accumulate=True)),
    "scatter mean": ((12,), lambda y: _even(4).to(y.dtype).scatter_reduce(0, AT, y, "mean")),
    "average pool": ((1, 2, 7, 7), lambda y: F.avg_pool2d(y, 3, 2, 1, count_include_pad=False)),
    "adaptive average": ((1, 2, 7, 7), lambda y: F.adaptive_avg_pool2d(y, 3)),
    "largest of windows": ((1, 2, 7, 9), lambda y: F.max_pool2d(y, 3, 2, 1, 2)),
    "adaptive largest": ((1, 2, 7, 8), lambda y: F.adaptive_max_pool2d(y, 3)),
    "interpolate": ((1, 2, 5, 5), lambda y: F.interpolate(y, size=(8, 9), mode="bilinear")),
    "fold": ((1, 8, 9), lambda y: F.fold(y, (4, 4), 2)),
    "largest of solid windows": ((1, 1, 4, 5, 6), lambda y: F.max_pool3d(y, 2, 2, 1)),
    "adaptive largest of solids": ((1, 1, 4, 5, 6), lambda y: F.adaptive_max_pool3d(y, (2, 3, 2))),
    "larger and smaller": ((12,), lambda y: torch.fmax(y, y.flip(0)) - torch.fmin(y, y.roll(1))),
    "median": ((6, 7), lambda y: y.nanmedian(1)[0]),
    "whole quotient": ((12,), lambda y: torch.floor_divide(y, 0.37) + y),
    "trace": ((5, 7), torch.trace),
    "nll": ((6, 4), lambda y: F.nll_loss(y, torch.arange(6) % 4, WEIGHTS.to(y.dtype), ignore_index=2)),
    "smallest and largest": ((6, 4), lambda y: torch.stack(torch.aminmax(y, dim=1))),
    "moments": ((6, 8), lambda y: torch.stack(torch.std_mean(y, 1))),
    "remainder": ((12,), lambda y: y.remainder(0.3)),
    "fmod": ((12,), lambda y: y.fmod(-0.3)),
    "floor divide": ((12,), lambda y: torch.div(y, 0.37, rounding_mode="floor") + y),
    "frac": ((12,), torch.frac),
    "sign": ((12,), lambda y: y.sign() * 0.7 + y),
    "copysign": ((12,), lambda y: (y + 2).copysign(y)),
    "hardtanh": ((12,), lambda y: F.hardtanh(y, -0.3, 0.4) + y),
    "relu6": ((12,), lambda y: F.relu6(y * 5)),
    "attention": ((1, 2, 5, 4), _attention()),
    "causal": ((1, 2, 5, 4), _attention(is_causal=True)),
    "masked": ((1, 2, 5, 4), _attention(attn_mask=torch.ones(5, 5).tril(1).bool())),
    "biased": ((1, 2, 5, 4), _attention(attn_mask=_even(5, 5), scale=0.7)),
}


class _Met(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.add(base_name(func._schema.name))
        return func(*args, **(kwargs or {}))

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False


def met() -> set[str]:
    """The operations of torch that these are."""
    with _Met() as mode:
        for shape, host in OPERATIONS.values():
            host(torch.ones(shape))
    return mode.names


@triton.jit
def third(X, Out, count, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(Out + i, tl.load(X + i, mask=i < count, other=0.0) / 3, mask=i < count)


def thirds(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    third[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), 64)
    return out


def _inputs(name: str, dtype: torch.dtype) -> torch.Tensor:
    shape = OPERATIONS[name][0]
    return torch.randn(shape, generator=torch.Generator().manual_seed(5)).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", OPERATIONS)
def test_an_element_is_what_torch_makes(name: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)  # convolutions would read 10 bits of each operand
    host, x = OPERATIONS[name][1], _inputs(name, dtype)
    call = Entry(entry := (lambda x: host(thirds(x))), of_call(entry, (x,), {}), "any")
    run = call.run()
    true, got = host(x.double() / 3).reshape(-1), run.outputs[0].value
    size = float(true.abs().max()) + 1.0
    for flat in sorted({0, len(true) // 3, len(true) - 1}):
        index = tuple(int(i) for i in torch.unravel_index(torch.tensor(flat), got.shape))
        answer = make(slice_of(call, run, run.outputs[0].name, index), Claim("reference", 100 * size, 100 * size))[1]
        assert answer.agrees, answer.why
        low, high = (float.fromhex(end) for end in answer.enclosure)
        assert low <= float(got[index]) <= high
        assert low <= float(true[flat]) <= high
        assert high - low <= 200 * float(torch.finfo(dtype).eps) * size


@pytest.mark.parametrize("name", ["conv2d", "causal", "scatter_add", "largest of windows", "remainder"])
def test_what_the_host_makes_of_a_wrong_result_is_a_bug(name: str) -> None:
    host, x = OPERATIONS[name][1], _inputs(name, torch.float32)
    assert classify(lambda x: host(thirds(x)), x, ref=lambda x: host(x / 3)).label == "Type-I"
    found = classify(lambda x: host(thirds(x * 1.05)), x, ref=lambda x: host(x / 3))
    assert (found.label, found.code) == ("Type-II", "RND201")
