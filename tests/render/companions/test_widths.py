"""The table of accumulator widths, for one length."""

from __future__ import annotations

import pytest

from interval_ops.formats.model import FP8E5, FP16
from render.companions.widths import ACCUMULATORS, product_bits, table


@pytest.mark.parametrize(("name", "fmt"), [("fp16", FP16), ("fp8e5", FP8E5)])
def test_a_product_has_both_mantissas(name: str, fmt: object) -> None:
    longest = 2.0 - 2.0 ** (1 - fmt.p)  # type: ignore[attr-defined]
    assert (longest * longest / 2) * 2.0 ** product_bits(name) % 1 == 0
    assert (longest * longest / 2) * 2.0 ** (product_bits(name) - 1) % 1 != 0


def test_the_narrowest_width_is_where_the_verdict_turns() -> None:
    found = table(4096, product_bits("fp16"))
    rows = {row["m_acc"]: row for row in found["widths"]}
    assert {r["format"] for r in rows.values()} >= set(ACCUMULATORS)
    for m, row in rows.items():
        assert row["suitable"] == (m >= found["min_macc"]) == (row["safe_length"] >= 4096)


def test_widths_that_are_asked_for_stand_in_it() -> None:
    assert 17 in {row["m_acc"] for row in table(100, 21, widths=(17,))["widths"]}
