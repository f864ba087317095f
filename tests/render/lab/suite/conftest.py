"""A small library of kernels with tests of its own, written to a folder of its own."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

LIBRARY = """
import torch
import triton
import triton.language as tl


@triton.jit
def scale_kernel(x_ptr, out_ptr, factor, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, x * factor, mask=at < n)


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return launch(x, factor)

    @staticmethod
    def backward(ctx, grad):
        return launch(grad, ctx.factor), None


def launch(x, factor):
    out = torch.empty_like(x)
    x = x.contiguous()
    scale_kernel[(triton.cdiv(x.numel(), 64),)](x, out, factor, x.numel(), BLOCK=64)
    return out


def scale(x, factor=3.0):
    return Scale.apply(x, factor)
"""


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of the suite; the library beside it can be imported as `scaling_library`."""
    (tmp_path / "scaling_library.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(str(tmp_path))
    suite = tmp_path / "suite"
    suite.mkdir()
    yield suite
    for name in [n for n in sys.modules if n == "scaling_library" or n.startswith("test_of_scaling")]:
        del sys.modules[name]
