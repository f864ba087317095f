"""Programs that leave loops at different turns run together, and get what they get alone."""

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from render.interpreter.lockstep import together
from render.interpreter.session import Session

N = 24


@triton.jit
def while_scalar(x, counts, out, W: tl.constexpr):
    pid = tl.program_id(0)
    i, total = 0, 0.0
    while i < tl.load(counts + pid):
        total += tl.load(x + i * 3 + pid) * 1.7
        i += 1
    tl.store(out + pid * W + tl.arange(0, W), total + tl.arange(0, W))


@triton.jit
def for_block(x, counts, out, W: tl.constexpr):
    pid = tl.program_id(0)
    total = tl.zeros([W], tl.float32)
    for i in range(pid % 3, tl.load(counts + pid), 2):
        total = total * 0.3 + tl.exp(tl.load(x + i * W + tl.arange(0, W)))
    tl.store(out + pid * W + tl.arange(0, W), total)


@triton.jit
def nested(x, counts, out, W: tl.constexpr):
    pid = tl.program_id(0)
    n = tl.load(counts + pid)
    total = tl.zeros([W], tl.float32)
    i = 0
    while i < n:
        j = i
        part = tl.load(x + pid + tl.arange(0, W))
        while j > 0:
            part = part * 0.9 + tl.load(x + j)
            j -= 2
        for k in range(i):
            part -= k / 7
        total += part
        i += 1
    tl.store(out + pid * W + tl.arange(0, W), total)


@triton.jit
def halved(v, n):
    while n > 1:
        v = v * 0.5 + n
        n = n // 2
    return v


@triton.jit
def helper_and_branch(x, counts, out, W: tl.constexpr):
    pid = tl.program_id(0)
    total = tl.load(x + pid + tl.arange(0, W))
    for i in range(tl.load(counts + pid)):
        if i % 2 == 0:
            total = halved(total, i + pid)
        else:
            total = total - i
            total *= 0.7
    tl.store(out + pid * W + tl.arange(0, W), total)


@triton.jit
def moved_pointers_and_stores(x, counts, out, W: tl.constexpr):
    pid = tl.program_id(0)
    here, there = x + pid, out + pid * W
    i = 0
    while i < tl.minimum(tl.load(counts + pid), W):
        tl.store(there, tl.load(here) / 3)
        here += 2
        there += 1
        i += 1


@triton.jit
def first_bound_inside(x, counts, out, W: tl.constexpr):
    pid = tl.program_id(0)
    total = 0.0
    for i in range(tl.load(counts + pid)):
        last = tl.load(x + i) * 1.1
        total += last
    tl.store(out + pid * W + tl.arange(0, W), total + tl.arange(0, W))


@triton.jit
def divides_by_what_is_left(x, counts, out, W: tl.constexpr):
    pid = tl.program_id(0)
    n = tl.load(counts + pid)
    i, total = 0, 0
    while i < n:
        total += 1000 // (n - i)
        i += 1
    tl.store(out + pid * W + tl.arange(0, W), total.to(tl.float32))


@triton.jit
def sums_of_dots(x, counts, out, W: tl.constexpr):
    pid = tl.program_id(0)
    k = tl.arange(0, 16)
    acc = tl.zeros([16, 16], tl.float32)
    for i in range(tl.load(counts + pid)):
        a = tl.load(x + i + k[:, None] * 16 + k[None, :])
        acc = tl.dot(a, a, acc)
    tl.store(out + pid * W + tl.arange(0, W), tl.sum(acc) + tl.arange(0, W))


@triton.jit
def rescaled_dots(x, counts, out, W: tl.constexpr):
    pid = tl.program_id(0)
    k = tl.arange(0, 16)
    acc = tl.zeros([16, 16], tl.float32)
    for i in range(tl.load(counts + pid) + 1):
        a = tl.load(x + i + k[:, None] * 16 + k[None, :]).to(tl.float16)
        acc = acc * 0.5 + tl.dot(a, a)
    tl.store(out + pid * W + tl.arange(0, W), tl.sum(acc) + tl.arange(0, W))


@triton.jit
def atomics(x, counts, out, W: tl.constexpr):
    pid = tl.program_id(0)
    for i in range(tl.load(counts + pid)):
        tl.atomic_add(out + i * W, tl.floor(tl.load(x + i + pid) * 8))


@triton.jit
def two_values(a, b):
    return a + b, a - b


@triton.jit
def tuples(x, counts, out, W: tl.constexpr):
    pid = tl.program_id(0)
    pair = (tl.load(x + pid), tl.load(x + pid + 1))
    for i in range(tl.load(counts + pid)):
        pair = two_values(pair[0] * 0.4, pair[1] + i)
    tl.store(out + pid * W + tl.arange(0, W), pair[0] + pair[1] * tl.arange(0, W))


