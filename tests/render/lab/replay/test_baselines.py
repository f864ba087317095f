"""Baselines on hand-made data, torch's own comparisons as oracle; the re-execution against plain wider arithmetic."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from support import rng, trials

from render.judgement.composition import Judged
from render.lab.corpus.case import IssueTolerance
from render.lab.replay import baselines as rules
from render.lab.replay.select import select
from render.lab.replay.worker import ReplayPlan, replay
from render.result.decision import Case

PLAN = ReplayPlan()


def judged(y, ref, exact=None, device=True, dtype=torch.float32, ref_dtype=None):
    y, ref = np.asarray(y, np.float64), np.asarray(ref, np.float64)
    exact = ref if exact is None else np.asarray(exact, np.float64)
    case = Case("out", y, y, y, ref, exact, lambda: (exact, exact), device=y if device else None)
    return Judged(case, SimpleNamespace(tensor=torch.empty(0, dtype=dtype)), ref_dtype or dtype)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_tolerances_agree_with_torch(dtype):
    random = rng(11)
    for _ in range(trials(200)):
        ref = torch.from_numpy(random.normal(size=4) * 10.0 ** random.integers(-6, 3)).to(dtype)
        scale = 10.0 ** random.uniform(-9, -1)
        y = (ref.double() * torch.from_numpy(1 + scale * random.uniform(-1, 1, 4))).to(dtype)
        special = random.choice([0.0, math.inf, -math.inf, math.nan, 1.0])
        if random.random() < 0.3:
            y[0] = special
        if random.random() < 0.3:
            ref[0] = special
        j = [judged(y.double(), ref.double(), dtype=dtype)]
        assert (rules.tolerance_answer(j, default=False).label == "Type-I") == torch.allclose(y.double(), ref.double())
        try:
            torch.testing.assert_close(y, ref)
            want = "Type-I"
        except AssertionError:
            want = "Type-II"
        assert rules.tolerance_answer(j, default=True).label == want, (y, ref)


def test_two_dtypes_take_the_wider_tolerance():
    j = [judged([1.0 + 5e-4], [1.0], dtype=torch.float16, ref_dtype=torch.float32)]
    assert rules.tolerance_answer(j, default=True).label == "Type-I"
    assert rules.tolerance_answer(j, default=False).label == "Type-II"


def test_flash_rule():
    exact = [1.0, 2.0]
    assert rules.flash_answer([judged([1.2, 2.0], [1.1, 2.0], exact)]).label == "Type-I"
    assert rules.flash_answer([judged([1.21, 2.0], [1.1, 2.0], exact)]).label == "Type-II"
    assert rules.flash_answer([judged([math.nan, 2.0], [1.1, 2.0], exact)]).label == "Type-II"
    other = rules.flash_answer([judged([1.0], [1.0], [1.0], ref_dtype=torch.float64)])
    assert other.label == "" and "another dtype" in other.note


def test_without_a_device_output_the_interpreter_is_judged():
    j = judged([1.5], [1.0], device=False)
    assert rules.tolerance_answer([j], default=True).max_abs_diff == 0.5


def test_tolerance_of_the_issue():
    issue = IssueTolerance("issue", atol=1e-2, rtol=0.0)
    assert rules.tolerance_of(issue, torch.float16) == (0.0, 1e-2)
    assert rules.tolerance_of(IssueTolerance("none"), torch.float16) == (1e-3, 1e-5)
    assert rules.tolerance_of(IssueTolerance("allclose"), torch.float16) == (1e-5, 1e-8)


def test_computed_for_both_cases(corpus):
    good, bad = (replay(folder, PLAN) for folder in select([]))
    assert set(good.baselines) == {"paper", "high_precision", "allclose", "assert_close", "flash_attention"}
    again = good.baselines["high_precision"]
    assert (again.label, again.right) == ("Type-I", True)
    assert again.max_abs_diff < 1e-14  # fp32 became fp64 on both sides
    assert bad.baselines["high_precision"].label == "Type-II"
    assert bad.baselines["assert_close"].label == "Type-II" and bad.baselines["paper"].right


def test_faults_of_a_device_are_not_re_executed(corpus):
    toml = corpus / "issues" / "9001" / "case.toml"
    toml.write_text(toml.read_text().replace('kind = "model"', 'kind = "fault"'))
    answer = replay(toml.parent, PLAN).baselines["high_precision"]
    assert answer.label == "" and answer.right is None and "needs the device" in answer.note
