"""A tensor may be an operand and take the result as well: what it held is read before it is overwritten."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from render.interpreter.host import HostTracker
from render.interpreter.memory import Memory

W = torch.linspace(-2, 2, 64).reshape(8, 8)


def _pair(b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return b, torch.empty(b.shape, dtype=torch.int64)


FORMS: dict[str, Callable[[torch.Tensor], Any]] = {
    "first operand": lambda b: torch.mul(b, W, out=b),
    "second operand": lambda b: torch.div(W, b, out=b),
    "both": lambda b: torch.mul(b, b, out=b),
    "one operand": lambda b: torch.exp(b, out=b),
    "a sum of products": lambda b: torch.addmm(b, b.clone(), W, alpha=-1, out=b),
    "a scan": lambda b: torch.cumsum(b, 1, out=b),
    "sorted": lambda b: torch.sort(b, 1, out=_pair(b)),
    "chosen": lambda b: torch.where(W > 0, b, W, out=b),
    "clamped": lambda b: torch.clamp(b, -1.0, 1.0, out=b),
    "onto itself": lambda b: b.copy_(b),
    "onto its other half": lambda b: torch.sub(b[:4], W[:4], out=b[4:]),
}


@pytest.mark.parametrize("form", FORMS)
def test_an_operand_that_takes_the_result_is_read(form: str) -> None:
    rng, memory = np.random.default_rng(3), Memory()
    x = torch.from_numpy(rng.uniform(0.5, 3, (8, 8))).float()
    lo, hi = (np.float64(x.numpy() * np.float32(side)) for side in (0.875, 1.125))
    with HostTracker(memory):
        memory.carry(x, lo, hi, frozenset())
        b = x.clone()
        FORMS[form](b)
    found = memory.envelope(b)
    assert found is not None and not found.taints
    assert (found.lo < found.hi).any()
    for _ in range(20):
        corner = torch.from_numpy(np.where(rng.integers(0, 2, lo.shape) > 0, lo, hi)).float()
        FORMS[form](corner)
        v = corner.double().numpy()
        assert ((v >= found.lo) & (v <= found.hi)).all()
