"""Which outputs are compared with which."""

from __future__ import annotations

import itertools
from collections import deque, namedtuple
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from render.entry.inputs import of_call
from render.entry.outputs import devices, flatten, match, of_reference, shape_mismatch, stored_arguments
from render.result.errors import RenderError

X, Y, Z = torch.zeros(2, 3), torch.zeros(2), torch.zeros(2, 3)
Pair = namedtuple("Pair", "first second")


@dataclass
class Result:
    y: torch.Tensor
    loss: float


@pytest.mark.parametrize(
    ("result", "names", "expected"),
    [
        (X, (), ["out"]),
        (X, ["c"], ["c"]),
        ((X, Y), (), ["out0", "out1"]),
        ((X, Y), ["o", "lse"], ["o", "lse"]),
        ((X, None), ["o", "lse"], ["o"]),
        ({"a": X, "b": Y}, (), ["a", "b"]),
        (Pair(X, Y), (), ["first", "second"]),
        (Result(X, 1.5), (), ["y", "loss"]),
        ([X, [Y, Z]], (), ["out0", "out1", "out2"]),
        ((X, 3.0, np.ones(2), np.float32(1)), (), ["out0", "out1", "out2", "out3"]),
        (None, (), []),
        ("text", (), []),
    ],
)
def test_flatten(result, names, expected):
    assert [name for name, _ in flatten(result, names)] == expected


def test_numbers_keep_their_precision():
    assert flatten(0.1)[0][1].dtype == torch.float64
    assert flatten(3)[0][1].dtype == torch.int64


@pytest.mark.parametrize("made", [lambda z: z, lambda z: z.numpy(), lambda z: z.conj().resolve_conj().conj()])
def test_complex_numbers_are_pairs_of_real_ones(made):
    """Both parts are judged; as float64 the imaginary one would be dropped."""
    z = torch.complex(torch.randn(5), torch.randn(5))
    ((name, pairs),) = flatten(made(z))
    assert name == "out" and pairs.dtype == torch.float32
    assert torch.equal(pairs, torch.stack([z.real, z.imag], -1))


def test_stored_arguments():
    def entry(a, out, n):
        pass

    a, out = torch.zeros(2), torch.ones(2)
    seen = {out.data_ptr(): SimpleNamespace(kernel_written=True), a.data_ptr(): SimpleNamespace(kernel_written=False)}
    found = stored_arguments(of_call(entry, (a, out, 3), {}), lambda t: seen.get(t.data_ptr()))
    assert [name for name, _ in found] == ["out"]


def test_a_reference_in_place():
    values = {"a": X, "out": Z}
    assert [(n, t.data_ptr()) for n, t in of_reference(None, values, [("out", Z)])] == [("out", Z.data_ptr())]
    assert of_reference(Y, values, [("out", Z)])[0][1] is not Z


def pairs(kernel, reference):
    return [(p.kernel, p.reference) for p in match(kernel, reference)[0]]


def test_matching():
    k = [("o", X), ("lse", Y)]
    assert pairs(k, [("ref0", X), ("ref1", Y)]) == [(0, 0), (1, 1)]
    assert pairs(k, [("lse", Y), ("o", X)]) == [(1, 0), (0, 1)]
    assert pairs(k, [("ref", X)]) == [(0, 0)]
    assert pairs(k, [("ref", Y)]) == [(1, 0)]
    assert pairs([("o", X)], [("r0", Y), ("r1", X)]) == [(0, 1)]


def test_outputs_without_a_partner_are_noted():
    assert "lse" in match([("o", X), ("lse", Y)], [("ref", X)])[1][0]
    assert "ref1" in match([("o", X)], [("ref0", X), ("ref1", Y)])[1][0]
    assert match([("o", X)], [("ref", X)])[1] == []


@pytest.mark.parametrize(
    ("kernel", "reference"), [([], [("ref", X)]), ([("o", X)], []), ([("o", X), ("p", Y)], [("r", torch.zeros(9))])]
)
def test_nothing_to_match(kernel, reference):
    with pytest.raises(RenderError) as error:
        match(kernel, reference)
    assert error.value.code == "RND903"
    assert error.value.hint


def test_device_outputs():
    k = [("o", X), ("lse", Y)]
    assert devices(None, k) == [None, None]
    assert devices({"lse": Y}, k)[0] is None
    assert devices({"lse": Y}, k)[1] is not None
    assert [t.shape for t in devices((X, Y), k)] == [X.shape, Y.shape]
    assert devices(X, k)[1] is None
    with pytest.raises(RenderError, match="device output"):
        devices((X, Y, Z), k)


def test_shapes_and_kinds():
    assert shape_mismatch("o", X, Z) == ""
    assert shape_mismatch("o", X, Z.half()) == ""
    assert shape_mismatch("o", X, Y) == "o is [2, 3], the reference is [2]"
    assert "int64" in shape_mismatch("o", X, torch.zeros(2, 3, dtype=torch.int64))


class Held:
    def __init__(self, x):
        self.first, self.rate, self.parts = x, 0.5, {"second": x + 1, "name": "a"}


class Slotted:
    __slots__ = ("count", "first")

    def __init__(self, x):
        self.first, self.count = x, 3


def module(x):
    found = torch.nn.Linear(2, 1, bias=False)
    found.weight = torch.nn.Parameter(x)
    return found


W = torch.tensor([[1.5, 2.5]])
RETURNED = {
    "generator": (lambda: (x + 1 for x in (W, W + 1)), {"out0": W + 1, "out1": W + 2}),
    "map": (lambda: map(torch.neg, [W]), {"out": -W}),
    "nested": (lambda: {"a": [{"b": W}, (W + 1,)], "c": W + 2}, {"a.0.b": W, "a.1.0": W + 1, "c": W + 2}),
    "dicts in a list": (lambda: [{"y": W}, {"y": W + 1}], {"y": W, "y.1": W + 1}),
    "object": (lambda: Held(W), {"first": W, "parts.second": W + 1}),
    "slots": (lambda: Slotted(W), {"first": W}), "namespace": (lambda: SimpleNamespace(y=W, n=2), {"y": W}),
    "object in a dict": (lambda: {"a": Held(W)}, {"a.first": W, "a.parts.second": W + 1}),
    "module": (lambda: module(W), {"weight": W}), "queue": (lambda: deque([W]), {"out": W}),
    "sparse": (lambda: W.to_sparse(), {"out": W}), "rows": (lambda: [W.to_sparse_csr()], {"out": W}),
    "jagged": (lambda: torch.nested.nested_tensor_from_jagged(W[0], torch.tensor([0, 2])), {"out": W[0]}),
    "array": (lambda: {"a": np.float32([1.5])}, {"a": W[0, :1]}),
    "numbers": (lambda: (1.5, 2), {"out0": 1.5, "out1": 2}),
}  # fmt: skip


@pytest.mark.parametrize("name", RETURNED)
@pytest.mark.filterwarnings("ignore:Sparse")
def test_whatever_holds_tensors_is_looked_into(name):
    make, wanted = RETURNED[name]
    found = dict(flatten(make()))
    assert list(found) == list(wanted)
    for key, x in wanted.items():
        assert torch.equal(found[key].detach(), torch.as_tensor(x, dtype=found[key].dtype)), key


def test_what_holds_itself_ends():
    one = Held(W)
    one.parts["again"] = one
    assert [name for name, _ in flatten(one)] == ["first", "parts.second"]


def test_results_without_end_are_refused():
    with pytest.raises(RenderError, match="return a list"):
        flatten(W + i for i in itertools.count())
