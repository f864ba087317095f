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
