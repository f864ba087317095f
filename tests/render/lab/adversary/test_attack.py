"""Legal executions stay inside the bounds, and leave bounds that were narrowed on purpose."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from adversary_zoo import zoo_subjects
from support import trials

from interval_ops.profiles.profile import profile_names
from render.lab.adversary import campaign, catalogue, rules, subjects
from render.lab.adversary.attack import Target, attack
from render.lab.adversary.plan import AttackPlan
from render.lab.adversary.subjects import Subject

PATIENCE = 60.0
QUICK = {s.name: s for s in catalogue.quick()}


def runs(n: int) -> int:
    return trials(n)


@pytest.mark.parametrize("profile", ["any", "ieee", "gfx942"])
@pytest.mark.parametrize("subject", QUICK.values(), ids=QUICK)
def test_no_legal_execution_leaves_the_bounds(subject: Subject, profile: str):
    tally = attack(subject, profile, seed=3, seconds=PATIENCE, runs=runs(15))
    assert not tally.violations
    assert tally.skipped or tally.checks > 0


@pytest.mark.parametrize("subject", list(zoo_subjects()), ids=lambda s: s.name)
def test_kernels_of_the_language_tests(subject: Subject):
    tally = attack(subject, "any", seed=1, seconds=PATIENCE, runs=runs(6))
    assert not tally.violations
    assert tally.checks > 0 or subject.in_order  # one program reads what another stored: a taint


@pytest.mark.parametrize("profile", profile_names())
def test_no_rule_excludes_a_legal_result(profile: str):
    for op, tally in rules.attack_all(profile, seed=5, n=trials(48), rounds=3):
        assert not tally.violations, op


NARROWED = [
    ("accumulation", subjects.rows("sum", "fp32", 32), "sm_80"),
    ("accumulation", subjects.scans("cumsum", "fp32", 64), "sm_80"),
    ("accumulation", subjects.atomics("fp32", 8), "sm_80"),
    ("accumulation", subjects.dots("fp16", "chained"), "sm_80"),
    ("accumulation", subjects.dots("fp32", "added"), "ieee"),
    ("lowacc", subjects.dots("fp8e5", "added"), "sm_90"),
    ("lowacc", subjects.rows("sum", "fp16", 64), "sm_90"),
    ("operand", subjects.dots("fp32", "chained", "tf32"), "sm_80"),
    ("cast", subjects.cast("fp32", "fp16", "after"), "any"),
    ("function", subjects.unary("exp", "fp32"), "any"),
    ("function", subjects.binary("div", "fp32"), "any"),
    ("arith", subjects.binary("fold", "fp32"), "any"),
]


@pytest.mark.parametrize(("cause", "subject", "profile"), NARROWED, ids=lambda x: getattr(x, "name", str(x)))
def test_narrowed_bounds_are_left(cause: str, subject: Subject, profile: str):
    """The adversary can fail: without the error of one cause, legal executions lie outside."""
    tally = attack(subject, profile, seed=3, seconds=PATIENCE, runs=24, mute={cause})
    assert tally.violated > 0
    found = tally.violations[0]
    assert not found.lo <= found.value <= found.hi


def test_a_violation_can_be_run_again():
    subject = subjects.unary("exp", "fp32")
    tally = attack(subject, "any", seed=3, seconds=PATIENCE, runs=12, mute={"function"})
    found = tally.violations[0]
    target = Target(subject, "any", found.style, 3)
    assert target.run(AttackPlan(found.seed, found.choices))[found.output][found.index] == found.value


def test_choices_reach_the_bounds():
    """Climbing pays: sums that stagnate and approximate functions come close to their ends."""
    subject = subjects.rows("sum", "fp32", 32)
    assert attack(subject, "sm_80", seed=1, seconds=PATIENCE, runs=60).approach > 0.9


def test_launches_in_order_keep_their_order():
    chain = next(s for s in zoo_subjects() if s.name == "zoo prefix chain")
    target = Target(chain, "any", "normal", 1)
    plain = np.cumsum(target.inputs[0].numpy())
    for seed in range(3):
        assert np.allclose(target.run(AttackPlan(seed))[0], plain, atol=1e-4)


def test_atomics_take_any_order():
    subject = subjects.atomics("fp32", 4)
    target = Target(subject, "any", "normal", 1)
    found = {tuple(target.run(AttackPlan(seed))[0].tolist()) for seed in range(8)}
    assert len(found) > 1


def test_outputs_of_nested_results():
    from render.lab.adversary.attack import outputs

    t = torch.zeros(1)
    assert len(outputs({"a": t, "b": (t, [t])})) == 3
    assert outputs(3.0) == []


@pytest.mark.slow
@pytest.mark.parametrize("profile", profile_names())
def test_every_kernel_on_every_profile(profile: str):
    report = campaign.run([profile], catalogue.every(), seconds=0.1, seed=21)
    assert report.total.violated == 0, report.total.violations[:3]
    assert report.total.checks > 100_000
