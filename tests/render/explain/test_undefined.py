"""Lanes that the language leaves undefined are reported where they reach an output, and only there."""

from __future__ import annotations

import re

import pytest
import torch
import triton
import triton.language as tl
from lowering import compiled

import render


@triton.jit
def mean_kernel(x, out, n, GUARDED: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i, mask=i < n)
    if GUARDED:
        v = tl.where(i < n, v, 0.0)
    tl.store(out, tl.sum(v, 0) / n)


@triton.jit
def largest_kernel(x, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out, tl.max(tl.load(x + i, mask=i < n), 0))


def mean(guarded):
    def entry(x):
        out = torch.empty(1)
        mean_kernel[(1,)](x, out, x.numel(), guarded, 64)
        return out

    return entry


def largest(x):
    out = torch.empty(1)
    largest_kernel[(1,)](x, out, x.numel(), 64)
    return out


def of_mean(x):
    return x.mean().reshape(1)


@pytest.mark.parametrize("device", ["any", "sm_90", "gfx942"])
@pytest.mark.parametrize("guarded", [True, False])
def test_lanes_that_reach_an_output_are_a_finding_and_decide_where_no_target_is_named(guarded, device):
    verdict = render.classify(mean(guarded), torch.randn(50), ref=of_mean, device=device)
    assert any("undefined" in note for note in verdict.notes) is not guarded
    assert [f.code for f in verdict.findings] == ([] if guarded else ["RND311"])
    decides = not guarded and device == "any"
    assert (verdict.label == "Inconclusive", verdict.code == "RND311") == (decides, decides)
    if not guarded:
        (finding,) = verdict.findings
        assert finding.line == mean_kernel.fn.__code__.co_firstlineno + 3 and (
            verdict.line == finding.line or not decides
        )


def test_a_number_that_a_nan_would_not_be_is_tried_too():
    """The maximum passes over a NaN, and takes a large number."""
    verdict = render.classify(largest, torch.rand(50), ref=lambda x: x.max().reshape(1))
    assert (verdict.label, verdict.code) == ("Inconclusive", "RND311")
    assert "with zeros there, as on NVIDIA and AMD, it is Type-I" in verdict.message


def test_a_bug_stays_one():
    assert render.classify(mean(False), torch.rand(50), ref=lambda x: x.sum().reshape(1)).label == "Type-II"


@triton.jit
def scaled_kernel(x, out, partial, n, HANDS: tl.constexpr, UNGUARDED: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n)
    if HANDS:  # the last program stores what it read past the end, and an earlier element is computed from it
        tl.store(partial + i, v)
        tl.debug_barrier()
        v = tl.load(partial + i)
    if UNGUARDED:
        tl.store(out + i, v + tl.sum(v, 0))
    else:
        tl.store(out + i, v + 1, mask=i < n)


@pytest.mark.parametrize(("hands", "unguarded", "reaches"), [(0, 0, False), (0, 1, True), (1, 1, True), (1, 0, False)])
def test_one_program_with_such_lanes_runs_alone_and_finds_the_same(hands, unguarded, reaches, monkeypatch):
    n, block = 150, 16

    def entry(x):
        size = triton.cdiv(n, block) * block
        out, partial = torch.empty(size if unguarded else n), torch.empty(size)
        scaled_kernel[(triton.cdiv(n, block),)](x, out, partial, n, hands, unguarded, block)
        return out[:n]

    def reference(x):
        if not unguarded:
            return x + 1
        padded = torch.zeros(triton.cdiv(n, block) * block)
        padded[:n] = x
        rows = padded.reshape(-1, block)
        return (rows + rows.sum(1, keepdim=True)).reshape(-1)[:n]

    verdict = render.classify(entry, torch.randn(n), ref=reference)
    assert ([f.code for f in verdict.findings] == ["RND311"]) is reaches
    twice = render.classify(lambda x: (entry(x), entry(x)), torch.randn(n), ref=lambda x: (reference(x),) * 2)
    assert ([f.code for f in twice.findings] == ["RND311"]) is reaches
    monkeypatch.setattr("render.explain.undefined._untouched_alone", lambda entry, run: False)
    assert render.classify(entry, torch.randn(n), ref=reference).findings == verdict.findings


