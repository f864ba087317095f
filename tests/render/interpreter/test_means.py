"""Combine functions through which errors do not grow: every tree that float32 may go lies in the bound.

The oracle are random trees evaluated by numpy in float32, step by step, and in float64.
"""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from support import rng

import render
from interval_ops.formats.model import BF16, FP16, FP32
from interval_ops.profiles.profile import load_profile
from render.interpreter.mean_forms import mean_of
from render.interpreter.means import along

LOG = "m = tl.maximum(a, b)\n    return m + tl.log(tl.exp(a - m) + tl.exp(b - m))"
SCALED = "m = max(abs(a), abs(b))\n    n = min(abs(a), abs(b))\n    return m * tl.sqrt(1.0 + (n / m) * (n / m))"
FORMS = {
    "log of sums": (LOG, lambda a, b: (m := np.maximum(a, b)) + np.log(np.exp(a - m) + np.exp(b - m))),
    "of powers of 2": (LOG.replace("log", "log2").replace("exp", "exp2"), np.logaddexp2),
    "by the smaller": ("return max(a, b) + tl.log(1.0 + tl.exp(min(a, b) - max(a, b)))", np.logaddexp),
    "soft minimum": ("return -tl.log(tl.exp(-a) + tl.exp(-b))", lambda a, b: -np.log(np.exp(-a) + np.exp(-b))),
    "norm": ("return tl.sqrt(a * a + b * b)", lambda a, b: np.sqrt(a * a + b * b)),
    "scaled norm": (SCALED, np.hypot),
    "harmonic": ("return 1.0 / (1.0 / a + 1.0 / b)", lambda a, b: 1 / (1 / a + 1 / b)),
    "parallel": ("return a * b / (a + b)", lambda a, b: a * b / (a + b)),
    "of fourth powers": ("p = a * a\n    q = b * b\n    return tl.sqrt(tl.sqrt(p * p + q * q))",
                         lambda a, b: np.sqrt(np.sqrt(a * a * (a * a) + b * b * (b * b)))),
    "product": ("return a * b * 1.01", lambda a, b: a * b * type(a)(1.01)),
    "either": ("return a + b + 0.3 * (a * b)", lambda a, b: a + b + type(a)(0.3) * (a * b)),
}  # fmt: skip
POSITIVE = ("harmonic", "parallel", "product", "either")
NONE = ["return a - b", "return a * b + 1.0", "return tl.exp(a + b)", "return a + tl.log(b)",
        "return tl.sqrt(a * b * b)", "return max(a, b) + tl.sqrt(a - b)", "return a + b * b"]  # fmt: skip


def source(body: str) -> str:
    return f"def f(a, b):\n    {body}\n"


def tree(function, xs, g):
    xs = list(xs)
    while len(xs) > 1:
        k = int(g.integers(len(xs) - 1))
        xs[k : k + 2] = [function(xs[k], xs[k + 1])]
    return float(xs[0])


@pytest.mark.parametrize("name", FORMS)
def test_every_tree_lies_in_the_bound(name):
    body, function = FORMS[name]
    found = mean_of(source(body))
    assert found is not None
    g, tried = rng(3), 0
    for size in (0.1, 1.0, 4.0):
        x = (g.standard_normal(24) * size).astype(np.float32)
        x = np.abs(x) * np.float32(0.3) + np.float32(0.3) if name in POSITIVE else x
        pair = along(found, (x[None].astype(float),) * 2, 1, False, FP32, load_profile("sm_90"))
        if pair is None:
            continue
        tried += 1
        low, high = pair[0][0], pair[1][0]
        assert high[-1] - low[-1] < 1e-3 * (1 + abs(low[-1]))
        for n in (2, 7, 24):
            for kind in (np.float32, np.float64):
                seen = [tree(function, x[:n].astype(kind), g) for _ in range(6)]
                assert low[n - 1] <= min(seen) and max(seen) <= high[n - 1]
    assert tried >= 2


def narrowed(body):
    """A formula that computes in float32 and gives back the type of its operands."""
    lines = body.replace("return ", "r = ").split("\n    ")
    casts = ["x = a.to(tl.float32)", "y = b.to(tl.float32)"]
    words = [re.sub(r"\bb\b", "y", re.sub(r"\ba\b", "x", line)) for line in lines]
    return "\n    ".join([*casts, *words, "return r.to(a.dtype)"])


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("kind", ["fp16", "bf16"])
def test_every_tree_of_a_narrow_type_lies_in_the_bound(name, kind):
    body, function = FORMS[name]
    fmt, dtype = {"fp16": (FP16, np.float16), "bf16": (BF16, ml_dtypes.bfloat16)}[kind]
    found = mean_of(source(narrowed(body)))
    assert found is not None
    g = rng(5)
    x = g.standard_normal(12)
    x = (np.abs(x) * 0.3 + 0.7 if name in POSITIVE else x).astype(dtype).astype(np.float32)
    pair = along(found, (x[None].astype(float),) * 2, 1, False, fmt, load_profile("sm_90"))
    assert pair is not None
    low, high = pair[0][0], pair[1][0]
    assert high[-1] - low[-1] < 12 * 2 * 3 * fmt.u * (1 + abs(low[-1]) + abs(x).max())

    def step(a, b):
        return np.float32(dtype(function(a, b)))

    for n in (2, 5, 12):
        seen = [tree(step, x[:n], g) for _ in range(8)] + [tree(function, x[:n].astype(float), g)]
        assert low[n - 1] <= min(seen) and max(seen) <= high[n - 1]


