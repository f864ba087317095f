"""Moving, counting and combining elements against torch: values exactly or closely, bounds around the fp64 result."""

from __future__ import annotations

import combine_zoo as zoo
import numpy as np
import pytest
import torch
import triton
import triton.language as tl
import witness_zoo
from support import rng

from render.interpreter.combine import Linear, chooses, componentwise, linear_recurrence, selection
from render.interpreter.handle import Handle
from render.interpreter.merged_moments import Welford, welford
from render.interpreter.reduce import _has_nan
from render.interpreter.session import Session

M, N = 8, 16


def normal(*shape: int, seed: int = 191) -> torch.Tensor:
    return torch.from_numpy(rng(seed).normal(size=shape)).float()


def holds(s: Session, out: torch.Tensor, want: torch.Tensor, slack: float = 0.0) -> bool:
    envelope = s.envelope(out)
    assert envelope is not None
    reference = want.double().numpy()
    room = slack * (np.abs(reference) + 1)
    return bool(np.all((envelope.lo <= reference + room) & (reference - room <= envelope.hi)))


@pytest.mark.parametrize("what", ["gather", "cat", "interleave", "join", "split"])
def test_moves_keep_the_bounds(what: str) -> None:
    x, y = normal(N), normal(N, seed=192)
    index = torch.from_numpy(rng(193).integers(0, N, N).astype(np.int32))
    out = torch.zeros(N if what == "gather" else 2 * N)
    with Session("sm_80") as s:
        zoo.move_kernel[(1,)](x, y, index, out, N, what)
    a, b = x.double().exp(), y.double().exp()
    want = {"gather": a[index.long()], "cat": torch.cat([a, b]), "split": torch.cat([a, b])}
    expected = want.get(what, torch.stack([a, b], -1).reshape(-1))
    torch.testing.assert_close(out.double(), expected, rtol=1e-6, atol=0)
    assert holds(s, out, expected) and not s.taints and not s.findings
    envelope = s.envelope(out)
    assert envelope is not None and np.all(envelope.hi - envelope.lo <= 1e-5 * expected.numpy())


@pytest.mark.parametrize("axis", [0, 1])
def test_gather_along_either_axis(axis: int) -> None:
    x = normal(M, N)
    index = torch.from_numpy(rng(194).integers(0, (M, N)[axis], (M, N)).astype(np.int32))
    out = torch.empty(M, N)
    with Session("sm_80") as s:
        zoo.gather_rows_kernel[(1,)](x, index, out, M, N, axis)
    assert torch.equal(out, torch.gather(x, axis, index.long())) and not s.taints


def test_gather_outside_the_axis_taints() -> None:
    index = torch.full((M, N), N, dtype=torch.int32)
    with Session("sm_80") as s:
        zoo.gather_rows_kernel[(1,)](normal(M, N), index, torch.empty(M, N), M, N, 1)
    assert [t.code for t in s.taints.values()] == ["RND302"]


def test_histogram_counts_what_the_mask_keeps() -> None:
    x = torch.from_numpy(rng(195).integers(0, 8, 64).astype(np.int32))
    keep = torch.from_numpy(rng(196).integers(0, 2, 64).astype(np.int32))
    out = torch.empty(8, dtype=torch.int32)
    with Session("sm_80") as s:
        zoo.histogram_kernel[(1,)](x, keep, out, 64, 8)
    assert torch.equal(out, torch.bincount(x[keep != 0], minlength=8).int()) and not s.taints
    with Session("sm_80") as s:
        zoo.histogram_kernel[(1,)](x + 8, torch.ones_like(keep), out, 64, 8)
    assert [t.code for t in s.taints.values()] == ["RND302"]


