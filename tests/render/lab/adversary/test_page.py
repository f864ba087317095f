"""The page of the cross product, and the explanations that it carries."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from adversary_zoo import zoo_subjects

from render.lab.adversary import catalogue, cross, reasons, subjects
from render.lab.adversary.campaign import FAR
from render.lab.adversary.page import page
from render.ops.table import RULES

PAGE = Path(__file__).parents[3] / "docs" / "soundness.md"
FEW = [subjects.rows("sum", "fp32", 4), subjects.dots("fp32", "chained", "tf32x3")]


def test_the_page_says_what_was_found(tmp_path):
    lines = cross.run(tmp_path / "pairs", FEW, ["ieee", "gfx90a"], cross.Effort(2, 4, 3))
    report = cross.report(lines)
    text = page(report, lines, "command")
    assert "| **outside their bounds** | **0** |" in text
    assert f"| element checks | {report.total.checks:,} |" in text
    assert "2 executions with seed 3" in text
    assert f"| commit | {cross.commit() or 'unknown'} |" in text
    assert "- dot fp32 chained tf32x3 fp32 32: gfx90a" in text
    far = next(row for row in text.splitlines() if row.startswith("| fcmpOLT "))
    assert "three-valued" in far


def test_campaigns_add_up(tmp_path):
    """Another seed goes on in the same file; the same one adds nothing."""
    for seed in (3, 4, 3):
        cross.run(tmp_path / "pairs", FEW[:1], ["ieee"], cross.Effort(2, 4, seed))
    lines = list(cross.read(tmp_path / "pairs"))
    text = page(cross.report(lines), lines, "command")
    rows = [row for row in text.splitlines() if row.startswith(("| 3 |", "| 4 |"))]
    checks = [int(row.split("|")[4].replace(",", "")) for row in rows]
    assert len(rows) == 2 and min(checks) > 0
    assert f"| element checks | {sum(checks):,} |" in text


def test_explanations_name_something_that_exists():
    names = [s.name for s in (*catalogue.every(), *zoo_subjects())] + [f"rule {op}" for op in RULES]
    for pattern, text in reasons.EXPLAINED.items():
        assert any(fnmatchcase(name, pattern) for name in names), pattern
        assert len(text.split()) > 5
    assert reasons.reason("something else") == ""


@pytest.mark.skipif(not PAGE.exists(), reason="no page was generated")
def test_what_stays_far_from_its_bounds_is_explained():
    """Rows of the committed page: nothing outside, and a reason wherever nothing came within 30 %."""
    section, seen = "", 0
    for row in PAGE.read_text().splitlines():
        section = row.removeprefix("## ") if row.startswith("## ") else section
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        if section in ("Rules", "Kernels", "Profiles") and len(cells) >= 5 and cells[1].replace(",", "").isdigit():
            assert cells[3] == "0", row
            seen += 1
            if section != "Profiles" and float(cells[4]) < FAR:
                assert cells[5], f"no reason in render/lab/adversary/reasons.py: {row}"
    assert seen > 200
