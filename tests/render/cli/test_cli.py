"""The command line: exit codes, what goes to stdout and what to stderr, and errors that say what to do next."""

from __future__ import annotations

import importlib
import inspect
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from render import __version__
from render.cli import app
from render.cli import classify as command
from render.cli.exits import report
from render.result.codes import combined
from render.result.errors import KernelError, RenderError, UnsupportedOp
from render.result.options import EXPLANATIONS, NAMES
from render.result.verdict import Verdict
from tests.render.report.verdicts import inconclusive, source_file, type_i, type_ii

runner = CliRunner()


@pytest.fixture
def file(tmp_path: Path) -> str:
    return source_file(tmp_path)


def classify(monkeypatch: pytest.MonkeyPatch, result: Verdict | BaseException, *arguments: str, noise: str = "") -> Any:
    """`render classify ...` with `result` in place of the classification; `noise` is what the user's code prints."""

    def fake(*args: object, **options: object) -> Verdict:
        if noise:
            print(noise)
        if isinstance(result, BaseException):
            raise result
        return result

    # A file of ours, as the classification's: what fails in a file of the user's is the user's.
    fake.__code__ = fake.__code__.replace(co_filename=str(command.__file__))
    monkeypatch.setattr(command, "_classify", fake)
    return runner.invoke(app, ["classify", *arguments])


@pytest.mark.parametrize(("verdict", "code"), [(type_i(), 0), (type_ii(), 1), (inconclusive(), 3)])
def test_exit_code_follows_the_verdict(monkeypatch: pytest.MonkeyPatch, file: str, verdict: Verdict, code: int) -> None:
    result = classify(monkeypatch, verdict, file)
    assert result.exit_code == code
    assert verdict.label.upper() in result.stdout
    assert f"exit {code}" in result.stdout.splitlines()[-1]


def test_allow_inconclusive(monkeypatch: pytest.MonkeyPatch, file: str) -> None:
    result = classify(monkeypatch, inconclusive(), file, "--allow-inconclusive")
    assert result.exit_code == 0
    assert result.stdout.rstrip().endswith("exit 0")
    assert "INCONCLUSIVE" in result.stdout
    assert classify(monkeypatch, type_ii(), file, "--allow-inconclusive").exit_code == 1


@pytest.mark.parametrize(
    ("codes", "code"), [((0, 3), 3), ((3, 1, 0), 1), ((1, 2), 2), ((2, 4, 1), 4), ((), 0), ((0, 0), 0)]
)
def test_precedence(codes: tuple[int, ...], code: int) -> None:
    assert combined(codes) == code


def test_json_on_stdout_is_alone(monkeypatch: pytest.MonkeyPatch, file: str) -> None:
    result = classify(monkeypatch, type_ii(), file, "--json", "-", noise="hello from the kernel's file")
    assert json.loads(result.stdout)["verdict"]["code"] == "RND201"
    assert "hello" in result.stderr
    assert result.exit_code == 1


def test_json_and_html_files(monkeypatch: pytest.MonkeyPatch, file: str, tmp_path: Path) -> None:
    targets = (str(tmp_path / "r.json"), str(tmp_path / "r.html"))
    result = classify(monkeypatch, type_i(), file, "--json", targets[0], "--html", targets[1])
    assert json.loads(Path(targets[0]).read_text())["exit_code"] == 0
    assert "<svg" in Path(targets[1]).read_text()
    assert "TYPE-I" in result.stdout


def test_report_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch, file: str) -> None:
    result = classify(monkeypatch, type_i(), file, "--json", "/nowhere/r.json")
    assert result.exit_code == 2
    assert "cannot write" in result.stderr


def test_quiet(monkeypatch: pytest.MonkeyPatch, file: str) -> None:
    result = classify(monkeypatch, type_i(), file, "-q")
    assert "TYPE-I" in result.stdout
    assert "allclose" not in result.stdout
    assert len(result.stdout.splitlines()) <= 3


def test_no_escape_codes_off_a_terminal(monkeypatch: pytest.MonkeyPatch, file: str) -> None:
    assert "\x1b" not in classify(monkeypatch, type_ii(), file).stdout
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in classify(monkeypatch, type_ii(), file).stdout


def test_usage_error_has_code_help_and_no_traceback(monkeypatch: pytest.MonkeyPatch, file: str) -> None:
    error = RenderError("RND901", "no inputs for matmul(a, b)", "paste this:\ndef make_inputs(): ...")
    result = classify(monkeypatch, error, file)
    assert result.exit_code == 2
    assert result.stdout == ""
    first, *rest = result.stderr.splitlines()
    assert first == "error[RND901]: no inputs for matmul(a, b)"
    assert rest[0] == "  help: paste this:"
    assert "Traceback" not in result.stderr


def test_kernel_error_shows_the_users_frames_only(monkeypatch: pytest.MonkeyPatch, file: str) -> None:
    error = KernelError(ZeroDivisionError("division by zero"), [(file, 9, "test_kernel", "    o = tl.dot(x, y)")])
    result = classify(monkeypatch, error, file)
    assert result.exit_code == 2
    assert "raised ZeroDivisionError: division by zero" in result.stderr
    assert f"--> {file}:9 in test_kernel" in result.stderr
    assert "o = tl.dot(x, y)" in result.stderr
    assert "/render/" not in result.stderr


