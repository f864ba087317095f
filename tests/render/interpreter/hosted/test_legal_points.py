"""Bounds of host operations hold what torch itself makes of other points of the operands' box, in their own type.

Kernels of one operation differ by type, size and layout: some round each step to float16 or bfloat16, some read a
number among their arguments in that type, some sum in it. The oracle is torch, in the type and in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from support import rng, trials

from render.interpreter.host import HostTracker
from render.interpreter.memory import Memory

TARGETS = torch.arange(12) % 5
INDICES, OFFSETS = torch.tensor([0, 3, 2, 2, 5, 1, 4, 0, 6, 3]), torch.tensor([0, 3, 3, 8])
GRID = torch.rand(1, 4, 5, 2, generator=torch.Generator().manual_seed(1)) * 2.6 - 1.3
C = 0.7390123
ROWS = torch.tensor([0, 1, 1, 2, 1] * 4)


def wide(x: torch.Tensor) -> torch.Tensor:
    """For operations without kernels for narrow types."""
    return x.float() if x.dtype.itemsize < 4 else x


def transposed(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Of float32 it is no sum of products here, which is told."""
    return F.conv_transpose2d(x, w, stride=(3, 2), padding=(1, 2))


OPERATIONS: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {
    # numbers in the operands' type
    "add": (lambda x: x + C, [(40,)]),
    "sub from": (lambda x: C - x, [(12,)]),
    "add scaled": (lambda x, y: torch.add(x, y, alpha=C), [(12,)] * 2),
    "rsub scaled": (lambda x, y: torch.rsub(x, y, alpha=C), [(12,)] * 2),
    "remainder": (lambda x: x % C, [(40,)]),
    "fmod": (lambda x: torch.fmod(x, C), [(40,)]),
    "power": (lambda x: x.abs() ** (3 * C), [(40,)]),
    "of a number": (lambda x: (3 * C) ** x, [(40,)]),
    "at most": (lambda x: x.clamp(max=0.1), [(40,)]),
    "between": (lambda x: F.hardtanh(x, -C, C), [(40,)]),
    "chosen": (lambda x: torch.where(x.abs() > 1.5, x, C), [(40,)]),
    "filled": (lambda x: x.masked_fill(x > 0.5, C), [(40,)]),
    "padded": (lambda x: F.pad(x, (1, 2), value=C), [(3, 5)]),
    # steps in the operands' type
    "cube": (lambda x: x**3, [(12,)]),
    "power -2": (lambda x: x**-2, [(12,)]),
    "rsqrt": (lambda x: x.abs().rsqrt(), [(12,)]),
    "logit": (lambda x: torch.logit(x / 8 + 0.5), [(12,)]),
    "xlogy": (lambda x, y: torch.xlogy(x, y.abs()), [(12,)] * 2),
    "mse": (lambda x, y: F.mse_loss(x, y, reduction="none"), [(12,)] * 2),
    "huber": (lambda x, y: F.huber_loss(x, y, reduction="none", delta=C), [(12,)] * 2),
    "smooth l1": (lambda x, y: F.smooth_l1_loss(x, y, reduction="none", beta=C), [(12,)] * 2),
    "kl": (lambda x, y: F.kl_div(x, y.abs(), reduction="none"), [(12,)] * 2),
    "soft margin": (lambda x: F.soft_margin_loss(x, torch.ones_like(x), reduction="none"), [(12,)]),
    "entropy": (lambda x: F.binary_cross_entropy(x / 8 + 0.5, x.flip(0) / 8 + 0.5, reduction="none"), [(12,)]),
    "logsumexp": (lambda x: x.logsumexp(0), [(60, 5)]),
    "softmax": (lambda x: x.softmax(0), [(60, 5)]),
    "log_softmax": (lambda x: x.log_softmax(-1), [(3, 300)]),
    "batch norm": (lambda x: F.batch_norm(x + 9, None, None, training=True), [(6, 5, 7)]),
    "batch norm given": (lambda x, m, v: F.batch_norm(x + 9, m + 9, v.abs() + 1), [(6, 5, 7), (5,), (5,)]),
    # sums and products in the operands' type
    "prod": (lambda x: x.prod(-1), [(3, 30)]),
    "addr": (lambda m, a, b: torch.addr(m, a, b, alpha=-2, beta=-C), [(5, 6), (5,), (6,)]),
    "addbmm": (lambda m, a, b: torch.addbmm(m, a, b, alpha=-2, beta=-1), [(5, 6), (3, 5, 7), (3, 7, 6)]),
    "index_add": (lambda m, a: m.index_add(0, torch.tensor([0, 0, 2]), a, alpha=-C), [(5, 6), (3, 6)]),
    "fold": (lambda x: F.fold(x, (21, 21), 11), [(1, 121, 121)]),
    "adaptive 3d": (lambda x: F.adaptive_avg_pool3d(x, 2), [(1, 1, 11, 11, 9)]),
    "adaptive 2d": (lambda x: F.adaptive_avg_pool2d(x, (3, 2)), [(1, 1, 21, 21)]),
    "segments": (lambda x: torch.segment_reduce(x, "sum", lengths=torch.tensor([2, 3, 4])), [(9,)]),
    "nll": (lambda x: F.nll_loss(x, TARGETS.repeat(40), reduction="sum"), [(480, 5)]),
    "nll weighted": (lambda x, w: F.nll_loss(x, TARGETS, w.abs() + 1), [(12, 5), (5,)]),
    "nll of images": (lambda x: F.nll_loss(x, TARGETS.reshape(2, 2, 3)), [(2, 5, 2, 3)]),
    "mean at places": (lambda x: x.scatter_reduce(0, ROWS[:6, None].expand(6, 4), x * 1.5, "mean"), [(6, 4)]),
    "product at places": (lambda x: x.index_reduce(0, ROWS[:6], x * C, "prod"), [(6, 4)]),
    "bags": (lambda x: F.embedding_bag(INDICES, x, OFFSETS, mode="mean"), [(7, 4)]),
    "bags weighed": (lambda x, w: F.embedding_bag(INDICES, x, OFFSETS, mode="sum", per_sample_weights=w),
                     [(7, 4), (10,)]),
    "log of sums": (lambda x: torch.logcumsumexp(x, 0), [(90, 3)]),
    "distances": (lambda x, y: torch.cdist(x.float(), y.float(), p=1.5), [(5, 6), (4, 6)]),
    "renorm": (lambda x: torch.renorm(x, 2, 0, C), [(5, 6)]),
    "spectrum": (lambda x: torch.view_as_real(torch.fft.rfft(wide(x))), [(2, 30)]),
    "spectrum of a prime": (lambda x: torch.view_as_real(torch.fft.fft(wide(x))), [(2, 101)]),
    "signal": (lambda x: torch.fft.irfft2(torch.view_as_complex(wide(x)), s=(6, 10)), [(6, 6, 2)]),
    "kaiser": (lambda x: x * torch.kaiser_window(40, True, 9.0, dtype=x.dtype), [(40,)]),
    # places that are computed
    "cubic": (lambda x: F.interpolate(x, size=(3, 300), mode="bicubic"), [(1, 1, 2, 201)]),
    "smooth": (lambda x: F.interpolate(wide(x), size=(3, 70), mode="bicubic", antialias=True), [(1, 1, 5, 201)]),
    **{f"grid {how}": (lambda x, how=how: F.grid_sample(x, GRID.to(x.dtype), how, align_corners=False), [(1, 2, 9, 8)])
       for how in ("bilinear", "bicubic")},
    "bilinear": (lambda x: F.interpolate(x, size=(3, 3000), mode="bilinear"), [(1, 1, 2, 2001)]),
    "linear": (lambda x: F.interpolate(x, scale_factor=1.37, mode="linear", align_corners=True), [(1, 2, 77)]),
    "trilinear": (lambda x: F.interpolate(x, size=(5, 9, 8), mode="trilinear"), [(1, 1, 7, 8, 9)]),
    "nearest": (lambda x: F.interpolate(x, scale_factor=2.7, mode="nearest"), [(1, 2, 7, 9)]),
    # from either end, by the magnitude of the weight
    "lerp": (lambda x, y, w: torch.lerp(x, y, w), [(60,)] * 3),
    "lerp by a number": (lambda x, y: torch.lerp(x, y, -C), [(60,)] * 2),
    "negative divisor": (lambda x: F.avg_pool2d(x, 2, divisor_override=-3), [(1, 2, 6, 8)]),
    "bilinear of two": (lambda x, y, w: F.bilinear(x, y, w), [(3, 4), (3, 5), (2, 4, 5)]),
    "means of rows": (lambda x: torch.native_layer_norm(x, (9,), None, None, 1e-5)[1], [(20, 9)]),
    "scales of rows": (lambda x: torch.native_layer_norm(x, (9,), None, None, 1e-5)[2], [(20, 9)]),
    "means of channels": (lambda x: torch.native_batch_norm(x, None, None, None, None, True, 0.1, 1e-5)[1],
                          [(4, 6, 5)]),
}  # fmt: skip


