"""The web page: well formed, self-contained, with the same words as the terminal."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from render.report import html
from render.result.verdict import Verdict
from tests.render.report.verdicts import inconclusive, output, source_file, type_i, type_ii, usage
from tests.support import rng

VOID = {"meta", "br"}


class Checker(HTMLParser):
    """Fails on tags that do not match; collects tags and text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def parsed(document: str) -> Checker:
    checker = Checker()
    checker.feed(document)
    checker.close()
    assert checker.open == []
    return checker


@pytest.mark.parametrize("verdict", [type_i(), type_ii(), inconclusive()], ids=lambda v: v.label)
def test_page_is_well_formed_and_self_contained(verdict: Verdict) -> None:
    checker = parsed(html.page(verdict))
    assert verdict.label.upper() in checker.text
    assert verdict.code in checker.text
    for tag, attributes in checker.seen:
        assert tag not in {"script", "link", "img", "iframe"}
        assert not {"src", "href"} & set(attributes)
        assert not any(name.startswith("on") for name in attributes)


def test_same_words_as_the_terminal(tmp_path: Path) -> None:
    text = parsed(html.fragment(type_i(source_file(tmp_path)))).text
    assert "worst element uses 19.1 % of its bound" in text
    assert "99.6 %" in text
    assert "tl.dot(x, y)" in text
    assert "^^^^^^^^^^^^" in text
    assert "shrinks this bound about 260x" in text


def test_user_text_is_escaped() -> None:
    text = html.page(type_i(message="a < b & <script>alert(1)</script>", notes=("<b>",), reference="<lambda>"))
    assert "<script>" not in text
    assert "a &lt; b &amp;" in text
    parsed(text)


def test_pictures_only_where_they_make_sense() -> None:
    flat = output(usage((100,)))
    assert parsed(html.fragment(type_i(outputs=(flat,)))).text.count("elements") >= 1
    assert html.fragment(type_i(outputs=(flat,))).count("<svg") == 1
    assert html.fragment(type_i()).count("<svg") == 2
    assert html.fragment(type_i(outputs=(output(usage((0, 4)), elements=0),))).count("<svg") == 0


def test_notebook_form() -> None:
    assert type_i()._repr_html_() == html.fragment(type_i())


def test_write(tmp_path: Path) -> None:
    html.write(type_i(), tmp_path / "r.html")
    assert (tmp_path / "r.html").read_text().startswith("<!DOCTYPE html>")


def test_elements_without_a_bound_use_nothing_of_it() -> None:
    flat = output(np.zeros((4, 4)))
    flat.bound.lo[:] = np.nan
    page = html.fragment(type_i(outputs=(flat,)))
    assert ">no bound<" in page
    assert "Histogram" not in page


def test_scalar_output() -> None:
    parsed(html.fragment(type_i(outputs=(output(np.array(0.5), shape=(), worst_index=()),))))


def test_the_page_of_a_large_output_is_small() -> None:
    large = rng(0).uniform(0, 1.2, (2048, 2048))
    page = html.page(type_ii(outputs=(output(large, shape=large.shape, elements=large.size),)))
    parsed(page)
    assert "<svg" in page and len(page.encode()) < 1_000_000


def test_values_that_no_device_makes_are_marked() -> None:
    """The interpreter's values keep the operands that tensor cores round."""
    marked = "got -5.935534 (operands not rounded)"
    assert marked in parsed(html.page(type_i())).text
    assert marked not in parsed(html.page(type_i(budget=()))).text
