"""All orders of a reduction's bits against orders that are enumerated one by one."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from support import rng

from render.classify import classify
from render.interpreter.bracketing import levels
from render.interpreter.session import Session


@triton.jit
def norm(a, b):
    return tl.sqrt(a * a + b * b)


@triton.jit
def parallel(a, b):
    return a * b / (a + b)


@triton.jit
def weighted(m, n, p, q):
    return (m * n + p * q) / (n + q), n + q


@triton.jit
def affine(a, b, c, d):
    return a * c, b * c + d


@triton.jit
def folded(X, W, Out, M: tl.constexpr, N: tl.constexpr, WHAT: tl.constexpr, AXIS: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    x = tl.load(X + at)
    if WHAT == "norm":
        y = tl.reduce(x, AXIS, norm)
    elif WHAT == "parallel":
        y = tl.reduce(x, AXIS, parallel)
    elif WHAT == "weighted":
        y, _ = tl.reduce((x, tl.load(W + at)), AXIS, weighted)
    else:
        y, _ = tl.reduce((x, tl.load(W + at)), AXIS, affine)
    tl.store(Out + tl.arange(0, M if AXIS else N), y)


def one_order(x, w, what, bits):
    """The last axis folded along these bits of the index, one after the other, every step in x's own precision."""
    values = [x] if w is None else [x, w]
    places = list(range(x.shape[-1].bit_length() - 1))
    for bit in bits:
        rank = sorted(places).index(bit)
        places.remove(bit)
        split = [v.reshape(*v.shape[:-1], -1, 2, 1 << rank) for v in values]
        left, right = ([v[..., k, :].reshape(*x.shape[:-1], -1) for v in split] for k in (0, 1))
        if what == "norm":
            values = [np.sqrt(left[0] * left[0] + right[0] * right[0])]
        elif what == "parallel":
            values = [left[0] * right[0] / (left[0] + right[0])]
        else:
            total = left[1] + right[1]
            values = [(left[0] * left[1] + right[0] * right[1]) / total, total]
    return values[0][..., 0]


FUNCTIONS = ("norm", "parallel", "weighted")


def bounds(what, x, w, axis=1, order="tree", **options):
    out = torch.empty(x.shape[1 - axis])
    with Session("sm_80", sum_order=order, **options) as s:
        folded[(1,)](torch.from_numpy(x), torch.from_numpy(w), out, *x.shape, what, axis)
    return s, s.envelope(out)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("what", FUNCTIONS)
def test_every_order_of_the_bits_is_inside(what, axis):
    x = (rng(81).normal(size=(2, 16)) + 3).astype(np.float32)
    w = rng(82).uniform(0.5, 2, x.shape).astype(np.float32)
    given = (x, w) if axis else (np.ascontiguousarray(x.T), np.ascontiguousarray(w.T))
    s, found = bounds(what, *given, axis)
    assert not s.taints and not found.taints and np.isfinite(found.hi).all()
    pair = w if what == "weighted" else None
    wide = one_order(x.astype(float), None if pair is None else w.astype(float), what, range(4))
    assert (found.lo <= wide).all() and (wide <= found.hi).all()
    results = np.stack([one_order(x, pair, what, bits) for bits in permutations(range(4))])
    assert (found.lo <= results).all() and (results <= found.hi).all()
    assert (found.hi - found.lo <= 1e-4 * np.abs(wide)).all()


def test_levels_count_every_way():
    """3^m values, m 3^(m - 1) ways to them; the operands of a way are a bit apart and come from one set less."""
    for m in range(1, 6):
        shapes = [level.shape for level in levels(m)]
        assert 2**m + sum(sets * rest for sets, _, rest in shapes) == 3**m
        assert sum(sets * ways * rest for sets, ways, rest in shapes) == m * 3 ** (m - 1)
    first = levels(3)[0]
    assert first.left[:12].reshape(first.shape).tolist() == [[[0, 2, 4, 6]], [[0, 1, 4, 5]], [[0, 1, 2, 3]]]
    assert first.right[:12].reshape(first.shape).tolist() == [[[1, 3, 5, 7]], [[2, 3, 6, 7]], [[4, 5, 6, 7]]]


def test_an_order_that_is_not_known_is_said():
    x = (rng(83).normal(size=(1, 16)) + 3).astype(np.float32)
    for options in ({"order": "any"}, {"triton_version": "3.7"}):
        s, found = bounds("weighted", x, np.abs(x), **options)
        assert {t.code for t in s.taints.values()} == {"RND313"} and found.taints
    s, _ = bounds("weighted", np.ones((64, 4096), np.float32), np.ones((64, 4096), np.float32))
    assert {t.code for t in s.taints.values()} == {"RND313"}  # more orders than are followed


def entry(x, w, what):
    out = torch.empty(len(x))
    folded[(1,)](x, w, out, *x.shape, what, 1)
    return out


def mean(x, w, what):
    return ((x.double() * w).sum(1) / w.double().sum(1)).float()


@pytest.mark.parametrize(("order", "label"), [("any", "Inconclusive"), ("tree", "Type-I")])
def test_a_function_without_a_rule(order, label):
    x = torch.from_numpy(np.abs(rng(84).normal(size=(4, 32)).astype(np.float32)) + 1)
    v = classify(entry, x, x, "weighted", ref=mean, device="sm_90", sum_order=order)
    assert v.label == label and (v.code == "RND313") == (label == "Inconclusive")
    wrong = classify(entry, x, x, "weighted", ref=lambda *a: mean(*a) * 1.001, device="sm_90", sum_order=order)
    assert wrong.label == "Type-II"


def test_what_does_not_commute_is_no_reduction():
    x = torch.from_numpy(rng(85).uniform(0.5, 1, (2, 16)).astype(np.float32))
    v = classify(entry, x, x, "affine", ref=lambda x, *_: x.prod(1), device="sm_90")
    assert (v.label, v.code, v.subtype) == ("Type-II", "RND214", "commutativity") and v.line > 0
