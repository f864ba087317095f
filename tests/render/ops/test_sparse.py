"""Sparse tensors are followed as their elements at places: what is known of these survives, and products are dense."""

from __future__ import annotations

import pytest
import torch

from render.interpreter.session import Session
from render.reference.shadow import ShadowMode

X = torch.randn(5, 7, generator=torch.Generator().manual_seed(1)).relu()
Y = torch.randn(7, 3, generator=torch.Generator().manual_seed(2))
AT = torch.tensor([[0, 4, 2, 0], [1, 1, 6, 1]])
FORMS = {
    "product": lambda x, y: torch.sparse.mm((x * 1.1).to_sparse(), y),
    "rows": lambda x, y: (x * 1.1).to_sparse_csr() @ y,
    "columns": lambda x, y: (x * 1.1).to_sparse_csc() @ y,
    "turned": lambda x, y: (x.T * 1.1).to_sparse().t().coalesce() @ y,
    "vector": lambda x, y: torch.mv((x * 1.1).to_sparse_csr(), y[:, 0]),
    "sum": lambda x, y: torch.addmm(y[:5] * 0.1, (x * 1.1).to_sparse(), y, beta=0.5),
    "scaled": lambda x, y: ((x * 1.1).to_sparse() * 0.3).to_dense(),
    "elements": lambda x, y: (x * 1.1).to_sparse().coalesce().values() * 3,
    "elements of rows": lambda x, y: (x * 1.1).to_sparse_csr().values() * 3,
    "placed twice": lambda x, y: torch.sparse_coo_tensor(AT, x[0, :4] * 1.1, (5, 7)).to_dense(),
    "placed in rows": lambda x, y: torch.sparse_csr_tensor(
        torch.tensor([0, 1, 1, 3]), torch.tensor([2, 0, 4]), x[0, :3] * 1.1, (3, 7)) @ y,
    "changed": lambda x, y: changed((x * 1.1).to_sparse_csr()) @ y,
}  # fmt: skip


def changed(s: torch.Tensor) -> torch.Tensor:
    s.values().mul_(2.0)
    return s


@pytest.mark.parametrize("name", FORMS)
def test_what_sparse_tensors_give_is_followed(name):
    operation = FORMS[name]
    want, exact = operation(X, Y), operation(X.double(), Y.double())
    with torch.no_grad(), ShadowMode() as mode:
        found = operation(X, Y)
    # exact in float64 although computed elements went through sparse memory: 1.1 is that of a float32 program or not
    assert (mode.value(found) - exact).abs().max() <= 1e-12 and not mode.notes
    session = Session(device="torch-cpu", redirect=False)
    with torch.no_grad(), session:
        out = operation(X, Y)
    bound = session.envelope(out)
    assert bound is not None and not bound.taints
    for inside in (want.double().numpy(), exact.numpy()):
        assert ((bound.lo <= inside) & (inside <= bound.hi)).all()


def test_what_is_not_followed_stays_unknown():
    with torch.no_grad(), Session(device="torch-cpu", redirect=False) as session:
        s = (X * 1.1).to_sparse()
        out = (s * s).to_dense() * 1.0
    assert session.envelope(out).taints
