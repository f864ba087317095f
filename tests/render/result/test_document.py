"""The page around every report."""

from __future__ import annotations

from html.parser import HTMLParser

from render.result.document import document


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: dict[str, str] = {}

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts[self.open[-1] if self.open else ""] = data


def test_a_page_is_whole_and_its_title_is_text() -> None:
    text = document("a < b & c", "<p>{body}</p>", ".x { color: red; }\n")
    reader = _Reader()
    reader.feed(text)
    assert not reader.open and reader.texts["title"] == "a < b & c" and reader.texts["p"] == "{body}"
    assert ".x { color: red; }" in reader.texts["style"] and "prefers-color-scheme: dark" in reader.texts["style"]
    assert text.startswith("<!DOCTYPE html>") and 'name="viewport"' in text and "http" not in text
