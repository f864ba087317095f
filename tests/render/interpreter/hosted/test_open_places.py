"""Indices that the bounds of floats leave open: every element that they may pick, write or rank, and no other."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from support import rng, trials

from render.interpreter.host import HostTracker
from render.interpreter.hosted.places import ranks
from render.interpreter.memory import Memory
from tests.verdicts import classify

VALUES = torch.arange(20.0).reshape(5, 4) ** 2


def every(lo: np.ndarray, hi: np.ndarray) -> list[np.ndarray]:
    """All arrays of integers between two."""
    spans = [range(int(a), int(b) + 1) for a, b in zip(lo.ravel(), hi.ravel(), strict=True)]
    return [np.array(one, np.int64).reshape(lo.shape) for one in product(*spans)]


def bounded(f: Callable[[torch.Tensor], torch.Tensor], lo: np.ndarray, hi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What the host knows of f of integers between two."""
    memory = Memory()
    index = torch.from_numpy(lo.copy())
    memory.carry(index, lo, hi, frozenset())
    with HostTracker(memory):
        out = f(index)
    found = memory.host_envelope(out)
    assert found is not None and not found.taints
    exact = out.double().numpy()
    return (found.lo, found.hi) if found.lo.shape == out.shape else (exact, exact)


PICKS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "index": lambda i: VALUES[i],
    "two indices": lambda i: VALUES[i, i],
    "columns": lambda i: VALUES[:, i],
    "index_select": lambda i: VALUES.index_select(0, i),
    "gather": lambda i: VALUES.gather(1, i[:, None]),
    "embedding": lambda i: torch.nn.functional.embedding(i, VALUES),
    "take": lambda i: VALUES.take(i + 3),
    "computed": lambda i: VALUES[(i.int() + 2) * 1 - 1],
    "of integers": lambda i: torch.tensor([3, 1, 4, 1, 5])[i],
    "twice": lambda i: VALUES[torch.tensor([1, 0, 3, 2])[i]],
    "narrow": lambda i: VALUES[i.int().long()],
    "written": lambda i: torch.zeros(3, 4).scatter(1, i[:, None], 2.5),
    "written over": lambda i: torch.full((4,), -1.0).scatter_(0, i, 2.5),
    "equal": lambda i: (i == 2).float(),
    "not below": lambda i: torch.where(i >= 1, VALUES[0, 0], VALUES[1, 1]),
    "truth": lambda i: i.bool().float(),
}
APART = {"computed", "two indices", "twice", "written", "written over", "take"}
"""Those whose hull may hold more than they reach."""


@pytest.mark.parametrize("seed", range(trials(4)))
@pytest.mark.parametrize("name", PICKS)
def test_every_choice_is_inside_and_some_choice_at_the_ends(name: str, seed: int) -> None:
    g = rng(seed)
    lo = g.integers(0, 3, 3)
    hi = np.minimum(lo + g.integers(0, 3, 3), 3)
    hi[0], hi[1] = lo[0], lo[1] + 1
    low, high = bounded(PICKS[name], lo, hi)
    reached = [PICKS[name](torch.from_numpy(i)).double().numpy() for i in every(lo, hi)]
    assert all((low <= y).all() and (y <= high).all() for y in reached)
    if name not in APART:
        assert np.array_equal(low, np.minimum.reduce(reached)) and np.array_equal(high, np.maximum.reduce(reached))
    elif name.startswith("written"):
        assert set(np.unique(low)) | set(np.unique(high)) <= {0.0, -1.0, 2.5}


@pytest.mark.parametrize("seed", range(trials(20)))
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("stable", [False, True])
def test_ranks_hold_every_sort(seed: int, descending: bool, stable: bool) -> None:
    g = rng(seed)
    lo = g.integers(0, 6, (2, 5)).astype(np.float64)
    hi = lo + g.integers(0, 2, (2, 5)) * g.random((2, 5))
    found = ranks((lo, hi), descending, stable)
    assert found is not None
    for _ in range(20):
        x = np.where(g.random(lo.shape) < 0.4, lo, np.where(g.random(lo.shape) < 0.5, hi, lo + (hi - lo) * g.random()))
        order = np.argsort(-x if descending else x, axis=-1, kind="stable")
        assert (found[0] <= order).all() and (order <= found[1]).all()
        if not stable:  # equal ones the other way round
            other = 4 - np.argsort(-x[:, ::-1] if descending else x[:, ::-1], axis=-1, kind="stable")
            assert (found[0] <= other).all() and (other <= found[1]).all()
    points = g.permutation(5).astype(np.float64)[None]
    first, last = ranks((points, points), descending, stable)
    assert np.array_equal(first, last) and np.array_equal(first[0], np.argsort(-points if descending else points)[0])


