"""Does a witness hold? Evaluates it again and asks whether the claimed value can be reached.

Needs the document alone: no kernel, no torch, no Triton, and none of the interval rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from render.witness import balls as b
from render.witness.document import SCHEMA, Malformed, digest
from render.witness.evaluate import Evaluator, hexed
from render.witness.rule import NoFormula


@dataclass(frozen=True)
class Answer:
    """`agrees`: the claimed value cannot be reached. `enclosure`: what can be, as hexadecimal ends (None: anything)."""

    agrees: bool
    enclosure: list[str] | None
    why: str


def evaluated(document: Mapping[str, Any]) -> Answer:
    """Evaluates the computation and compares it with the claim. Raises Malformed and NoFormula."""
    found = Evaluator(document).result()
    if found is None:
        return Answer(False, None, "the second evaluation does not bound the element")
    enclosure = [hexed(found[0], "f"), hexed(found[1], "c")]
    claim, bound = (b.interval(*_ends(document[key])) for key in ("claim", "bound"))
    if claim is None:
        return Answer(True, enclosure, "the claim is no number, and all that can be reached are numbers")
    if not _apart(found, claim):
        return Answer(False, enclosure, "the second evaluation reaches the value that the bound excludes")
    if bound is not None and _apart(found, bound):
        return Answer(False, enclosure, "the second evaluation and the bound have nothing in common")
    return Answer(True, enclosure, "the value cannot be reached")


def _ends(item: Mapping[str, str]) -> tuple[float, float]:
    return float.fromhex(item["low"]), float.fromhex(item["high"])


def _apart(x: b.Interval, y: b.Interval) -> bool:
    return b.less(x[1], y[0]) or b.less(y[1], x[0])


def rechecked(document: Mapping[str, Any]) -> Answer:
    """A saved witness judged again; one that was changed since it was made does not agree."""
    try:
        if document.get("schema") != SCHEMA:
            raise Malformed("another schema")
        if document.get("digest") != digest(document):
            return Answer(False, None, "the witness was changed after it was made")
        answer = evaluated(document)
    except (Malformed, NoFormula, KeyError, ValueError, TypeError) as error:
        return Answer(False, None, f"the witness cannot be read: {error}")
    if answer.enclosure != document.get("enclosure") or answer.agrees != document.get("agrees"):
        return Answer(False, answer.enclosure, "evaluated again, the witness gives another result than it states")
    return answer
