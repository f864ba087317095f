"""Operations on lists of tensors are the plain ones, in every overload that torch has."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode

import render
from render.front.tape import Tape
from render.interpreter.session import Session
from render.ops.parts import each, in_parts
from render.reference.precise.recorder import CellRecorder
from render.reference.shadow import ShadowMode
from render.reference.trail import Trail

UNKNOWN = {"_foreach_copy", "_foreach_zero", "_foreach_powsum"}
"""Those without a plain operation that Python reaches; they stay operations without a rule."""


def overloads():
    for name in sorted(torch._C._dispatch_get_all_op_names()):
        if name.startswith("aten::_foreach") and not name.endswith("out"):
            base, _, overload = name.removeprefix("aten::").partition(".")
            yield pytest.param(getattr(getattr(torch.ops.aten, base), overload or "default"), id=f"{base}.{overload}")


def arguments(func):
    draw = torch.Generator().manual_seed(0)
    tensors = lambda: [torch.rand(3, 3, generator=draw) * 0.8 + 0.1 for _ in range(3)]  # noqa: E731
    for spec in func._schema.arguments:
        kind = str(spec.type)
        if spec.has_default_value() and spec.name != "value":
            continue
        if kind == "List[Tensor]":
            yield tensors()
        elif kind.startswith("List["):
            yield [2, 0.5, 3]
        elif kind == "Tensor":
            yield torch.tensor([0.5, 2.0, 4.0] if spec.name == "scalars" else 0.7)
        else:
            yield 3


@pytest.mark.parametrize("func", list(overloads()))
def test_the_plain_operation_on_each(func):
    whole, apart = list(arguments(func)), list(arguments(func))
    calls = each(func, apart, {})
    if func._schema.name.removeprefix("aten::") in UNKNOWN:
        assert calls is None
        return
    out, own = func(*whole), [call() for call in calls]
    for a, b in zip(out if func._schema.returns else whole[0], own, strict=True):
        assert torch.equal(a, b)
    if not func._schema.returns:
        assert all(torch.equal(a, b) for a, b in zip(whole[0], apart[0], strict=True))


def test_a_plain_operation_is_none_of_them():
    assert each(torch.ops.aten.add.Tensor, [torch.ones(2), torch.ones(2)], {}) is None


@pytest.mark.parametrize("mode", [ShadowMode, CellRecorder, Trail, Tape])
def test_a_mode_leaves_torch_as_it_was(mode):
    patched = ("tensor", "as_tensor", "tolist", "new_tensor")

    def names():
        return {(owner, n): vars(owner).get(n) for owner in (torch, torch.Tensor) for n in patched}

    before, x = names(), torch.ones(3)
    with mode():
        torch._foreach_mul_([x], 2.0)
        torch.view_as_real(torch.polar(x, x) * 2)
    assert names() == before


@triton.jit
def gradient(X, G, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(X + i)
    tl.store(G + i, x * x / 3 + 0.1)


def updated(kind, foreach):
    weight = torch.nn.Parameter(torch.linspace(-1, 1, 8))
    weight.grad = torch.empty(8)
    with render.cpu(), Session(device="any") as session:
        gradient[(1,)](weight.detach(), weight.grad, N=8)
        torch.nn.utils.clip_grad_norm_([weight], 1.0, foreach=foreach)
        kind([weight], lr=1e-2, foreach=foreach).step()
        return weight.detach(), session.envelope(weight.detach())


@pytest.mark.parametrize("kind", [torch.optim.AdamW, torch.optim.SGD, torch.optim.RMSprop])
def test_an_optimiser_and_clipping_are_followed(kind):
    (value, listed), (other, looped) = updated(kind, True), updated(kind, False)
    assert not listed.taints and not looped.taints
    assert (listed.hi > listed.lo).any() and (listed.hi - listed.lo).max() < 1e-5
    assert ((listed.lo <= other.numpy()) & (other.numpy() <= listed.hi)).all()
    assert ((looped.lo <= value.numpy()) & (value.numpy() <= looped.hi)).all()


def test_a_reference_with_an_optimiser_has_an_exact_value():
    def step(x):
        out = torch.empty_like(x)
        gradient[(1,)](x, out, N=x.numel())
        return x - 0.1 * out

    def reference(x):
        weight = torch.nn.Parameter(x.clone())
        weight.grad = x * x / 3 + 0.1
        torch.optim.SGD([weight], lr=0.1, foreach=True).step()
        return weight.detach()

    verdict = render.classify(step, torch.linspace(-1, 1, 8), ref=reference, device="any")
    assert verdict.label in ("Type-I", "Equal"), verdict
    wrong = render.classify(lambda x: step(x) * 1.001, torch.linspace(-1, 1, 8), ref=reference, device="any")
    assert wrong.label == "Type-II", wrong


def test_conversions_in_inference_mode_round():
    """They arrive whole there, with the schema of a view."""
    x = torch.linspace(0.1, 1, 7)
    with torch.inference_mode(), Session(device="torch-cpu", redirect=False) as session:
        out = x.to(torch.bfloat16).float().reshape(7, 1)
    bound = session.envelope(out)
    assert bound is not None
    for inside in (x, out.clone()):
        wide = inside.double().numpy().reshape(7, 1)
        assert ((bound.lo <= wide) & (wide <= bound.hi)).all()
    assert (bound.hi > bound.lo).sum() > 3


class Seen(TorchDispatchMode):
    """The names of the operations that a mode which follows plain ones sees."""

    def __init__(self):
        super().__init__()
        self.names = []

    @in_parts
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(func._schema.name)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.int64])
def test_a_weighted_count_is_a_sum_at_places(dtype):
    x, w = torch.tensor([1, 3, 1, 0]), torch.tensor([2, 3, 4, 5]).to(dtype)
    with Seen() as seen:
        found = torch.bincount(x, w, 6)
    exact = torch.bincount(x, w, 6)
    assert "aten::bincount" not in seen.names and torch.equal(found, exact) and found.dtype == exact.dtype
    with Seen() as seen:
        assert torch.equal(torch.bincount(x), torch.tensor([1, 2, 0, 1])) and "aten::bincount" in seen.names


@triton.jit
def _halved_square(X, Out, N: tl.constexpr, OFF: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(Out + i, tl.load(X + i) * tl.load(X + i) * OFF)


FORWARD = {
    "jvp": lambda x: torch.func.jvp(lambda x: x * x / 2, (x,), (x,))[1],
    "dual": lambda x: torch.func.jvp(lambda x: (x * x).sum() * x / x.square().sum(), (x,), (x * x,))[1],
    "jacfwd": lambda x: torch.diagonal(torch.func.jacfwd(lambda x: x * x * x / 3)(x)),
    "hessian": lambda x: torch.func.hessian(lambda x: (x**3 / 6).sum())(x) @ x,
    "dual numbers": lambda x: _tangent(x),
}


def _tangent(x):
    with torch.autograd.forward_ad.dual_level():
        return torch.autograd.forward_ad.unpack_dual(torch.autograd.forward_ad.make_dual(x, x) ** 2 / 2).tangent


@pytest.mark.parametrize("name", FORWARD)
def test_a_forward_derivative_has_an_exact_value(name):
    """Of x^2, whose derivatives start at tensors of zeros without memory."""

    def square(x, off=1.0):
        out = torch.empty_like(x)
        _halved_square[(1,)](x, out, 16, off)
        return out

    x = torch.rand(16, generator=torch.Generator().manual_seed(0)) + 0.5
    assert render.classify(square, x, ref=lambda x, *_: FORWARD[name](x)).label == "Type-I"
    v = render.classify(square, x, 1.015, ref=lambda x, *_: FORWARD[name](x))
    assert (v.label, v.code) == ("Type-II", "RND201")


class _Square(torch.nn.Module):
    def forward(self, x):
        return x * x


TRACED = {
    "exported": lambda x: torch.export.export(_Square(), (x,)).module()(x),
    "fake": lambda x: make_fx(lambda x: x * x, tracing_mode="fake")(x)(x),
    "symbolic": lambda x: make_fx(lambda x: x * x, tracing_mode="symbolic")(x)(x),
    "beside": lambda x: x * x + 0 * FakeTensorMode().from_tensor(x).dim(),
}


@pytest.mark.parametrize("name", TRACED)
def test_a_reference_that_is_traced_first(name):
    """Tensors without memory are made on the device where the real ones lie, whatever the host is told."""

    def square(x, off=1.0):
        out = torch.empty_like(x)
        _halved_square[(1,)](x, out, 16, off)
        return out

    x = torch.rand(16, generator=torch.Generator().manual_seed(0)) + 0.5
    assert render.classify(square, x, ref=lambda x, *_: TRACED[name](x)).label == "Type-I"
    v = render.classify(square, x, 1.015, ref=lambda x, *_: TRACED[name](x))
    assert (v.label, v.code) == ("Type-II", "RND201")
