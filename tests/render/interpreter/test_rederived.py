"""Host values by torch's own float64 kernels: points beside what the rules bound."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from interval_ops.profiles.profile import CAUSES
from render.interpreter.rederived import Rederived
from render.interpreter.session import Session

X = torch.randn(4, 6, generator=torch.Generator().manual_seed(1))
STEPS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "elementwise": lambda x: torch.exp(x.half() * 0.1) / 3,
    "rows": lambda x: torch.softmax(x.bfloat16(), -1).float().cumsum(0),
    "in place": lambda x: x.clone().mul_(0.3).add_(1 / 7).to(torch.float16),
    "tables": lambda x: x[0] * torch.linspace(0, 1, 6) + torch.hann_window(6) + 0.1 * torch.arange(6),
    "products": lambda x: (x @ x.t()).half() @ x.half(),
    "norms": lambda x: torch.nn.functional.layer_norm(x, (6,)).var(-1, keepdim=True).half(),
}


def doubled(step: Callable[[torch.Tensor], torch.Tensor], monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    """The step as it is written, every format float64."""
    old = torch.Tensor.to
    for name in ("half", "bfloat16", "float"):
        monkeypatch.setattr(torch.Tensor, name, lambda t: t.double())
    monkeypatch.setattr(torch.Tensor, "to", lambda t, dtype: old(t, torch.float64))
    torch.set_default_dtype(torch.float64)
    try:
        return step(X.double()).numpy()
    finally:
        torch.set_default_dtype(torch.float32)
        monkeypatch.undo()


@pytest.mark.parametrize("name", STEPS)
def test_results_are_those_of_float64(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with Session(mute=CAUSES, tracker=lambda s: Rederived(s.memory, s.mute, s.causes)) as session:
        found = session.envelope(STEPS[name](X.clone()))
    wanted = doubled(STEPS[name], monkeypatch)
    assert found is not None and not found.taints
    np.testing.assert_array_equal(found.lo, found.hi)
    np.testing.assert_allclose(found.lo, wanted, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", STEPS)
def test_bounds_hold_them(name: str) -> None:
    with Session() as session:
        bound = session.envelope(STEPS[name](X.clone()))
    with Session(mute=CAUSES, tracker=lambda s: Rederived(s.memory, s.mute, s.causes)) as second:
        point = second.envelope(STEPS[name](X.clone()))
    assert bound is not None and point is not None
    room = 2.0**-40 * np.abs(point.lo)
    assert (bound.lo - room <= point.lo).all() and (point.lo <= bound.hi + room).all()