@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("what", ["cumprod", "cumsum"])
def test_scans_in_both_directions(what: str, axis: int, back: bool) -> None:
    x = normal(M, N).abs() + 0.5
    out = torch.empty(M, N)
    with Session("sm_80") as s:
        zoo.scan_kernel[(1,)](x, out, M, N, what, axis, back)
    function = torch.cumprod if what == "cumprod" else torch.cumsum
    turned = x.double().flip(axis) if back else x.double()
    want = function(turned, axis).flip(axis) if back else function(turned, axis)
    torch.testing.assert_close(out.double(), want, rtol=1e-5, atol=0)
    assert holds(s, out, want, 1e-14) and not s.taints
    last = out.select(axis, -1 if back else 0)
    assert torch.equal(last, x.select(axis, -1 if back else 0))


def test_welford_is_bounded_in_every_order() -> None:
    x = normal(64) + 3
    mean, var, running = torch.empty(1), torch.empty(1), torch.empty(64)
    with Session("sm_80") as s:
        zoo.welford_kernel[(1,)](x, mean, var, running, 64)
    wide = x.double()
    torch.testing.assert_close(mean.double(), wide.mean().reshape(1), rtol=1e-6, atol=0)
    torch.testing.assert_close(var.double(), wide.var(correction=0).reshape(1), rtol=1e-5, atol=0)
    means = wide.cumsum(0) / torch.arange(1, 65)
    torch.testing.assert_close(running.double(), means, rtol=1e-5, atol=0)
    assert holds(s, mean, wide.mean().reshape(1)) and holds(s, var, wide.var(correction=0).reshape(1))
    assert holds(s, running, means)
    assert not s.taints


@pytest.mark.parametrize("n", [64, 50])
def test_raw_squares_are_bounded_in_every_order(n: int) -> None:
    x, mean, var = normal(64) + 3, torch.empty(1), torch.empty(1)
    with Session("sm_80") as s:
        zoo.spread_kernel[(1,)](x, mean, var, n, zoo.raw_squares, 64)
    wide = x[:n].double()
    assert holds(s, mean, wide.mean().reshape(1)) and holds(s, var, wide.var(correction=0).reshape(1))
    found = s.envelope(var)
    assert not s.taints and found is not None and found.hi[0] - found.lo[0] < 1e-2 * var.item()


@pytest.mark.parametrize("back", [False, True])
def test_linear_recurrences(back: bool) -> None:
    a, b = normal(N).abs(), normal(N, seed=197)
    out = torch.empty(N)
    with Session("sm_80") as s:
        zoo.recurrence_kernel[(1,)](a, b, out, N, back)
    order = range(N - 1, -1, -1) if back else range(N)
    h, want = 0.0, torch.empty(N, dtype=torch.float64)
    for i in order:
        h = float(a[i]) * h + float(b[i])
        want[i] = h
    torch.testing.assert_close(out.double(), want, rtol=1e-4, atol=1e-5)
    assert holds(s, out, want) and not s.taints
    found = s.envelope(out)
    assert found is not None and np.all(found.hi - found.lo <= 1e-4)


def test_components_that_are_combined_by_themselves() -> None:
    x = normal(N)
    out, running = torch.empty(3), torch.empty(3, N)
    with Session("sm_80") as s:
        zoo.components_kernel[(1,)](x, out, running, N)
    wide = x.double()
    assert holds(s, out, torch.stack([wide.sum(), wide.max(), wide.abs().prod()])) and not s.taints
    want = torch.stack([wide.cumsum(0), wide.cummax(0)[0], wide.abs().cumprod(0)])
    assert holds(s, running, want)
    torch.testing.assert_close(running.double(), want, rtol=1e-5, atol=1e-6)


def test_what_a_combine_function_is_taken_for() -> None:
    assert linear_recurrence(zoo.linear) == Linear(factor=0, addend=1)
    assert linear_recurrence(zoo.linear_by_fma) == Linear(factor=1, addend=0)
    assert componentwise(zoo.by_component) == ("sum", "max", "prod")
    assert welford(zoo.welford) == Welford(mean=0, m2=1, weight=2, guarded=True)
    assert welford(zoo.welford_without_guard) == Welford(mean=2, m2=0, weight=1, guarded=False)
    assert welford(zoo.raw_squares) == Welford(0, 2, 1, guarded=True, weighted=True, raw=True)
    for fn in (zoo.not_linear, zoo.not_welford, zoo.not_raw_squares):
        assert linear_recurrence(fn) is None and componentwise(fn) is None and welford(fn) is None


