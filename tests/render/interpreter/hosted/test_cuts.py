"""An operation that is cut does to each part what it does to the whole."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from render.interpreter.hosted.cuts import cut_of

F = torch.nn.functional
X = torch.linspace(-2.0, 3.0, 2 * 3 * 4 * 5).view(2, 3, 4, 5)


class Seen(TorchDispatchMode):
    """The last operation that took X."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if args and isinstance(args[0], torch.Tensor) and args[0].shape == X.shape:
            self.call = func, args, kwargs or {}
        return out


def seen(operation: Any, x: torch.Tensor = X) -> tuple[Any, Any, Any]:
    with Seen() as mode, torch.no_grad():
        operation(x)
    return mode.call


CHANNELS = torch.tensor([0.5, 1.0, -2.0])
FIVE = torch.linspace(0.5, 1.5, 5)
CUT: dict[str, tuple[Any, str]] = {
    "exp": (torch.exp, "elements"), "neg": (torch.neg, "elements"), "gelu": (F.gelu, "elements"),
    "tanh": (torch.tanh, "elements"), "silu": (F.silu, "elements"),
    "relu": (torch.relu, "selects"),
    "layer norm": (lambda x: F.layer_norm(x, (5,), FIVE, FIVE), "rows"),
    "layer norm of two": (lambda x: F.layer_norm(x, (4, 5)), "rows"),
    "max pool": (lambda x: F.max_pool2d(x, 2), "selects"),
    "batch norm": (lambda x: F.batch_norm(x, CHANNELS, CHANNELS.abs() + 0.5), "channels"),
}  # fmt: skip
WHOLE: dict[str, Any] = {
    "sum": torch.sum,
    "softmax": lambda x: F.softmax(x, -1),
    "add of two": lambda x: x + X,
    "add": lambda x: x + 1.0,
    "matmul": lambda x: x @ x.mT,
    "hardtanh": F.hardtanh,
    "where": lambda x: torch.where(x > 0, x, X),
    "transpose": lambda x: x.transpose(0, 1),
    "sum of a type": lambda x: x.sum(dtype=torch.float64),
    "statistics of the batch": lambda x: F.batch_norm(x, None, None, training=True),
    "max over a row": lambda x: x.max(-1),
}


@pytest.mark.parametrize("name", CUT)
def test_parts_are_what_the_whole_has_there(name: str) -> None:
    operation, how = CUT[name]
    func, args, kwargs = seen(operation)
    cut = cut_of(func, args, kwargs, X.dim())
    assert cut is not None and (cut.channels, cut.selects) == (how == "channels", how == "selects")
    whole = func(*args, **kwargs)
    whole = whole[0] if isinstance(whole, tuple) else whole
    if cut.channels:  # each image by itself
        parts = [func(X[i : i + 1], *args[1:], **kwargs) for i in range(len(X))]
        assert torch.equal(cut.seen(X), X)
        assert torch.equal(torch.cat([p[0] if isinstance(p, tuple) else p for p in parts]), whole)
        return
    rows, results = cut.seen(X), cut.seen(whole)
    assert len(rows) == len(results) and len(rows) > len(X)
    for start in range(0, len(rows), 7):
        part = func(rows[start : start + 7].contiguous(), *args[1:], **kwargs)
        got = part[0] if isinstance(part, tuple) else part  # the last lanes of a vector are rounded in another way
        torch.testing.assert_close(got, results[start : start + 7], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", WHOLE)
def test_what_needs_more_than_a_part_is_not_cut(name: str) -> None:
    func, args, kwargs = seen(WHOLE[name])
    assert cut_of(func, args, kwargs, X.dim()) is None


def test_shapes_that_are_no_planes_or_channels_are_not_cut() -> None:
    func, args, kwargs = seen(CUT["max pool"][0])
    assert cut_of(func, args, kwargs, 3) is None
    func, args, kwargs = seen(CUT["batch norm"][0])
    assert cut_of(func, args, kwargs, 1) is None and cut_of(func, args, kwargs, 2) is not None
