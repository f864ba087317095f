"""Every fact that a verdict tells is typed by what it rests on."""

from __future__ import annotations

import json

import torch
import triton
import triton.language as tl

from tests.verdicts import classify


@triton.jit
def summing(X, Out, N: tl.constexpr):
    row = tl.program_id(0)
    tl.store(Out + row, tl.sum(tl.load(X + row * N + tl.arange(0, N)), 0))


def total(x, off=1.0):
    out = torch.empty(len(x))
    summing[(len(x),)](x * off if off != 1.0 else x, out, x.shape[1])
    return out


def kinds(v):
    return {e.name: e.kind for e in v.evidence}


def test_a_bug_rests_on_proofs():
    x = torch.rand(4, 64, generator=torch.Generator().manual_seed(0))
    v = classify(total, x, 1.5, ref=lambda x, off: x.sum(1))
    found = kinds(v)
    assert v.code == "RND201"
    assert found["outputs/out/bound/max_half_width"] == found["outputs/out/outside_exact"] == "proof"
    assert found["witness/status"] == "proof" and found["outputs/out/max_abs_diff"] == "measurement"


def test_round_off_says_what_is_an_estimate_and_what_an_index():
    x = torch.rand(4, 64, generator=torch.Generator().manual_seed(0))
    v = classify(total, x, ref=lambda x: x.flip(1).cumsum(1)[:, -1])
    found = kinds(v)
    assert found["outputs/out/worst_usage"] == "index" and found["verdict/paper_rule"] == "measurement"
    assert set(found.values()) <= {"proof", "measurement", "estimate", "index"}
    assert all(e.text for e in v.evidence) and len(found) == len(v.evidence)
    assert json.loads(v.to_json())["evidence"][0]["kind"] in found.values()