def test_a_combine_function_that_does_not_round_leaves_no_taint() -> None:
    x = normal(32)
    best, where = torch.empty(2), torch.empty(1, dtype=torch.int32)
    with Session("sm_80") as s:
        zoo.own_argmax_kernel[(1,)](x, best, where, 32)
    assert best.tolist() == [x.max().item()] * 2 and where.item() == x.argmax().item() and not s.taints


@pytest.mark.parametrize(("what", "taints"), [("any", 0), ("all", 0), ("parity", 1)])
def test_open_truth_values_stay_open_through_a_reduction(what: str, taints: int) -> None:
    x = torch.full((N,), -1e-9)  # whether exp(x) > 0.99999999 is open
    out = torch.empty(N)
    with Session("sm_80") as s:
        witness_zoo.truths[(1,)](x, out, N, what)
    envelope = s.envelope(out)
    assert envelope is not None and len(s.taints) == taints
    assert taints or (np.all(envelope.lo == 1.0) and np.all(envelope.hi == 2.0))


@pytest.mark.parametrize(("shared", "taints"), [(True, 1), (False, 0)])
def test_floats_that_several_programs_exchange_are_tainted(shared: bool, taints: int) -> None:
    x, slots = normal(4 * N), torch.zeros(4 * N)
    with Session("sm_80") as s:
        witness_zoo.exchange[(4,)](x, slots, N, shared)
    assert [t.code for t in s.taints.values()] == ["RND302"] * taints
    envelope = s.envelope(slots)
    assert envelope is not None and bool(envelope.taints) == shared


SELECTIONS = {
    "larger": "max", "smaller": "min", "larger_with_index": "argmax", "smaller_with_index": "argmin",
    "last_with_index": None, "mixed_roles": None, "first": None, "against_zero": None, "rounded_larger": None,
}  # fmt: skip


@pytest.mark.parametrize("name", SELECTIONS)
def test_functions_that_compare_and_choose_are_recognised(name: str) -> None:
    assert selection(getattr(zoo, name)) == SELECTIONS[name]


@triton.jit
def is_float(x):
    return (x + tl.zeros((1,), tl.int1)).dtype.is_floating()


@triton.jit
def last_largest(v, i, w, j):
    take = v > w
    same = v == w
    if is_float(v):
        nan = v != v
        take |= nan and (w == w)
    take |= same & (i > j)
    return tl.where(take, v, w), tl.where(take, i, j)


@triton.jit
def last_largest_of_rounded(v, i, w, j):
    take = (v > w) | ((v + 0.0 == w) & (i > j))
    return tl.where(take, v, w), tl.where(take, i, j)


