"""Combine functions through which errors do not grow: every tree that float32 may go lies in the bound.

The oracle are random trees evaluated by numpy in float32, step by step, and in float64.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from support import rng

import render
from interval_ops.formats.model import FP32
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
}  # fmt: skip
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
        x = np.abs(x) + np.float32(0.05) if name == "harmonic" else x
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
