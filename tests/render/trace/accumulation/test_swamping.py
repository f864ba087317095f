"""Terms that are recorded are those that the kernel sums; what is said of them holds."""

import math

import numpy as np
import pytest
import torch
import triton.language as tl

from render.entry.execution import Entry
from render.entry.inputs import of_call
from render.trace.accumulation.simulate import simulate_accumulator
from render.trace.accumulation.swamping import swamping
from render.trace.accumulation.terms import chains
from render.trace.element import slices_of
from tests.render.companions.kernels import atomic, lanes, matmul, plain, polynomial, rescaled, serial, welford


def cut(fn, index, *inputs):
    entry = Entry(fn, of_call(fn, inputs, {}))
    run = entry.run()
    (found,) = slices_of(entry, run, [(run.outputs[0].name, index)])
    return chains(found)


def half(*shape, positive=False):
    torch.manual_seed(0)
    return (torch.rand(*shape) if positive else torch.randn(*shape)).half()


def test_products_of_a_dot_over_a_loop():
    a, b = half(16, 96), half(96, 16)
    (chain,) = cut(matmul, (3, 5), a, b)
    products = a[3].double().numpy() * b[:, 5].double().numpy()
    assert (chain.length, chain.accumulator.fmt, chain.accumulator.rounding) == (96, "fp32", "truncate")
    assert chain.accumulator.products == 21
    assert chain.terms.tolist() == products.reshape(-1, chain.accumulator.block).sum(axis=1).tolist()


def test_a_half_precision_accumulator_of_a_dot():
    (chain,) = cut(lambda a, b: matmul(a, b, tl.float16), (0, 0), half(16, 32), half(32, 16))
    assert (chain.accumulator.simulated, chain.accumulator.bits) == ("fp16", 10)


def test_lanes_are_chains_of_their_own_and_their_sum_another():
    x = half(2, 128)
    found = cut(lanes, (1,), x)
    rows = sorted(tuple(c.terms.tolist()) for c in found if c.op == "fadd")
    assert rows == sorted(tuple(lane.tolist()) for lane in x[1].double().view(8, 16).T)
    (last,) = (c for c in found if c.op == "sum")
    assert last.length == 16 and last.accumulator.tree
    for c in found:
        if c.op == "fadd":  # the interpreter rounds these additions too, by other code
            assert simulate_accumulator("fp16", "nearest", None, c.terms).sums == c.value


def test_signs_of_what_is_subtracted():
    x = half(4, 40)
    (chain,) = cut(serial, (2,), x)
    assert chain.terms.tolist() == (-x[2].double() * 0.5).tolist()
    assert simulate_accumulator("fp16", "nearest", None, chain.terms).sums == chain.value


@pytest.mark.parametrize("acc", [tl.float32, tl.float16])
def test_a_sum_that_is_scaled_on_the_way_is_one_chain(acc):
    x = torch.randn(2, 128, generator=torch.Generator().manual_seed(2))
    found = cut(lambda x: rescaled(x, acc), (1,), x)
    (chain,) = (c for c in found if c.op == "fadd")
    rows = x[1].double().view(8, 16)
    top = rows.max(dim=1).values.cummax(0).values  # each part is scaled from its maximum to the last one
    assert chain.terms == pytest.approx((rows - top[-1]).exp().sum(dim=1).numpy(), rel=1e-5)
    assert chain.accumulator.fmt == ("fp16" if acc == tl.float16 else "fp32")
    assert any(step.cast for step in chain.steps) == (acc == tl.float16)


def test_what_reads_an_accumulator_in_its_loop_is_no_sum_of_its_own():
    x = torch.randn(2, 24, generator=torch.Generator().manual_seed(3)) + 5
    found = swamping(welford, x)
    assert [(s.op, s.length) for s in found] == [("fadd", 24), ("fadd", 24)]
    exact = x.double().var(dim=1, correction=0).numpy() * 24
    (spread,) = (c for c in cut(welford, (1,), x) if c.line == found[1].line and c.length == 24)
    assert spread.terms.sum() == pytest.approx(exact[1], rel=1e-4)


def test_a_polynomial_is_no_accumulator():
    assert swamping(polynomial, torch.randn(16)) == []


def test_atomics_on_one_address():
    x = torch.randn(160, generator=torch.Generator().manual_seed(1))
    found = cut(atomic, (0,), x)
    (whole,) = (c for c in found if c.op == "atomic_sum")
    assert whole.terms.sum() == pytest.approx(float(x.double().sum()), rel=1e-5)
    assert sum(c.op == "sum" for c in found) == 10


def test_an_accumulator_that_is_too_short_is_named_and_what_suffices_does():
    x = half(4, 900, positive=True)
    (found,) = swamping(serial, x)
    assert found.short and found.length == 900 and found.index is None  # of one sign: the index says nothing
    exact = -x.double().sum(dim=1).numpy() / 2
    error = serial_in_half(x) - exact
    assert found.measured == pytest.approx(math.sqrt((error**2).mean() / (exact**2).mean()), rel=1e-6)
    rows = -x.double().numpy() / 2
    assert simulate_accumulator(found.bits, "nearest", None, rows).loss <= found.allowed
    assert simulate_accumulator(found.bits - 1, "nearest", None, rows).loss > found.allowed
    assert f"this fp16 accumulator loses {100 * found.measured:.2g} % at 900 terms" in found.sentence
    assert f"{found.bits} bits" in found.sentence


def serial_in_half(x):
    total = np.zeros(len(x), np.float16)
    for column in x.numpy().T:
        total = total - column * np.float16(0.5)
    return total.astype(np.float64)


def test_chunks_that_suffice():
    (found,) = swamping(serial, half(4, 900, positive=True), loss=1.5e-3)
    assert f"chunks of {found.chunk} suffice for 0.15 %" in found.sentence
    rows = -half(4, 900, positive=True).double().numpy() / 2
    assert simulate_accumulator("fp16", "nearest", found.chunk, rows).loss <= 1.5e-3


def test_a_wide_accumulator_and_none():
    (found,) = swamping(matmul, half(16, 64), half(64, 16))
    assert not found.short and found.index > 1 - 1e-9 and found.wide_enough and "suffice" not in found.sentence
    assert found.to_dict()["proof"]["relative_half_width"] >= found.worst / 10
    assert swamping(plain, torch.randn(16)) == []
