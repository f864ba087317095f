"""Planted bugs: from which operation on nothing is the reference's, which step is missing, and when nobody knows."""

from __future__ import annotations

import inspect
from pathlib import Path

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

import render
from render.classify import classify_file
from render.explain.divergence import Known, holds, there
from render.result.packaged import folder
from tests.kernels.bugs import BUGS

BY_NAME = {str(bug): bug for bug in BUGS}


def line_of(kernel, text):
    source, start = inspect.getsourcelines(kernel.fn)
    return start + next(i for i, line in enumerate(source) if text in line)


@pytest.mark.parametrize(
    ("name", "op"),
    [("vector_add-sign", "fsub"), ("rotary-sign", "fadd"), ("swiglu-derivative", "fadd"), ("rms_norm-offset", "fmul"),
     ("gelu-erf_scale", "fmul"), ("varlen_sum-accumulate", "reduce")],
)  # fmt: skip
def test_the_line_of_the_bug(name: str, op: str, tmp_path: Path):
    bug = BY_NAME[name]
    path = bug.write(tmp_path)
    (wanted,) = [n for n, line in enumerate(path.read_text().splitlines(), 1) if bug.new in line]
    found = classify_file(path, explain=["divergence"], budget=False).divergence
    assert found.established and (found.op, found.line) == (op, wanted), found.sentence
    assert 0 < found.after_line <= wanted or found.after_op == "load"


def test_a_missing_step(tmp_path: Path):
    v = classify_file(BY_NAME["swiglu-swapped_grads"].write(tmp_path), explain=["divergence"], budget=False)
    assert v.divergence.established and not v.divergence.op
    assert v.divergence.counterpart == "mul"
    assert "a step is missing" in v.divergence.sentence and v.divergence.sentence in v.notes
    assert v.to_dict()["divergence"]["counterpart"] == "mul"


@pytest.mark.parametrize("wrong", ["seed + 1, offsets", "seed, offsets + 1"])
def test_a_wrong_seed_or_offset_is_a_wrong_choice(wrong: str, tmp_path: Path):
    """What is kept is right and what is dropped is right; which elements are is not. No step is missing."""
    source = (folder("kernels") / "dropout.py").read_text()
    path = tmp_path / "dropout.py"
    path.write_text(source.replace("tl.rand(seed, offsets)", f"tl.rand({wrong})"))
    found = classify_file(path, explain=["divergence"], budget=False).divergence
    line = next(n for n, text in enumerate(source.splitlines(), 1) if "tl.where(" in text)
    assert found.choice and (found.op, found.line) == ("select", line)
    assert found.sentence.endswith(f"the select at line {line} takes one side, the reference has the other's value")


