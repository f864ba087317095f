"""Formulas of integers hold every combination, and integer outputs have witnesses."""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from render.classify import classify
from render.exact.points import integer, number
from render.trace.integers import COMPARED, OPERATIONS
from render.witness.integers import RULES
from tests.support import rng

NATIVE = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "minsi": np.minimum, "maxsi": np.maximum,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "shl": np.left_shift, "ashr": np.right_shift,
}  # fmt: skip


def evaluated(name: str, dtype: str, ends: list[tuple[int, int]]):
    evaluator = SimpleNamespace(args=lambda op, k: [(number(a), number(b)) for a, b in ends])
    return RULES[name](evaluator, SimpleNamespace(attrs={"type": dtype}), 0)


def test_every_operation_that_is_followed_has_a_formula():
    assert {f"int {op}" for op in OPERATIONS} | {"to_integer", "int dot"} == set(RULES)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32"])
@pytest.mark.parametrize("name", [*NATIVE, *(f"icmp{c}" for c in COMPARED)])
def test_all_combinations_are_held(name, dtype):
    g, info, held = rng(1), np.iinfo(dtype), 0
    for _ in range(60):
        lows = [int(x) for x in g.integers(max(info.min, -12), 12, 2)]
        lows[1] = abs(lows[1]) % 5 if name in ("shl", "ashr") else lows[1]
        ends = [(x, x + int(w)) for x, w in zip(lows, g.integers(0, 3, 2), strict=True)]
        got = evaluated(f"int {name}", dtype, ends)
        if got is None:
            continue
        held += 1
        for a, b in product(*(range(lo, hi + 1) for lo, hi in ends)):
            x, y = np.array([a], dtype), np.array([b], dtype)
            if name.startswith("icmp"):
                truth = bool(COMPARED[name.removeprefix("icmp")](x, y)[0])
                assert got[0] <= truth <= got[1]
            else:
                with np.errstate(over="ignore"):
                    assert integer(got[0]) <= int(NATIVE[name](x, y)[0]) <= integer(got[1])
    assert held > 20


@pytest.mark.parametrize(("lo", "hi", "cut"), [(1.5, 2.5, (1, 2)), (-0.9, 0.9, (0, 0)), (-3.5, -2.0, (-3, -2))])
def test_a_float_is_cut_towards_zero(lo, hi, cut):
    evaluator = SimpleNamespace(args=lambda op, k: [(number(lo), number(hi))])
    found = RULES["to_integer"](evaluator, SimpleNamespace(attrs={"type": "int8"}), 0)
    assert (integer(found[0]), integer(found[1])) == cut


@pytest.mark.parametrize(("name", "ends"), [("int add", [(100, 100), (20, 30)]), ("int mul", [(-64, 2), (-2, 3)])])
def test_what_may_wrap_around_is_anything(name, ends):
    lo, hi = evaluated(name, "int8", ends)
    assert (integer(lo), integer(hi)) == (-128, 127)


@pytest.mark.parametrize(
    ("name", "ends", "residues"),
    [
        ("int add", [(100, 101), (100, 102)], (-56, -53)),
        ("int sub", [(-100, -100), (100, 120)], (36, 56)),
        ("int mul", [(100, 100), (7, 7)], (-68, -68)),
        ("int int_cast", [(-2072, -2070)], (-24, -22)),
    ],
)
def test_what_surely_wraps_around_is_its_residue(name, ends, residues):
    lo, hi = evaluated(name, "int8", ends)
    assert (integer(lo), integer(hi)) == residues
    several = [np.arange(a, b + 1).astype(np.int64) for a, b in ends]
    grid = np.meshgrid(*several)
    operation = {"int add": np.add, "int sub": np.subtract, "int mul": np.multiply}.get(name, lambda x: x)
    native = operation(*grid).astype(np.int8)
    assert (native.min(), native.max()) == residues


@triton.jit
def packer(X, Q, S, N: tl.constexpr, OFFSET: tl.constexpr):
    i = tl.arange(0, N)
    a, b = tl.load(X + 2 * i), tl.load(X + 2 * i + 1)
    scale = tl.maximum(tl.max(tl.abs(a), 0), tl.max(tl.abs(b), 0)) / 7.0
    a = tl.math.floor(a / scale + 0.5).to(tl.int32) + OFFSET
    b = tl.where(b >= 0, b / scale + 0.5, b / scale - 0.5).to(tl.int32)
    b = tl.minimum(tl.maximum(b, -8), 7) + 8
    tl.store(Q + i, ((a & 15) | (b << 4)).to(tl.uint8))
    tl.store(S, scale)


def packed(offset: int):
    def pack(x):
        q, s = torch.empty(x.numel() // 2, dtype=torch.uint8), torch.empty(1)
        packer[(1,)](x, q, s, N=q.numel(), OFFSET=offset)
        return q, s

    return pack


def reference(x):
    s = x.abs().max() / 7
    a, b = torch.floor(x[::2] / s + 0.5), torch.trunc(x[1::2] / s + torch.where(x[1::2] >= 0, 0.5, -0.5))
    return ((a.int() + 8) | ((b.clamp(-8, 7).int() + 8) << 4)).to(torch.uint8), s[None]


def test_a_wrong_integer_has_an_agreeing_witness():
    x = torch.randn(64, generator=torch.Generator().manual_seed(0))
    right, wrong = (classify(packed(n), x, ref=reference, device="sm_90") for n in (8, 7))
    assert (right.label, right.witness) == ("Type-I", None)
    assert (wrong.label, wrong.code) == ("Type-II", "RND201")
    assert wrong.witness is not None and wrong.witness.status == "agrees" and wrong.witness.output == "q"


@triton.jit
def unpack(Q, S, Y, N: tl.constexpr, BY: tl.constexpr):
    i = tl.arange(0, N)
    q = tl.load(Q + i).to(tl.int32)
    tl.store(Y + 2 * i, ((q & 15) - BY).to(tl.float32) * tl.load(S))
    tl.store(Y + 2 * i + 1, ((q >> 4) - 8).to(tl.float32) * tl.load(S))


def test_integers_are_taken_from_memory_with_their_ends():
    """The rounding of the first launch is open where it matters; the second one's fault is found nevertheless."""

    def both(by):
        def run(x):
            q, s = packed(8)(x)
            y = torch.empty_like(x)
            unpack[(1,)](q, s, y, N=q.numel(), BY=by)
            return y

        return run

    def wanted(x):
        q, s = reference(x)
        q = q.int()
        return torch.stack([((q & 15) - 8) * s, ((q >> 4) - 8) * s], 1).reshape(-1)

    x = torch.randn(64, generator=torch.Generator().manual_seed(0))
    x[10:20] = x.abs().max() * torch.arange(-5, 5) / 14  # halves of the step
    right, wrong = (classify(both(n), x, ref=wanted, device="sm_90") for n in (8, 7))
    assert right.label == "Type-I"
    assert (wrong.label, wrong.witness.status) == ("Type-II", "agrees")
