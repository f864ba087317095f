"""Bounds of a host tensor through every view of its storage: another type, parts, what is stored, what is not."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from render.interpreter.memory.envelope import overlaps, read, stored_by_kernels
from render.interpreter.memory.registry import address
from render.interpreter.session import Session

N = 8


@triton.jit
def copied(X, Y, n, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(Y + i, tl.load(X + i), mask=i < n)


def stored(n: int = N, width: float = 0.25, only: int | None = None):
    """(session, result): the first `n` of N elements; of every second one, or of `only`, the bounds are open."""
    x, y = torch.arange(1.0, N + 1), torch.zeros(N)
    session = Session(device="any")
    with session:
        v = x.double().numpy()
        wide = width * (np.arange(N) % 2 == 0 if only is None else np.arange(N) == only)
        session.memory.carry(x, v - wide, v + wide, frozenset())
        copied[(1,)](x, y, n, N)
    return session, y


def test_views_have_the_bounds_of_their_elements() -> None:
    session, y = stored()
    whole = session.envelope(y)
    assert (whole.lo != whole.hi).tolist() == [True, False] * 4 and whole.written.all()
    for view in (y[::2], y[1::2], y.view(2, 4).T, y[3:], y.view(4, 2)[:, 1], y[5]):
        at = (view.numpy() - 1).astype(int)
        found = session.envelope(view)
        assert np.array_equal(found.lo, whole.lo[at]) and np.array_equal(found.hi, whole.hi[at])
    assert session.envelope(torch.zeros(3)) is None and session.envelope(y[:0]) is None


def test_what_no_kernel_stored_is_unwritten_and_unknown() -> None:
    session, _ = stored()
    x = torch.arange(1.0, N + 1)
    with session:
        y = torch.empty(N)
        copied[(1,)](x, y, 5, N)
    found = session.envelope(y)
    assert found.written.tolist() == [True] * 5 + [False] * 3
    assert np.array_equal(found.lo[:5], np.arange(1.0, 6))


@pytest.mark.parametrize("dtype", [torch.int32, torch.float16, torch.uint8, torch.int64])
def test_open_numbers_read_as_another_type_are_unknown_and_others_are_not(dtype) -> None:
    session, y = stored(only=4)
    seen = session.envelope(y.view(dtype))
    each = seen.lo.size / N
    inside = np.arange(seen.lo.size) // each == 4 if each >= 1 else np.arange(seen.lo.size) == 2
    assert np.array_equal(np.isnan(seen.lo), inside) and np.array_equal(np.isnan(seen.hi), inside)
    assert [session.taints[i].code for i in seen.taints] == ["RND302"]
    known = np.asarray(y.view(dtype).double())
    assert np.array_equal(seen.lo[~inside], known[~inside], equal_nan=True)
    apart = session.envelope(y[:4].view(dtype))
    assert not apart.taints and np.array_equal(apart.lo, np.asarray(y[:4].view(dtype).double()), equal_nan=True)


def test_what_was_overwritten_behind_the_interpreter_has_its_own_value() -> None:
    session, y = stored()
    y.numpy()[2] = 77.0
    found = session.envelope(y)
    assert (found.lo[2], found.hi[2]) == (77.0, 77.0) and found.lo[4] < found.hi[4]


def test_a_complex_number_is_known_where_both_of_its_parts_are() -> None:
    session, y = stored(only=4)
    z = torch.view_as_complex(y.view(4, 2))
    storage = session.memory.find(y.data_ptr())
    for tensor in (z, z.conj()):
        found = read(session.memory, storage, tensor)
        assert np.isnan(found.lo).tolist() == [False, False, True, False]
        assert found.lo[[0, 1, 3]].tolist() == [1.0, 3.0, 7.0] and found.written.all()
        assert [session.taints[i].code for i in found.taints] == ["RND302"]
    plain = read(session.memory, storage, z[:2])
    assert not plain.taints and plain.lo.tolist() == [1.0, 3.0]
    assert session.envelope(z) is None


@triton.jit
def by_program(X, Y, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(Y + i, tl.load(X + i), mask=i % N < N - 1)


def test_of_a_part_of_the_programs_it_is_known_what_they_stored() -> None:
    x, y = torch.arange(8.0 * N), torch.zeros(8 * N)
    with Session(device="any", programs=2) as session:
        by_program[(8,)](x, y, N)
    at = stored_by_kernels(session.memory, y)
    rows = at.reshape(8, N)
    assert rows.any(1).sum() == 2 and rows[rows.any(1)].tolist() == [[True] * (N - 1) + [False]] * 2
    assert np.array_equal(stored_by_kernels(session.memory, y[::2]), at[::2])
    assert np.array_equal(y.numpy() != 0, at & (x.numpy() != 0))
    assert not stored_by_kernels(session.memory, x).any() and stored_by_kernels(session.memory, y[:0]).shape == (0,)
    assert stored_by_kernels(session.memory, torch.zeros(3)).tolist() == [False] * 3
    whole, z = Session(device="any"), torch.zeros(8 * N)
    with whole:
        by_program[(8,)](x, z, N)
    assert not stored_by_kernels(whole.memory, z).any()


@triton.jit
def cut(X, Y, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(Y + i, tl.load(X + i).to(Y.dtype.element_ty))


@pytest.mark.parametrize("dtype", [torch.int8, torch.int32, torch.int64, torch.uint8])
def test_open_integers_have_both_ends(dtype) -> None:
    x, out = torch.tensor([1.5, 2.0, 3.9, 100.0]), torch.zeros(4, dtype=dtype)
    with Session(device="any") as session:
        v = x.double().numpy()
        session.memory.carry(x, v - np.array([0.25, 0.25, 0.0, 0.0]), v + np.array([0.25, 0.25, 0.2, 0.0]), frozenset())
        cut[(1,)](x, out, 4)
    found = session.envelope(out)
    assert found.lo.tolist() == [1, 1, 3, 100] and found.hi.tolist() == [1, 2, 4, 100]
    out[1] = 9
    found = session.envelope(out)
    assert (found.lo[1], found.hi[1]) == (9, 9)


@pytest.mark.parametrize(("first", "last"), [(i, j) for i in range(5) for j in range(i, 5)])
def test_a_view_beside_what_kernels_stored_is_none_of_theirs(first: int, last: int) -> None:
    """Of five pairs of elements the middle three are a kernel's: bytes that end where these begin are none of them."""
    x, whole = torch.arange(1.0, N + 1), torch.zeros(10)
    with Session(device="any") as session:
        copied[(1,)](x, whole[2:], 6, N)
        storage = session.memory.find(address(whole))
        assert overlaps(storage, whole[2 * first : 2 * last + 2]) is (first <= 3 and last >= 1)
