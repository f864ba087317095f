"""Which cases: by id, by group, by an expression as pytest's -k has it."""

from __future__ import annotations

import re
from pathlib import Path

from render.result.errors import RenderError

GROUPS = {"all": ("issues", "twins"), "issues": ("issues",), "twins": ("twins",),
          "network": ("network",)}  # fmt: skip
_TOKEN = re.compile(r"\(|\)|[^\s()]+")


def matches(expression: str, words: str) -> bool:
    """`and`, `or`, `not` and parentheses over substrings of `words`, upper and lower case alike.

    Raises RenderError for an expression that cannot be read.
    """
    tokens = _TOKEN.findall(expression)
    value, rest = _either(tokens, words.lower(), expression)
    if rest:
        raise _bad(expression)
    return value


def _either(tokens: list[str], words: str, whole: str) -> tuple[bool, list[str]]:
    value, tokens = _both(tokens, words, whole)
    while tokens and tokens[0] == "or":
        other, tokens = _both(tokens[1:], words, whole)
        value = value or other
    return value, tokens


def _both(tokens: list[str], words: str, whole: str) -> tuple[bool, list[str]]:
    value, tokens = _one(tokens, words, whole)
    while tokens and tokens[0] == "and":
        other, tokens = _one(tokens[1:], words, whole)
        value = value and other
    return value, tokens


def _one(tokens: list[str], words: str, whole: str) -> tuple[bool, list[str]]:
    if not tokens or tokens[0] in (")", "and", "or"):
        raise _bad(whole)
    head, *rest = tokens
    if head == "not":
        value, rest = _one(rest, words, whole)
        return not value, rest
    if head == "(":
        value, rest = _either(rest, words, whole)
        if not rest or rest[0] != ")":
            raise _bad(whole)
        return value, rest[1:]
    return head.lower() in words, rest


def _bad(expression: str) -> RenderError:
    return RenderError("RND902", f"cannot read -k {expression!r}", 'write e.g. -k "fp16 and not twin"')


def select(ids: list[str], expression: str = "") -> list[Path]:
    """Folders of the cases, in the order of the corpus. `ids` may name cases or groups; none: all of them.

    Raises RenderError for an id that does not exist.
    """
    from render.lab.corpus.case import FOLDERS, case_folders, find_case

    groups = tuple(dict.fromkeys(kind for name in ids or ["all"] for kind in GROUPS.get(name, ())))
    chosen = set(case_folders(groups)) | {find_case(name).path for name in ids if name not in GROUPS}
    found = [folder for folder in case_folders(FOLDERS) if folder in chosen]
    return [f for f in found if matches(expression, words_of(f))] if expression else found


def words_of(folder: Path) -> str:
    """What -k looks at: id, operation, dtypes, labels, codes, kind of device output, `twin` or `issue`."""
    from render.lab.corpus.case import load_case

    facts = load_case(folder).facts
    kind = "network" if facts.kind == "network" else "twin" if facts.twin_of else "issue"
    parts = [facts.id, facts.operation, facts.title, facts.label, facts.root_cause, facts.device.kind,
             facts.device.profile, kind, *facts.dtypes, *facts.expected.codes]  # fmt: skip
    return " ".join(parts).lower()
