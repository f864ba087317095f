"""Written reasons stand for rows of the soundness report, and say something else than nothing."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from render.lab.adversary.reasons import EXPLAINED, reason

PAGE = (Path(__file__).resolve().parents[4] / "docs" / "soundness.md").read_text()
ROWS = {cell.strip(" `") for line in PAGE.splitlines() if line.startswith("|") for cell in line.split("|")[1:2]}
ROWS |= set(re.findall(r"^- (.+?):", PAGE, re.MULTILINE))


@pytest.mark.parametrize("pattern", EXPLAINED)
def test_a_reason_belongs_to_something_that_is_attacked(pattern: str) -> None:
    met = {name for name in ROWS | {f"rule {name}" for name in ROWS} if fnmatchcase(name, pattern)}
    assert met, "nothing of this name is attacked any more"


def test_what_has_no_reason_has_none() -> None:
    assert reason("rule fadd") == "" and reason("max fp32 32") == EXPLAINED["max fp32 *"]