def gradient(function: Callable[..., Any]) -> Callable[..., Any]:
    """Of a function's results, with a cotangent that the results take the first elements of."""

    def run(x: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
        x = x.detach().clone().requires_grad_(True)
        y = function(x)
        return torch.autograd.grad(y, x, given[: y.numel()].reshape(y.shape))[0]

    return run


GRADIENTS: dict[str, Callable[..., Any]] = {
    "sigmoid": torch.sigmoid, "glu": lambda x: F.glu(x.T), "gelu": F.gelu, "silu": F.silu, "tanh": torch.tanh,
    "mse": lambda x: F.mse_loss(x, x.detach() * 0.5), "embedding": lambda x: F.embedding(ROWS, x),
    "huber": lambda x: F.huber_loss(x, x.detach() * 0.5, delta=C, reduction="none"),
    "softmax": lambda x: x.softmax(-1), "layer norm": lambda x: F.layer_norm(x, (9,)),
    "pool": lambda x: F.avg_pool2d(x[None, None], 3, 2, 1),
    "adaptive pool": lambda x: F.adaptive_avg_pool2d(x[None], 4),
}  # fmt: skip
OPERATIONS |= {f"{name} backward": (gradient(f), [(6, 9), (200,)]) for name, f in GRADIENTS.items()}
WIDTHS = {torch.float32: (2.0**-23, 0.3), torch.float16: (2.0**-10, 0.3), torch.bfloat16: (2.0**-7, 0.3)}


def rounded(x: np.ndarray, dtype: torch.dtype) -> np.ndarray:
    return torch.from_numpy(x).to(dtype).double().numpy()


def box(g: np.random.Generator, shape: tuple[int, ...], dtype: torch.dtype, width: float) -> tuple[np.ndarray, ...]:
    v = rounded(g.uniform(-3, 3, shape), dtype)
    r = width * np.abs(v) * g.integers(0, 2, shape)
    return rounded(v - r, dtype), rounded(v + r, dtype), v


def bounds(operation: Callable[..., Any], boxes: list[tuple[np.ndarray, ...]], dtype: torch.dtype) -> Any:
    memory, given = Memory(), []
    with HostTracker(memory):
        for lo, hi, v in boxes:
            given.append(torch.from_numpy(v).to(dtype))
            memory.carry(given[-1], lo, hi, frozenset())
        out = operation(*given)
    return memory.envelope(out)


@pytest.mark.parametrize("dtype", WIDTHS, ids=str)
@pytest.mark.parametrize("name", OPERATIONS)
def test_torch_s_own_results_lie_inside(name, dtype):
    inside(*OPERATIONS[name], dtype)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_a_transposed_convolution_adds_in_its_type(dtype):
    inside(transposed, [(2, 3, 4, 4), (3, 2, 4, 5)], dtype)


def inside(operation: Callable[..., Any], shapes: list[tuple[int, ...]], dtype: torch.dtype) -> None:
    for seed in range(trials(2)):
        g = rng(seed)
        for width in WIDTHS[dtype]:
            boxes = [box(g, shape, dtype, width) for shape in shapes]
            envelope = bounds(operation, boxes, dtype)
            assert envelope is not None and not envelope.taints
            for _ in range(4):
                points = [np.where(g.integers(0, 2, lo.shape) > 0, lo, hi) for lo, hi, _ in boxes]
                wide = operation(*map(torch.from_numpy, points)).detach().numpy()
                own = operation(*(torch.from_numpy(p).to(dtype) for p in points)).double().numpy()
                slack = 1e-12 * np.abs(wide).max()
                for seen, room in ((wide, slack), (own, 0.0)):
                    bad = (seen < envelope.lo - room) | (seen > envelope.hi + room)
                    assert not bad.any(), (envelope.lo[bad][:3], seen[bad][:3], envelope.hi[bad][:3])


@pytest.mark.parametrize(
    "operation",
    [
        lambda x: torch.segment_reduce(x, "max", lengths=torch.tensor([4, 8])),
        *(
            lambda x, more=more: F.interpolate(x.reshape(1, 1, 3, 4), scale_factor=(2.0, 1.2), **more)
            for more in ({"mode": "bicubic"}, {"mode": "bilinear", "antialias": True})
        ),
    ],
)
def test_what_is_no_sum_with_known_coefficients_is_named(operation):
    found = bounds(operation, [box(rng(0), (12,), torch.float32, 0.3)], torch.float32)
    assert found.taints


@pytest.mark.parametrize("dtype", WIDTHS, ids=str)
def test_a_number_is_compared_as_the_type_holds_it(dtype):
    """0.1 as the type holds it is not greater than 0.1, though it may lie above what is written."""
    edge = rounded(np.array([0.1]), dtype)
    truth = bounds(lambda x: x > 0.1, [(edge, edge + 0.125, edge + 0.125)], dtype)
    assert (truth.lo.item(), truth.hi.item()) == (0, 1)
