"""Names of files as a reader knows them: relative below the working directory, cells by their number."""

from __future__ import annotations

from pathlib import Path

import pytest

from render.result.places import relative


def test_files_below_and_beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    (home / "inner").mkdir(parents=True)
    monkeypatch.chdir(home)
    assert relative(str(home / "inner" / "kernel.py")) == "inner/kernel.py"
    assert relative(str(tmp_path / "other.py")) == str(tmp_path / "other.py")


def test_cells_by_number() -> None:
    assert relative("<ipython-input-12-abcdef>") == "cell [12]"
    assert relative("notes.ipynb#cell3") == "notes.ipynb cell [3]"
