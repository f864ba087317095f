"""Formulas of rows on plain numbers are what torch computes; every operation that has one, along all kinds of axes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from render.ops.aten import ATEN, named
from render.ops.formulas import Refused
from render.ops.rows import Joined

aten = torch.ops.aten


class Numbers:
    """Float64, (rows, elements)."""

    def number(self, x: float) -> Any:
        return np.float64(x)

    def call(self, name: str, x: Any) -> Any:
        return 1 / np.sqrt(x) if name == "rsqrt" else getattr(np, name)(x)

    def sum(self, x: Any) -> Any:
        return x.sum(1, keepdims=True)

    def product(self, x: Any) -> Any:
        return x.prod(1, keepdims=True)

    def most(self, x: Any) -> Any:
        return x.max(1, keepdims=True)

    def least(self, x: Any) -> Any:
        return x.min(1, keepdims=True)

    def power(self, x: Any, y: Any) -> Any:
        return x**y

    def count(self, x: Any) -> int:
        return x.shape[1]


CALLS: list[tuple[Any, tuple[Any, ...]]] = [
    (aten.sum.dim_IntList, ([0, 2], True)), (aten.sum.default, ()), (aten.mean.dim, ([-1],)), (aten.prod.dim_int, (1,)),
    (aten.amax.default, ([1], True)), (aten.amin.default, ()), (aten.max.dim, (1,)), (aten.min.default, ()),
    (aten._softmax.default, (1, False)), (aten._log_softmax.default, (-1, False)), (aten._safe_softmax.default, (0,)),
    (aten.logsumexp.default, ([0, 1],)), (aten.var.correction, ([1],)), (aten.var.default, (False,)),
    (aten.std.dim, ([0], True, True)), (aten.var_mean.correction, ([2],)), (aten.std_mean.dim, ([0, 1],)),
    (aten.linalg_vector_norm.default, (1, [1])), (aten.linalg_vector_norm.default, (3,)),
    (aten.linalg_vector_norm.default, (float("-inf"), [0])), (aten.norm.ScalarOpt_dim, (2, [1])),
    (aten.native_layer_norm.default, ([3, 4], "w", "w", 1e-5)),
    (aten.native_layer_norm.default, ([4], None, None, 0.5)),
    (aten.native_group_norm.default, (None, None, 2, 6, 4, 3, 1e-5)),
    (aten.native_batch_norm.default, (None, None, None, None, True, 0.1, 1e-3)),
    (aten.native_batch_norm.default, (None, None, "m", "v", False, 0.1, 1e-3)),
]  # fmt: skip


@pytest.mark.parametrize(("op", "args"), CALLS, ids=[f"{op.name()} {args}" for op, args in CALLS])
def test_formulas_against_torch(op: Any, args: Any) -> None:
    generator = torch.Generator().manual_seed(3)
    shape = (2, 6, 4) if "group" in op.name() else (2, 3, 4)
    x = torch.randn(shape, generator=generator, dtype=torch.float64)
    tensors = {name: torch.rand(size, generator=generator, dtype=torch.float64) + 0.5
               for name, size in (("w", (3, 4)), ("m", 3), ("v", 3))}  # fmt: skip
    args = (x, *(tensors.get(a, a) if isinstance(a, str) else a for a in args))
    want = op(*args)
    given = named(op._schema, args, {})
    row = ATEN[op._schema.name.removeprefix("aten::")].row
    assert row is not None
    joined = row.layout(given, x.shape)
    beside = [None if given.get(b) is None else given[b].numpy()[:, None] for b in row.beside]
    found = row.evaluated(Numbers(), joined.rows(x.numpy()), beside, given)
    kinds = row.kinds(given)
    for kind, got, expected in zip(kinds, found, want if isinstance(want, tuple) else (want,), strict=False):
        got = joined.back(got) if kind == "x" else got.reshape(joined.kept)
        if kind == "x":
            got = got * (1 if given.get("weight") is None else given["weight"].numpy().reshape(joined.side))
            got = got + (0 if given.get("bias") is None else given["bias"].numpy().reshape(joined.side))
        assert got.shape == tuple(expected.shape)
        np.testing.assert_allclose(got, expected.numpy(), rtol=1e-12, atol=1e-13)


def test_every_formula_of_rows_is_compared():
    asked = {op._schema.name.removeprefix("aten::") for op, _ in CALLS}
    assert asked == {name for name, op in ATEN.items() if op.row is not None} - {"_fused_rms_norm"}


def test_rms_norm() -> None:
    """Torch has no kernel of it on a CPU to compare with, but its definition."""
    x = torch.randn(3, 4, dtype=torch.float64)
    row = ATEN["_fused_rms_norm"].row
    assert row is not None
    found = row.evaluated(Numbers(), x.numpy(), [], {"eps": 0.01})
    np.testing.assert_allclose(found[0], torch.nn.functional.rms_norm(x, (4,), eps=0.01).numpy(), rtol=1e-13)
    with pytest.raises(Refused):
        row.evaluated(Numbers(), x.numpy(), [], {"eps": None})


@pytest.mark.parametrize("axes", [[0], [1], [0, 2], [0, 1, 2], []])
def test_elements_come_back_where_they_were(axes: list[int]) -> None:
    x = np.arange(24).reshape(2, 3, 4)
    joined = Joined(x.shape, axes)
    assert np.array_equal(joined.back(joined.rows(x)), x)
    assert joined.rows(x).shape == (24 // joined.n, joined.n)
