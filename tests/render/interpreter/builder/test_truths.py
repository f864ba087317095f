"""Truth values that rounding leaves open: what comes of them is sure, possible or neither, as enumeration says."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import triton.language as tl

from render.interpreter.builder import Builder
from render.interpreter.builder.integers import decided, truths
from render.interpreter.handle import Handle

TOLD = frozenset([7])
STUB = Builder.__new__(Builder)
STUB.ctx = SimpleNamespace(taint=lambda *_: TOLD, interval=True, memory=SimpleNamespace(choices=None))
STATES = {"false": (False,), "true": (True,), "open": (False, True)}
TWO: dict[str, Callable[[Any, Any], Any]] = {
    "and": lambda x, y: x and y, "or": lambda x, y: x or y, "xor": lambda x, y: x != y, "add": lambda x, y: x != y,
    "sub": lambda x, y: x != y, "mul": lambda x, y: x and y, "icmpEQ": lambda x, y: x == y,
    "icmpNE": lambda x, y: x != y,
}  # fmt: skip


def lanes(states: list[tuple[bool, ...]], last: bool) -> Handle:
    """A lane for each; the value lane of an open one is `last`."""
    lo, hi, v = (np.array([[f(s) for s in states]]) for f in (all, any, lambda s: last if len(s) > 1 else s[0]))
    return Handle(v, tl.int1, (len(states),), *((lo, hi) if (lo != hi).any() else ()))


def expected(f: Callable[..., Any], every: list[tuple[tuple[bool, ...], ...]]) -> tuple[np.ndarray, np.ndarray]:
    found = [[bool(f(*x)) for x in product(*states)] for states in every]
    return np.array([[all(x) for x in found]]), np.array([[any(x) for x in found]])


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("name", TWO)
def test_logic_of_two(name: str, last: bool) -> None:
    """All lanes at once and each alone: a handle whose lanes are all decided has no ends."""
    every = list(product(STATES.values(), repeat=2))
    for some in ([*every], *([e] for e in every)):
        x, y = (lanes([e[k] for e in some], last) for k in range(2))
        out = getattr(Builder, f"create_{name}")(STUB, x, y)
        lo, hi = expected(TWO[name], some)
        assert all(np.array_equal(a, b) for a, b in zip(truths(out), (lo, hi), strict=True)), some
        assert (out.lo is None) == bool((lo == hi).all()) and not out.taint
        assert np.array_equal(out.v, [[TWO[name](a, b) for a, b in zip(x.v[0], y.v[0], strict=True)]])


@pytest.mark.parametrize("last", [False, True])
def test_choice_between_two(last: bool) -> None:
    every = list(product(STATES.values(), repeat=3))
    for some in ([*every], *([e] for e in every)):
        c, x, y = (lanes([e[k] for e in some], last) for k in range(3))
        out = Builder.create_select(STUB, c, x, y)
        lo, hi = expected(lambda c, x, y: x if c else y, some)
        assert all(np.array_equal(a, b) for a, b in zip(truths(out), (lo, hi), strict=True)), some
        assert (out.lo is None) == bool((lo == hi).all()) and not out.taint
        assert np.array_equal(out.v, np.where(c.v, x.v, y.v))


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("dtype", [tl.int8, tl.int32, tl.int64, tl.pointer_type(tl.float32)], ids=str)
def test_choice_of_a_number_or_a_place(state: str, dtype: Any) -> None:
    """An integer has both for candidates, a place is told not to be known; both only where the choice is open."""
    c, wide = lanes([STATES[state]], True), np.int64 if dtype.is_ptr() else np.dtype(str(dtype))
    x, y = (Handle(np.full((1, 1), n, wide), dtype, (1,)) for n in (64, 16))
    out = Builder.create_select(STUB, c, x, y)
    assert out.v.item() == (16 if state == "false" else 64)
    if state != "open":
        assert not out.taint and out.open is None
    elif dtype.is_ptr():
        assert out.taint == TOLD and out.open is None
    else:
        assert out.open is not None and (out.open.lo.item(), out.open.hi.item()) == (16, 64)
        assert sorted(a.item() for a in out.open.among) == [16, 64]


@pytest.mark.parametrize("state", STATES)
def test_a_truth_that_is_used_as_a_number_is_told_where_it_is_open(state: str) -> None:
    x = lanes([STATES[state]], True)
    found = decided(STUB, x)
    assert found.taint == (TOLD if state == "open" else frozenset()) and np.array_equal(found.v, x.v)
    number = Handle(np.array([[5]], np.int32), tl.int32, (1,))
    assert decided(STUB, number) is number
