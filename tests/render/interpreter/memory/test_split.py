"""Accesses in parts: memory, bounds, tags, findings and what is undone are those of one loop, whatever the threads."""

from __future__ import annotations

import hashlib
from importlib import import_module

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from interval_ops import threads
from render.interpreter.memory import split
from render.interpreter.session import Session


@pytest.fixture(autouse=True)
def cuts(monkeypatch):
    """Small accesses are cut, too; how many were."""
    monkeypatch.setattr(threads, "LEAST", 32)
    monkeypatch.setattr(threads, "ALIGNED", 16)
    found, plain = [], split.scatter
    monkeypatch.setattr(split, "scatter", lambda *args: found.append(1) or plain(*args))
    return found


@triton.jit
def rows(x, out, columns, stride, shift, BLOCK: tl.constexpr):
    """Row by row; with `shift` rows reach into each other, beyond the end, or onto one another."""
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    value = tl.load(x + row * columns + i, mask=i < columns, other=0.5) * 0.1 + row
    tl.store(out + row * stride + i + shift, value, mask=i < columns)


@triton.jit
def twice(x, out, columns, BLOCK: tl.constexpr):
    """What is stored again has its entry in the log; then it is read again, and half of the programs go another way."""
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    tl.store(out + row * columns + i, tl.load(x + row * columns + i, mask=i < columns) * 0.3, mask=i < columns)
    value = tl.load(out + row * columns + i, mask=i < columns, other=0.0).to(tl.float32)
    if row % 2 == 1:
        value = tl.exp(value)
    tl.store(out + row * columns + i, value + 1, mask=i < columns - row % 3)


def _rows(dtype, stride, shift, columns=27):
    x = torch.randn(12, columns, generator=torch.Generator().manual_seed(1)).to(dtype)
    out = torch.empty(12 * columns, dtype=dtype)
    rows[(12,)](x, out, columns, stride, shift, BLOCK=32)
    return x, out


def _twice(dtype):
    x = torch.randn(12, 27, generator=torch.Generator().manual_seed(2)).to(dtype)
    out = torch.empty(12, 27, dtype=dtype)
    twice[(12,)](x, out, 27, BLOCK=32)
    return x, out


def _module(name, function, **sizes):
    torch.manual_seed(3)
    module = import_module(f"kernels.{name}")
    made = module.make_inputs(**sizes)
    inputs = [*(made.values() if isinstance(made, dict) else made)]
    found = getattr(module, function)(*inputs)
    return [*(x for x in inputs if isinstance(x, torch.Tensor)), *(found if isinstance(found, tuple) else (found,))]


RUNS = {
    **{f"rows of {dtype}": lambda dtype=dtype: _rows(dtype, 27, 0)
       for dtype in (torch.float16, torch.float32, torch.float64, torch.int32, torch.int8)},
    "rows of bytes that share words": lambda: _rows(torch.float16, 26, 0),
    "rows that meet": lambda: _rows(torch.float32, 20, 0),
    "rows onto one another": lambda: _rows(torch.float32, 0, 0),
    "beyond the end": lambda: _rows(torch.float32, 27, 40),
    "before the beginning": lambda: _rows(torch.float32, 27, -9),
    "backwards": lambda: _rows(torch.float32, -27, 11 * 27),
    **{f"twice {dtype}": lambda dtype=dtype: _twice(dtype) for dtype in (torch.float16, torch.float32)},
    "fused_softmax": lambda: _module("fused_softmax", "softmax", rows=12, cols=50),
    "rms_norm": lambda: _module("rms_norm", "rms_norm", rows=12, cols=40),
    "matmul_split_k": lambda: _module("matmul_split_k", "matmul_split_k", m=20, n=30, k=70),
    "flash_attention": lambda: _module("flash_attention", "attention", n_ctx=40),
}  # fmt: skip


def _state(run, count) -> tuple[str, list[str]]:
    """All that memory knows afterwards, but for addresses."""
    with Session(device="any", threads=count, printer=lambda text: None) as session:
        held = run()
    told = hashlib.sha256()
    for storage in session.memory.registry:
        if storage.written is not None:
            told.update(storage.written.tobytes())
        told.update(storage.raw.tobytes() if storage.written is None else storage.raw[storage.written != 0].tobytes())
        told.update(b"" if storage.tags is None else storage.tags.tobytes())
        for name, shadow in sorted(storage.shadows.items()):
            told.update(name.encode() + shadow.stamp.tobytes() + shadow.lo.tobytes() + shadow.hi.tobytes())
    for tensor in held:
        found = session.envelope(tensor)
        if found is not None:
            told.update(found.lo.tobytes() + found.hi.tobytes() + np.asarray(found.written).tobytes())
    return told.hexdigest(), [repr(finding) for finding in session.findings]


@pytest.mark.parametrize("name", RUNS)
def test_what_memory_knows_is_the_same(name, cuts):
    alone = _state(RUNS[name], 1)
    whole = len(cuts)
    assert _state(RUNS[name], 2) == alone
    assert _state(RUNS[name], 3) == alone
    if name.startswith(("rows of torch", "twice", "backwards")) and not name.endswith("int8"):  # words are not shared
        assert len(cuts) > 3 * whole
