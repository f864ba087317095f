"""The derived tolerance: torch itself lets every legal execution pass, little more, and what is said of it holds."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from support import trials

import render
from interval_ops.profiles.profile import load_profile
from render.classify import classify_file
from render.interpreter.session import Session
from render.judgement.tolerance import Tolerance, tolerance, up
from render.lab.adversary import catalogue, subjects
from render.lab.adversary.attack import Target, call
from render.lab.adversary.plan import AttackPlan
from render.result.errors import RenderError
from tests.kernels.bugs import KERNELS

HALF = (torch.float16, torch.bfloat16)
NOTHING = np.zeros(0, bool)


def passes(line: str, actual: torch.Tensor, expected: torch.Tensor) -> bool:
    """Runs the line as a user would paste it."""
    try:
        eval(line, {"torch": torch, "actual": actual, "expected": expected})
    except AssertionError:
        return False
    return True


def derived(lo: torch.Tensor, hi: torch.Tensor, ref: torch.Tensor) -> Tolerance:
    ends = [x.double().numpy() for x in (lo, hi, ref)]
    found = tolerance(*ends, np.zeros(ref.shape, bool), lo.dtype, ref.dtype)
    assert found is not None
    return found


def bounds(dtype: torch.dtype, kind: str, seed: int, n: int = 500) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Ends and a reference between, at or outside of them, with errors that grow with the element or do not."""
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, generator=g, dtype=torch.float64) * 10.0 ** torch.randint(-3, 3, (n,), generator=g)
    width = {"relative": 0.01 * x.abs(), "absolute": torch.full_like(x, 0.02), "mixed": 0.003 + 0.01 * x.abs()}[kind]
    width = width * torch.rand(n, generator=g, dtype=torch.float64)
    lo, hi = (x - width).to(dtype), (x + width).to(dtype)
    ref = (x + width * (3 * torch.rand(n, generator=g, dtype=torch.float64) - 1.5)).to(dtype)
    return lo, hi, ref


@pytest.mark.parametrize("kind", ["relative", "absolute", "mixed"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, *HALF])
def test_both_ends_pass_and_a_quarter_would_not_do(dtype: torch.dtype, kind: str) -> None:
    for seed in range(trials(30)):
        lo, hi, ref = bounds(dtype, kind, seed)
        found = derived(lo, hi, ref)
        assert passes(found.line, lo, ref) and passes(found.line, hi, ref), (seed, found)
        tight = {"atol": found.atol / 4, "rtol": found.rtol / 4}
        failed = [end for end in (lo, hi) if not torch.isclose(end, ref, **tight).all()]
        assert failed, (seed, found)


def test_a_relative_error_takes_an_rtol_and_an_absolute_one_an_atol() -> None:
    relative, absolute = (derived(*bounds(torch.float32, kind, 0)) for kind in ("relative", "absolute"))
    assert relative.rtol >= 0.001 and relative.atol < 0.1
    assert absolute.atol <= 0.06 and absolute.rtol * 1000 < 1


def test_many_elements_are_gathered_safely() -> None:
    lo, hi, ref = bounds(torch.float32, "mixed", 5, n=50_000)
    found = derived(lo, hi, ref)
    assert passes(found.line, lo, ref) and passes(found.line, hi, ref)
    assert found.atol + found.rtol * ref.abs().mean() < 10 * (0.003 + 0.01 * ref.abs().mean())


@pytest.mark.parametrize("dtypes", [(torch.float16, torch.float32), (torch.bfloat16, torch.float64)])
def test_a_reference_of_another_type(dtypes: tuple[torch.dtype, torch.dtype]) -> None:
    lo, hi, ref = bounds(dtypes[0], "mixed", 1)
    found = derived(lo, hi, ref.to(dtypes[1]))
    assert "check_dtype=False" in found.line
    assert passes(found.line, lo, ref.to(dtypes[1])) and passes(found.line, hi, ref.to(dtypes[1]))


def test_fp8_is_compared_in_float32() -> None:
    ref = torch.randn(64).to(torch.float8_e5m2)
    small, large = (ref.float() * part for part in (0.75, 1.25))
    lo, hi = (end(small, large).to(torch.float8_e5m2) for end in (torch.minimum, torch.maximum))
    found = derived(lo, hi, ref)
    assert passes(found.line, lo, ref) and passes(found.line, hi, ref)


