"""Attacks on subjects whose integers move: ties that rounding breaks either way, as addresses, in one launch or two."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from render.lab.adversary.attack import AttackTally, Target
from render.lab.adversary.plan import AttackPlan
from render.lab.adversary.subjects import Subject

ROWS, WIDE = 5, 64


@triton.jit
def routed(X, W, Which, Y, Hot, Count, Sum, WIDE: tl.constexpr):
    r, j = tl.program_id(0), tl.arange(0, WIDE)
    x = tl.load(X + r * WIDE + j)
    p = tl.exp(x - tl.max(x, 0)) / tl.sum(tl.exp(x - tl.max(x, 0)), 0)
    k = tl.argmax(p, 0)
    tl.store(Which + r, k)
    tl.store(Y + r * WIDE + j, tl.load(W + k * WIDE + j) * tl.max(p, 0))
    tl.store(Hot + r * WIDE + k, 1.0)
    tl.atomic_add(Count + k, 1)
    tl.atomic_add(Sum + k, tl.max(p, 0))


@triton.jit
def followed(Which, W, Z, WIDE: tl.constexpr):
    r, j = tl.program_id(0), tl.arange(0, WIDE)
    tl.store(Z + r * WIDE + j, tl.load(W + tl.load(Which + r) * WIDE + j))


def route(x, w):
    which, count, total = torch.zeros(ROWS, dtype=torch.int32), torch.zeros(WIDE, dtype=torch.int32), torch.zeros(WIDE)
    y, hot, z = (torch.zeros(ROWS, WIDE) for _ in range(3))
    routed[(ROWS,)](x, w, which, y, hot, count, total, WIDE=WIDE)
    followed[(ROWS,)](which, w, z, WIDE=WIDE)
    return y, hot, count, total, z


def tied(g, style):
    x = torch.from_numpy(g.normal(size=(ROWS, WIDE)).astype(np.float32))
    for row in range(ROWS):
        x[row, g.permutation(WIDE)[:3]] = 5.0
    return x, torch.from_numpy(g.normal(size=(WIDE, WIDE)).astype(np.float32))


@pytest.mark.parametrize("profile", ["any", "sm_90"])
def test_no_execution_leaves_the_bounds(profile):
    target, tally = Target(Subject("route", route, tied), profile, "normal", 1), AttackTally()
    target.check_own(tally)
    assert all(bounds is not None for bounds in target.bounds)
    seen = set()
    for seed in range(20):
        plan = AttackPlan(seed)
        found = target.run(plan)
        target.check(found, plan, tally)
        seen.add(found[1].tobytes())
    assert not tally.violated
    assert len(seen) > 1, "no integer moved"
