"""Errors say what was wrong, where, and what to do next, as text and in a notebook."""

from __future__ import annotations

from pathlib import Path

import pytest

from render.result.errors import Endless, KernelError, NoForm, RenderError, UnsupportedOp


def test_a_usage_error_names_code_and_next_step() -> None:
    error = RenderError("RND901", "no such file: a.py", "look in kernels/")
    assert str(error) == "RND901: no such file: a.py (look in kernels/)"
    assert error._render_traceback_() == ["error[RND901]: no such file: a.py", "  help: look in kernels/"]
    assert str(RenderError("RND901", "no")) == "RND901: no"


def test_an_operation_without_a_rule_names_the_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    error = UnsupportedOp("tl.inline_asm", "no rule", str(tmp_path / "kernel.py"), 7)
    assert f"{tmp_path / 'kernel.py'}:7" in str(error) and (error.op, error.line) == ("tl.inline_asm", 7)
    assert error._render_traceback_()[1] == "  --> kernel.py:7"
    assert len(UnsupportedOp("sum", "no rule")._render_traceback_()) == 1


def test_kinds_of_what_is_not_supported() -> None:
    assert issubclass(NoForm, UnsupportedOp)
    error = Endless("RND212", "it never ends", "a.py", 3)
    assert (str(error), error.code, error.op) == ("it never ends", "RND212", "while")


def test_a_kernel_error_shows_the_users_frames_and_the_notes() -> None:
    original = ValueError("shape mismatch")
    original.add_note("in tl.dot")
    error = KernelError(original, [("/x/launch.py", 4, "main", "    run(x)"), ("/x/kernel.py", 9, "kernel", "")])
    assert str(error) == "ValueError: shape mismatch; in tl.dot"
    assert error._render_traceback_()[1:] == [
        "  --> /x/launch.py:4 in main", "      4 | run(x)", "  --> /x/kernel.py:9 in kernel",
    ]  # fmt: skip
