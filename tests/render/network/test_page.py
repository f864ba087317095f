"""The report of two models: what it must say, in lines and as a page, and what the file of a result holds."""

from __future__ import annotations

import json

import render
from render.network import page

from .bugs import BUGS


def test_the_report_names_module_code_and_paper_rule(tmp_path):
    wrong, right, given = BUGS["dropped residual"].models()
    found = render.compare_models(wrong, right, *given)
    text, whole = "\n".join(page.lines(found)), "\n".join(page.lines(found, verbose=True))
    assert text.startswith("  TYPE-II  module blocks.0: ") and "RND2" in text and "> blocks.0 out" in text
    assert text.endswith("exit 1") and text.isascii() and "paper rule" in whole and "eta" not in text
    for width in (80, 120):
        shown = list(page.lines(found, width))
        assert len(shown) <= 12 and max(map(len, shown)) <= width
    page.write(found, tmp_path / "page.html")
    html = (tmp_path / "page.html").read_text()
    assert "<svg" in html and "blocks.0 out" in html and "http" not in html.replace("http://www.w3.org/2000/svg", "")
    found.save(tmp_path / "result.json")
    saved = json.loads((tmp_path / "result.json").read_text())
    assert (saved["label"], saved["first"], saved["exit_code"]) == ("Type-II", "blocks.0", 1)
    assert len(saved["leaves"]) == len(found.leaves)


def test_bars_grow_with_the_decades():
    wrong, right, given = BUGS["dropped residual"].models()
    leaves = render.compare_models(wrong, right, *given).leaves
    moved = sorted((r for r in leaves if r.difference), key=lambda r: r.difference)
    assert [len(page.bar(r)) for r in moved] == sorted(len(page.bar(r)) for r in moved)
    assert not page.bar(next(r for r in leaves if not r.difference))
