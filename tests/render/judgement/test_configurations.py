"""All configurations of autotuned kernels: each is run, the worst verdict counts, and its scope says how many."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from render.lab.suite.options import SuiteOptions
from render.lab.suite.rows import of_verdict
from render.result.errors import RenderError
from render.result.scope import Configurations
from tests.render.interpreter.test_contract import OwnTuner
from tests.verdicts import classify

SIZES = (16, 8, 128, 4)
"""Of blocks; the grid is made for 8 and more of 16 elements, so that 4 leaves some out. 128 refuses itself."""


def tuned(kind: type = triton.runtime.Autotuner, sizes: tuple[int, ...] = SIZES) -> Callable[[Any], Any]:
    @triton.jit
    def double(X, Out, n, B: tl.constexpr):
        tl.static_assert(B <= 64)
        i = tl.program_id(0) * B + tl.arange(0, B)
        tl.store(Out + i, tl.load(X + i, mask=i < n) * 2, mask=i < n)

    kernel = kind(double, double.arg_names, [triton.Config({"B": b}) for b in sizes], ["n"], None, None)

    def launch(x):
        out = torch.empty_like(x)
        kernel[(2,)](x, out, x.numel())
        return out

    return launch


def twice(x):
    return 2 * x


@pytest.mark.parametrize("kind", [triton.runtime.Autotuner, OwnTuner])
def test_the_worst_of_all_counts(kind: type) -> None:
    x = torch.randn(16)
    first = classify(tuned(kind), x, ref=twice)
    assert first.label == "Type-I"
    assert first.scope.configurations == (Configurations("double", 1, 3 if kind is OwnTuner else 4),)
    found = classify(tuned(kind), x, ref=twice, configs="all")
    assert (found.label, found.code) == ("Type-II", "RND205")
    assert found.scope.configurations == (Configurations("double", 3, 3),)
    assert sorted(re.search(r"B=(\d+)", e.settings[0])[1] for e in found.scope.each) == ["16", "4", "8"]
    assert any("B=4" in note and "3 of 3 configurations" in note for note in found.notes)


def test_one_can_be_chosen() -> None:
    x = torch.randn(16)
    assert classify(tuned(), x, ref=twice, configs=1).label == "Type-I"
    assert classify(tuned(), x, ref=twice, configs="3").code == "RND205"
    with pytest.raises(RenderError, match="'best'"):
        classify(tuned(), x, ref=twice, configs="best")
    with pytest.raises(RenderError, match="'best'"):
        SuiteOptions(configs="best")


def test_each_kernel_runs_with_each_of_its_own() -> None:
    one, other = tuned(sizes=(16, 8)), tuned(sizes=(64, 32, 16, 8, 4))

    def both(x):
        return one(x) + other(x)

    other_kernel = other.__closure__[0].cell_contents  # type: ignore[index]
    other_kernel.fn.fn.__name__ = other_kernel.base_fn.__name__ = "other"
    found = classify(both, torch.randn(16), ref=lambda x: 4 * x, configs="all", budget=False)
    assert found.label == "Type-II"
    assert set(found.scope.configurations) == {Configurations("double", 2, 2), Configurations("other", 5, 5)}
    assert len(found.scope.each) == 5
    assert "other: 5 of 5" not in found.scope.sentence
    assert of_verdict("a test", found, 0.0).configurations.count(" of ") == 4


def test_a_kernel_without_a_tuner_has_none() -> None:
    @triton.jit
    def plain(X, Out):
        tl.store(Out, tl.load(X) * 2)

    def launch(x):
        out = torch.empty_like(x)
        plain[(1,)](x, out)
        return out

    found = classify(launch, torch.randn(1), ref=twice, configs="all")
    assert found.label == "Type-I" and found.scope.configurations == () == found.scope.each
