"""The typical error of an element, against emulated units, float32 itself, and what is known exactly."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from render.entry.execution import Entry
from render.entry.inputs import of_call
from render.lab.corpus.tensor_core import UNITS, multiply, truncate_tf32
from render.trace.adjoint import Contributions, contributions
from render.trace.element import slices_of

K = 64


@triton.jit
def dotting(X, Y, Out, N: tl.constexpr, K: tl.constexpr):
    i, k = tl.arange(0, N), tl.arange(0, K)
    x = tl.load(X + i[:, None] * K + k[None, :])
    y = tl.load(Y + k[:, None] * N + i[None, :])
    tl.store(Out + i[:, None] * N + i[None, :], tl.dot(x, y))


def dotted(x, y):
    out = torch.empty(len(x), len(x))
    dotting[(1,)](x, y, out, len(x), x.shape[1])
    return out


@triton.jit
def summing(X, Out, N: tl.constexpr, K: tl.constexpr):
    i, k = tl.arange(0, N), tl.arange(0, K)
    tl.store(Out + i, tl.sum(tl.load(X + i[:, None] * K + k[None, :]), axis=1))


def summed(x):
    out = torch.empty(len(x))
    summing[(1,)](x, out, len(x), x.shape[1])
    return out


@triton.jit
def rounding(X, Out, N: tl.constexpr, KIND: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(X + i)
    if KIND == "cast":
        tl.store(Out + i, (x * 0.5).to(tl.float16))
    elif KIND == "exact":
        tl.store(Out + i, x * 0.5)
    else:
        e = tl.exp(x)
        tl.store(Out + i, e / e - e / e)


def rounded(x, kind):
    out = torch.empty(x.shape, dtype=torch.float16 if kind == "cast" else torch.float32)
    rounding[(1,)](x, out, len(x), kind)
    return out


def found(fn, *inputs, device="sm_80", places) -> list[Contributions]:
    entry = Entry(fn, of_call(fn, inputs, {}), device)
    run = entry.run()
    return [contributions(s) for s in slices_of(entry, run, [(run.outputs[0].name, p) for p in places])]


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def size(one: Contributions, cause: str | None = None) -> float:
    return float(np.sqrt(sum(s for key, s in one.squares.items() if cause in (None, key[0]))))


PLACES = [(i, j) for i in range(0, 16, 3) for j in range(0, 16, 3)]


@pytest.mark.parametrize(("unit", "device"), [("sm_80-tf32", "sm_80"), ("sm_90-tf32", "sm_90")])
def test_operands_that_a_unit_cuts_are_what_makes_it_differ(unit, device):
    x, y = random(16, K), random(K, 16, seed=1)
    real = (
        multiply(truncate_tf32(x.numpy()), truncate_tf32(y.numpy()), UNITS[unit])
        - x.double().numpy() @ y.double().numpy()
    )
    for place, one in zip(PLACES, found(dotted, x, y, device=device, places=PLACES), strict=True):
        assert size(one, "operand") == pytest.approx(abs(real[place]), rel=0.01, abs=1e-4)
        assert size(one, "accumulation") < 0.1 * size(one)


def test_a_unit_of_few_bits_loses_about_that_much():
    """All products positive: what a unit cuts adds up, and the sum of the means is the error itself."""
    x, y = (random(n, m, seed=s).abs().to(torch.float8_e5m2) for n, m, s in ((16, 256, 0), (256, 16, 1)))
    exact = x.double().numpy() @ y.double().numpy()
    real = multiply(x.float().numpy(), y.float().numpy(), UNITS["sm_89-fp8"]) - exact
    sizes = [size(one, "lowacc") for one in found(dotted, x, y, device="sm_89", places=PLACES)]
    assert np.mean(sizes) == pytest.approx(np.mean([-real[p] for p in PLACES]), rel=0.25)


def test_sums_lose_as_the_root_of_their_terms():
    """Root mean square over 64 rows, against float32 added in the order of the terms."""
    x = random(64, 256)
    real = np.cumsum(x.numpy(), axis=1, dtype=np.float32)[:, -1] - x.double().numpy().sum(axis=1)
    rows = found(summed, x, places=[(i,) for i in range(64)])
    expected = np.sqrt(np.mean([size(one) ** 2 for one in rows]))
    assert np.sqrt(np.mean(real**2)) == pytest.approx(expected, rel=0.3)
    assert all(size(one) < one.half / 4 for one in rows)


def test_the_rounding_of_a_known_number_is_known():
    x = random(32)
    real = (x * 0.5).half().double() - x.double() * 0.5
    for i, one in enumerate(found(rounded, x, "cast", places=[(i,) for i in range(32)])):
        assert size(one) == pytest.approx(abs(float(real[i])), rel=1e-6)
        assert one.last == pytest.approx(size(one) ** 2)
        assert one.end is not None and one.end[0] == "cast"


def test_what_is_exact_has_no_error():
    (one,) = found(rounded, random(32), "exact", places=[(3,)])
    assert one.squares == {}


def test_errors_that_cancel_do():
    """e/e - e/e: the bound adds what comes over every path, the typical error of exp cancels."""
    (one,) = found(rounded, random(32), "cancel", places=[(3,)])
    line = rounding.fn.__code__.co_firstlineno + 9
    exp = [key for key in one.amounts if key[2] == line]
    assert exp and one.amounts[exp[0]] > 0
    assert size(one) > 0 and one.squares.get(exp[0], 0.0) < 1e-6 * size(one) ** 2
