"""Formats of PyTorch's types."""

from __future__ import annotations

import torch

from interval_ops.formats.model import BF16, FP8E4B8, FP8E4NV, FP8E5, FP8E5B16, FP16, FP32, FP64, Format

FORMAT_OF: dict[torch.dtype, Format] = {
    torch.float64: FP64,
    torch.float32: FP32,
    torch.float16: FP16,
    torch.bfloat16: BF16,
    torch.float8_e5m2: FP8E5,
    torch.float8_e4m3fn: FP8E4NV,
    torch.float8_e4m3fnuz: FP8E4B8,
    torch.float8_e5m2fnuz: FP8E5B16,
}

BEYOND = 2.0**40
"""Literals from here on are beyond any data: they stand for infinities."""
