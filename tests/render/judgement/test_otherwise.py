"""References that decide by their own rounding: kernels that decide as float64 does, or as they do, and wrong ones."""

from __future__ import annotations

from itertools import product

import pytest
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

from tests.verdicts import classify


@triton.jit
def decisions(X, S, V, Y, KIND: tl.constexpr, NARROW: tl.constexpr, GAIN: tl.constexpr, C: tl.constexpr):
    c = tl.arange(0, C)
    x = tl.load(X + tl.program_id(0) * C + c)
    v = tl.load(V + c).to(tl.float32)
    q = x.to(tl.float32) / tl.load(S).to(tl.float32)
    if NARROW:  # in the reference's own type
        q = q.to(x.dtype).to(tl.float32)
    q = q * GAIN
    if KIND == "truncated":
        y = q.to(tl.int8).to(tl.float32) * v
    elif KIND == "rounded":
        y = libdevice.rint(q).to(tl.int32).to(tl.float32) * v
    elif KIND == "floor":
        y = tl.floor(q) * v
    elif KIND == "threshold":
        y = tl.where(q > 50.0, v, 0.25)
    elif KIND == "packed":
        y = (((libdevice.rint(q).to(tl.int32) + 128) << 2) >> 1).to(tl.float32) * v
    else:  # counted
        y = tl.sum((q > 10.0).to(tl.float32), 0) + v
    tl.store(Y + tl.program_id(0) * C + c, y)


REFERENCES = {
    "truncated": lambda q, v: q.to(torch.int8) * v,
    "rounded": lambda q, v: torch.round(q).to(torch.int32) * v,
    "floor": lambda q, v: torch.floor(q).float() * v,
    "threshold": lambda q, v: torch.where(q > 50.0, v, 0.25),
    "packed": lambda q, v: (((torch.round(q).to(torch.int32) + 128) << 2) >> 1) * v,
    "counted": lambda q, v: (q > 10.0).sum(1, keepdim=True) + v,
}
"""Of the quotient in the inputs' own type, and of factors in float32."""


def judged(kind, dtype, narrow, gain):
    g = torch.Generator().manual_seed(1)
    x = torch.randn(16, 128, generator=g).to(dtype)
    s = (x.abs().max() / 120).reshape(1)
    v = torch.rand(128, generator=g) + 0.5

    def launch(x, s, v):
        y = torch.empty(x.shape)
        decisions[(16,)](x, s, v, y, kind, narrow, gain, 128)
        return y

    return classify(launch, x, s, v, ref=lambda x, s, v: REFERENCES[kind](x / s, v).float())


ALL = list(product(REFERENCES, (torch.float16, torch.bfloat16), (False, True)))
QUICK = [
    ("truncated", torch.float16, False),
    ("packed", torch.float16, True),
    ("threshold", torch.bfloat16, False),
    ("counted", torch.float16, True),
]
FORMS = [pytest.param(*one, marks=() if one in QUICK else pytest.mark.slow) for one in ALL]


@pytest.mark.parametrize(("kind", "dtype", "narrow"), FORMS)
def test_either_decision_is_round_off(kind, dtype, narrow):
    found = judged(kind, dtype, narrow, 1.0)
    assert found.label == "Type-I", found


@pytest.mark.parametrize(("kind", "dtype", "narrow"), FORMS)
def test_a_wrong_factor_before_the_decision_is_a_bug(kind, dtype, narrow):
    found = judged(kind, dtype, narrow, 1.02)
    assert found.label == "Type-II", found


def test_that_a_decision_was_the_kernels_is_told():
    found = judged("truncated", torch.float16, False, 1.0)
    assert found.code == "RND110" and any("decides by its own rounding" in note for note in found.notes)