@triton.jit
def means(X, Mean, n, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(X + tl.program_id(0) * n + i, mask=i < n, other=0.0)
    s = tl.sum(tl.reshape(x, (B // 2, 2)), axis=1)
    total = tl.sum(s)
    m = tl.full((2,), 1.0, tl.float32) * total / (n - 1)
    tl.store(Mean + tl.program_id(0) * 2 + tl.arange(0, 2), m)


@triton.jit
def centre(X, Mean, Out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(X + tl.program_id(0) * n + i, mask=i < n)
    tl.store(Out + tl.program_id(0) * n + i, x - tl.load(Mean + tl.program_id(0) * 2 + i % 2), mask=i < n)


def centred(x):
    mean, out = torch.empty(x.shape[0], 2), torch.empty_like(x)
    means[(x.shape[0],)](x, mean, x.shape[1], 16)
    centre[(x.shape[0],)](x, mean, out, x.shape[1], 16)
    return out


def test_the_launch_before():
    torch.manual_seed(0)
    v = render.classify(
        centred, torch.rand(5, 12) + 1, ref=lambda x: x - x.sum(1, keepdim=True) / 12, explain=["divergence"]
    )
    assert (v.label, v.divergence.line) == ("Type-II", line_of(means, "/ (n - 1)"))


def test_a_reference_that_rounds_inside():
    x = torch.rand(100)
    v = render.classify(adding, x, ref=lambda x: (3 * x.half()).float(), explain=["divergence"], budget=False)
    assert (v.label, v.divergence.established) == ("Type-II", True)
    assert "x + y" in Path(v.divergence.file).read_text().splitlines()[v.divergence.line - 1]


def test_nothing_is_asked_of_a_kernel_that_is_right():
    assert render.classify(adding, torch.rand(100), ref=lambda x: x + x, explain=["divergence"]).divergence is None


def adding(x):
    from tests.kernels.bugs import KERNELS
    from tests.kernels.cases import load

    return load(KERNELS / "vector_add.py").vector_add(x, x)


def test_a_value_among_many_may_be_chance():
    lo, hi = np.array([1.0]), np.array([1.0 + 1e-6])
    alone, crowded = np.array([0.5, 1.0 + 5e-7, 2.0]), np.linspace(0.9, 1.1, 400_001)
    assert holds(alone, lo, hi) is True
    assert holds(crowded, lo, hi) is None
    assert holds(np.array([0.5, 2.0]), lo, hi) is False
    many = np.linspace(1, 2, 40)
    assert holds(np.sort(np.concatenate([many, crowded])), many, many * (1 + 1e-6)) in (True, None)
    assert holds(many, many, many * (1 + 1e-6)) is True


@triton.jit
def linear_kernel(X, W, Bias, Out, K: tl.constexpr, B: tl.constexpr, FAULT: tl.constexpr):
    i = tl.arange(0, B)
    acc = tl.zeros((B, B), tl.float32)
    for k in range(0, K, B):
        x = tl.load(X + i[:, None] * K + k + i[None, :])
        w = tl.load(W + i[None, :] * K + k + i[:, None])
        if FAULT == 1:  # noqa: SIM108
            acc = tl.dot(x, w)
        else:
            acc = tl.dot(x, w, acc)
    if FAULT == 2:
        acc += tl.load(Bias + i)[:, None]
    else:
        acc += tl.load(Bias + i)[None, :]
    tl.store(Out + i[:, None] * B + i[None, :], acc)


@pytest.mark.parametrize(("fault", "text", "dtype"), [
    (1, "acc = tl.dot(x, w)\n", torch.float32), (2, "[:, None]\n", torch.float16),
])  # fmt: skip
def test_the_parts_of_one_operation_of_the_reference(fault: int, text: str, dtype: torch.dtype):
    """A linear layer is a product and a sum: it says where its bias goes wrong. Products of TF32 may be too wide to be
    compared; what departs then is the first of them, no load."""

    def entry(x, w, b):
        out = torch.empty(16, 16)
        linear_kernel[(1,)](x, w, b, out, 48, 16, fault)
        return out

    torch.manual_seed(0)
    given = torch.randn(16, 48, dtype=dtype), torch.randn(16, 48, dtype=dtype), torch.randn(16, dtype=dtype)
    v = render.classify(entry, *given, ref=lambda x, w, b: torch.nn.functional.linear(x.float(), w.float(), b.float()),
                        explain=["divergence"], budget=False)  # fmt: skip
    source, start = inspect.getsourcelines(linear_kernel.fn)
    (wanted,) = [start + n for n, line in enumerate(source) if line.endswith(text)]
    assert (v.label, v.divergence.line) == ("Type-II", wanted), v.divergence.sentence


def test_a_tensor_of_another_shape_has_no_such_element() -> None:
    values = np.arange(1.0, 13.0)
    known, ends = Known("t", values, placed=values.reshape(3, 4)), (np.array([6.9]), np.array([7.1]))
    assert there(known, (1, 2), *ends)
    assert not any(there(known, index, *ends) for index in ((5, 1), (1,), (0, 0), (1, 2, 0)))
