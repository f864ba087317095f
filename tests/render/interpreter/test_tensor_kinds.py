"""Tensors of other classes and layouts, around a kernel and in its reference: followed, or named, never points."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from torch.utils._pytree import tree_map

from render.classify import classify
from render.interpreter.session import Session
from render.result.errors import RenderError

FACTOR = 0.7310585


@triton.jit
def _scaled(x_ptr, y_ptr, factor, n: tl.constexpr):
    i = tl.arange(0, n)
    tl.store(y_ptr + i, tl.load(x_ptr + i) * factor)


def kernel(x: torch.Tensor, factor: float = FACTOR) -> torch.Tensor:
    y = torch.empty_like(x)
    _scaled[(1,)](x, y, factor, 64)
    return y


class Named(torch.Tensor):
    """A subclass that only has a name."""


class Quantised(torch.Tensor):
    """A weight that is kept in other numbers and computes with what they mean."""

    codes: torch.Tensor
    scale: torch.Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls: Any, codes: torch.Tensor, scale: torch.Tensor) -> Any:
        return torch.Tensor._make_wrapper_subclass(cls, codes.shape, dtype=scale.dtype)

    def __init__(self, codes: torch.Tensor, scale: torch.Tensor) -> None:
        self.codes, self.scale = codes, scale

    @classmethod
    def __torch_dispatch__(cls: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        def plain(t: Any) -> Any:
            return t.codes.to(t.scale.dtype) * t.scale if isinstance(t, cls) else t

        return func(*tree_map(plain, args), **tree_map(plain, kwargs or {}))


def _quantised(y: torch.Tensor) -> torch.Tensor:
    scale = y.abs().max() / 127
    return torch.nn.functional.linear(y, Quantised((y / 0.01).round().to(torch.int8), scale))


def _jagged(y: torch.Tensor) -> torch.Tensor:
    parts = torch.nested.nested_tensor([y[:3], y[3:]], layout=torch.jagged)
    return torch.cat(list((parts * 1.7).unbind()))


def _masked(y: torch.Tensor) -> torch.Tensor:
    from torch.masked import masked_tensor

    return masked_tensor(y, y > 0).sum(-1).to_tensor(0.0)


def _of_shapes(y: torch.Tensor) -> torch.Tensor:
    rows = (y.to("meta") @ y.to("meta").t()).shape[0]
    return y * rows


def _faked(y: torch.Tensor) -> torch.Tensor:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        width = torch.empty(3, 8).sum(0).shape[0]
    return y[:, :width] * 1.1


FOLLOWED: dict[str, Any] = {
    "a subclass": lambda y: y.as_subclass(Named) * 1.7, "quantised": _quantised, "jagged": _jagged, "masked": _masked,
    "meta": _of_shapes, "fake": _faked, "a negated view": lambda y: torch._neg_view(y) * 1.7,
    "sparse times dense": lambda y: torch.mm(y.to_sparse(), torch.eye(8)),
    "to dense": lambda y: y.to_sparse().to_dense(),
    "the values": lambda y: y.to_sparse().values() * 1.1,
}  # fmt: skip
WITHOUT_BOUNDS: dict[str, Any] = {
    "sparse times sparse": lambda y: (y.to_sparse() * y.to_sparse()).to_dense(),
    "rows at once": lambda y: torch.sparse.softmax(y.to_sparse(), 1).to_dense(),
    "blocks": lambda y: torch.mm(y.to_sparse_bsr((4, 4)), torch.eye(8)),
}


def _x() -> torch.Tensor:
    return torch.randn(8, 8, generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize("name", FOLLOWED)
def test_what_is_computed_with_them_is_judged(name):
    step = FOLLOWED[name]
    right = classify(lambda x: step(kernel(x)), _x(), ref=lambda x: step(x * FACTOR), budget=False)
    assert right.label == "Type-I", right
    off = classify(lambda x: step(kernel(x, 1.01 * FACTOR)), _x(), ref=lambda x: step(x * FACTOR), budget=False)
    assert (off.label, off.code) == ("Type-II", "RND201"), off


@pytest.mark.parametrize("name", WITHOUT_BOUNDS)
def test_sparse_tensors_are_named(name):
    step = WITHOUT_BOUNDS[name]
    verdict = classify(lambda x: step(kernel(x)), _x(), ref=lambda x: step(x * FACTOR), budget=False)
    assert (verdict.label, verdict.code) == ("Inconclusive", "RND302")
    assert "sparse" in verdict.taints[0].message


def test_nested_tensors_without_a_shape_are_refused_by_name():
    def reference(x: torch.Tensor) -> Any:
        return torch.cat(list((torch.nested.nested_tensor([x[:3], x[3:]]) * FACTOR).unbind()))

    with pytest.raises(RenderError, match=r"layout=torch\.jagged"):
        classify(kernel, _x(), ref=reference, budget=False)


EXACT: dict[str, Any] = {
    "values": lambda x: x.to_sparse_bsr((4, 4)).values().reshape(8, 8),
    "values of a copy": lambda x: x.to_sparse_csr().to(torch.float64).values().float().reshape(8, 8),
    "columns": lambda x: x.to_sparse_csc().to_dense(),
    "coordinates": lambda x: x.to_sparse().to_dense(),
    "wrapped again": lambda x: torch.sparse_csr_tensor(*_rows(x), x.reshape(-1), (8, 8)).values().reshape(8, 8),
}  # fmt: skip


def _rows(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.arange(0, 65, 8), torch.arange(8).repeat(8)


@pytest.mark.parametrize("name", EXACT)
def test_elements_that_only_move_through_sparse_tensors_are_exact(name):
    """What a library does with weights before it launches."""
    moved, order = EXACT[name], torch.arange(64.0).reshape(8, 8)
    back = torch.argsort(moved(order + 1).reshape(-1)).reshape(8, 8)
    for factor, label in ((FACTOR, "Type-I"), (1.01 * FACTOR, "Type-II")):
        verdict = classify(lambda x, f=factor: kernel(moved(x), f).reshape(-1)[back], _x(), ref=lambda x: x * FACTOR,
                           budget=False)  # fmt: skip
        assert verdict.label == label, verdict


@pytest.mark.parametrize("step", [
    lambda x: torch.sparse_coo_tensor(torch.zeros(2, 64, dtype=torch.long), x.reshape(-1), (8, 8)).to_dense(),
    lambda x: torch.sparse_coo_tensor(torch.zeros(2, 64, dtype=torch.long), x.reshape(-1), (8, 8)).coalesce().values(),
    lambda x: x.to_sparse_csr().to(torch.float16).values().float(),
    lambda x: (x.to_sparse() * 1.1).to_dense(),
    lambda x: (x * 1.1).to_sparse_bsr((4, 4)).transpose(0, 1).values(),
    lambda x: x.to_sparse().mul_(1.1).to_dense(),
    lambda x: x.to_sparse_csr().mul_(1.1).values(),
    lambda x: x.to_sparse().coalesce().sqrt_().values(),
])  # fmt: skip
def test_what_rounds_in_sparse_tensors_is_not_exact(step):
    with Session("ieee") as s:
        out = step(_x())
        found = s.envelope(out)
        assert found.taints or (found.hi > found.lo).any()


def test_what_is_wrapped_in_a_sparse_tensor_keeps_its_bounds():
    step = lambda y: torch.sparse_csr_tensor(*_rows(y), y.reshape(-1), (8, 8)).values() * 1.1  # noqa: E731
    for factor, label in ((FACTOR, "Type-I"), (1.01 * FACTOR, "Type-II")):
        verdict = classify(lambda x, f=factor: step(kernel(x, f)), _x(), ref=lambda x: x.reshape(-1) * FACTOR * 1.1,
                           budget=False)  # fmt: skip
        assert verdict.label == label, verdict


def test_a_tensor_without_memory_is_refused_as_by_triton() -> None:
    x = torch.zeros(64, device="meta")
    with Session("any"), pytest.raises(ValueError, match="Pointer argument x_ptr cannot be accessed"):
        kernel(x)
