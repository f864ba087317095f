"""Bounds of numbers that are copied, saved or handed on below torch's operations."""

from __future__ import annotations

import array
import copy
import ctypes
import io
import pickle
import struct

import numpy as np
import pytest
import safetensors.torch
import torch
import triton
import triton.language as tl

import render
from render.interpreter import arriving
from render.interpreter.session import Session
from render.reference.shadow import ShadowMode

N = 96


@triton.jit
def third(X, Y, N: tl.constexpr, F: tl.constexpr):
    i = tl.arange(0, N)
    m = i < 96
    tl.store(Y + i, tl.load(X + i, mask=m) / 3 * F, mask=m)


def saved(z):
    buffer = io.BytesIO()
    torch.save(z, buffer)
    buffer.seek(0)
    return torch.load(buffer)


def in_module(z):
    module = torch.nn.Module()
    module.register_buffer("z", z)
    return copy.deepcopy(module).z


def element_by_element(z):
    out = torch.empty(z.shape)
    for i, x in enumerate(z):
        out[i] = x.item()
    return out


def by_address(z):
    out = torch.empty(z.shape)
    ctypes.memmove(out.data_ptr(), z.data_ptr(), 4 * z.numel())
    return torch.from_numpy(out.numpy().copy())


def other_storage(z):
    storage = torch.UntypedStorage(4 * z.numel())
    storage.copy_(z.untyped_storage())
    return torch.empty(0).set_(storage, 0, z.shape)


WAYS = {
    "deepcopy": copy.deepcopy, "copy": copy.copy, "pickle": lambda z: pickle.loads(pickle.dumps(z)), "save": saved,
    "module": in_module, "safetensors": lambda z: safetensors.torch.load(safetensors.torch.save({"z": z}))["z"],
    "storage": lambda z: torch.empty(0).set_(z.untyped_storage(), 0, z.shape), "other storage": other_storage,
    "storage clone": lambda z: torch.empty(0).set_(z.untyped_storage().clone(), 0, z.shape),
    "numpy copy": lambda z: torch.from_numpy(z.numpy().copy()),
    "as integers": lambda z: z.view(torch.int32).clone().view(torch.float32),
    "as bytes": lambda z: z.view(torch.uint8).clone().view(torch.float32),
    "resize": lambda z: z.clone().resize_(z.shape),
    "frombuffer": lambda z: torch.frombuffer(bytearray(z.numpy().tobytes()), dtype=z.dtype),
    "list of tensors": lambda z: torch.as_tensor(list(z)), "element by element": element_by_element,
    "array": lambda z: torch.tensor(array.array("f", z.tolist())), "address": by_address,
    "struct": lambda z: torch.tensor(struct.unpack(f"{z.numel()}f", struct.pack(f"{z.numel()}f", *z.tolist()))),
    "new_tensor": lambda z: z.new_tensor(z.tolist()),
}  # fmt: skip


def thirds(x, factor=1.0):
    y = torch.empty_like(x)
    third[(1,)](x, y, 128, factor)
    return y


X = torch.linspace(0.1, 7, N)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("host", [False, True], ids=["of a kernel", "of the host"])
def test_the_bounds_go_along(way, host):
    with Session(device="any") as session:
        z = thirds(X) * 0.3 if host else thirds(X)
        before, out = session.envelope(z), WAYS[way](z)
        after, value = session.envelope(out), out.double().numpy()
    assert after is not None and (after.lo < after.hi).any()
    assert ((after.lo <= value) & (value <= after.hi)).all()
    assert ((after.lo <= before.lo).all() and (before.hi <= after.hi).all()) or after.taints
    assert ((after.hi - after.lo) <= 4 * (before.hi - before.lo) + 1e-12).all()


def test_other_numbers_from_outside_are_unknown():
    with Session(device="any") as session:
        z = thirds(X)
        array_ = z.numpy().copy()
        array_[3] *= 1.5
        taints = [session.envelope(torch.from_numpy(array_)).taints, session.envelope(z).taints]
    assert [bool(t) for t in taints] == [True, False]


