"""One row of the table of codes, and what its first digit says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Label = Literal["Type-I", "Type-II", "Inconclusive"]


@dataclass(frozen=True, slots=True)
class Hundred:
    """The codes that share a first digit: what they are called, the label and the exit code that they give."""

    name: str
    label: Label | None
    exit_code: int


HUNDREDS: dict[str, Hundred] = {
    "1": Hundred("Type-I, cause of the width", "Type-I", 0),
    "2": Hundred("Type-II", "Type-II", 1),
    "3": Hundred("Inconclusive", "Inconclusive", 3),
    "9": Hundred("usage", None, 2),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """One rule code: all that is said of it anywhere.

    `title` names the fact in a few words. `sentence` is that of a verdict with it, `{detail}` being what the rule that
    decided found. Of several outputs of one label the one whose code has the smallest `rank` speaks. `subtype` is the
    verdict's where the code alone gives it. `causes` are the keys of the error terms (`interval_ops.profiles`) whose
    largest share gives the code. `at_line`: the title is a fact about the line that the verdict points to, not only the
    place to start from.

    `prose`, `maths` and `example` explain it; `steps` say what to do (a verdict prints them), `more` adds to them on
    the page of the code.
    """

    code: str
    title: str
    prose: str
    maths: str
    example: str
    sentence: str = "{detail}"
    rank: int = 0
    subtype: str = ""
    causes: tuple[str, ...] = ()
    at_line: bool = False
    steps: tuple[str, ...] = ()
    more: str = ""

    @property
    def hundred(self) -> Hundred:
        return HUNDREDS[self.code[3]]

    @property
    def label(self) -> Label | None:
        """The label of a verdict with this code; None for an error, where there is no verdict."""
        return self.hundred.label

    @property
    def exit_code(self) -> int:
        return self.hundred.exit_code