def test_integers_and_exact_results() -> None:
    x = torch.arange(5)
    assert derived(x, x, x) == Tolerance(0.0, 0.0, "torch.testing.assert_close(actual, expected, atol=0, rtol=0)", 0, 0)
    assert derived(x, x, x).misses == ""


def test_nan_on_both_sides_passes() -> None:
    ref = torch.tensor([1.0, float("nan"), float("inf")])
    values = ref.double().numpy()
    found = tolerance(values, values, values, ~np.isfinite(values), torch.float32, torch.float32)
    assert found is not None and passes(found.line, ref, ref)


def test_no_bound_no_tolerance() -> None:
    x = np.ones(2)
    assert tolerance(x, np.array([1.0, np.inf]), x, np.zeros(2, bool), torch.float32, torch.float32) is None


def test_what_it_would_miss() -> None:
    lo, hi, ref = bounds(torch.float64, "absolute", 3)
    found = derived(lo, hi, ref)
    assert passes(found.line, ref * (1 + 0.999 * found.relative), ref)
    assert not passes(found.line, ref * (1 + 1.01 * found.relative), ref)
    small = ref.abs() <= found.atol + found.rtol * ref.abs()
    assert found.zeros == small.double().mean() > 0
    assert passes(found.line, torch.where(small, 0.0, ref), ref)
    assert f"{found.relative:.2g}" in found.misses and "zeros instead of" in found.misses


QUICK = {s.name: s for s in catalogue.quick()}
SUBJECTS = [
    *QUICK.values(), subjects.rows("sum", "fp16", 64), subjects.dots("fp16", "chained"), subjects.atomics("fp32", 8),
    subjects.dots("fp32", "chained", "tf32"), subjects.cast("fp32", "bf16", "after"),
]  # fmt: skip


@pytest.mark.parametrize("profile", ["any", "gfx942"])
@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda s: s.name)
def test_every_legal_execution_passes(subject: Any, profile: str) -> None:
    """Executions of the adversary against one of them as the reference: torch accepts each with the derived line."""
    target = Target(subject, profile, "plain", seed=2)
    with Session(profile=load_profile(profile), interval=False):
        kinds = [t.dtype for t in call(subject, copy.deepcopy(target.inputs))]
    runs = [target.run(AttackPlan(seed)) for seed in range(trials(8))]
    seen = 0
    for i, (ends, dtype) in enumerate(zip(target.bounds, kinds, strict=True)):
        if ends is None or not (np.isfinite(ends[0]).all() and np.isfinite(ends[1]).all()):
            continue
        ref = runs[0][i]
        found = tolerance(*ends, ref, np.zeros(ref.shape, bool), dtype, dtype)
        assert found is not None
        expected = torch.from_numpy(ref).to(dtype)
        for run in runs:
            assert passes(found.line, torch.from_numpy(run[i]).to(dtype), expected), found.line
        seen += 1
    assert seen or subject.in_order or profile != "any"


def test_of_a_verdict() -> None:
    v = classify_file(KERNELS / "flash_attention.py", budget=False)
    (out,) = v.outputs
    assert v.tolerance() == v.tolerance("out") == out.tolerance.line
    assert v.to_dict()["outputs"][0]["tolerance"]["misses"] == out.tolerance.misses
    wrong = render.classify(torch_like, torch.ones(4), ref=lambda x: x + 1, budget=False)
    with pytest.raises(RenderError, match="no tolerance"):
        wrong.tolerance()


def torch_like(x: torch.Tensor) -> torch.Tensor:
    import triton

    from tests.kernels.cases import load

    out = torch.empty_like(x)
    load(KERNELS / "vector_add.py").add_kernel[(triton.cdiv(x.numel(), 64),)](x, x, out, x.numel(), 64)
    return out - 0.5


def test_the_smallest_numbers_are_rounded_up_as_well():
    for x in (5e-324, 1e-310, 1e-300, 3.14e-5):
        assert x <= up(x) <= max(1e-299, 1.1 * x)