@triton.jit
def undecided(x, counts, out, W: tl.constexpr):
    pid = tl.program_id(0)
    left = tl.load(counts + pid) * 0.1
    turns = 0
    while left > 0.05:
        left -= 0.1
        turns += 1
    tl.store(out + pid * W + tl.arange(0, W), turns + left + tl.arange(0, W))


@triton.jit
def moved_block(x, counts, out, W: tl.constexpr):
    pid = tl.program_id(0)
    block = tl.make_block_ptr(x, (1024,), (1,), (pid,), (W,), (0,))
    total = tl.zeros([W], tl.float32)
    kind: tl.constexpr = 3
    for _ in range(tl.load(counts + pid)):
        total = total * 0.5 + tl.load(block)
        block = tl.advance(block, (kind,))
    tl.store(out + pid * W + tl.arange(0, W), total + tl.load(block))


@triton.jit
def nested_tuples(x, counts, out, W: tl.constexpr):
    pid = tl.program_id(0)
    state = (tl.load(x + pid), (tl.zeros([W], tl.float32), pid))
    i = 0
    while i < tl.load(counts + pid):
        state = (state[0] * 0.5 + i, (state[1][0] + state[0], state[1][1] + 2))
        i += 1
    tl.store(out + pid * W + tl.arange(0, W), state[0] + state[1][0] * state[1][1])


@triton.jit
def leaves_early(x, counts, out, W: tl.constexpr):
    pid = tl.program_id(0)
    i = tl.arange(0, W)
    best = tl.load(x + pid + i)
    turn = 0
    while (turn < 9) and (tl.max(best) < tl.load(counts + pid)):
        best = tl.maximum(best * 1.5, turn + 0.25)
        turn += 1
        if turn == 7:
            best += 1.0
    tl.store(out + pid * W + i, best + turn)


KERNELS = [
    while_scalar, for_block, nested, helper_and_branch, moved_pointers_and_stores, first_bound_inside,
    divides_by_what_is_left, sums_of_dots, rescaled_dots, atomics, tuples, undecided,
]  # fmt: skip


def run(kernel, counts, chunk=None, device="any"):
    x = torch.randn(1024, generator=torch.Generator().manual_seed(0))
    out = torch.zeros(N, 16)
    with Session(device=device, chunk=chunk) as session:
        kernel[(N,)](x, counts, out, W=16)
    envelope = session.envelope(out)
    findings = [(f.code, f.line, f.count) for f in session.memory.findings]
    taints = {(t.code, t.line) for t in session.memory.taints.all.values()}
    return out, envelope, findings, taints, session.launches[-1].stats


COUNTS = {
    "growing": torch.arange(N, dtype=torch.int32),
    "few": torch.tensor([0, 5, 1, 5] * (N // 4), dtype=torch.int32),
    "random": torch.randint(0, 20, (N,), generator=torch.Generator().manual_seed(1), dtype=torch.int32),
}


CASES = [(k, c) for k in KERNELS for c in COUNTS] + [(k, "few") for k in (moved_block, nested_tuples, leaves_early)]


@pytest.mark.parametrize(("kernel", "counts"), CASES, ids=lambda k: k if isinstance(k, str) else k.fn.__name__)
def test_together_as_alone(kernel, counts):
    out, envelope, findings, taints, _ = run(kernel, COUNTS[counts])
    alone, own, its_findings, its_taints, _ = run(kernel, COUNTS[counts], chunk=1)
    assert torch.equal(out, alone)
    assert findings == its_findings
    assert taints == its_taints
    assert (envelope is None) == (own is None)
    if envelope is not None and own is not None:
        np.testing.assert_array_equal(envelope.lo, own.lo)
        np.testing.assert_array_equal(envelope.hi, own.hi)


@pytest.mark.parametrize("kernel", [while_scalar, for_block, nested, helper_and_branch, moved_pointers_and_stores])
def test_nothing_is_undone(kernel):
    stats = run(kernel, COUNTS["growing"])[-1]
    assert stats.passes == stats.chunks == 1


def test_an_access_outside_counts_for_who_takes_part():
    """Program 3 alone reads behind the end, in its last turn."""
    counts = torch.zeros(N, dtype=torch.int32)
    counts[3] = 342
    findings = run(while_scalar, counts)[2]
    assert [(code, count) for code, _, count in findings] == [("RND207", 1)]


@pytest.mark.parametrize("counts", [[5, 5, 5], [1, 2, 3, 4], [1] * 60 + [1000], list(range(300))])
def test_programs_that_run_together_are_neighbours_by_their_turns(counts):
    part = together(np.array(counts))
    for p in set(part):
        mine = np.array(counts)[part == p]
        others = np.array(counts)[part != p]
        assert not ((others > mine.min()) & (others < mine.max())).any()
