"""Gradients and matrix operations of references: their error is bounded, and no operand within reach leaves the bound.

The attack knows nothing of a rule: it evaluates the function in float64 at operands moved by as much as they may
be off.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from render.reference.local_error import Unit
from render.reference.shadow import ShadowMode

OFF = 2.0**-30
"""Relative error of every operand."""
DRAW = torch.Generator().manual_seed(7)


def drawn(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=DRAW)


ROWS, OTHER, PLANES, LINE, SPACE = drawn(4, 6), drawn(4, 6), drawn(2, 4, 8, 8), drawn(2, 4, 10), drawn(1, 2, 4, 6, 6)
TABLE, IDS, BAGS = drawn(10, 6), torch.randint(0, 10, (12,), generator=DRAW), torch.tensor([0, 4, 7])
GRID = torch.rand(2, 5, 5, 2, generator=DRAW) * 1.8 - 0.9
SQUARE = drawn(7, 7)
POSITIVE = SQUARE @ SQUARE.T + 5 * torch.eye(7)
WEIGHTS = drawn(4096)
LABELS = torch.tensor([1, 0, 5, 2])
W1, W2, W3, WT = drawn(3, 4, 3), drawn(6, 2, 3, 3), drawn(3, 2, 2, 2, 2), drawn(4, 3, 3, 3)
INF = float("inf")
Case = tuple[Callable[[Tensor], Tensor], Tensor]


def first(x: Tensor, n: int) -> Tensor:
    return WEIGHTS[:n].to(x.dtype)


def sampled(x: Tensor, mode: str, pad: str) -> Tensor:
    return F.grid_sample(x, GRID.to(x.dtype), mode, pad, False)


GRADIENTS: dict[str, Case] = {
    **{f"bag {mode}": (lambda x, mode=mode: F.embedding_bag(IDS, x, BAGS, mode=mode), TABLE)
       for mode in ("sum", "mean", "max")},
    "bag weighted": (lambda x: F.embedding_bag(IDS, x, BAGS, mode="sum", per_sample_weights=first(x, 12)), TABLE),
    **{f"distance {p}": (lambda x, p=p: torch.cdist(x, OTHER.to(x.dtype), p=p), ROWS) for p in (1.0, 2.0, 3.0, INF)},
    **{f"pairs {p}": (lambda x, p=p: F.pdist(x, p), ROWS) for p in (1.0, 2.0, 3.5)},
    "same points": (lambda x: torch.cdist(x, x[:2].detach().clone()), ROWS),
    "softshrink": (F.softshrink, ROWS), "hardshrink": (F.hardshrink, ROWS),
    "margin": (lambda x: F.multi_margin_loss(x, LABELS), ROWS),
    "max pool 2": (lambda x: F.max_pool2d(x, 3, 2, 1), PLANES), "max pool 3": (lambda x: F.max_pool3d(x, 2), SPACE),
    "adaptive max": (lambda x: F.adaptive_max_pool2d(x, 3), PLANES),
    "conv 1": (lambda x: F.conv1d(x, W1.to(x.dtype)), LINE),
    "conv 2": (lambda x: F.conv2d(x, W2.to(x.dtype), groups=2, padding=1, stride=2), PLANES),
    "conv 3": (lambda x: F.conv3d(x, W3.to(x.dtype)), SPACE),
    "conv transposed": (lambda x: F.conv_transpose2d(x, WT.to(x.dtype), stride=2), PLANES),
    "conv weight": (lambda x: F.conv2d(PLANES.to(x.dtype), x, bias=x.sum((1, 2, 3)), padding=1), drawn(3, 4, 3, 3)),
    **{f"pad {mode}": (lambda x, mode=mode: F.pad(x, (2, 1, 1, 2), mode=mode), PLANES)
       for mode in ("reflect", "replicate", "circular")},
    "pad line": (lambda x: F.pad(x, (3, 2), mode="replicate"), LINE),
    "pad space": (lambda x: F.pad(x, (1, 2, 1, 1, 2, 1), mode="replicate"), SPACE),
    **{f"resized {mode}": (lambda x, mode=mode: F.interpolate(x, (13, 5), mode=mode), PLANES)
       for mode in ("nearest", "nearest-exact", "bilinear", "bicubic", "area")},
    "resized corners": (lambda x: F.interpolate(x, (11, 13), mode="bicubic", align_corners=True), PLANES),
    **{f"smoothed {mode}": (lambda x, mode=mode: F.interpolate(x, (5, 3), mode=mode, antialias=True), PLANES)
       for mode in ("bilinear", "bicubic")},
    "resized line": (lambda x: F.interpolate(x, scale_factor=2.5, mode="linear"), LINE),
    "resized space": (lambda x: F.interpolate(x, scale_factor=2, mode="trilinear"), SPACE),
    **{f"sampled {mode} {pad}": (lambda x, mode=mode, pad=pad: sampled(x, mode, pad), PLANES)
       for mode in ("bilinear", "nearest", "bicubic") for pad in ("zeros", "border", "reflection")},
    "sampled at": (lambda g: F.grid_sample(PLANES.to(g.dtype), g, align_corners=True), GRID),
    "running product": (lambda x: x.cumprod(1), ROWS), "product": (lambda x: x.prod(1), ROWS),
    "running logarithm": (lambda x: x.logcumsumexp(1), ROWS),
    "masked scatter": (lambda x: torch.zeros(4, 6).to(x.dtype).masked_scatter(OTHER > 0, x), ROWS),
    "weight norm": (lambda x: torch._weight_norm(x, torch.ones(4, 1).to(x.dtype), 0), ROWS),
    "determinant": (torch.det, POSITIVE), "logarithm of it": (lambda x: torch.linalg.slogdet(x)[1], SQUARE),
    "inverse": (torch.inverse, POSITIVE), "system": (lambda x: torch.linalg.solve(x, SQUARE.to(x.dtype)), POSITIVE),
    "right side": (lambda x: torch.linalg.solve(POSITIVE.to(x.dtype), x), SQUARE),
    "factor": (torch.linalg.cholesky, POSITIVE),
    "triangular": (lambda x: torch.linalg.solve_triangular(x.tril(), SQUARE.to(x.dtype), upper=False), POSITIVE),
    "of a factor": (lambda x: torch.cholesky_solve(SQUARE.to(x.dtype), torch.linalg.cholesky(x)), POSITIVE),
}  # fmt: skip
FORWARD: dict[str, Case] = {
    name: GRADIENTS[name]
    for name in ("running product", "running logarithm", "determinant", "logarithm of it", "inverse", "system",
                 "factor", "triangular", "of a factor")
} | {
    "several": (torch.inverse, torch.stack([POSITIVE, POSITIVE.T * 3])),
    "from the right": (lambda x: torch.linalg.solve_triangular(x.triu(), SQUARE.to(x.dtype), upper=True, left=False),
                       POSITIVE),
    "older": (lambda x: torch.triangular_solve(SQUARE.to(x.dtype), x, upper=False, transpose=True)[0], POSITIVE),
    "with sentinels": (lambda x: x.masked_fill(OTHER > 0.5, -3.4e38).logcumsumexp(1), ROWS),
    "quantised": (lambda x: torch.fake_quantize_per_tensor_affine(x, 0.125, 0, -128, 127), ROWS),
}  # fmt: skip


def gradient(f: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    leaf = x.detach().clone().requires_grad_()
    found = f(leaf)
    weight = first(found, found.numel()).reshape(found.shape)
    (made,) = torch.autograd.grad(found, leaf, weight)
    return made


def attacked(f: Callable[[Tensor], Tensor], x: Tensor) -> None:
    mode = ShadowMode(Unit(native=False, inputs=OFF))
    with mode:
        found = f(x)
    assert not mode.estimated, mode.notes
    value, error = mode.value(found), mode.error(found)
    assert bool(error.isfinite().all())
    assert float((error / (value.abs().max() + 1e-300)).max()) < 1e-3, "hollow"
    draw = torch.Generator().manual_seed(3)
    for _ in range(6):
        signs = torch.randint(0, 2, x.shape, generator=draw) * 2 - 1
        moved = f(x.double() * (1 + OFF * signs))
        assert bool(((moved - value).abs() <= error).all()), float(((moved - value).abs() / error).max())


@pytest.mark.parametrize("name", sorted(GRADIENTS))
def test_a_gradient_stays_within_its_bound(name: str) -> None:
    f, x = GRADIENTS[name]
    attacked(lambda x: gradient(f, x), x)


@pytest.mark.parametrize("name", sorted(FORWARD))
def test_a_result_stays_within_its_bound(name: str) -> None:
    attacked(*FORWARD[name])
