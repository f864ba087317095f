"""`sum_order="tree"`: kernels whose bounds rest on the order of Triton's lowering."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from interval_ops.profiles.profile import load_profile
from render.interpreter.session import Session
from render.lab.adversary import subjects
from render.lab.adversary.attack import attack

CHOSEN = [("tree", "any"), ("tree", "off"), ("any", "off"), ("any", "on")]


@triton.jit
def norm(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + tl.program_id(0) * N + i)
    mean = tl.sum(v, 0) / N
    d = v - mean
    tl.store(out + tl.program_id(0) * N + i, d * tl.rsqrt(tl.sum(d * d, 0) / N + 1e-5))


@triton.jit
def matmul(a, b, out, K, M: tl.constexpr, B: tl.constexpr):
    m = tl.arange(0, M)
    k = tl.arange(0, B)
    acc = tl.zeros((M, M), tl.float32)
    for start in range(0, K, B):
        x = tl.load(a + m[:, None] * K + start + k[None, :])
        y = tl.load(b + (start + k[:, None]) * M + m[None, :])
        acc += tl.dot(x, y, input_precision="ieee")
    tl.store(out + m[:, None] * M + m[None, :], acc)


def widths(kernel: str, **options: str) -> tuple[np.ndarray, np.ndarray]:
    """(half-widths, values inside) of one launch on fixed inputs."""
    torch.manual_seed(0)
    with Session("sm_90", **options) as s:  # type: ignore[arg-type]
        if kernel == "norm":
            x = torch.randn(4, 1024)
            out = torch.empty_like(x)
            norm[(4,)](x, out, 1024)
        else:
            a, b = torch.randn(16, 256), torch.randn(256, 16)
            out = torch.empty(16, 16)
            matmul[(1,)](a, b, out, 256, 16, 32)
        found = s.envelope(out)
    assert found is not None and not s.findings
    v = out.double().numpy()
    return (found.hi - found.lo) / 2, (found.lo <= v) & (v <= found.hi)


@pytest.mark.parametrize("kernel", ["norm", "matmul"])
def test_bounds_shrink_and_hold_the_value(kernel: str) -> None:
    wide, _ = widths(kernel)
    narrow, inside = widths(kernel, sum_order="tree", triton_version="3.9")
    assert inside.all() and (narrow <= wide).all()
    assert np.median(narrow / wide) < 0.2


def test_versions_before_3_8_keep_any_order_for_reductions() -> None:
    wide, _ = widths("norm")
    older, _ = widths("norm", sum_order="tree", triton_version="3.7")
    assert np.array_equal(older, wide)
    chain, _ = widths("matmul", sum_order="tree", triton_version="3.6")
    assert (chain < 0.5 * widths("matmul")[0]).all()


@pytest.mark.parametrize("kernel", ["norm", "matmul"])
def test_contraction_changes_no_bound(kernel: str) -> None:
    """Bounds hold the exact product beside the rounded one for the sake of the exact result, contracted or not."""
    both = widths(kernel)[0]
    for choice in ("on", "off"):
        assert np.array_equal(widths(kernel, fp_contraction=choice)[0], both)


@pytest.mark.parametrize(("order", "contraction"), CHOSEN)
@pytest.mark.parametrize("subject", [
    subjects.rows("sum", "fp32", 128), subjects.rows("sum", "fp16", 64), subjects.rows("variance", "fp32", 64),
    subjects.rows("prod", "fp32", 32), subjects.dots("fp32", "chained", "ieee"), subjects.dots("fp32", "added", "ieee"),
    subjects.softmax(), subjects.binary("chain", "fp32"),
], ids=lambda s: s.name)  # fmt: skip
def test_no_execution_in_the_known_order_leaves_the_bounds(order: str, contraction: str, subject) -> None:
    profile = load_profile("sm_90").chosen(order, contraction)
    tally = attack(subject, profile, seed=5, seconds=0.0, runs=13)
    assert tally.checks and not tally.violations


def test_turing_chains_in_order() -> None:
    for subject in (subjects.dots("fp16", "added"), subjects.dots("fp16", "chained", acc="fp16")):
        assert not attack(subject, load_profile("sm_75").chosen("tree"), seed=3, seconds=0.0, runs=13).violations


def test_unknown_choices_are_refused() -> None:
    with pytest.raises(ValueError, match="unknown sum order"):
        Session(sum_order="sorted")
    with pytest.raises(ValueError, match="no version of Triton"):
        Session(triton_version="2.1")
