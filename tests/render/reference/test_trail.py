"""Two runs leave one trail exactly where they are one computation."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.multiprocessing.reductions import StorageWeakRef

from render.reference import trail as module
from render.reference.shadow import default_dtype
from render.reference.trail import SWEEP_BYTES, Trail

X = torch.randn(4, 8, generator=torch.Generator().manual_seed(0)).half()
ONE = {
    "matmul": lambda x: x @ x.T, "norm": lambda x: F.layer_norm(x, (8,)), "softmax": lambda x: x.softmax(-1),
    "a cast up": lambda x: x.float().exp().to(x.dtype), "zeros": lambda x: torch.zeros(8, dtype=x.dtype) + x,
    "numbers": lambda x: x * 0.1 + torch.arange(8), "whole": lambda x: x + torch.tensor([1.0, 2.0]).repeat(4),
}  # fmt: skip
OTHER = {
    "eps": lambda x: x + torch.finfo(x.dtype).eps, "bits": lambda x: x * x.element_size(),
    "item": lambda x: x * x.sum().item(),
    "branch": lambda x: x * 2 if x.dtype == torch.float64 else x + x, "tenth": lambda x: x * torch.tensor([0.1]),
    "inf": torch.nan_to_num,
    "list": lambda x: x * torch.tensor(x.cumsum(0).tolist()),
    "lowest": lambda x: x.masked_fill(x > 0, torch.finfo(x.dtype).min),
}  # fmt: skip


IN_NUMPY = {
    "exp": (lambda x: x + torch.from_numpy(np.exp(x.numpy())).to(x.dtype), True),
    "before a product": (lambda x: torch.from_numpy(np.tanh(np.asarray(x)) * 0.1).to(x.dtype) @ x.T, True),
    "by dtype": (lambda x: x + torch.from_numpy(x.numpy() * x.numpy().dtype.itemsize).to(x.dtype), False),
    "other operations": (lambda x: torch.from_numpy(x.numpy() * 2).exp() if x.itemsize > 2 else x.exp(), False),
    "another shape": (lambda x: torch.from_numpy(np.resize(x.numpy(), x.itemsize)).sum(), False),
}


@pytest.mark.parametrize("name", IN_NUMPY)
def test_what_comes_back_from_numpy_is_near(name):
    function, same = IN_NUMPY[name]
    narrow, wide = footprints(function)
    assert wide.arrived and narrow.same(wide) is same


def footprints(function):
    found = []
    for x, default in ((X, torch.float32), (X.double(), torch.float64)):
        with default_dtype(default), Trail() as trail:
            trail.restart([x])
            function(x)
        found.append(trail.footprint)
    return found


def digests(function):
    return [x.digest for x in footprints(function)]


@pytest.mark.parametrize("name", ONE)
def test_wider_inputs_change_nothing(name):
    narrow, wide = digests(ONE[name])
    assert narrow == wide


@pytest.mark.parametrize("name", OTHER)
def test_wider_inputs_make_another_function_of_it(name):
    narrow, wide = digests(OTHER[name])
    assert narrow != wide


@pytest.mark.parametrize("name", ONE | OTHER)
def test_forgetting_dead_storages_changes_no_digest(name, monkeypatch):
    usual = digests((ONE | OTHER)[name])
    monkeypatch.setattr(module, "SWEEP_BYTES", 0)
    assert digests((ONE | OTHER)[name]) == usual


def test_dead_storages_are_not_remembered_for_long(monkeypatch):
    """What torch keeps of each lies between the blocks that the allocator could give again."""
    known = []

    class Counted(StorageWeakRef):
        def __init__(self, storage):
            super().__init__(storage)
            known.append(self.cdata)

        def __del__(self):
            known.remove(self.cdata)
            super().__del__()

    monkeypatch.setattr(module, "StorageWeakRef", Counted)
    x = torch.zeros(SWEEP_BYTES // 64)  # 1/16 of what is allowed
    most = 0
    with Trail():
        for _ in range(100):
            x = x + 1
            most = max(most, len(known))
    assert 1 < most < 24
    assert not known
