"""Formats inside a kernel that are coarser than what it takes and returns."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

import render
from render.result.records import Downgrade

N, K = 16, 64


@triton.jit
def multiplying(X, Y, Out, Two, N: tl.constexpr, K: tl.constexpr, INNER: tl.constexpr):
    i, k = tl.arange(0, N), tl.arange(0, K)
    x = tl.load(X + i[:, None] * K + k[None, :])
    y = tl.load(Y + k[:, None] * N + i[None, :])
    z = tl.dot(x, y, input_precision="ieee")
    at = i[:, None] * N + i[None, :]
    tl.store(Out + at, z.to(INNER))
    tl.store(Two + i, tl.sum(x.to(tl.float32), axis=1))


def multiplied(x, y, inner):
    out, two = torch.empty(len(x), len(x), dtype=x.dtype), torch.empty(len(x))
    multiplying[(1,)](x, y, out, two, len(x), x.shape[1], inner)
    return out, two


def exactly(x, y, inner):
    return x @ y, x.float().sum(1)


def judged(dtype, inner):
    x, y = (torch.randn(n, m, generator=torch.Generator().manual_seed(n)).to(dtype) for n, m in ((N, K), (K, N)))
    return render.classify(multiplied, x, y, inner, ref=exactly).wait()


def test_a_coarser_cast_is_named_with_its_line_and_price():
    found = judged(torch.float32, tl.bfloat16)
    assert (found.label, found.subtype) == ("Type-I", "downgrade")
    price = found.downgrade
    assert (price.fmt, price.outer, price.output) == ("bf16", "fp32", "out")
    assert price.line == multiplying.fn.__code__.co_firstlineno + 7
    assert price.share > 0.9 and price.shrink > 10
    assert price.sentence in found.notes
    assert found.to_dict()["downgrade"]["fmt"] == "bf16"


@pytest.mark.parametrize(("dtype", "inner"), [(torch.float32, tl.float32), (torch.float16, tl.float16),
                                              (torch.bfloat16, tl.float16)])  # fmt: skip
def test_formats_as_fine_as_the_interface_are_no_downgrade(dtype, inner):
    found = judged(dtype, inner)
    assert found.label == "Type-I"
    assert found.downgrade is None and found.subtype != "downgrade"


def test_the_sentence_claims_a_factor_only_where_a_run_gave_one():
    where = "precision downgrade: bf16 at k.py:7 is coarser than the interface (fp32)"
    said = f"{where} and owns 93 % of the bound of c"
    assert Downgrade("bf16", "fp32", "c", "k.py", 7, 0.93).sentence == said
    priced = Downgrade("bf16", "fp32", "c", "k.py", 7, 0.93, 72.4).sentence
    assert priced == f"{said}, which is 72x narrower without such roundings (re-run)"


@triton.jit
def products_of(X, Y, Out, B: tl.constexpr):
    c = tl.arange(0, B)
    tl.store(Out + c, (tl.load(X + c) * tl.load(Y + c)).to(Out.dtype.element_ty))


def into(make):
    def run(x, y):
        out = make(x)
        products_of[(1,)](x, y, out, 64)
        return out

    return run


NARROW = {
    "empty": into(lambda x: torch.empty(x.shape, dtype=torch.bfloat16)),
    "zeros_like": into(lambda x: torch.zeros_like(x, dtype=torch.float16)),
    "new_full": into(lambda x: x.new_full(x.shape, 1.0, dtype=torch.float16)),
}


@pytest.mark.parametrize("name", NARROW)
def test_an_output_of_fewer_bits_than_everything_else_is_named_with_its_allocation(name):
    x, y = (torch.randn(64, generator=torch.Generator().manual_seed(i)) for i in range(2))
    v = render.classify(NARROW[name], x, y, ref=torch.mul)
    assert (v.label, v.subtype, v.downgrade.allocated) == ("Type-I", "downgrade", True)
    with open(v.downgrade.file) as file:
        assert name in file.read().splitlines()[v.downgrade.line - 1]
    assert v.downgrade.share > 0.9 and v.downgrade.sentence in v.notes


def test_an_output_as_narrow_as_an_input_is_none():
    x, y = torch.randn(64).bfloat16(), torch.randn(64)
    v = render.classify(NARROW["empty"], x, y, ref=torch.mul)
    assert v.downgrade is None or not v.downgrade.allocated