GUARDED = (
    "m = max(a, b)\n    s = tl.where(m == float('-inf'), 0.0, m)\n    return s + tl.log(tl.exp(a - s) + tl.exp(b - s))"
)
PADDED = {
    "a sentinel": (LOG, np.logaddexp, -1e30),
    "the least number": (LOG, np.logaddexp, -3.4e38),
    "infinity, told apart": (GUARDED, np.logaddexp, -np.inf),
    "zeros of a norm": (FORMS["norm"][0], FORMS["norm"][1], 0.0),
    "zeros of a sum": (FORMS["either"][0], FORMS["either"][1], 0.0),
}


@pytest.mark.parametrize("name", PADDED)
@pytest.mark.parametrize("reverse", [False, True])
def test_padding_leaves_the_other_operand(name, reverse):
    body, function, e = PADDED[name]
    found = mean_of(source(body))
    assert found is not None
    g = rng(6)
    x = np.abs(g.standard_normal(24)).astype(np.float32) * np.float32(0.5) + np.float32(0.1)
    x[[0, 1, 5, 20, 22, 23]] = e
    pair = along(found, (x[None].astype(float),) * 2, 1, reverse, FP32, load_profile("sm_90"))
    assert pair is not None
    low, high = (end[0][::-1] if reverse else end[0] for end in pair)
    x = x[::-1] if reverse else x
    assert high[-1] - low[-1] < 1e-4 * (1 + abs(low[-1]))
    with np.errstate(invalid="ignore"):
        for n in (2, 3, 9, 24):
            for kind in (np.float32, np.float64):
                seen = [tree(function, x[:n].astype(kind), g) for _ in range(6)]
                assert low[n - 1] <= min(seen) and max(seen) <= high[n - 1]


@pytest.mark.parametrize("e", [0.0, -1.0, 3.0])
def test_what_another_operand_does_not_leave_is_no_padding(e):
    """exp(e) counts in the sum, so the bound has it among the elements."""
    x = rng(7).standard_normal(16)
    x[3:9] = e
    pair = along(mean_of(source(LOG)), (x[None],) * 2, 1, False, FP32, load_profile("sm_90"))
    whole = float(np.logaddexp.reduce(x))
    assert pair[0][0][-1] <= whole <= pair[1][0][-1] and pair[1][0][-1] - pair[0][0][-1] < 1e-3


def test_the_argument_of_an_exponential_is_rounded():
    """exp(x) is ex2(fl(x log2 e)): 80 units of 2^-24 for x near 80, more than the error of ex2."""
    g, log2e = rng(8), np.float32(np.log2(np.e))
    x = (70 + 10 * g.random(8)).astype(np.float32)

    def step(a, b):
        first, second = (np.exp2(np.float64(np.float32(-z * log2e))).astype(np.float32) for z in (a, b))
        return np.float32(-np.log(np.float64(np.float32(first + second))))

    body = FORMS["soft minimum"][0]
    low, high = along(mean_of(source(body)), (x[None].astype(float),) * 2, 1, False, FP32, load_profile("sm_90"))
    assert low[0, 1] <= min(seen := [step(x[0], x[1])]) and max(seen) <= high[0, 1]
    assert high[0, 1] - low[0, 1] > 2 * 70 * 2.0**-24  # what the arguments alone may do, to either side


@pytest.mark.parametrize("body", NONE)
def test_what_moves_otherwise_is_none(body):
    found = mean_of(source(body))
    x = np.abs(rng(1).standard_normal((1, 8))) + 0.1
    assert found is None or along(found, (x, x), 1, False, FP32, load_profile("sm_90")) is None


GROUPED = {
    "average": "return (a + b) / 2.0",
    "root of the mean square": "return tl.sqrt((a * a + b * b) * 0.5)",
    "geometric": "return tl.sqrt(a * b)",
    "lopsided": LOG.replace("+ tl.exp", "+ 1.00001 * tl.exp"),
    "the first": "return a + 0.0 * b",
}


