"""Accepted findings: what an entry covers, what is told when it has gone, and errors that name the entry."""

from __future__ import annotations

from pathlib import Path

import pytest

from render.lab.suite.accept import Accepted, apply, load
from render.lab.suite.rows import Row
from render.result.errors import RenderError

ROW = Row("test_softmax[64]", "Type-II", "RND206", file="/repository/kernels/softmax.py", line=41)


@pytest.mark.parametrize(("entry", "covered"), [
    (Accepted("RND206", "why"), True), (Accepted("RND201", "why"), False),
    (Accepted("RND206", "why", "kernels/softmax.py:41"), True), (Accepted("RND206", "why", "softmax.py"), True),
    (Accepted("RND206", "why", "kernels/softmax.py:42"), False), (Accepted("RND206", "why", "max.py"), False),
    (Accepted("RND206", "why", test="test_softmax*"), True), (Accepted("RND206", "why", test="test_norm*"), False),
])  # fmt: skip
def test_what_an_entry_covers(entry: Accepted, covered: bool) -> None:
    assert entry.covers(ROW) is covered


def test_accepted_rows_pass_and_idle_entries_are_told() -> None:
    fine = Row("test_add", "Type-I", "RND206")
    used, idle = Accepted("RND206", "asked for"), Accepted("RND201", "gone")
    rows, left = apply([ROW, fine], [used, idle])
    assert [(r.accepted, r.exit_code) for r in rows] == [("asked for", 0), ("", 0)] and left == [idle]
    assert apply([fine], [used])[1] == [used], "what passes needs no entry"


@pytest.mark.parametrize(("text", "said"), [
    ("[[accept]]\ncode = 'RND206'\n", "entry 1 has no reason"), ("[[accept]]\nreason = 'x'\n", "entry 1 has no code"),
    ("[[accept]]\ncode = 'RND206'\nreason = 'x'\nline = '3'\n", "entry 1 has an unknown line"),
    ("[[accept]]\ncode = 'RND206'\nreason = ''\n", "has no reason"), ("accept = [", "not valid TOML"),
])  # fmt: skip
def test_errors_name_the_entry(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "accept.toml").write_text(text)
    with pytest.raises(RenderError, match=said) as caught:
        load(tmp_path / "accept.toml")
    assert caught.value.code == "RND901"