@triton.jit
def running_kernel(X, Out, At, fn: tl.constexpr, N: tl.constexpr, SCAN: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(X + i)
    if SCAN:
        best, at = tl.associative_scan((x, i), 0, fn)
        tl.store(Out + i, best)
        tl.store(At + i, at)
    else:
        best, at = tl.reduce((x, i), 0, fn)
        tl.store(Out, best)
        tl.store(At, at)


def test_what_only_chooses_is_told_from_what_computes() -> None:
    pure = {"larger", "smaller", "larger_with_index", "smaller_with_index", "last_with_index", "first"}
    assert {name for name in SELECTIONS if chooses(getattr(zoo, name))} == pure
    assert chooses(last_largest) and not chooses(last_largest_of_rounded)


@pytest.mark.parametrize("scan", [False, True])
@pytest.mark.parametrize(("fn", "tainted"), [(last_largest, False), (last_largest_of_rounded, True)])
def test_what_a_choice_rounds_for_a_test_of_types_reaches_nothing(fn, tainted: bool, scan: bool) -> None:
    x, out, at = normal(N), torch.zeros(N), torch.zeros(N, dtype=torch.int32)
    x[3] = x[9] = x.max()
    with Session("sm_80") as s:
        running_kernel[(1,)](x, out, at, fn, N, scan)
    found = s.envelope(out)
    assert bool(s.taints) is tainted
    best = torch.cummax(x, 0)
    n = N if scan else 1
    assert torch.equal(out[:n], best.values[-n:]) and torch.equal(at[:n].long(), best.indices[-n:])
    assert found is not None and bool(found.taints) is tainted


@pytest.mark.parametrize("name", [name for name, kind in SELECTIONS.items() if kind])
@pytest.mark.parametrize("nan", [False, True])
def test_a_selection_is_bounded_as_the_extreme_that_it_is(name: str, nan: bool) -> None:
    x, out, at = normal(N), torch.zeros(1), torch.zeros(1, dtype=torch.int32)
    x[3] = x[9]  # equal ones
    x[5] = float("nan") if nan else x[5]
    with Session("sm_80") as s:
        zoo.select_kernel[(1,)](x, out, at, getattr(zoo, name), "index" in name, N)
    found = s.envelope(out)
    assert found is not None
    if nan:
        assert np.isnan(out.item()) == np.isnan(found.lo[0]) or np.isnan(found.lo[0])
        return
    exact = x.double() * np.float32(1.1).astype(np.float64)
    best = (exact.min() if "smaller" in name else exact.max()).item()
    assert found.lo[0] <= best <= found.hi[0] and found.hi[0] - found.lo[0] <= 2.0**-22 * abs(best)
    assert not found.taints
    if "index" in name:
        assert at.item() == int((exact == best).nonzero()[0])


@triton.jit
def nan_kernel(X, Out, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(X + i)
    y = x * 1.1
    tl.store(Out + i, tl.where(y != y, 1.0, 2.0))
    tl.store(Out + N + i, tl.where(y == y, 1.0, 2.0))
    tl.store(Out + 2 * N + i, tl.where(y < y, 1.0, 2.0))
    z = tl.log(y - 1e9 * (x > 1))
    tl.store(Out + 3 * N + i, tl.where(z != z, 1.0, 2.0))


def test_a_value_equals_itself_unless_it_is_nan() -> None:
    x = torch.tensor([0.5, -1.0, 2.0, float("nan")])
    out = torch.zeros(16)
    with Session("sm_80") as s:
        nan_kernel[(1,)](x, out, 4)
    found = s.envelope(out)
    assert found is not None
    lo, hi = found.lo.reshape(4, 4), found.hi.reshape(4, 4)
    assert lo[0, :3].tolist() == hi[0, :3].tolist() == [2, 2, 2] and hi[0, 3] >= out[3].item() == 1
    assert lo[1, :3].tolist() == hi[1, :3].tolist() == [1, 1, 1]
    assert lo[2].tolist() == hi[2].tolist() == [2] * 4
    for k, z in enumerate(torch.log(x * 1.1 - 1e9 * (x > 1))):
        assert lo[3, k] <= (1.0 if z.isnan() else 2.0) <= hi[3, k]


@pytest.mark.parametrize(("ends", "nan"), [((1.0, 1.0), False), ((np.nan, np.nan), True), ((1.0, np.nan), True),
                                           ((-np.inf, np.inf), False), (None, False)])  # fmt: skip
def test_an_operand_is_nan_where_a_bound_is(ends: tuple[float, float] | None, nan: bool) -> None:
    """A bound that is NaN says that nothing is known, whatever came out."""
    lo, hi = (None, None) if ends is None else (np.array([[0.0, e]]) for e in ends)
    assert _has_nan(Handle(np.array([[0.0, 1.0]]), tl.float32, (2,), lo, hi)) == nan
    assert _has_nan(Handle(np.array([[0.0, np.nan]]), tl.float32, (2,)))
    assert not _has_nan(Handle(np.array([[0, 1]]), tl.int32, (2,)))
