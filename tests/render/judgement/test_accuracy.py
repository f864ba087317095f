"""Sums that are kept in fewer bits than float32: degraded, with their line, by one classification of one input."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

import render
from kernels import layer_norm
from render.judgement import accuracy
from render.judgement.accuracy import Accuracy
from render.trace.declared import DeclaredBand
from tests.render.companions import products


@triton.jit
def summing_up(A, B, C, n, k, share, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for start in range(0, share, BLOCK):
        inner = tl.program_id(2) * share + start + tl.arange(0, BLOCK)
        a = tl.load(A + row[:, None] * k + inner[None, :])
        total += tl.dot(a, tl.load(B + inner[:, None] * n + column[None, :]))
    tl.atomic_add(C + row[:, None] * n + column[None, :], total.to(C.dtype.element_ty))


@triton.jit
def in_chunks(A, B, C, n, k, CHUNK: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    whole = tl.zeros((BLOCK, BLOCK), dtype=tl.float16)
    for first in range(0, k, CHUNK):
        total = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
        for start in range(0, CHUNK, BLOCK):
            inner = first + start + tl.arange(0, BLOCK)
            a = tl.load(A + row[:, None] * k + inner[None, :])
            total += tl.dot(a, tl.load(B + inner[:, None] * n + column[None, :]))
        whole = (whole + total).to(tl.float16)
    tl.store(C + row[:, None] * n + column[None, :], whole)


@triton.jit
def lanes(X, Out, N, BLOCK: tl.constexpr, KEPT: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), KEPT)
    for start in range(0, N, BLOCK):
        total += tl.load(X + row * N + start + tl.arange(0, BLOCK)).to(KEPT)
    tl.store(Out + row, tl.sum(total, 0))


def atomic(kept):
    def launch(a, b):
        c = torch.zeros((a.shape[0], b.shape[1]), dtype=kept)
        k = a.shape[1]
        summing_up[(a.shape[0] // 32, b.shape[1] // 32, 16)](a, b, c, b.shape[1], k, k // 16, BLOCK=32)
        return c.to(a.dtype)

    return launch


def partials(kept, store, summed_by="kernel"):
    def launch(a, b):
        (m, k), n = a.shape, b.shape[1]
        p = torch.empty((16, m, n), dtype=kept)
        products.split_kernel[(m // 32, n // 32, 16)](a, b, p, n, k, k // 16, BLOCK=32, STORE=store)
        if summed_by == "host":
            return p.sum(0).to(a.dtype)
        c = torch.empty((m, n), dtype=a.dtype)
        products.add_kernel[(m * n // 128,)](p, c, m * n, 16, BLOCK=128)
        return c

    return launch


def chunked(a, b):
    c = torch.empty((a.shape[0], b.shape[1]), dtype=torch.float16)
    in_chunks[(a.shape[0] // 32, b.shape[1] // 32)](a, b, c, b.shape[1], a.shape[1], CHUNK=256, BLOCK=32)
    return c


def rows(kept):
    def launch(x):
        o = torch.empty(x.shape[0], dtype=torch.float16)
        lanes[(x.shape[0],)](x, o, x.shape[1], 64, kept)
        return o

    return launch


def draw(k=2048, dtype=torch.float16, size=32):
    g = torch.Generator().manual_seed(7)
    return torch.randn(size, k, generator=g).to(dtype), torch.randn(k, size, generator=g).to(dtype)


SHORT = {
    "fp16 partials": (partials(torch.float16, tl.float16), torch.float16, "partials (fp16)"),
    "fp16 partials, summed by torch": (partials(torch.float16, tl.float16, "host"), torch.float16, "partials (fp16)"),
    "bf16 partials": (partials(torch.bfloat16, tl.bfloat16), torch.bfloat16, "partials (bf16)"),
    "fp16 atomics": (atomic(torch.float16), torch.float16, "fp16 accumulator"),
    "fp16 total of chunks": (chunked, torch.float16, "fp16 accumulator"),
    "fp16 accumulator, not hollow": (products.half_acc, torch.float16, "fp16 accumulator"),
}
LONG = {
    "fp32 accumulator": (products.single, torch.float16),
    "fp32 partials": (partials(torch.float32, tl.float32), torch.float16),
    "fp32 partials of bf16": (partials(torch.float32, tl.float32), torch.bfloat16),
    "fp32 atomics": (atomic(torch.float32), torch.float16),
}


@pytest.mark.parametrize("name", SHORT)
def test_sums_that_are_kept_short_are_degraded(name):
    launch, dtype, named = SHORT[name]
    v = render.classify(launch, *draw(256 if "hollow" in name else 2048, dtype), ref=products.reference)
    assert (v.label, v.code, v.subtype) == ("Type-I", "RND111", "degraded")
    assert named in v.message and v.file and v.outputs[0].code == "RND111"
    assert any("further off than float32 sums" in note for note in v.notes)
    assert v.differs is None or named in v.differs.sentence  # not "casts", nor "elementwise arithmetic"
    kinds = {e.name.rpartition("/")[2]: e.kind for e in v.evidence}
    assert (kinds["declared"], kinds["less_accurate"], kinds["loss"]) == ("estimate", "measurement", "measurement")
    assert kinds.get("vrr", "index") == "index"


@pytest.mark.parametrize("name", LONG)
def test_sums_in_float32_are_not(name):
    launch, dtype = LONG[name]
    v = render.classify(launch, *draw(2048, dtype), ref=products.reference)
    assert v.label == "Type-I" and v.subtype not in ("degraded", "probabilistic")
    lost = {e.name.rpartition("/")[2]: e for e in v.evidence if e.name.startswith("accumulators/")}
    assert lost["loss"].kind == "measurement" and "this fp32 accumulator loses" in lost["loss"].text
    assert lost["vrr"].kind == "index" and 0 < lost["loss"].value < 1e-3 < lost["vrr"].value <= 1


def test_rows_in_lanes_of_float16():
    x = torch.randn(64, 2048, generator=torch.Generator().manual_seed(1)).half()
    short, long = (render.classify(rows(kept), x, ref=lambda x: x.sum(1)) for kept in (tl.float16, tl.float32))
    assert (short.code, long.subtype == "degraded") == ("RND111", False)


@triton.jit
def decaying(X, Y, n, C, BLOCK: tl.constexpr, KEPT: tl.constexpr):
    c = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), KEPT)
    for t in range(n):
        total = total * 0.75 + tl.load(X + t * C + c)
    tl.store(Y + c, total)


@pytest.mark.parametrize(("kept", "code"), [(tl.float16, "RND111"), (tl.float32, "RND1")])
def test_a_sum_that_decays_and_casts_nothing(kept, code):
    """No cast, dot or atomic: arithmetic in fp16 alone keeps the sum short."""

    def launch(x):
        y = torch.empty(x.shape[1], dtype=x.dtype)
        decaying[(x.shape[1] // 32,)](x, y, *x.shape, 32, kept)
        return y

    def reference(x):
        weights = 0.75 ** torch.arange(len(x) - 1, -1, -1, dtype=torch.float64)
        return (x.double() * weights[:, None]).sum(0).to(x.dtype)

    torch.manual_seed(0)
    v = render.classify(launch, torch.randn(40, 64).half(), ref=reference)
    assert v.label == "Type-I" and v.code.startswith(code)
    assert (v.subtype == "degraded") == (kept == tl.float16)
    assert kept == tl.float32 or "fp16 accumulator" in v.message


def in_short_parts(a, b):
    k = a.shape[1] // 16
    return sum((a[:, i : i + k] @ b[i : i + k]).float() for i in range(0, a.shape[1], k)).to(a.dtype)


def test_a_reference_that_keeps_its_sums_as_short_accuses_nobody():
    v = render.classify(partials(torch.float16, tl.float16), *draw(), ref=in_short_parts)
    assert v.label == "Type-I" and v.subtype != "degraded"


def test_an_accumulator_under_a_hollow_bound_is_named():
    v = render.classify(products.half_acc, *draw(4096), ref=products.reference)
    assert (v.label, v.code, v.subtype) == ("Type-I", "RND120", "probabilistic")
    assert "fp16 accumulator, products.py" in v.message and "suffice" in v.message


def test_a_device_whose_errors_no_execution_has_is_no_round_off():
    """Float32 accumulation under a loose bound; a device that keeps partials in float16 is ten times further off."""
    a, b = draw(4096)
    with render.no_gpu():
        devices = [launch(a, b) for launch in (products.split_single, products.split_half)]
    like, unlike = (render.classify(products.single, a, b, ref=products.reference, output=y) for y in devices)
    assert like.label == "Type-I" and unlike.outputs[0].outside_device == 0
    assert (unlike.label, unlike.code) == ("Inconclusive", "RND301") and "no accumulator" in unlike.message


@pytest.mark.parametrize(
    ("outside", "reference", "elements", "worse"),
    [(1, 0, 1, True), (0, 0, 1, False), (9, 0, 1000, False), (10, 0, 1000, True), (10, 6, 1000, False)],
)
def test_many_of_the_kernel_and_few_of_the_reference(outside, reference, elements, worse):
    band = DeclaredBand("c", np.zeros(1), 2.0, 0.5, False, None, 0.0, ())
    assert Accuracy(band, outside, reference, elements, 2.0, ()).worse is worse


def test_what_a_first_look_settles_asks_for_no_other_run(monkeypatch):
    """Whether the whole sample is asked for or a part of it, label and code are the same."""
    asked, whole = [], accuracy.bands_of
    monkeypatch.setattr(accuracy, "bands_of", lambda *args: (asked.append(args[2]), whole(*args))[1])
    inputs = layer_norm.make_inputs(rows=16, cols=100)
    first = render.classify(layer_norm.layer_norm, *inputs, ref=layer_norm.reference)
    monkeypatch.setattr(accuracy, "_settled", lambda case, cut: None)
    other = render.classify(layer_norm.layer_norm, *inputs, ref=layer_norm.reference)
    assert (first.label, first.code, first.subtype) == (other.label, other.code, other.subtype)
    assert len(asked) == 2 and len(asked[0]) < len(asked[1])
