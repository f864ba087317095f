"""Every command of the guides runs, and what the pages print stands in what it prints."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.docs import guides

PAGES = sorted(guides.GUIDES.glob("*.md"))


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_page_says_what_commands_print(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for notebook in guides.GUIDES.glob("*.ipynb"):
        (tmp_path / notebook.name).write_bytes(notebook.read_bytes())
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "100")  # as the pages show it, also in processes whose parent has another width
    ran = 0
    for kind, text, printed, got in guides.run(page):
        ran += 1
        if kind == "python":
            assert not got, got
            continue
        assert printed or not got.strip(), f"{page.name} does not show what {text} prints"
        assert not guides.missing(printed, got), f"{text}\n{got}"
    assert ran


def test_what_a_page_may_leave_open() -> None:
    got = "  17 of 200 differ, /somewhere/k.py:69:9\n  RND104 wrapped\n  here  1.5e-06"
    assert not guides.missing(["18 of 300 differ, k.py:69:9", "...", "RND104 wrapped here 2e-7"], got)
    assert guides.missing(["18 of 300 differ, k.py:68:9"], got) and guides.missing(["RND105 wrapped"], got)
    assert guides.missing(["RND104", "17 of 200"], got) == ["17 of 200"]


def test_the_example_notebook_was_executed() -> None:
    cells = json.loads((guides.GUIDES / "example.ipynb").read_text())["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert code and all(cell["execution_count"] == i for i, cell in enumerate(code, 1))
    assert any("text/html" in output.get("data", {}) for cell in code for output in cell["outputs"])
    assert not [o for cell in code for o in cell["outputs"] if o["output_type"] == "error"]
