"""What is a comparison though no function of that name is called, and what is none though it looks like one."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import triton
import triton.language as tl

from render.front.watch import Watch
from tests.verdicts import DECIDED

F = torch.nn.functional
N = 64


@triton.jit
def gate(x, out, slope, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i)
    tl.store(out + i, v * tl.sigmoid(slope * v))


@triton.jit
def turned(x, out, factor, R: tl.constexpr, C: tl.constexpr):
    r, c = tl.arange(0, R)[:, None], tl.arange(0, C)[None, :]
    tl.store(out + c * R + r, tl.load(x + r * C + c) * factor)


@triton.jit
def stepped(w, g, rate, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(w + i, tl.load(w + i) - rate * tl.load(g + i))


def gated(slope: float) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(N, generator=torch.Generator().manual_seed(3))
    out = torch.empty_like(x)
    gate[(1,)](x, out, slope, N)
    return out, x * torch.sigmoid(1.5 * x)


LIKE: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "cosine_similarity": lambda a, b: F.cosine_similarity(a, b, dim=0),
    "written out": lambda a, b: (a * b).sum() / (a.norm() * b.norm()),
    "normalised first": lambda a, b: F.normalize(a, dim=0) @ F.normalize(b, dim=0),
    "of doubles": lambda a, b: 1 - 2 * (a.double() * b.double()).sum() / (a.double() ** 2 + b.double() ** 2).sum(),
    "by dot": lambda a, b: torch.dot(a, b) / torch.sqrt(torch.dot(a, a) * torch.dot(b, b)),
}


@pytest.mark.parametrize("like", LIKE)
@pytest.mark.parametrize(("slope", "label"), [(1.5, "Type-I"), (1.4, "Type-II")])
def test_a_likeness_is_a_comparison(like: str, slope: float, label: str) -> None:
    with Watch(DECIDED) as watch:
        LIKE[like](*gated(slope)).item()
    assert [v.label for v in watch.verdicts] == [label]


def test_a_product_beside_the_size_of_one_factor_is_none() -> None:
    with Watch(DECIDED) as watch:
        out, _ = gated(1.5)
        weight = torch.arange(N) / 7
        ((out * weight).sum() / weight.norm()).item()
    assert watch.comparisons == []


@pytest.mark.parametrize(("factor", "label"), [(1.0, "Type-I"), (1.5, "Type-II")])
@pytest.mark.parametrize("other", [lambda x: x.T, lambda x: x.T.contiguous()])
def test_elements_in_another_order_are_compared_with(
    other: Callable[..., torch.Tensor], factor: float, label: str
) -> None:
    with Watch(DECIDED) as watch:
        x = torch.arange(1.0, 129.0).view(8, 16)
        out = torch.empty(16, 8)
        turned[(1,)](x, out, factor, 8, 16)
        (out - other(x)).abs().max().item()
    assert [v.label for v in watch.verdicts] == [label]


def test_how_far_a_step_went_is_no_comparison() -> None:
    with Watch(DECIDED) as watch:
        w, g = torch.linspace(1, 2, N), torch.linspace(-1, 1, N)
        before, wide = w.clone(), w.double()
        stepped[(1,)](w, g, 0.5, N)
        (w - before).abs().max().item()
        (w.double() - wide).norm().item()
        torch.testing.assert_close(w, before - 0.5 * g)
    assert [v.label for v in watch.verdicts] == ["Type-I"]


def test_what_is_said_to_differ_is_not_compared() -> None:
    with Watch(DECIDED) as watch:
        out, expected = gated(1.4)
        assert not torch.equal(out, expected)
        assert not (out == expected).all()
        assert not torch.allclose(out, expected), "the slope does nothing"
        with pytest.raises(AssertionError):
            torch.testing.assert_close(out, expected)
    assert watch.comparisons == []


@pytest.mark.parametrize(("slope", "label"), [(1.5, "Type-I"), (1.4, "Type-II")])
def test_results_and_references_of_other_threads(slope: float, label: str) -> None:
    """Others work while one is judged."""
    with Watch(DECIDED) as watch, ThreadPoolExecutor(3) as pool:
        for out, expected in pool.map(gated, [slope] * 5):
            torch.allclose(out, expected)
    assert [c.error for c in watch.comparisons] == [None] * 5
    assert [v.label for v in watch.verdicts] == [label] * 5


def test_comparisons_in_other_threads() -> None:
    def work(slope: float) -> None:
        out, expected = gated(slope)
        (out - expected).abs().max().item()
        torch.allclose(out, expected)

    with Watch(DECIDED) as watch, ThreadPoolExecutor(2) as pool:
        list(pool.map(work, [1.5, 1.4, 1.5]))
    assert sorted(v.label for v in watch.verdicts) == ["Type-I"] * 4 + ["Type-II"] * 2


@pytest.mark.parametrize("read", [
    lambda d: d.tolist(), lambda d: (d > 1e-3).nonzero().tolist(), lambda d: len(torch.where(d > 1e-3)[0]),
    lambda d: str(torch.stack([d.abs().max(), d.abs().mean()])), lambda d: torch.cat([d, d]).tolist(),
    lambda d: f"{torch.stack([d.abs().max(), d.abs().mean()]).numpy()}", lambda d: repr(d.numpy()),
])  # fmt: skip
@pytest.mark.parametrize(("slope", "label"), [(1.5, "Type-I"), (1.4, "Type-II")])
def test_differences_that_are_listed_or_counted(read: Callable[..., object], slope: float, label: str) -> None:
    with Watch(DECIDED) as watch:
        out, expected = gated(slope)
        read((out - expected).abs())
    assert [v.label for v in watch.verdicts] == [label]


@pytest.mark.parametrize(("value", "label"), [(1.0, "Type-I"), (1.25, "Type-II")])
def test_one_number_for_all_elements(value: float, label: str) -> None:
    with Watch(DECIDED) as watch:
        out = torch.zeros(N)
        stepped[(1,)](out, torch.full((N,), -2.0), 0.5, N)
        torch.allclose(out, torch.tensor(value))
        out.allclose(torch.full((1,), value))
    assert [v.label for v in watch.verdicts] == [label] * 2
