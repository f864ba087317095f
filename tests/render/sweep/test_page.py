"""The summary page: every row counted, what is no Type-I shown, names as text."""

from __future__ import annotations

import pytest

from render.result.document import document
from render.sweep.page import label_of, page, rows_of
from render.sweep.store import KeptUnit


def entries() -> list[KeptUnit]:
    unit = {"path": "a.py", "device": "any", "seed": 0}
    good = {"test": "a.py", "label": "Type-I", "code": "RND101", "message": "fine", "seconds": 1.5}
    bad = {"test": "<b>.py", "label": "Type-II", "code": "RND201", "message": "1 < 2", "seconds": 2.5}
    return [
        KeptUnit("1", unit, [good]),
        KeptUnit("2", {**unit, "path": "<b>.py", "device": "sm_90"}, [bad], attempts=2),
        KeptUnit("3", unit, [], "killed by SIGKILL", 3),
    ]


def test_rows_have_their_unit_and_a_failure_is_one():
    rows = rows_of(entries())
    assert [label_of(row) for row in rows] == ["Type-I", "Type-II", "error"]
    assert [row["device"] for row in rows] == ["any", "sm_90", "any"]
    assert label_of({"label": "something new"}) == "error"


def test_the_page_has_pictures_and_text():
    plt = pytest.importorskip("matplotlib.pyplot")
    text = page(entries(), "a <sweep>", plt, document)
    assert text.count("data:image/png;base64,") == 3
    assert "a &lt;sweep&gt;" in text and "&lt;b&gt;.py" in text and "1 &lt; 2" in text and "<b>.py" not in text
    assert "3 units, 3 results; 2 needed more than one attempt" in text
    assert "killed by SIGKILL" in text and "RND101" not in text
