"""Explanations on the web page."""

from __future__ import annotations

from dataclasses import replace

from render.report import html
from render.result.records import Counterfactual, Mutant, Power
from render.result.verdict import Verdict

PLAIN = Verdict("Type-I", "RND101", "", "Type-I", "round-off")


def test_what_was_asked_is_shown() -> None:
    gain = Counterfactual("ieee", 'input_precision="ieee"', 260.0, "Type-I", "", 0.1)
    power = Power(1.0, (Mutant("zero", "c is all zeros", None, 0, "outside", 4),))
    page = html.page(replace(PLAIN, counterfactuals=(gain,), power=power))
    assert "bound shrinks 260x" in page
    assert "1 of 1 seeded faults that change the result would leave this bound" in page


def test_what_was_not_asked_is_not() -> None:
    page = html.page(PLAIN)
    assert "What would change it" not in page
    assert "Power" not in page
