"""Kernels whose results are integers that rounding decides: quantized rows, packed codes, the place of a maximum."""

from __future__ import annotations

import numpy as np
import torch
import triton
import triton.language as tl

from render.lab.adversary.material import Inputs, values
from render.lab.adversary.subjects import Subject

ROWS, COLUMNS = 32, 64
HOW = ("floor", "away", "packed")


@triton.jit
def quantize_kernel(x, q, s, y, HOW: tl.constexpr, N: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, N)
    even, odd = tl.load(x + row * 2 * N + 2 * i), tl.load(x + row * 2 * N + 2 * i + 1)
    steps: tl.constexpr = 7.0 if HOW == "packed" else 127.0
    top = tl.maximum(tl.maximum(tl.max(tl.abs(even), 0), tl.max(tl.abs(odd), 0)), 1e-30)
    scale = top / steps
    inverse = steps / top
    if HOW == "away":
        even, odd = even * inverse, odd / scale
        a = tl.where(even >= 0, even + 0.5, even - 0.5).to(tl.int32)
        b = tl.where(odd >= 0, odd + 0.5, odd - 0.5).to(tl.int32)
        a = tl.minimum(tl.maximum(a, -128), 127)
        b = tl.minimum(tl.maximum(b, -128), 127)
    else:
        a = tl.floor(even * inverse + 0.5).to(tl.int32)
        b = tl.floor(odd / scale + 0.5).to(tl.int32)
    if HOW == "packed":
        tl.store(q + row * 2 * N + i, (((a + 8) & 15) | ((b + 8) << 4)).to(tl.int8, bitcast=False))
        tl.store(q + row * 2 * N + N + i, (tl.abs(a) - b).to(tl.int8))
    else:
        tl.store(q + row * 2 * N + 2 * i, a.to(tl.int8))
        tl.store(q + row * 2 * N + 2 * i + 1, b.to(tl.int8))
    tl.store(s + row, scale)
    tl.store(y + row * 2 * N + 2 * i, a.to(tl.float32) * scale)
    tl.store(y + row * 2 * N + 2 * i + 1, tl.where(a > b, a, b).to(tl.float32) * scale)


@triton.jit
def place_kernel(x, place, count, N: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, N)
    v = tl.exp(tl.load(x + row * N + i))
    v = v / tl.sum(v, 0)
    tl.store(place + 2 * row, tl.argmax(v, 0))
    tl.store(place + 2 * row + 1, tl.argmin(v, 0))
    tl.store(count + row, tl.sum((v >= 1.0 / N).to(tl.int32), 0))


def quantized(how: str) -> Subject:
    def run(x: torch.Tensor) -> list[torch.Tensor]:
        q, s, y = torch.empty(x.shape, dtype=torch.int8), torch.empty(len(x)), torch.empty_like(x)
        quantize_kernel[(len(x),)](x, q, s, y, how, x.shape[1] // 2)
        return [q, s, y]

    return Subject(f"quantize {how}", run, _near_ties, ("fp_to_si",), ("normal", "halves", "sevenths"))


def _near_ties(rng: np.random.Generator, style: str) -> Inputs:
    """Rows whose quotients by their scale lie on the edge between two integers, or next to it."""
    if style == "normal":
        return (values(rng, (ROWS, COLUMNS), "fp32", style),)
    steps = 127 if style == "halves" else 7
    top = rng.uniform(0.5, 4.0, (ROWS, 1))
    x = (rng.integers(-steps, steps, (ROWS, COLUMNS)) + 0.5) / steps * top
    x[:, :1] = top
    return (torch.from_numpy(x.astype(np.float32)),)


def places() -> Subject:
    def run(x: torch.Tensor) -> list[torch.Tensor]:
        place, count = torch.empty(len(x), 2, dtype=torch.int32), torch.empty(len(x), dtype=torch.int32)
        place_kernel[(len(x),)](x, place, count, x.shape[1])
        return [place, count]

    def inputs(rng: np.random.Generator, style: str) -> Inputs:
        if style == "constant":
            return (torch.from_numpy(np.repeat(rng.normal(size=(16, 4)), 16, 1).astype(np.float32)),)
        return (values(rng, (16, 64), "fp32", style),)

    return Subject("places", run, inputs, (), ("normal", "constant"))
