"""Inputs of the attacks: random numbers of a format in styles that bring out one kind of error each."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from render.lab.adversary import aligned

Array = np.ndarray
Inputs = Any
DTYPES = {
    "fp64": torch.float64, "fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16,
    "fp8e5": torch.float8_e5m2, "fp8e4nv": torch.float8_e4m3fn, "fp8e4b8": torch.float8_e4m3fnuz,
}  # fmt: skip
_RANGE = {"fp64": (-300, 300), "fp32": (-60, 60), "bf16": (-60, 60), "fp16": (-13, 7), "fp8e5": (-13, 7),
          "fp8e4nv": (-6, 4), "fp8e4b8": (-7, 4)}  # fmt: skip
BOTTOM = {"fp64": -1040, "fp32": -135, "bf16": -128, "fp16": -17, "fp8e5": -15, "fp8e4nv": -8, "fp8e4b8": -9}
_BITS = {"fp64": 52, "fp32": 23, "bf16": 7, "fp16": 10, "fp8e5": 2, "fp8e4nv": 3, "fp8e4b8": 3}

STYLES = (
    "normal", "wide", "cancelling", "tiny", "giant", "stagnant", "constant", "powers", "roots", "logs", "climbing",
    "halves",
)  # fmt: skip
"""Of inputs: plain; many exponents; near-opposite neighbours; around the subnormal range; one large number among small
ones that alignment cuts; one large number to which each other one adds half a unit; one number per row, so that
the errors of splits and products add up; powers of two and neighbours; the four of `aligned`. "flat STYLE": one row."""


def values(rng: np.random.Generator, shape: tuple[int, ...], fmt: str, style: str) -> torch.Tensor:
    """Random numbers of a format, in a style."""
    if style.startswith("flat "):
        return values(rng, (1, int(np.prod(shape))), fmt, style.removeprefix("flat ")).reshape(shape)
    x = rng.standard_normal(shape)
    if style == "wide":
        x = np.ldexp(x, rng.integers(*_RANGE[fmt], shape) // 4)
    elif style == "cancelling":
        flat = x.reshape(-1)
        flat[1::2] = -flat[: len(flat) // 2 * 2 : 2] * (1 + 2.0 ** -_BITS[fmt] * rng.integers(0, 3, len(flat) // 2))
    elif style == "tiny":
        x = np.ldexp(x, np.where(rng.random(shape) < 0.7, BOTTOM[fmt] + rng.integers(0, 8, shape), 0))
    elif style == "giant":
        x = np.where(rng.random(shape) < 0.1, 1.0, np.abs(x) * 2.0 ** -_BITS[fmt])
    elif style == "stagnant":
        x = aligned.stagnant(rng, shape, _BITS[fmt] + 1, _BITS[fmt])
    elif style == "constant":
        x = np.broadcast_to(1 + x[..., :1] % 1, shape)
    elif style == "powers":
        e = rng.integers(*_RANGE[fmt], shape) // 6
        x = np.ldexp(1 + 2.0 ** -_BITS[fmt] * rng.integers(-1, 2, shape), e) * rng.choice([-1.0, 1.0], shape)
    elif style in ("roots", "logs", "climbing"):
        x = getattr(aligned, style)(rng, shape, _BITS[fmt])
    elif style == "halves":
        x = aligned.halves(rng, shape)
    elif style == "zeros":
        x = np.zeros(shape)
    limit = float(torch.finfo(DTYPES[fmt]).max)
    return torch.from_numpy(np.clip(x, -limit, limit)).to(DTYPES[fmt])


def stagnant_operands(
    rng: np.random.Generator, fmt: str, acc: str, left: tuple[int, ...], right: tuple[int, ...], depth: int = 0
) -> tuple[torch.Tensor, torch.Tensor]:
    """Products of one 1 and many near 2**-depth, the unit in which the accumulator, or a block of the unit, is cut."""
    depth = depth or int(rng.choice(_depths(fmt, acc)))
    depth = 53 if acc == "fp64" else depth
    a, b = aligned.stagnant(rng, left, depth // 2, 30), aligned.stagnant(rng, right, depth - depth // 2, _BITS[fmt])
    a = np.where(np.arange(left[-1]) == 0, 1.0, np.ldexp(1.0, -(depth // 2))) + 0 * a
    lift = 2.0**7 if fmt == "fp8e4b8" else 1.0  # 2**-12 is below its smallest number, 2**-5 is not
    pair = torch.from_numpy(lift * a), torch.from_numpy(lift * np.ascontiguousarray(np.swapaxes(b, -1, -2)))
    return pair[0].to(DTYPES[fmt]), pair[1].to(DTYPES[fmt])


def _depths(fmt: str, acc: str) -> list[int]:
    """Fraction bits at which units that take the format cut, and the next ones."""
    if fmt.startswith("fp8e4"):
        return [24, 25] if fmt == "fp8e4b8" else [13, 12]
    return [13, 14, 24, 25, 26] if acc == "fp32" else [11, 12]
