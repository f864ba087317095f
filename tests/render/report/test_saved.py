"""What is kept between commands: files are replaced as a whole, and counts of what was caught add up."""

from __future__ import annotations

from pathlib import Path

import pytest

from render.report import saved
from render.result.errors import RenderError


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    saved.folder().mkdir(parents=True)
    return saved.folder()


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    file = tmp_path / "kept.json"
    file.write_text("old")
    with pytest.raises(TypeError), saved.replacing(file) as beside:
        beside.write_text(None)  # type: ignore[arg-type]
    assert file.read_text() == "old"
    with saved.replacing(file) as beside:
        beside.write_text("new")
        assert file.read_text() == "old"
    assert file.read_text() == "new" and [p.name for p in tmp_path.glob(".kept*")] == []


def test_counts_add_up_and_survive_a_broken_file(cache: Path) -> None:
    from render.result.defects import Defect

    defect = Defect("slicing", "KeyError: 'x'", "trace/cut.py:9", 2)
    saved.tally([defect])
    saved.tally([defect])
    assert saved.tallied() == {"slicing: KeyError: 'x' at trace/cut.py:9": 4}
    (cache / "defects.json").write_text("{ half")
    assert saved.tallied() == {}


def test_each_folder_has_its_own_latest_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RenderError, match="no saved verdict") as caught:
        saved.path_of("last")
    assert caught.value.hint is not None and "render classify" in caught.value.hint
    here = saved._latest()
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    assert saved._latest() != here and saved.call_of_latest() is None
