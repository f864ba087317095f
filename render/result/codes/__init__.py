"""The table of rule codes: what each RND code means, why it can be believed, an example and what to do next.

Every other place that says something of a code reads it here: titles, the sentence and the steps of a verdict, which of
several outputs speaks, exit codes, `render explain CODE`, docs/codes.md. A new code is one row, in the file of its
hundred, and the place that issues it. Codes are stable for ever: one that is retired is never used for something else.
Text is plain ASCII, because it is shown in terminals, logs and web pages alike. Symbols used throughout:

    T = [lo, hi]  envelope of one output element: every value that a legal execution may produce
    y_ref         what the reference returned
    E             the reference recomputed in float64 from the same inputs
    y_dev         the recorded device output, where one was given
    u             unit roundoff of a format: 2^-24 fp32, 2^-11 fp16, 2^-8 bf16, 2^-11 tf32 (2^-10 if truncated)

Sources of the constants: PTX ISA 8 (ex2.approx, div.full, cvt), CUDA C Programming Guide table 17, IEEE 754-2019,
Higham, Accuracy and Stability of Numerical Algorithms (2nd ed.), sections 3.1 and 4.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from render.result.codes.inconclusive import INCONCLUSIVE
from render.result.codes.row import HUNDREDS, Code, Label
from render.result.codes.type_i import TYPE_I
from render.result.codes.type_ii import TYPE_II
from render.result.codes.usage import USAGE

__all__ = ["CODES", "EXIT_CODES", "GIVEN_AWAY", "INTERNAL_ERROR", "ROWS", "USAGE_ERROR", "Code", "Label", "UnknownCode",
           "by_hundred", "combined", "find", "of_cause", "severity", "title"]  # fmt: skip

ROWS = (*TYPE_I, *TYPE_II, *INCONCLUSIVE, *USAGE)
CODES: dict[str, Code] = {row.code: row for row in ROWS}
GIVEN_AWAY = frozenset({"RND203", "RND210"})
"""Numbers that were announced and are not issued; they are free for nothing else."""

CAUSED = {cause: row.code for row in ROWS for cause in row.causes}
"""The code of a Type-I by the key of its cause."""
EXIT_CODES: dict[str, int] = {h.label: h.exit_code for h in HUNDREDS.values() if h.label}
USAGE_ERROR, INTERNAL_ERROR = HUNDREDS["9"].exit_code, 4
_PRECEDENCE = (INTERNAL_ERROR, USAGE_ERROR, EXIT_CODES["Type-II"], EXIT_CODES["Inconclusive"])
_SEVERITY: dict[Label, int] = {"Type-II": 0, "Inconclusive": 1, "Type-I": 2}


class UnknownCode(LookupError):
    """The text is no rule code."""


def find(text: str) -> Code:
    """The code written as `RND101`, `rnd101` or `101`; raises UnknownCode otherwise."""
    name = text.strip().upper()
    name = name if name.startswith("RND") else f"RND{name}"
    try:
        return CODES[name]
    except KeyError:
        raise UnknownCode(f"{text!r} is no rule code") from None


def title(code: str) -> str:
    """The title of `code`, or nothing where a newer release wrote the report."""
    entry = CODES.get(code)
    return entry.title if entry else ""


def told(code: str) -> bool:
    """Whether the sentence of `code` says what is special about its verdict, not only what kind of verdict it is."""
    entry = CODES.get(code)
    return entry is not None and "{detail}" in entry.sentence


def of_cause(cause: str) -> str:
    """The code of a Type-I by its cause; that of elementwise arithmetic for an unknown one."""
    return CAUSED.get(cause, CAUSED["arith"])


def severity(label: Label, code: str) -> tuple[int, int]:
    """The smallest of several speaks: a bug beats a don't-know beats round-off, then the rank of the code."""
    return _SEVERITY[label], CODES[code].rank


def combined(codes: Iterable[int], allow_inconclusive: bool = False) -> int:
    """The exit code of several results: 4 beats 2 beats 1 beats 3 beats 0; `allow_inconclusive` turns 3 into 0."""
    unknown = EXIT_CODES["Inconclusive"]
    seen = {0 if allow_inconclusive and code == unknown else code for code in codes}
    return next((code for code in _PRECEDENCE if code in seen), 0)


def by_hundred() -> Iterator[tuple[str, list[Code]]]:
    """(name of the hundred, its codes), in the order of the table."""
    for digit, hundred in HUNDREDS.items():
        yield hundred.name, [row for row in ROWS if row.code[3] == digit]
