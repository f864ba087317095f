"""A scope that no mode sees, and modes as they were behind it."""

from __future__ import annotations

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack

from render.ops.unseen import Unseen


class Seen(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(func.__name__)
        return func(*args, **(kwargs or {}))


def test_no_mode_sees_what_runs_inside():
    outer, inner, x = Seen(), Seen(), torch.ones(2)
    with outer, inner:
        before = _get_current_dispatch_mode_stack()
        with Unseen():
            torch.exp(x)
            with Unseen():
                torch.exp(x)
        assert _get_current_dispatch_mode_stack() == before == [outer, inner]
        torch.log(x)
    assert outer.names == inner.names == ["log.default"]


def test_modes_are_back_where_something_fails_inside():
    mode = Seen()
    with mode:
        with pytest.raises(ValueError, match="inside"), Unseen():
            raise ValueError("inside")
        assert _get_current_dispatch_mode_stack() == [mode]