def test_kernel_error_from_inside_says_so(monkeypatch: pytest.MonkeyPatch, file: str) -> None:
    try:
        report(None)  # type: ignore[arg-type]
    except AttributeError as error:
        ours = error
    result = classify(monkeypatch, KernelError(ours, [(file, 9, "test_kernel", "")]), file)
    assert "raised inside RENDER (render/cli/exits.py:" in result.stderr
    try:
        int("x")
    except ValueError as error:
        theirs = error
    assert "inside RENDER" not in classify(monkeypatch, KernelError(theirs, []), file).stderr


def test_unsupported_operation_is_inconclusive(monkeypatch: pytest.MonkeyPatch, file: str) -> None:
    result = classify(monkeypatch, UnsupportedOp("tl.foo", "no rule yet", file, 9), file)
    assert result.exit_code == 3
    assert "tl.foo" in result.stderr
    assert f"{file}:9" in result.stderr


def test_internal_error(monkeypatch: pytest.MonkeyPatch, file: str) -> None:
    result = classify(monkeypatch, IndexError("oops"), file)
    assert result.exit_code == 4
    assert "internal error: IndexError: oops" in result.stderr
    assert "RENDER_FULL_TRACEBACK=1" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    "error", [IndexError("oops"), RenderError("RND903", "no match"), KernelError(OSError("x"), [])]
)
def test_full_traceback_on_request(monkeypatch: pytest.MonkeyPatch, file: str, error: Exception) -> None:
    monkeypatch.setenv("RENDER_FULL_TRACEBACK", "1")
    assert "Traceback (most recent call last)" in classify(monkeypatch, error, file).stderr


def test_interrupt(monkeypatch: pytest.MonkeyPatch, file: str) -> None:
    result = classify(monkeypatch, KeyboardInterrupt(), file)
    assert result.exit_code == 130
    assert result.stderr == "interrupted\n"


@pytest.mark.parametrize("option", [(), ("--inputs", "nowhere.npz"), ("--output", "nowhere.npz")])
def test_missing_files_are_named_before_anything_runs(file: str, option: tuple[str, ...]) -> None:
    target = (file, *option) if option else ("nowhere.py",)
    result = runner.invoke(app, ["classify", *target])
    assert result.exit_code == 2
    assert "no such file: nowhere" in result.stderr


def test_options_reach_the_classification(monkeypatch: pytest.MonkeyPatch, file: str) -> None:
    seen: dict[str, object] = {}
    monkeypatch.setattr(command, "_classify", lambda file, **options: seen.update(options) or type_i())
    line = ["--entry", "f", "--ref", "torch.mm", "--device", "sm_80", "--input", "a=randn(2)", "--input", "b=ones(2)"]
    runner.invoke(app, ["classify", file, *line, "--seed", "7", "--no-budget"])
    assert callable(seen.pop("progress")) and callable(seen.pop("on_stage"))
    assert list(seen.pop("session")) == ["progress"]  # type: ignore[call-overload]
    assert seen == {
        "entry": "f", "ref": "torch.mm", "ref_args": (), "device": "sm_80", "inputs": None,
        "specs": ("a=randn(2)", "b=ones(2)"), "seed": 7, "output": None, "budget": False,
    }  # fmt: skip


def test_options_are_those_of_the_classification(monkeypatch: pytest.MonkeyPatch, file: str) -> None:
    seen: dict[str, object] = {}
    monkeypatch.setattr(command, "_classify", lambda file, **options: seen.update(options) or type_i())
    runner.invoke(app, ["classify", file])
    known = inspect.signature(importlib.import_module("render.classify").classify_file).parameters
    assert set(seen) <= set(known)


def test_every_option_with_a_help_line_is_one_of_the_command_line() -> None:
    shown = inspect.signature(command.command).parameters
    assert {name for name, row in NAMES.items() if row.metadata.get("help")} <= set(shown)
    assert EXPLANATIONS.keys() <= set(shown)


@pytest.mark.parametrize(
    "line", [["bogus"], ["classify"], ["classify", "x.py", "--seed", "one"], ["explain", "RND999"]]
)
def test_typer_usage_errors_exit_2(line: list[str]) -> None:
    assert runner.invoke(app, line).exit_code == 2


def test_version() -> None:
    result = runner.invoke(app, ["--version"])
    assert result.exit_code == 0
    assert result.stdout == f"render {__version__}\n"


def test_explain() -> None:
    result = runner.invoke(app, ["explain", "101"])
    assert result.exit_code == 0
    assert all(word in result.stdout for word in ("RND101", "TF32", "maths", "example", "what to do"))
    listed = runner.invoke(app, ["explain"]).stdout
    assert "RND904" in listed


@pytest.mark.parametrize("words", [("--seed", "1", "--seed=2"), ("--device", "a100", "-q", "--device", "h100")])
def test_of_two_values_none_is_ignored(words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, file: str) -> None:
    result = classify(monkeypatch, type_i(), file, *words)
    assert result.exit_code == 2 and f"{words[0]} takes one value" in result.output


def test_a_script_has_options_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("import sys\nprint(sys.argv[1:])\n")
    words = ["run", "--device", "sm_90", str(tmp_path / "script.py"), "--device", "a", "--device", "b"]
    assert "['--device', 'a', '--device', 'b']" in runner.invoke(app, words).output
