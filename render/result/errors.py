"""Errors that a user can act on: each says what was wrong, where, and what to do next."""

from __future__ import annotations

from numbers import Integral

from render.result.places import relative

_SIGNALS = ("render.", "_pytest.")
_LONGEST = 2000
"""Characters of a message that somebody reads."""


class RenderError(Exception):
    """A usage or input error (exit code 2). `code` is an RND9xx code, `hint` names the next step.

    try:
        verdict = render.classify(matmul, a, b, ref=torch.matmul, device="sm_9000")
    except render.RenderError as error:
        print(error.code, error.message, error.hint)
    """

    def __init__(self, code: str, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.code}: {self.message}" + (f" ({self.hint})" if self.hint else "")

    def _render_traceback_(self) -> list[str]:
        """What a notebook shows."""
        return [f"error[{self.code}]: {self.message}", *([f"  help: {self.hint}"] if self.hint else [])]


class UnsupportedOp(Exception):
    """An operation of the user's kernel has no sound rule yet; nothing was guessed in its place. `op` at `file`:`line`,
    and the `reason`.

        try:
            verdict = render.classify(launch, x, ref=reference)
        except render.UnsupportedOp as error:
            print(error.op, error.reason, error.file, error.line)
    """

    def __init__(self, op: str, reason: str, file: str | None = None, line: int | None = None) -> None:
        where = f" at {file}:{line}" if file else ""
        super().__init__(f"{op} is not supported{where}: {reason}")
        self.op = op
        self.reason = reason
        self.file = file
        self.line = line

    def _render_traceback_(self) -> list[str]:
        return [f"error[RND302]: {self.op} is not supported: {self.reason}", *_at(self.file, self.line or 0)]


class NoForm(UnsupportedOp):
    """A function of a library has no form for operands of these types: Triton may refuse it, too."""


class Endless(UnsupportedOp):
    """The run of a kernel was given up: it can never end (`code` RND212), or not within the budget (RND309)."""

    def __init__(self, code: str, message: str, file: str | None = None, line: int | None = None) -> None:
        super().__init__("while", message, file, line)
        self.code = code
        self.args = (message,)


class KernelError(Exception):
    """The user's kernel or launcher raised `original`; `frames` holds the user's own frames, innermost last.

    try:
        verdict = render.classify(launch, x, ref=reference)
    except render.KernelError as error:
        file, line, function, source = error.frames[-1]
    """

    def __init__(self, original: BaseException, frames: list[tuple[str, int, str, str]]) -> None:
        said = "; ".join([spoken(original), *getattr(original, "__notes__", ())])
        super().__init__(f"{type(original).__name__}: {said}")
        self.original = original
        self.frames = frames

    def _render_traceback_(self) -> list[str]:
        shown = [line for file, at, function, text in self.frames for line in _at(file, at, function, text)]
        return [f"error: the kernel or its launcher raised {self}", *shown]


def _at(file: str | None, line: int, function: str = "", text: str = "") -> list[str]:
    """The user's frame."""
    if not file:
        return []
    where = f"  --> {relative(file)}:{line}" + (f" in {function}" if function else "")
    return [where, *([f"  {line:>5} | {text.strip()}"] if text.strip() else [])]


def is_users(error: BaseException) -> bool:
    """Whether it may end user's code as any exception does: `sys.exit()` and a cancelled task too, not Ctrl-C, and no
    signal that passes through user's code: of RENDER's own (an end of time, an endless program), pytest's skip."""
    if isinstance(error, Exception | SystemExit):
        return True
    return not isinstance(error, KeyboardInterrupt) and not lives_in(error, _SIGNALS)


def lives_in(error: BaseException, modules: tuple[str, ...]) -> bool:
    """Whether its class, or one that it is made from, is of these: pytest's claim to be built in."""
    return any(f"{kind.__module__}.".startswith(modules) for kind in type(error).__mro__)


def spoken(error: BaseException | None) -> str:
    """Its message, however long the user's code made it; where its own `__str__` fails, that it does."""
    try:
        text = str(error)
    except Exception as failing:  # the user's class cannot say what it is
        error = failing
        return f"(its message raises {type(error).__name__})"
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "..."


def headline(error: BaseException | None) -> str:
    """The first line of its message."""
    return spoken(error).strip().split("\n")[0]


def expect(name: str, value: object, *kinds: type, none: bool = False) -> None:
    """Raises RenderError (RND902) unless the argument `name` is of one of the kinds, or None where it may be."""
    whole = (Integral,) if int in kinds else ()  # numpy's numbers, too
    if (value is None and none) or (isinstance(value, (*kinds, *whole)) and not isinstance(value, bool)):
        return
    wanted = " or ".join(kind.__name__ for kind in kinds)
    raise RenderError("RND902", f"{name} is of type {type(value).__name__}", f"give a {wanted}")