@pytest.mark.parametrize("name", GROUPED)
@pytest.mark.parametrize("equal", [True, False])
def test_what_depends_on_grouping_or_order_is_none_whatever_the_elements(name, equal):
    found = mean_of(source(GROUPED[name]))
    x = np.full((1, 8), 1.5) if equal else np.abs(rng(1).standard_normal((1, 8))) + 0.1
    assert found is not None
    assert along(found, (x, x), 1, False, FP32, load_profile("sm_90")) is None


@triton.jit
def average(a, b):
    return (a + b) / 2.0


@triton.jit
def log_of_sums(a, b):
    m = tl.maximum(a, b)
    return m + tl.log(tl.exp(a - m) + tl.exp(b - m))


@triton.jit
def lopsided(a, b):
    m = tl.maximum(a, b)
    return m + tl.log(tl.exp(a - m) + 0.9 * tl.exp(b - m))


@triton.jit
def norm(a, b):
    return tl.sqrt(a * a + b * b)


@triton.jit
def gathered(X, Y, F: tl.constexpr, GAIN: tl.constexpr, SCAN: tl.constexpr, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    x = tl.load(X + at) * GAIN
    if SCAN:
        tl.store(Y + at, tl.associative_scan(x, 0, F))
    else:
        tl.store(Y + tl.program_id(0), tl.reduce(x, 0, F))


def entry(x, function, gain=1.0, scan=False):
    y = torch.empty_like(x) if scan else torch.empty(len(x))
    gathered[(len(x),)](x, y, function, gain, scan, x.shape[1])
    return y


REFERENCES = {
    (log_of_sums, False): lambda x: torch.logsumexp(x, 1),
    (log_of_sums, True): lambda x: torch.logcumsumexp(x, 1),
    (norm, False): lambda x: torch.linalg.vector_norm(x, dim=1),
}


@pytest.mark.parametrize(("function", "scan"), REFERENCES)
def test_programs_are_judged_in_any_order(function, scan):
    x = torch.randn(3, 32, generator=torch.Generator().manual_seed(1))
    plain = REFERENCES[function, scan]
    right = render.classify(entry, x, function, 1.0, scan, ref=lambda x, *_: plain(x))
    assert right.label == "Type-I", right
    wrong = render.classify(entry, x, function, 1.01, scan, ref=lambda x, *_: plain(x))
    assert (wrong.label, wrong.code) == ("Type-II", "RND201"), wrong


def test_what_depends_on_the_grouping_has_no_bound():
    x = torch.randn(3, 32, generator=torch.Generator().manual_seed(1))
    found = render.classify(entry, x, lopsided, ref=lambda x, *_: torch.logsumexp(x, 1))
    assert found.label != "Type-I" and found.code in ("RND213", "RND214", "RND313"), found


def test_equal_elements_do_not_hide_what_depends_on_the_grouping():
    def widened(x):
        return (x * 0.0).exp() * 1e6 - 1e6 + 1  # 1, or as far off as an exponential's error times 1e6

    x = torch.ones(3, 32)
    found = render.classify(lambda x: entry(widened(x), average), x, ref=lambda x: x[:, 0].clone())
    assert found.label != "Type-I", found


LARGEST = float(np.finfo(np.float32).max)
GROWTH = {
    "product": lambda n: (LARGEST / 1.01 ** (n - 1)) ** (1 / n),
    "scaled norm": lambda n: LARGEST / n**0.5,
    "parallel": lambda n: LARGEST**0.5,
}
"""Elements that go to the largest number where so many are taken together."""


@pytest.mark.parametrize("name", GROWTH)
@pytest.mark.parametrize("beyond", [1e-30, 0.01, 0.1, 0.2, 0.3, 0.5, 0.9999, 1.02])
@pytest.mark.parametrize("wide", [0.0, 1e-4])
def test_what_may_leave_the_range_has_no_bound(name, beyond, wide):
    """Or one that holds the infinity that comes of it."""
    body, function = FORMS[name]
    g, n = rng(11), 12
    x = np.minimum(np.full(n, GROWTH[name](n) * beyond ** (1 / n)) * g.uniform(0.999, 1.0, n), LARGEST / 1.001)
    x = x.astype(np.float32)
    lo, hi = x.astype(float) * (1 - wide), x.astype(float) * (1 + wide)
    with np.errstate(all="ignore"):
        pair = along(mean_of(source(body)), (lo[None], hi[None]), 1, False, FP32, load_profile("sm_90"))
        if pair is None:
            return
        for at in (lo, x.astype(float), hi):
            seen = [tree(function, at.astype(np.float32), g) for _ in range(8)]
            assert pair[0][0, -1] <= min(seen) and max(seen) <= pair[1][0, -1]
