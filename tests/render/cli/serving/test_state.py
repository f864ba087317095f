"""The state that a server and a caller must share: what changes it, and what does not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from render.cli.serving import state


def test_what_changes_the_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "code", lambda: "same")
    before = state.digest()
    monkeypatch.setenv("EDITOR", "vi")
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    assert state.digest() == before
    monkeypatch.setenv("TRITON_DEBUG", "1")
    changed = state.digest()
    assert changed != before
    monkeypatch.setattr("sys.path", ["", "/one/more", *os.sys.path])  # type: ignore[attr-defined]
    assert state.digest() not in (before, changed)


def test_sources_count_and_caches_do_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "_ROOT", tmp_path)
    monkeypatch.setattr(state, "PACKAGES", ("json", "surely_no_such_package"))
    package = tmp_path / "render" / "inner"
    package.mkdir(parents=True)
    (package / "a.py").write_text("x = 1")
    before = state.code()
    (package / "__pycache__").mkdir()
    (package / "__pycache__" / "a.py").write_text("")
    (package / "notes.txt").write_text("")
    assert state.code() == before
    (package / "a.py").write_text("x = 12")
    assert state.code() != before


def test_only_a_folder_of_ones_own_is_private(tmp_path: Path) -> None:
    mine, shared, link = tmp_path / "mine", tmp_path / "shared", tmp_path / "link"
    mine.mkdir(mode=0o700)
    shared.mkdir()
    shared.chmod(0o770)
    link.symlink_to(mine)
    assert state.is_private(mine)
    assert not state.is_private(shared) and not state.is_private(link) and not state.is_private(tmp_path / "none")


def test_the_socket_lies_where_the_user_alone_may_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert state.folder() == tmp_path / "render"
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "none"))
    assert state.folder().name == "serve"