@triton.jit
def shifted_kernel(x, y, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(y + i, tl.load(x + i, mask=i < tl.load(n)))


@triton.jit
def pipelined_kernel(x, y, n, B: tl.constexpr):
    i, m = tl.arange(0, B), tl.load(n)
    acc = tl.zeros([B, B], tl.float32)
    for k in tl.range(0, 4 * B, B, num_stages=3):
        v = tl.load(x + i[:, None] * 4 * B + k + i[None, :], mask=k + i[None, :] < m)
        w = tl.load(x + (k + i)[:, None] * B + i[None, :], mask=(k + i)[:, None] < m)
        acc = tl.dot(v, w, acc)
    tl.store(y + i[:, None] * B + i[None, :], acc)


@pytest.mark.parametrize(("kernel", "dtype", "target"), [
    *((shifted_kernel, "fp16", target) for target in (80, 100, "gfx942", "gfx1100")),
    *((pipelined_kernel, "fp32", target) for target in (80, 100)),
])  # fmt: skip
def test_the_targets_that_are_said_to_put_zeros_there_do(kernel, dtype, target):
    """In the code that Triton makes here: a register is zero before a predicated load, an asynchronous copy has a size
    that may be 0 (PTX ISA: the rest is filled with zeros), a branch around a load brings zeros, and the offset of a
    buffer load lies behind the buffer."""
    texts = compiled(kernel, {"x": dtype, "y": dtype, "n": "i32"}, {"B": 32}, target).asm
    loads, zeros, copies = [], set(), 0
    if isinstance(target, int):
        for line in texts["ptx"].splitlines():
            if found := re.match(r"\s*mov\.\w+\s+(%\w+), 0x0;", line):
                zeros.add(found[1])
            elif found := re.match(r"\s*@!?%p\d+ ld\.global[.\w]* \{([^}]*)\}", line):
                loads.append(set(found[1].replace(" ", "").split(",")) <= zeros)
            elif "cp.async" in line and "[" in line:
                loads.append(re.search(r"\], 0x\w+, %r\d+;", line) is not None)
                copies += 1
    else:
        text = texts["llir"]
        read = set(re.findall(r"(%\d+) = load <1 x (?!i32)", text))
        joined = re.findall(r"= phi <1 x \w+> \[ (%\d+), %\d+ \], \[ (\S+), ", text)
        loads += [other == "zeroinitializer" for one, other in joined if one in read]
        behind = set(re.findall(r"(%\d+) = select i1 %\d+, i32 %\d+, i32 -2147483648", text))
        loads += [
            o in behind for o in re.findall(r"@llvm\.amdgcn\.raw\.ptr\.buffer\.load\S*\(\S+ \S+ \S+, i32 (%\d+)", text)
        ]
    assert loads and all(loads)
    assert copies > 0 or kernel is shifted_kernel or target != 80


@triton.jit
def doors_kernel(open_, B: tl.constexpr):
    i = tl.program_id(0)
    tl.store(open_ + i, 1.0)


@triton.jit
def behind_kernel(x, open_, out, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n)
    tl.store(out + tl.program_id(0), tl.sum(tl.where(tl.load(open_) > 0.5, v, 0.0), 0))


def behind(x):
    programs = triton.cdiv(x.numel(), 16)
    open_, out = torch.zeros(programs), torch.empty(programs)
    doors_kernel[(programs,)](open_, 16)
    behind_kernel[(programs,)](x, open_, out, x.numel(), 16)
    return out


def of_blocks(x):
    return torch.nn.functional.pad(x, (0, -x.numel() % 16)).reshape(-1, 16).sum(1)


def test_lanes_count_that_reach_an_output_by_what_another_program_stored():
    """Alone, the one program with such lanes finds nothing of it and stores the same whatever is there."""
    verdict = render.classify(behind, torch.randn(16 * 64 - 3), ref=of_blocks)
    assert [f.code for f in verdict.findings] == ["RND311"]
