"""The value lane of a kernel lies inside its own bounds, on every target."""

from __future__ import annotations

import zlib

import pytest

from interval_ops.profiles.profile import profile_names
from render.lab.adversary import catalogue, subjects
from render.lab.adversary.attack import REFUSED, AttackTally, Target
from render.lab.adversary.subjects import Subject

EVERY = {s.name: s for s in catalogue.every()}


def outside(subject: Subject, profile: str, style: str, seed: int) -> AttackTally:
    tally = AttackTally()
    try:
        Target(subject, profile, style, seed).check_own(tally)
    except REFUSED as missing:
        tally.skipped = str(missing)
    return tally


@pytest.mark.parametrize("name", EVERY)
def test_values_lie_inside(name: str) -> None:
    """One style and two profiles per kernel, others for each kernel; all of them in the slow test below."""
    subject, profiles, draw = EVERY[name], profile_names(), zlib.crc32(name.encode())
    for i in range(2):
        profile = profiles[(draw + i * 5) % len(profiles)]
        tally = outside(subject, profile, subject.styles[(draw // 16 + i) % len(subject.styles)], seed=draw % 1000)
        assert not tally.violations


@pytest.mark.parametrize(("fmt", "seed"), [("bf16", 1), ("bf16", 17), ("bf16", 29), ("fp16", 29), ("bf16", 35)])
@pytest.mark.parametrize("profile", ["sm_90", "sm_100", "sm_80", "any"])
def test_sums_that_a_unit_cuts_and_a_cpu_rounds_up(fmt: str, seed: int, profile: str) -> None:
    tally = outside(subjects.attend(fmt), profile, "logs", seed)
    assert tally.checks > 0
    assert not tally.violations


@pytest.mark.slow
@pytest.mark.parametrize("profile", profile_names())
@pytest.mark.parametrize("name", EVERY)
def test_values_lie_inside_in_all_styles(name: str, profile: str) -> None:
    for style in EVERY[name].styles:
        for seed in range(8):
            tally = outside(EVERY[name], profile, style, seed)
            assert not tally.violations
            if tally.skipped:
                return
