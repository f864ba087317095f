"""Operations that steps stand for are what torch makes of them, in float64; and bounds of the steps hold torch's own
kernels in narrower types (`tests/render/interpreter/hosted/test_legal_points.py`)."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
import triton
import triton.language as tl

import render
from render.ops import resampled
from render.reference.precise.recorder import CellRecorder
from render.reference.shadow import ShadowMode

INDICES, OFFSETS = torch.tensor([0, 3, 2, 2, 5, 1, 4, 0, 6, 3]), torch.tensor([0, 3, 3, 8])
AT, LAST = torch.tensor([2, 0, 2, 2]), torch.tensor([0, 4, 10])
GRID = torch.rand(1, 4, 5, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64) * 2.6 - 1.3


def into(x: torch.Tensor, how: str, include: bool) -> torch.Tensor:
    index = torch.tensor([[0, 2, 1], [0, 2, 2]])
    return x.scatter_reduce(0, index, x[1:3, :3] * 1.5, how, include_self=include)


SPELLED = {
    **{f"bag {how}": (lambda x, how=how: F.embedding_bag(INDICES, x, OFFSETS, mode=how))
       for how in ("sum", "mean", "max")},
    "bag, padded": lambda x: F.embedding_bag(INDICES, x, OFFSETS, padding_idx=2),
    "bag, last": lambda x: F.embedding_bag(INDICES, x, LAST, mode="mean", include_last_offset=True),
    "bag, weighed": lambda x: F.embedding_bag(INDICES, x, OFFSETS, mode="sum", per_sample_weights=x.flatten()[:10]),
    "bags of rows": lambda x: F.embedding_bag(INDICES.reshape(2, 5), x, mode="mean"),
    **{f"distances {p}": (lambda x, p=p: torch.cdist(x, x.flip(0)[:3] * 0.5, p))
       for p in (1.0, 2.0, 3.0, float("inf"))},
    "many distances": lambda x: torch.cdist(x.repeat(5, 1), x.repeat(6, 1) * 0.7),
    "own distances": F.pdist,
    "renorm": lambda x: torch.renorm(x, 2, 0, 1.0),
    "renorm in place": lambda x: x.clone().renorm_(3, 1, 1.2),
    **{f"scattered {how} {own}": (lambda x, how=how, own=own: into(x, how, own))
       for how in ("mean", "prod", "amax", "amin") for own in (True, False)},
    **{f"indexed {how}": (lambda x, how=how: x.clone().index_reduce_(0, AT, x[:4] * 1.5, how, include_self=False))
       for how in ("mean", "prod", "amax", "amin")},
    "log of sums": lambda x: torch.logcumsumexp(x, 0),
}  # fmt: skip
MODES = {"zeros": 0, "border": 1, "reflection": 2}
PLANES = {
    **{f"{how} of {a}, {p}, {c}": (lambda x, how=how, p=p, c=c: F.grid_sample(x, GRID.to(x.dtype), how, p, c))
       for a, how in enumerate(("bilinear", "nearest", "bicubic")) for p in MODES for c in (True, False)},
    **{f"cubic {size} {c}": (lambda x, size=size, c=c: F.interpolate(x, size, mode="bicubic", align_corners=c))
       for size in ((9, 11), (3, 2), (1, 7)) for c in (True, False)},
    "cubic by a factor": lambda x: F.interpolate(x, scale_factor=1.7, mode="bicubic"),
    **{f"smooth {how} {size}": (lambda x, how=how, size=size: F.interpolate(x, size, mode=how, antialias=True))
       for how in ("bilinear", "bicubic") for size in ((3, 2), (9, 11), (4, 20))},
    "pool": lambda x: F.avg_pool2d(x, 2), "spectrum": lambda x: torch.fft.rfft2(x).abs(),
}  # fmt: skip
SIGNALS = {
    "real": lambda x: torch.view_as_real(torch.fft.rfft(x, norm="ortho")),
    "whole": lambda x: torch.view_as_real(torch.fft.fft(x)),
    "back": lambda x: torch.fft.irfft(torch.fft.rfft(x) * 0.5, n=x.shape[-1]),
    "longer": lambda x: torch.fft.irfft(torch.fft.rfft(x, n=30), n=27, norm="forward"),
    "inverse": lambda x: torch.view_as_real(torch.fft.ifft(torch.complex(x, x.flip(-1)))),
    "of hermitian": lambda x: torch.fft.hfft(torch.complex(x, x.flip(-1))),
    "windows": lambda x: torch.view_as_real(torch.stft(x, 8, 2, window=torch.ones(8).to(x), return_complex=True)),
}  # fmt: skip
CASES = {
    **{n: (f, (7, 5)) for n, f in SPELLED.items()},
    **{n: (f, (1, 2, 6, 7)) for n, f in PLANES.items()},
    **{f"{n} {k}": (f, (2, k)) for n, f in SIGNALS.items() for k in (16, 15, 17)},
}


@pytest.mark.parametrize("name", CASES)
def test_steps_are_the_operation(name):
    operation, shape = CASES[name]
    x = torch.randn(shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    want = operation(x.clone())
    with torch.no_grad(), ShadowMode() as mode:
        found = operation(x.clone())
    assert found.dtype == want.dtype
    assert (mode.value(found) - want).abs().max() <= 1e-12 * (1 + want.abs().max())


@pytest.mark.parametrize("name", ["bag mean", "distances 2.0", "own distances", "scattered mean False", "log of sums"])
def test_more_bits_follow_the_steps(name):
    operation, shape = CASES[name]
    x = torch.randn(shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    with torch.no_grad(), CellRecorder() as recorder:
        found = operation(x)
    assert recorder.cells.outcome(found).shape == tuple(found.shape)


@pytest.mark.parametrize("more", [{"mode": "bicubic"}, {"mode": "bilinear", "antialias": True}], ids=str)
def test_factors_are_followed_in_inference_mode(more):
    x = torch.randn(1, 2, 5, 6, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    with torch.inference_mode():
        want = F.interpolate(x, scale_factor=(2.4, 1.3), **more)
        with ShadowMode() as mode:
            found = F.interpolate(x, scale_factor=(2.4, 1.3), **more)
        assert (mode.value(found) - want).abs().max() <= 1e-12 * (1 + want.abs().max())


@triton.jit
def _halved(X, Y, n, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(Y + i, tl.load(X + i, mask=i < n) * 0.5, mask=i < n)


@pytest.mark.parametrize("how", ["nearest", "bicubic"])
def test_a_sample_of_a_kernels_result_is_followed_to_its_element(how):
    """So that a wrong one is evaluated a second time: few steps lie behind it, and no room where it is one element."""
    grid = GRID.float()
    x = torch.randn(1, 2, 4, 5, generator=torch.Generator().manual_seed(2))

    def entry(x):
        y = torch.empty_like(x)
        _halved[(1,)](x, y, x.numel(), 64)
        return F.grid_sample(y, grid, how, "border", align_corners=False)

    def sample(x, factor):
        return F.grid_sample(x * factor, grid, how, "border", align_corners=False)

    assert render.classify(entry, x, ref=lambda x: sample(x, 0.5)).label == "Type-I"
    assert render.classify(entry, x, ref=lambda x: sample(x, 0.5005)).code == "RND201"


def test_places_that_are_no_numbers_have_no_rule():
    grid = GRID.clone()
    grid[0, 0, 0] = torch.tensor([torch.nan, torch.inf])
    assert not resampled.is_sampled(torch.ones(1, 2, 4, 5), grid)
    assert resampled.is_sampled(torch.ones(1, 2, 4, 5), GRID)
