"""Markdown: tables whose cells hold, text that is not markup, details folded up."""

from __future__ import annotations

import re
from pathlib import Path

from render.report import markdown
from render.report.text import relative
from tests.render.report.verdicts import inconclusive, source_file, type_i, type_ii


def test_every_row_of_a_table_has_its_columns(tmp_path: Path) -> None:
    text = markdown.page(type_ii(source_file(tmp_path), reference="a | b", notes=("c | d",)))
    width = 0
    for line in text.splitlines():
        cells = len(re.findall(r"(?<!\\)\|", line)) - 1
        if line.startswith("|") and not set(line) - set("| "):
            width = cells
        elif line.startswith("|"):
            assert cells == width, line
    assert width


def test_text_is_no_markup() -> None:
    text = markdown.page(inconclusive(message="<script> *so* [x](y) `z` a_b"))
    assert "### INCONCLUSIVE \\<script\\> \\*so\\* \\[x\\](y) \\`z\\` a\\_b (RND301)" in text
    assert "<script>" in markdown.unescaped(text)


def test_frames_are_fenced_as_they_are(tmp_path: Path) -> None:
    file = source_file(tmp_path)
    text = markdown.page(type_i(file))
    assert "```text\n8 |     y = tl.load(Y + offset_y)\n9 |     o = tl.dot(x, y)  # product\n" in text
    assert f"**{markdown._text(relative(file))}:9:9**" in text
    assert text.count("```") % 2 == 0


def test_details_are_folded() -> None:
    text = markdown.page(type_i())
    assert text.count("<details>") == text.count("</details>") == 1
    assert text.index("<details>") > text.index("assumptions") > text.index("TYPE-I")
