"""Operations on complex numbers, put together from their parts, are torch's own."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

import render
from render.interpreter.host import HostTracker
from render.interpreter.memory import Memory
from render.ops.complexes import of_parts, plain_of
from render.ops.parts import in_parts

Z = torch.complex(torch.linspace(-2, 1.5, 12), torch.linspace(0.3, -1, 12)).view(3, 4)
W = torch.complex(torch.linspace(1, -0.7, 12), torch.linspace(2, 0.1, 12)).view(3, 4)
X = torch.linspace(-1, 2, 12).view(3, 4)

CALLS = {
    "z + w": lambda z, w, x: z + w, "z - w.conj()": lambda z, w, x: z - w.conj(), "x + z": lambda z, w, x: x + z,
    "x - z": lambda z, w, x: x - z, "z - x": lambda z, w, x: z - x, "z + 2": lambda z, w, x: z + 2,
    "z + 2j": lambda z, w, x: z + 2j, "alpha": lambda z, w, x: torch.add(z, w, alpha=0.5),
    "z * w": lambda z, w, x: z * w, "z * w.conj()": lambda z, w, x: z * w.conj(), "z * x": lambda z, w, x: z * x,
    "x * z": lambda z, w, x: x * z, "3 * z": lambda z, w, x: 3 * z, "1j * z": lambda z, w, x: 1j * z,
    "broadcast": lambda z, w, x: z[:, :1] * w[:1] + x[0], "z / x": lambda z, w, x: z / x,
    "z / 4": lambda z, w, x: z / 4,
    "-z": lambda z, w, x: -z, "abs": lambda z, w, x: z.abs(), "angle": lambda z, w, x: z.angle(),
    "sum": lambda z, w, x: z.sum(-1, keepdim=True), "mean": lambda z, w, x: z.mean((0, 1)),
    "stack": lambda z, w, x: torch.stack([z, w], -1), "cat": lambda z, w, x: torch.cat([z, w.conj()], 1),
    "mm": lambda z, w, x: z @ w.T, "clone": lambda z, w, x: z.T.contiguous(),
    "double": lambda z, w, x: z.to(torch.complex128),
    "from real": lambda z, w, x: x.to(torch.complex64), "polar": lambda z, w, x: torch.polar(x.abs(), x),
    "complex": lambda z, w, x: torch.complex(x, -x), "physical": lambda z, w, x: torch.conj_physical(z),
    "in place": lambda z, w, x: z.clone().mul_(w).add_(x).sub_(1j), "float64": lambda z, w, x: z * x.double(),
    "pad": lambda z, w, x: torch.nn.functional.pad(z.conj(), (1, 2), value=2.0),
    "where": lambda z, w, x: torch.where(x > 0, x, z),
    "fill": lambda z, w, x: z.masked_fill(x > 0, 2 + 1j), "gather": lambda z, w, x: z.gather(1, x[:, :2].long() % 4),
    "index": lambda z, w, x: z[:, [2, 0, 0]], "flip": lambda z, w, x: z.flip(-1).roll(1, 0).tril(),
    "put": lambda z, w, x: z.clone().index_put_((torch.tensor([2, 0]),), w[:2]),
    "exp": lambda z, w, x: z.exp(), "square": lambda z, w, x: z.square(), "cube": lambda z, w, x: (z**3).pow_(2),
    "fill in place": lambda z, w, x: z.clone().masked_fill_(x > 0, 3j),
}  # fmt: skip


class Seen(torch.utils._python_dispatch.TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.names = []

    @in_parts
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        tensors = [t for t in (out, *args) if isinstance(t, torch.Tensor)]
        if any(t.is_complex() for t in tensors) and not any(r.alias_info for r in func._schema.returns):
            self.names.append(str(func))
        return out


@pytest.mark.parametrize("name", CALLS)
def test_as_torch_computes_it(name):
    seen = Seen()
    with seen:
        own = CALLS[name](Z.clone(), W.clone(), X.clone())
    theirs = CALLS[name](Z, W, X)
    assert own.dtype == theirs.dtype and own.shape == theirs.shape
    torch.testing.assert_close(own, theirs, rtol=1e-6, atol=1e-6)
    assert [n for n in seen.names if not n.startswith("aten.clone")] == []  # of the test's own operands


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_what_has_no_rule_for_complex_numbers_is_a_taint(dtype):
    memory = Memory()
    with HostTracker(memory):
        x = torch.view_as_real(Z.to(dtype)).clone()
        at = x.double().numpy().copy()
        memory.carry(x, at - 1e-6, at + 1e-6, frozenset())
        found = memory.envelope(torch.view_as_real(torch.view_as_complex(x).prod(1)))
    assert {memory.taints.get(t).code for t in found.taints} == {"RND302"}


def test_what_is_not_taken_apart():
    for func, args in ((torch.ops.aten.div.Tensor, (Z, W)), (torch.ops.aten.mul.Tensor, (X, X))):
        assert of_parts(func, plain_of(func), args, {}) is None
    assert plain_of(torch.ops.aten._fft_r2c.default) is None
    with Seen() as seen:  # a sum in another type than that of the parts
        assert torch.equal(Z.sum(0, dtype=torch.complex128), Z.to(torch.complex128).sum(0))
    assert "aten.sum.dim_IntList" in seen.names


@triton.jit
def rotate(Q, C, S, Y, P, D: tl.constexpr, F: tl.constexpr):
    r = tl.program_id(0)
    i = tl.arange(0, D // 2)
    a, b = tl.load(Q + r * D + 2 * i), tl.load(Q + r * D + 2 * i + 1)
    c, s = tl.load(C + r % P * (D // 2) + i), tl.load(S + r % P * (D // 2) + i) * F
    tl.store(Y + r * D + 2 * i, a * c - b * s)
    tl.store(Y + r * D + 2 * i + 1, a * s + b * c)


def table(length, d):
    frequencies = 1.0 / (10000.0 ** (torch.arange(0, d, 2).float() / d))
    angles = torch.outer(torch.arange(length), frequencies)
    return torch.polar(torch.ones_like(angles), angles)


def rotated(q, factor=1.0):
    f, out = table(*q.shape[1:]), torch.empty_like(q)
    rotate[(q.shape[0] * q.shape[1],)](q, f.real.contiguous(), f.imag.contiguous(), out, q.shape[1], q.shape[2], factor)
    return out


def reference(q):
    z = torch.view_as_complex(q.float().reshape(*q.shape[:-1], -1, 2))
    return torch.view_as_real(z * table(*q.shape[1:])).flatten(-2)


def test_a_rotary_embedding_by_complex_numbers_is_judged():
    q = torch.randn(2, 16, 32, generator=torch.Generator().manual_seed(1))
    right = render.classify(rotated, q, ref=reference, device="any")
    wrong = render.classify(lambda q: rotated(q, 1.0001), q, ref=reference, device="any")
    assert right.label in ("Type-I", "Equal"), right
    assert (wrong.label, wrong.code) == ("Type-II", "RND201")
