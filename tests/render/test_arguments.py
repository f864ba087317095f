"""Public functions with arguments of wrong kinds: a RenderError that names the argument, never an error from inside."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import render

WRONG = (None, "x", -1.5, math.nan, object(), [], {}, b"x", torch.zeros(3), torch.zeros(3, device="meta"))
X = torch.zeros(3)


def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2


CALLS: dict[str, Callable[[Any], Any]] = {
    "load": render.load,
    "no_gpu": render.no_gpu,
    "cpu": render.cpu,
    "bound": render.bound,
    "combined": render.combined,
    "record": lambda value: render.record(value, double, X),
    "record_modules": lambda value: render.record_modules(torch.nn.Linear(3, 3), X, path=value),
    "hull": lambda value: render.hull(value, torch.zeros(2)),
    "interval": lambda value: render.interval(X + 1, value),
    "compare": lambda value: render.compare(value, X),
    "compare, seed": lambda value: render.compare(X, X, seed=value),
    "compare_models": lambda value: render.compare_models(value, torch.nn.Linear(3, 3), X),
    "compare_training": lambda value: render.compare_training(value, torch.nn.Linear(3, 3), X),
    "compare_training, steps": lambda value: render.compare_training(*[torch.nn.Linear(3, 3)] * 2, X, steps=value),
    "dual_delta, n": lambda value: render.dual_delta(double, double, like=(X,), n=value),
    "classify": lambda value: render.classify(value, X, ref=double),
    "classify, device": lambda value: render.classify(double, X, ref=double, device=value),
    "classify, seed": lambda value: render.classify(double, X, ref=double, seed=value),
    "watch, device": lambda value: render.watch(device=value),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_argument_is_a_render_error(name: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for value in WRONG:
        if name == "record_modules" and value == "x":
            continue  # a path like any other
        with pytest.raises(render.RenderError) as told:
            CALLS[name](value)
        assert str(told.value)


def test_numbers_of_numpy_are_numbers() -> None:
    assert render.Options(seed=np.int64(3)).seed == 3
