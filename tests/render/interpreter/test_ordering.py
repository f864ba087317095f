"""Sorting, top-k, merging, flipping: values against torch and Triton's own steps, bounds against sampled values."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from support import rng, trials
from triton.compiler.errors import CompilationError

from render.interpreter.ordering import network, ordered
from render.interpreter.session import Session

R, N = 8, 16


@triton.jit
def sort_kernel(x, out, R: tl.constexpr, N: tl.constexpr, K: tl.constexpr, WHAT: tl.constexpr, DOWN: tl.constexpr):
    i = tl.arange(0, R)[:, None]
    v = tl.load(x + i * N + tl.arange(0, N)[None, :])
    if WHAT == "sort":
        v = tl.sort(v, 1, DOWN)
    elif WHAT == "topk":
        v = tl.topk(v, K)
    elif WHAT == "merge":
        v = tl.bitonic_merge(v, descending=DOWN)
    elif WHAT == "flip":
        v = tl.flip(v, 0)
    else:
        v = v.flip()
    tl.store(out + i * K + tl.arange(0, K)[None, :], v)


@triton.jit
def noisy_sort(x, out, N: tl.constexpr, K: tl.constexpr):
    """exp makes intervals of a few ulp, the log of it wider ones."""
    i = tl.arange(0, N)
    v = tl.topk(tl.log(tl.exp(tl.load(x + i))), K)
    tl.store(out + tl.arange(0, K), v)


@triton.jit
def wrong_dimension(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i[:, None] * N + i[None, :])
    tl.store(out + i[:, None] * N + i[None, :], tl.sort(v, 0))


def run(x: torch.Tensor, what: str, k: int = N, down: bool = False) -> tuple[torch.Tensor, Session]:
    out = torch.empty(R, k, dtype=x.dtype)
    with Session("sm_80") as s:
        sort_kernel[(1,)](x, out, R, N, k, what, down)
    return out, s


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int32, torch.int64, torch.uint8])
@pytest.mark.parametrize("down", [False, True])
def test_sort_and_topk_are_torchs(dtype: torch.dtype, down: bool) -> None:
    x = torch.from_numpy(rng(161).integers(-90, 90, (R, N))).to(dtype)
    out, s = run(x, "sort", down=down)
    assert torch.equal(out, x.sort(-1, descending=down).values) and not s.taints
    for k in (1, 2, 8):
        assert torch.equal(run(x, "topk", k)[0], x.sort(-1, descending=True).values[:, :k])


@pytest.mark.parametrize("down", [False, True])
def test_merge_sorts_bitonic_rows(down: bool) -> None:
    x = torch.from_numpy(rng(162).normal(size=(R, N))).float()
    rise, fall = x[:, : N // 2].sort(-1).values, x[:, N // 2 :].sort(-1, descending=True).values
    bitonic = torch.cat([rise, fall], 1)
    assert torch.equal(run(bitonic, "merge", down=down)[0], bitonic.sort(-1, descending=down).values)


def test_flip_of_a_dimension_and_as_a_method() -> None:
    x = torch.from_numpy(rng(163).normal(size=(R, N))).float()
    out, s = run(x, "flip")
    assert torch.equal(out, x.flip(0)) and not s.taints
    assert torch.equal(run(x, "method")[0], x.flip(-1))


def test_bounds_of_order_statistics() -> None:
    """The fp64 result lies inside, without a taint: nothing is decided by the concrete order of near ties."""
    x = torch.from_numpy(np.repeat(rng(164).uniform(1, 2, 8), 4) + np.tile(np.arange(4) * 1e-7, 8)).float()
    out = torch.empty(8)
    with Session("sm_80") as s:
        noisy_sort[(1,)](x, out, 32, 8)
    envelope = s.envelope(out)
    assert envelope is not None and not envelope.taints
    want = x.double().sort(descending=True).values[:8].numpy()
    assert np.all((envelope.lo <= want) & (want <= envelope.hi)) and np.all(envelope.hi - envelope.lo < 1e-5)


def test_sorted_ends_enclose_every_choice() -> None:
    generator = rng(165)
    for _ in range(trials(50)):
        lo = generator.normal(size=8)
        hi = lo + generator.exponential(size=8) * generator.choice([0.0, 0.1, 2.0], 8)
        for k, down in ((8, False), (4, True), (1, True)):
            low, high = ordered(lo, k, down), ordered(hi, k, down)
            for _ in range(20):
                value = ordered(lo + generator.random(8) * (hi - lo), k, down)
                assert np.all((low <= value) & (value <= high))


def scalar_network(x: list[float], k: int, descending: bool) -> list[float]:
    """Triton's sort_impl with one element at a time, as its source reads."""

    def swap(h: list[float], bit: int, flip: list[int]) -> list[float]:
        out = []
        for i, v in enumerate(h):
            y = h[i ^ (1 << bit)]
            out.append(y if (v > y) != bool(flip[i] ^ (i >> bit & 1)) else v)
        return out

    def hypercube(h: list[float], stage: int, order: int) -> list[float]:
        flip = [i >> stage & 1 if order == 2 else order for i in range(len(h))]
        for i in range(stage):
            h = swap(h, stage - 1 - i, flip)
        return h

    log_n, log_k = len(x).bit_length() - 1, k.bit_length() - 1
    for i in range(1, log_k + 1):
        x = hypercube(x, i, 2 if i < log_n else int(descending))
    for i in range(log_k + 1, log_n + 1):
        pairs = [(x[j], x[j + k]) for j in range(len(x)) if not j >> log_k & 1]
        x = [float((np.fmax if descending else np.fmin)(a, b)) for a, b in pairs]
        x = hypercube(x, log_k, 2 if i < log_n else int(descending))
    return x


def test_the_network_is_tritons_with_and_without_nan() -> None:
    generator = rng(166)
    for trial in range(trials(40)):
        x = generator.normal(size=16)
        if trial % 2:
            x[generator.integers(0, 16, 3)] = np.nan
        for k in (2, 4, 16):
            for down in (False, True):
                assert np.array_equal(network(x, k, down), scalar_network(x.tolist(), k, down), equal_nan=True)
        if not trial % 2:
            assert np.array_equal(network(x, 16, False), np.sort(x))


def test_rows_with_nan_are_open() -> None:
    x = torch.from_numpy(rng(167).normal(size=(R, N))).float()
    x[2, 5] = float("nan")
    out, s = run(x, "sort")
    envelope = s.envelope(out)
    assert envelope is not None and np.isnan(envelope.lo[2]).all() and not np.isnan(np.delete(envelope.lo, 2, 0)).any()


def test_only_the_last_dimension_as_in_triton() -> None:
    with pytest.raises(CompilationError) as caught, Session("sm_80"):
        wrong_dimension[(1,)](torch.randn(4, 4), torch.empty(4, 4), 4)
    assert "only minor dimension" in str(caught.value.original)
