"""Errors that a user can act on: each says what was wrong, where, and what to do next."""

from __future__ import annotations


class RenderError(Exception):
    """A usage or input error (exit code 2). `code` is an RND9xx code, `hint` names the next step."""

    def __init__(self, code: str, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.code}: {self.message}" + (f" ({self.hint})" if self.hint else "")


class UnsupportedOp(Exception):
    """An operation of the user's kernel has no sound rule yet; nothing was guessed in its place."""

    def __init__(self, op: str, reason: str, file: str | None = None, line: int | None = None) -> None:
        where = f" at {file}:{line}" if file else ""
        super().__init__(f"{op} is not supported{where}: {reason}")
        self.op = op
        self.reason = reason
        self.file = file
        self.line = line


class Endless(UnsupportedOp):
    """The run of a kernel was given up: it can never end (`code` RND212), or not within the budget (RND309)."""

    def __init__(self, code: str, message: str, file: str | None = None, line: int | None = None) -> None:
        super().__init__("while", message, file, line)
        self.code = code
        self.args = (message,)


class KernelError(Exception):
    """The user's kernel or launcher raised; `frames` holds the user's own frames, innermost last."""

    def __init__(self, original: BaseException, frames: list[tuple[str, int, str, str]]) -> None:
        super().__init__(f"{type(original).__name__}: {original}")
        self.original = original
        self.frames = frames
