"""Mistakes in what a launch hands to a kernel that is right: the line of the argument is named."""

from __future__ import annotations

import pytest

import render
from render.entry.target import load_module
from render.explain.launched import _likeness

TEXT = """import torch
import triton
import triton.language as tl


@triton.jit
def scaled(X, W, Y, M, N, sx, sy, gain, eps, B: tl.constexpr):
    i, a = tl.program_id(0), tl.arange(0, B)
    x = tl.load(X + i * sx + a, mask=a < N, other=0.0)
    w = tl.load(W + i * sx + a, mask=a < N, other=0.0)
    v = tl.sum(x * x, 0) / N
    tl.store(Y + i * sy + a, x * gain / tl.sqrt(v + eps) + w, mask=a < N)


def launch(x, w):
    m, n = x.shape
    y = torch.zeros_like(x)
    scaled[(m,)](
        x,
        w,
        y,
        m,
        n,
        x.stride(0),
        y.stride(0),
        1.5,
        1e-3,
        32,
    )
    return y


def reference(x, w):
    return x * 1.5 * torch.rsqrt((x * x).mean(1, keepdim=True) + 1e-3) + w
"""
WRONG = {
    "a stride of another tensor": ("        x.stride(0),\n", "        y.stride(0),\n"),
    "one column less": ("        n,\n", "        n - 1,\n"),
    "a number": ("        1.5,\n", "        1.6,\n"),
    "numbers exchanged": ("        1.5,\n        1e-3,\n", "        1e-3,\n        1.5,\n"),
    "tensors exchanged": ("        x,\n        w,\n", "        w,\n        x,\n"),
    "a block too small": ("        32,\n", "        16,\n"),
    "a program less": ("scaled[(m,)]", "scaled[(m - 1,)]"),
}


def judged(tmp_path, text):
    import torch

    path = tmp_path / "handed.py"
    path.write_text(text)
    module = load_module(path)
    g = torch.Generator().manual_seed(1)
    x, w = (torch.randn(12, 24, generator=g)[:, :20] for _ in range(2))
    return render.classify(module.launch, x, w, ref=module.reference, device="sm_90")


def test_a_right_launch(tmp_path):
    assert judged(tmp_path, TEXT).label == "Type-I"


@pytest.mark.parametrize("name", WRONG)
def test_the_argument_is_named(tmp_path, name):
    was, now = WRONG[name]
    line = TEXT[: TEXT.index(was)].count("\n") + 1
    v = judged(tmp_path, TEXT.replace(was, now, 1))
    assert v.label == "Type-II"
    assert v.guilty is not None and abs(v.guilty.line - line) <= 1, v.guilty
    assert v.guilty.file.endswith("handed.py") and v.line == v.guilty.line


def test_what_a_kernel_does_not_read_is_missing_there(tmp_path):
    """N in place of M in the kernel: handing over another number would repair it, and the kernel is wrong."""
    text = TEXT.replace("i * sy + a", "i * sx + a")
    v = judged(tmp_path, text)
    line = text[: text.index("i * sx + a, x * gain")].count("\n") + 1
    assert v.label == "Type-II" and v.line and abs(v.line - line) <= 3, (v.line, line)


@pytest.mark.parametrize(
    ("parameter", "text", "count"),
    [("C", "ang.cos()", 1), ("C", "ang.sin()", 0), ("stride_x", "x.stride(0)", 2), ("W", "w", 1), ("bias_", "b", 0)],
)
def test_words_of_a_call_that_a_parameter_has(parameter, text, count):
    assert _likeness(parameter, text) == count


PASSED_ON = """
class Through:
    def __init__(self, kernel):
        self.kernel = kernel

    def __getitem__(self, grid):
        def call(*args, **kwargs):
            return self.kernel[grid](*args, **kwargs)

        return call
"""


@pytest.mark.parametrize("name", ["a number", "one column less"])
def test_a_launcher_of_the_user_s_own_is_not_the_place(tmp_path, name):
    """What passes on `*args` is a library's own launcher, as flag_gems has it: its caller is meant."""
    was, now = WRONG[name]
    text = TEXT.replace("def launch", PASSED_ON.lstrip() + "\n\ndef launch").replace(
        "scaled[(m,)]", "Through(scaled)[(m,)]"
    )
    first = text[: text.index("Through(scaled)")].count("\n") + 1
    last = text[: text.index("    return y")].count("\n") + 1
    v = judged(tmp_path, text.replace(was, now, 1))
    assert v.label == "Type-II" and v.guilty is not None and first <= v.guilty.line <= last, v.guilty
