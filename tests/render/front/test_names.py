"""What the code of a comparison says: that two things are to differ, and where they were handed to it."""

from __future__ import annotations

import inspect
import linecache
from collections.abc import Callable

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from render.front.names import denied
from render.front.watch import Watch

DIFFER = [
    "assert not torch.equal(a, b)",
    "assert (a - b).abs().max() > 0.1",
    "assert 1e-3 < np.abs(a - b).max()",
    "assert ((a - b).abs() / b.abs()).max() >= tol",
    "err = (a - b).abs().max().item()\nassert err > 0.1",
    "err = (a - b).norm()\nprint(err)\nassert 0.5 < err, 'the old version was right'",
]
AGREE = [
    "assert (a - b).abs().max() < 0.1",
    "assert (a - b).abs().max() >= 0",
    "assert torch.cosine_similarity(a, b, dim=0) > 0.99",
    "assert (a == b).float().mean() > 0.99",
    "assert 1 - (a - b).abs().max() > 0.9 or True",
    "assert 10 * torch.log10(b.norm() / (a - b).norm()) > 30",
    "assert b.norm() / (a - b).norm() > 100",
    "err = (a - b).abs().max().item()\nassert err < 0.1",
    "err = (a - b).abs().max().item()\nassert err > 0\nassert err < 0.1",
    "similarity = torch.dot(a, b) / (a.norm() * b.norm())\nassert similarity > 0.99",
    "err = (a - b).abs().max().item()\nprint(err)",
]


@pytest.mark.parametrize(("text", "differ"), [(t, True) for t in DIFFER] + [(t, False) for t in AGREE])
def test_what_is_asserted_to_differ_is_no_comparison(text: str, differ: bool) -> None:
    file = f"<{text}>"
    linecache.cache[file] = (len(text), None, [line + "\n" for line in text.split("\n")], file)
    assert denied(file, 1) == differ


@triton.jit
def doubled(x, out, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out + i, 2 * tl.load(x + i))


def double(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    doubled[(1,)](x, out, 16)
    return out


def close(name: str, got: torch.Tensor, want: torch.Tensor) -> None:
    print(name, torch.allclose(got, want))


def cast(got: torch.Tensor, want: torch.Tensor) -> None:
    torch.testing.assert_close(got.double().cpu(), want.double().cpu())


def rebound(a: torch.Tensor, b: torch.Tensor) -> None:
    a, b = a.numpy(), b.numpy()  # type: ignore[assignment]
    np.testing.assert_allclose(a, b)


def difference(a: torch.Tensor, b: torch.Tensor) -> float:
    return (a - b).abs().max().item()


def deeper(got: torch.Tensor, want: torch.Tensor) -> None:
    close("deeper", got, want)


HELPERS: tuple[Callable[..., object], ...] = (cast, rebound, difference, deeper)


@pytest.mark.parametrize("helper", HELPERS)
def test_a_helper_is_named_with_its_call(helper: Callable[..., object]) -> None:
    x = torch.ones(16)
    with Watch() as watch:
        helper(double(x), 2 * x)
        helper(double(3 * x), 6 * x)
    lines, start = inspect.getsourcelines(test_a_helper_is_named_with_its_call)
    calls = [start + i for i, line in enumerate(lines) if line.strip().startswith("helper(")]
    assert [c.called_from for c in watch.comparisons] == [(__file__, line) for line in calls]
    assert watch.comparisons[0].to_dict()["called_from"] == {"file": __file__, "line": calls[0]}


def test_a_function_that_makes_what_it_compares_is_no_helper() -> None:
    x = torch.ones(16)

    def both(x: torch.Tensor) -> None:
        close("", double(x), 2 * x)
        assert torch.allclose(double(x), 2 * x)

    with Watch() as watch:
        both(x)
    one, two = watch.comparisons
    assert one.called_from and two.called_from is None and one.called_from[1] == two.line - 1