@triton.jit
def scoring(X, W, L, K: tl.constexpr, E: tl.constexpr):
    r, k, e = tl.program_id(0), tl.arange(0, K), tl.arange(0, E)
    tl.store(L + r * E + e, tl.sum(tl.load(W + e[:, None] * K + k[None, :]) * tl.load(X + r * K + k)[None, :], 1))


def scores(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    out = torch.empty(len(x), len(w))
    scoring[(len(x),)](x, w, out, x.shape[1], len(w))
    return out


def best(x: torch.Tensor, w: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
    return x * g[scores(x, w).argmax(1)]


def two(x: torch.Tensor, w: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
    v, i = scores(x, w).topk(2, 1)
    return x * (g[i] * torch.softmax(v, 1)[..., None]).sum(1)


def by_loop(x: torch.Tensor, w: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
    chosen, out = scores(x, w).argmax(1).int(), torch.zeros_like(x)
    for e in range(len(w)):
        out = torch.where((chosen == e)[:, None], x * g[e], out)
    return out


def by_mask(x: torch.Tensor, w: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
    return x * (torch.nn.functional.one_hot(scores(x, w).argmax(1), len(w)).float() @ g)


@pytest.mark.parametrize("route", [best, two, by_loop, by_mask])
def test_routing_with_ties_on_the_host(route: Callable[..., torch.Tensor]) -> None:
    """Two experts whose scores differ by the order of a sum alone: either is right, a third one is not."""
    g = torch.Generator().manual_seed(0)
    x, w, gains = torch.randn(8, 16, generator=g), torch.randn(4, 16, generator=g), torch.randn(4, 16, generator=g)
    x[:, 5] = x[:, 7]
    w[1] = w[0]
    w[1, 5], w[1, 7] = w[0, 7], w[0, 5]

    def right(x: torch.Tensor, w: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
        if route is two:
            v, i = (x @ w.T).topk(2, 1)
            return x * (g[i] * torch.softmax(v, 1)[..., None]).sum(1)
        return x * g[(x @ w.T).argmax(1)]

    assert classify(route, x, w, gains, ref=right).label == "Type-I"
    assert classify(lambda x, w, g: route(x, w, g * 1.25), x, w, gains, ref=right).label == "Type-II"


@triton.jit
def largest(X, V, At, N: tl.constexpr):
    r, i = tl.program_id(0), tl.arange(0, N)
    v, k = tl.max(tl.load(X + r * N + i), 0, return_indices=True)
    tl.store(V + r, v)
    tl.store(At + r, k)


def test_a_host_that_reads_indices_of_programs_that_were_left_out() -> None:
    """Slices run single programs again; what the others would have stored is no index, and no fault of the user's."""
    g = torch.Generator().manual_seed(0)
    x, gains = torch.randn(6, 16, generator=g), torch.randn(16, generator=g)

    def weighed(x: torch.Tensor, gains: torch.Tensor, factor: float = 1.0) -> torch.Tensor:
        best, at = torch.empty(len(x)), torch.full((len(x),), 1000, dtype=torch.int32)
        largest[(len(x),)](x * factor, best, at, x.shape[1])
        return best * gains[at.long()]

    def right(x: torch.Tensor, gains: torch.Tensor) -> torch.Tensor:
        return x.amax(1) * gains[x.argmax(1)]

    assert classify(weighed, x, gains, ref=right).label == "Type-I"
    found = classify(lambda x, gains: weighed(x, gains, 1.01), x, gains, ref=right)
    assert (found.label, found.code) == ("Type-II", "RND201")
