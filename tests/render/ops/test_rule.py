"""A lane finds a rule by name, else by shape, and says why where it has none; what is forgotten is found."""

from __future__ import annotations

import pytest

from render.ops.rule import Lane, NoRule, Rule, Shape

KEYS = {
    "named": Rule("named", Shape.MONOTONE, ""), "shaped": Rule("shaped", Shape.LINEAR, ""),
    "refused": Rule("refused", Shape.LINEAR, ""), "whole": Rule("whole", Shape.BITS, ""),
    "forgotten": Rule("forgotten", Shape.DOT, ""),
}  # fmt: skip
REASONS: dict[str | Shape, str] = {"refused": "of itself", Shape.BITS: "bits"}
LANE = Lane("test", KEYS, {"named": 1}, {Shape.LINEAR: 2, Shape.MONOTONE: 3}, REASONS)


def test_name_before_shape_and_a_reason_before_both() -> None:
    assert (LANE["named"], LANE["shaped"], LANE.get("refused"), LANE.get("whole")) == (1, 2, None, None)


@pytest.mark.parametrize(("op", "why"), [("refused", "of itself"), ("whole", "bits"), ("forgotten", "forgotten"),
                                         ("unheard of", "unheard of")])  # fmt: skip
def test_nothing_is_guessed(op: str, why: str) -> None:
    with pytest.raises(NoRule, match=why):
        LANE[op]


def test_what_is_missing_or_stale() -> None:
    assert LANE.missing() == {"forgotten"} and not LANE.stale()
    both = Lane("test", KEYS, {"named": 1, "gone": 1}, {}, {"named": "too", "away": "too"})
    assert both.stale() == {"gone", "away", "named"}
