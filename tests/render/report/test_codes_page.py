"""The table of codes as text: one code, the list, the page."""

from __future__ import annotations

import pytest

from render.report import codes_page
from render.result import codes


@pytest.mark.parametrize("row", codes.ROWS, ids=lambda row: row.code)
def test_a_code_says_all_of_its_row(row: codes.Code) -> None:
    told = "".join(codes_page.of_code(row).split())
    for text in (row.code, row.title, row.prose, row.maths, row.example, row.more, *(s[1:] for s in row.steps)):
        assert "".join(text.split()) in told


def test_the_list_has_every_code_once() -> None:
    assert all(codes_page.listing().count(row.code) == 1 for row in codes.ROWS)


def test_links_of_the_page_lead_to_its_sections() -> None:
    page = codes_page.page()
    assert all(f"(#{row.code.lower()})" in page and f"\n## {row.code}\n" in page for row in codes.ROWS)
