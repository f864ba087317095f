"""The profile inductor-cpu against torch.compile: one generated program of all functions, remeasured on a sample.

docs/torch_functions.md has the figures of the whole sweep; here every function meets a few thousand numbers.
"""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import torch
from support import rng, special_values, trials
from vendor_oracle.points import arguments

from interval_ops.formats.model import FP32
from interval_ops.profiles.profile import load_profile
from render.ops.library import LIBRARY

ONE = {
    **{
        name: getattr(torch, name)
        for name in ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "sinh", "cosh",
                     "tanh", "asin", "acos", "atan", "asinh", "acosh", "atanh", "erf", "erfc", "erfinv", "rsqrt",
                     "lgamma")
    },
    "erfcx": torch.special.erfcx, "normcdf": torch.special.ndtr, "normcdfinv": torch.special.ndtri,
}  # fmt: skip
TWO = {"atan2": torch.atan2, "hypot": torch.hypot}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler"),
]


@pytest.fixture(scope="module")
def results() -> dict[str, tuple[tuple[np.ndarray, ...], np.ndarray]]:
    """(arguments, what the compiled program returns) of every function."""
    n, generator = trials(4000), rng(1701)
    special = special_values(FP32)
    special = np.clip(special[np.isfinite(special)], -FP32.max, FP32.max).astype(np.float32)
    given = {name: arguments(name, 1, 32, n, generator) for name in ONE}
    given = {name: (np.concatenate([args[0], special]),) for name, args in given.items()}
    given |= {name: arguments(name, 2, 32, n, generator) for name in TWO}
    functions = {**ONE, **TWO}

    def all_of_them(*tensors: torch.Tensor) -> list[torch.Tensor]:
        rest, found = list(tensors), []
        for name, function in functions.items():
            found.append(function(*(rest.pop(0) for _ in given[name])))
        return found

    torch._dynamo.reset()
    with torch.no_grad():
        found = torch.compile(all_of_them)(*(torch.from_numpy(a) for name in functions for a in given[name]))
    return {name: (given[name], t.numpy()) for name, t in zip(functions, found, strict=True)}


def outside(name: str, args: tuple[np.ndarray, ...], got: np.ndarray, profile: str) -> np.ndarray:
    wide = [a.astype(np.float64)[None] for a in args]
    bounds = LIBRARY[name].apply(tuple((a, a) for a in wide), FP32, load_profile(profile))  # type: ignore[misc]
    lo, hi = (end[0] for end in bounds)
    return ~((got >= lo) & (got <= hi)) & ~np.isnan(lo) & ~np.isnan(got)


@pytest.mark.parametrize("name", {**ONE, **TWO})
def test_the_profile_holds_what_inductor_computes(name: str, results) -> None:
    args, got = results[name]
    wrong = outside(name, args, got.astype(np.float64), "inductor-cpu")
    assert np.isfinite(got).any()
    assert not wrong.any(), [a[wrong][:3] for a in (*args, got)]


@pytest.mark.parametrize("name", ["erf", "expm1"])
def test_it_is_inductors_own_code(name: str, results) -> None:
    """Near 0 its polynomials have an absolute error, which the profile of eager code does not admit."""
    args, got = results[name]
    assert outside(name, args, got.astype(np.float64), "torch-cpu").any()
