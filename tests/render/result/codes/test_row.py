"""What the first digit of a code says: label and exit code."""

from __future__ import annotations

import pytest

from render.result.codes.row import HUNDREDS, Code


@pytest.mark.parametrize(("code", "label", "ends"), [
    ("RND100", "Type-I", 0), ("RND299", "Type-II", 1), ("RND302", "Inconclusive", 3), ("RND901", None, 2),
])  # fmt: skip
def test_label_and_exit_code(code: str, label: str | None, ends: int) -> None:
    row = Code(code=code, title="t", prose="p", maths="m", example="e")
    assert (row.label, row.exit_code) == (label, ends)


def test_exit_codes_tell_the_labels_apart() -> None:
    assert len({h.exit_code for h in HUNDREDS.values()}) == len({h.label for h in HUNDREDS.values()}) == len(HUNDREDS)
