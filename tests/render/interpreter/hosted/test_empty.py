"""Host operations on tensors without elements: nothing rounds, and what else goes in keeps its bounds."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from render.interpreter.session import Session

LO, HI = np.array([1.0, 2, 3, 4]), np.array([1.1, 2, 3, 4])
NOWHERE = torch.zeros(0, dtype=torch.long)

CONSTANTS = {
    "sum": lambda e: e.sum(), "along one": lambda e: e.sum(0), "mean": lambda e: e.mean(), "prod": lambda e: e.prod(),
    "norm": lambda e: e.norm(), "var": lambda e: e.var(), "nansum": lambda e: e.nansum(), "dot": lambda e: e.dot(e),
    "mm": lambda e: torch.ones(3, 0) @ e.view(0, 4), "bmm": lambda e: torch.ones(2, 3, 0).bmm(e.view(2, 0, 2)),
    "einsum": lambda e: torch.einsum("ij,jk->ik", e.view(4, 0), e.view(0, 4)), "all": lambda e: (e > 1).all(),
    "l1": lambda e: F.l1_loss(e, e, reduction="sum"), "vector norm": lambda e: torch.linalg.vector_norm(e, 1),
    "nll": lambda e: F.nll_loss(e.view(0, 4), NOWHERE), "rows": lambda e: e.view(4, 0).sum(1),
    "bce": lambda e: F.binary_cross_entropy(e.sigmoid(), e, reduction="sum"), "entries": lambda e: e.count_nonzero(),
    "cross entropy": lambda e: F.cross_entropy(e.view(0, 4), NOWHERE, reduction="sum"),
}  # fmt: skip
"""Of elements that there are none of."""
BESIDE = {
    "cat": lambda e, x: torch.cat([e, x]), "index_add": lambda e, x: x.index_add(0, NOWHERE, e),
    "scatter": lambda e, x: x.scatter_add(0, NOWHERE, e), "put": lambda e, x: x.index_put((NOWHERE,), e, True),
    "addmm": lambda e, x: torch.addmm(x, torch.ones(4, 0), e.view(0, 4))[0], "list": lambda e, x: torch.stack([*e, *x]),
    "added": lambda e, x: x + e.sum(), "masked": lambda e, x: x + x[x > 99].sum(),
    "baddbmm": lambda e, x: torch.baddbmm(x.view(1, 1, 4), torch.ones(1, 1, 0), e.view(1, 0, 4))[0, 0],
    "addmv": lambda e, x: torch.addmv(x, e.view(4, 0), e), "linear": lambda e, x: F.linear(e[None], e.view(4, 0), x)[0],
}  # fmt: skip
"""Of these and of x, which they leave as it is."""


def bounds(function):
    x = torch.tensor([1.03, 2.0, 3.0, 4.0])
    with Session() as session:
        session.memory.carry(x, LO, HI, frozenset())
        out = function(x[:0], x)
        return out, session.envelope(out)


@pytest.mark.filterwarnings("ignore:var")
@pytest.mark.parametrize("name", CONSTANTS)
def test_what_is_made_of_nothing_is_a_constant(name):
    out, found = bounds(lambda e, x: CONSTANTS[name](e))
    assert found is None or not found.taints
    if found is not None and out.is_floating_point():
        assert np.array_equal(found.lo, out.numpy(), equal_nan=True)
        assert np.array_equal(found.hi, out.numpy(), equal_nan=True)


@pytest.mark.parametrize("name", BESIDE)
def test_what_goes_along_with_nothing_keeps_its_bounds(name):
    _, found = bounds(BESIDE[name])
    assert found is not None and not found.taints
    assert (found.lo <= LO).all() and (found.hi >= HI).all()
    assert (found.hi - found.lo <= HI - LO + 1e-5).all()
