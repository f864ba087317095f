"""Attacks of the conversions of earlier versions: inside the bounds of theirs, outside those of today."""

from __future__ import annotations

import numpy as np
import pytest

from interval_ops.formats.model import BF16, FP8E4NV, FP8E5, FP16, FP32
from interval_ops.profiles.profile import load_profile
from render.lab.adversary import older, rules


@pytest.mark.parametrize("name", ["sm_75", "sm_80", "sm_89", "sm_90", "any"])
def test_conversions_stay_inside_their_own_bounds(name: str) -> None:
    profile = load_profile(name).chosen(triton=(3, 8))
    for src in ("fp32", "fp16", "bf16"):
        for dst in ("fp8e5", "fp8e4nv"):
            tally = rules.attack_cast(src, dst, "rtne", profile, 7, 512)
            assert tally.checks and not tally.violated, (src, dst, tally.violations)


@pytest.mark.parametrize(("name", "src", "dst"), [("sm_80", FP16, FP8E5), ("sm_80", BF16, FP8E5),
                                                   ("sm_89", FP32, FP8E4NV)])  # fmt: skip
def test_they_leave_the_bounds_of_today(name: str, src, dst, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the attack is one: only the executions are of 3.8."""
    found = older.variants(name, (3, 8), src, dst)
    monkeypatch.setattr(older, "variants", lambda *rest: found)
    assert rules.attack_cast(src.name, dst.name, "rtne", load_profile(name), 7, 512).violated


def test_a_tie_an_overflow_and_a_subnormal() -> None:
    half = older.variants("sm_80", (3, 6), FP16, FP8E5)["software"]
    assert half is not None and half(np.array([1.125, 61440.0, -1.125])).tolist() == [1.25, np.inf, -1.25]
    brain = older.variants("sm_75", (3, 8), BF16, FP8E5)["software"]
    assert brain is not None and brain(np.array([2.0**-15, 1.125], np.float32)).tolist() == [0.0, 1.25]
    assert not older.variants("sm_80", (3, 9), FP16, FP8E5) and not older.variants("sm_90", (3, 6), FP16, FP8E5)
