"""Exit codes, and what the user sees when something fails: one clear line, and the next step.

0 Type-I or equal, 1 Type-II, 2 usage or input error, 3 Inconclusive, 4 internal error; with several, 4 beats 2 beats
1 beats 3 beats 0. 130 is the shell's code for Ctrl-C.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TextIO

import typer

from render.cli.files import spared, writable
from render.cli.leave import kept
from render.cli.surroundings import fitting, no_path, streams, unimportable, unwritable
from render.report.text import place
from render.result import codes, footing
from render.result.defects import inside
from render.result.errors import Endless, KernelError, RenderError, UnsupportedOp, lives_in, spoken
from render.result.options import check_seed

TYPE_I, TYPE_II, INCONCLUSIVE = (codes.EXIT_CODES[label] for label in ("Type-I", "Type-II", "Inconclusive"))
INTERRUPTED = 130
_FULL = "RENDER_FULL_TRACEBACK"

_decided: list[int] = []

P = ParamSpec("P")


def guarded(command: Callable[P, int | None]) -> Callable[P, None]:
    """`command` with its exceptions turned into messages on stderr and its result into the exit code."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        _decided.clear()
        footing.forget()
        try:
            fitting()
            spared(kwargs)
            if isinstance(seed := kwargs.get("seed"), int):
                check_seed(seed)
            with kept():
                code = command(*args, **kwargs)
        except (typer.Exit, typer.BadParameter):  # typer's own: it prints the usage line and exits 2
            raise
        except KeyboardInterrupt as stop:
            _say(["interrupted" + (f": {stop}" if str(stop) else "")])
            code = INTERRUPTED
        except BrokenPipeError:  # `render ... | head`: the reader has gone, and that is no error of ours
            _into_nothing(sys.stdout)
            code = _decided[-1] if _decided else TYPE_I
        except Exception as error:  # the boundary between the program and its user
            footing.steady()
            full, misnamed = (unwritable(error), no_path(error)) if isinstance(error, OSError) else (None, None)
            if full is not None:
                _into_nothing(sys.stdout)
            code = report(full or misnamed or unimportable(error) or _whose(error), kwargs.get("json"))
        except BaseException as error:
            if not lives_in(error, ("_pytest.",)):
                raise
            from render.entry.target import as_kernel_error

            code = report(as_kernel_error(error), kwargs.get("json"))  # user's code skipped itself, and in no test
        raise typer.Exit(code or 0)

    return run


def _whose(error: Exception) -> Exception:
    """The error as one of the user's where its innermost frame is, or user code has replaced what RENDER stands on."""
    error, frames = footing.blamed(error), traceback.extract_tb(error.__traceback__)
    if type(error) not in _WORDS and frames:
        from render.entry.target import as_kernel_error, is_tool_file

        return error if is_tool_file(frames[-1].filename) else as_kernel_error(error)
    return error


def _into_nothing(stream: TextIO) -> None:
    """What is still to be written there is not."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def decided(code: int) -> int:
    """Notes the exit code before anything is printed: whoever reads the output may stop reading at any line."""
    _decided.append(code)
    return code


def report(error: Exception, json: object = None) -> int:
    """Explains `error` on stderr, and as JSON where the command was to write its result as such (a path, or -); returns
    the exit code."""
    if os.environ.get(_FULL):
        traceback.print_exception(error)
    lines, code = explained(error)
    _say(lines)
    if isinstance(json, str):
        _as_json(lines, code, getattr(error, "code", ""), json)
    return code


def explained(error: Exception) -> tuple[list[str], int]:
    """(lines for the user, exit code)."""
    words = next((words for kind, words in _WORDS.items() if isinstance(error, kind)), _internal)
    return words(error)


def _as_json(lines: list[str], exit_code: int, code: str, path: str) -> None:
    from json import dumps

    from render.result.verdict import SCHEMA

    told = {"code": code, "message": lines[0].partition(": ")[2], "help": [line.strip() for line in lines[1:]]}
    text = dumps({"schema": SCHEMA, "error": told, "exit_code": exit_code}, indent=2) + "\n"
    if path == "-":
        typer.echo(text, nl=False)
    else:
        with contextlib.suppress(RenderError, OSError):  # where it cannot be written, that was the error
            writable(path)
            Path(path).write_text(text, encoding="utf-8")


def _usage(error: RenderError) -> tuple[list[str], int]:
    lines = [f"error[{error.code}]: {error.message}"]
    if error.hint:
        first, *rest = error.hint.splitlines()
        lines += [f"  help: {first}", *rest]  # further lines are for pasting: as they are
    lines.append(f"  help: `render explain {error.code}` has an example")
    return lines, codes.USAGE_ERROR


def _kernel(error: KernelError) -> tuple[list[str], int]:
    original = error.original
    lines = [f"error: the kernel or its launcher raised {type(original).__name__}: {spoken(original)}"]
    for file, line, function, source in error.frames:
        lines.append(f"  --> {place(file, line)} in {function}")
        if source.strip():
            lines += [f"  {line:>5} |     {source.strip()}"]
    if where := inside(original):
        lines.append(f"  note: raised inside RENDER ({where}); if Triton accepts this kernel, please report it")
    lines.append(f"  help: {_FULL}=1 shows every frame, RENDER's own included")
    return lines, codes.USAGE_ERROR


def _endless(error: Endless) -> tuple[list[str], int]:
    where = [f"  --> {place(error.file, error.line or 0)}"] if error.file else []
    help_ = f"  help: `render explain {error.code}` says what this means"
    return [f"error[{error.code}]: {error}", *where, help_], codes.CODES[error.code].exit_code


def _unsupported(error: UnsupportedOp) -> tuple[list[str], int]:
    return [f"error[RND302]: {error}", "  help: `render ops` lists what has a rule"], INCONCLUSIVE


def _internal(error: Exception) -> tuple[list[str], int]:
    frame = traceback.extract_tb(error.__traceback__)[-1] if error.__traceback__ else None
    where = f" ({Path(frame.filename).name}:{frame.lineno})" if frame else ""
    return [
        f"internal error: {type(error).__name__}: {error}{where}",
        "  This is a defect of RENDER, not of your kernel: there is no verdict.",
        f"  help: run again with {_FULL}=1 for the traceback, and please report it with your kernel",
    ], codes.INTERNAL_ERROR


_WORDS: dict[type[Exception], Callable[[Any], tuple[list[str], int]]] = {
    RenderError: _usage,
    KernelError: _kernel,
    Endless: _endless,
    UnsupportedOp: _unsupported,
}


def _say(lines: list[str]) -> None:
    streams()
    with contextlib.suppress(OSError):  # nobody hears it
        for line in lines:
            typer.echo(line, err=True)