def test_numbers_that_never_were_in_torch_are_exact():
    with Session(device="any") as session:
        thirds(X)
        given = torch.from_numpy(np.linspace(0, 1, 7, dtype=np.float32))
        loaded = saved(torch.ones(4))
        assert session.memory.host_envelope(given) is None and session.memory.host_envelope(loaded) is None


@pytest.mark.parametrize("way", ["deepcopy", "save", "safetensors", "element by element"])
def test_the_label_is_that_of_the_numbers(way):
    entry = lambda factor: lambda x: WAYS[way](thirds(x, factor) * 0.3)  # noqa: E731
    right = render.classify(entry(1.0), X, ref=lambda x: x / 3 * 0.3, device="any")
    wrong = render.classify(entry(1.001), X, ref=lambda x: x / 3 * 0.3, device="any")
    assert (right.label, wrong.label) == ("Type-I", "Type-II")


@pytest.mark.parametrize("way", ["deepcopy", "copy", "module", "storage clone", "other storage"])
def test_a_reference_keeps_its_exact_values(way):
    with ShadowMode() as run:
        plain = X / 3 * 0.3
        moved = WAYS[way](plain)
        assert torch.equal(run.value(moved), run.value(plain))
        assert not torch.equal(run.value(moved), moved.double())


def test_fractions_from_outside_are_listed_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """What host code makes of numbers that torch never had; integers, copies and what has bounds are none of these."""
    monkeypatch.setattr(arriving, "KEPT", 8)
    with Session(device="any") as session:
        plain, stored, half = torch.zeros(2), thirds(X), torch.tensor([0.5])
        made = [torch.tensor([1, 2]), torch.tensor([0.5j]), torch.tensor([]), torch.as_tensor(plain)]
        assert len(made) == 4 and len(session.arrays) == 1
        torch.tensor([0.1], device="meta")
        torch.from_numpy(np.full(7, 0.1, np.float32))
        torch.tensor([0.3], dtype=torch.float64)  # one more than are kept
        assert torch.from_numpy(stored.numpy()[:0]).shape == (0,) and half == 0.5
        monkeypatch.setattr(arriving, "KEPT", 1000)
        torch.from_numpy(stored.numpy())
    assert [t.tolist() for _, t in session.arrays] == [[0.5], pytest.approx([0.1] * 7)]
    assert all(site.line for site, _ in session.arrays)


def test_numbers_that_are_brought_get_the_bounds_that_are_asked_for() -> None:
    with Session(device="any") as session:
        session._tracker.wide = lambda t: (t.double().numpy() - 1, t.double().numpy() + 2)
        found = session.envelope(torch.tensor([3.0, 4.0]))
        session._tracker.wide = lambda t: None
        assert session.envelope(torch.tensor([3.0, 4.0])) is None
    assert (found.lo.tolist(), found.hi.tolist(), found.taints) == ([2, 3], [5, 6], frozenset())


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("others", [[], [7.5], [-2.0, 0.0]], ids=len)
def test_an_element_that_left_is_rounded_where_it_is_put(dtype: torch.dtype, others: list[float]) -> None:
    """`o[i:j] = numbers`: a bound for each that has one, the numbers themselves for the others."""
    with Session(device="any") as session:
        z = thirds(X)
        before, out = session.envelope(z), torch.zeros(len(others) + 1, dtype=dtype)
        for i, x in enumerate([z[3].item(), *others]):
            out[i] = x
        found = session.envelope(out)
    assert found.lo[0] <= before.lo[3] < before.hi[3] <= found.hi[0] and not found.taints
    assert found.hi[0] - found.lo[0] < 2.0 ** (-6 if dtype == torch.float16 else -20)
    assert found.lo[1:].tolist() == found.hi[1:].tolist() == others
