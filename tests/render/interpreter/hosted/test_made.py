"""Tables that torch makes of numbers: bounds hold the exact entries and those of narrower evaluations."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
import torch

from render.interpreter.host import HostTracker
from render.interpreter.memory import Memory

TABLES = {
    "linspace": (lambda d: torch.linspace(-0.3, 7.7, 37, dtype=d),
                 lambda i: mpmath.mpf(-0.3) + i * (mpmath.mpf(7.7) + mpmath.mpf(0.3)) / 36),
    "arange": (lambda d: torch.arange(0.1, 3.0, 0.07, dtype=d), lambda i: mpmath.mpf(0.1) + i * mpmath.mpf(0.07)),
    "logspace": (lambda d: torch.logspace(-3, 2.5, 23, dtype=d),
                 lambda i: mpmath.mpf(10) ** (-3 + i * mpmath.mpf(5.5) / 22)),
    "base 2": (lambda d: torch.logspace(0, 9, 19, base=2.0, dtype=d),
               lambda i: mpmath.mpf(2) ** (i * mpmath.mpf(9) / 18)),
    "hann": (lambda d: torch.hann_window(33, dtype=d), lambda i: mpmath.sin(mpmath.pi * i / 33) ** 2),
    "hamming": (lambda d: torch.hamming_window(20, False, dtype=d),
                lambda i: mpmath.mpf(0.54) - mpmath.mpf(0.46) * mpmath.cos(2 * mpmath.pi * i / 19)),
    "blackman": (lambda d: torch.blackman_window(24, dtype=d),
                 lambda i: mpmath.mpf("0.42") - mpmath.cos(2 * mpmath.pi * i / 24) / 2
                 + mpmath.mpf("0.08") * mpmath.cos(4 * mpmath.pi * i / 24)),
    "bartlett": (lambda d: torch.bartlett_window(31, dtype=d), lambda i: 1 - abs(2 * mpmath.mpf(i) / 31 - 1)),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", TABLES)
def test_entries_lie_in_their_bounds(name, dtype):
    make, exact = TABLES[name]
    memory = Memory()
    with HostTracker(memory):
        table = make(dtype)
    found = memory.envelope(table)
    assert found is not None
    with mpmath.workprec(160):
        truth = [exact(i) for i in range(len(table))]
        inside = [lo <= t <= hi for lo, t, hi in zip(found.lo.tolist(), truth, found.hi.tolist(), strict=True)]
    assert all(inside)
    value = table.double().numpy()
    assert ((found.lo <= value) & (value <= found.hi)).all()
    u = torch.finfo(dtype).eps
    assert ((found.hi - found.lo) <= 200 * u * np.abs(value).max()).all()


@pytest.mark.parametrize(
    "make", [lambda: torch.arange(100.0), lambda: torch.arange(7), lambda: torch.arange(0.0, 64, 4)]
)
def test_whole_numbers_are_points(make):
    memory = Memory()
    with HostTracker(memory):
        table = make()
    assert memory.envelope(table) is None


def spaced(a: np.float32, b: np.float32, n: int, fused: bool) -> np.ndarray:
    """In float32 as torch's kernels go: from either end up to the middle, with and without a rounded product."""
    f, i = np.float32, np.arange(n, dtype=np.float32)
    step = f(f(b - a) / f(n - 1))
    if fused:
        up, down = (np.float64(x) + sign * np.float64(step) * k for x, sign, k in ((a, 1, i), (b, -1, n - 1 - i)))
        return np.where(np.arange(n) < n // 2, up, down).astype(f)
    return np.where(np.arange(n) < n // 2, a + step * i, b - step * (n - 1 - i)).astype(f)


SPAN = [(-0.3, 7.7), (0.1, 1e4), (-5.1, 5.3), (3.0, 3.0)]


@pytest.mark.parametrize("tensors", [(), (0,), (1,), (0, 1)], ids=str)
@pytest.mark.parametrize("open_", [False, True])
@pytest.mark.parametrize("span", SPAN, ids=str)
def test_numbers_without_dimensions_are_numbers(tensors, open_, span):
    """What a table of them may be is not told by its definition, whose step is not rounded; where they are open, it
    lies between the tables of their ends."""
    if open_ and not tensors:
        return
    memory, n = Memory(), 1000
    with HostTracker(memory):
        ends = [torch.tensor(x) if k in tensors else x for k, x in enumerate(span)]
        if open_:
            memory.carry(ends[tensors[0]], *(np.array(span[tensors[0]] + off) for off in (-0.5, 0.25)), frozenset())
        table, powers = torch.linspace(*ends, n), torch.logspace(*(e / 1e4 for e in ends), 50)
        falling = torch.logspace(*(e / 1e4 for e in ends), 50, base=0.3)
    seen = [memory.envelope(t) for t in (table, powers, falling)]
    assert not any(e.taints for e in seen)
    for off in (-0.5, 0.0, 0.25) if open_ else (0.0,):
        a, b = (np.float32(x + off * (open_ and k == tensors[0])) for k, x in enumerate(span))
        for fused in (False, True):
            x = spaced(a, b, n, fused)
            assert ((seen[0].lo <= x) & (x <= seen[0].hi)).all()
        for e, base in ((seen[1], 10.0), (seen[2], 0.3)):
            exact = base ** np.linspace(float(a) / 1e4, float(b) / 1e4, 50)
            assert ((e.lo <= exact) & (exact <= e.hi)).all()
    size = max(map(abs, span)) + open_
    assert (seen[0].hi - seen[0].lo <= 0.76 * open_ + 40 * 2.0**-24 * size).all()


UNKNOWN = {
    "negative base": (lambda: torch.logspace(0.1, 3, 7, base=-2.0), True),
    "base of zero": (lambda: torch.logspace(0.1, 3, 7, base=0.0), False),  # 0 is no rounding
    "complex powers": (lambda: torch.logspace(0.1 + 1j, 3, 7), True),
    "complex numbers": (lambda: torch.linspace(0.1 + 1j, 3, 7), True),
    "whole powers": (lambda: torch.logspace(0, 3, 4, dtype=torch.int32), False),
    "whole numbers": (lambda: torch.linspace(0, 9, 4, dtype=torch.int64), False),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_a_table_without_a_formula_is_tainted_where_it_rounds(name):
    make, tainted = UNKNOWN[name]
    memory = Memory()
    with HostTracker(memory):
        table = make()
        seen = table.real * 1.0 if table.is_complex() else table
    found = memory.envelope(seen)
    assert torch.equal(table, make()) or table.isnan().any()
    assert (found is not None and bool(found.taints)) is tainted
