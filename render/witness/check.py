"""Does a witness hold? Evaluates it again and asks whether the claimed value can be reached.

Needs the document alone: no kernel, no torch, no Triton, and none of the interval rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from render.exact import intervals as iv
from render.exact.points import ARITHMETIC, PREC
from render.witness.document import Malformed, digest, shaped
from render.witness.evaluate import Evaluator, hexed
from render.witness.rule import NoFormula


@dataclass(frozen=True)
class Answer:
    """`agrees`: the claimed value cannot be reached. `enclosure`: what can be, as hexadecimal ends (None: anything).

    `intact` is False for a document that was changed since it was made, or that is none.
    """

    agrees: bool
    enclosure: list[str] | None
    why: str
    intact: bool = True


def evaluated(document: Mapping[str, Any]) -> Answer:
    """Evaluates the computation and compares it with the claim. Raises Malformed and NoFormula."""
    claim, bound = (iv.interval(*_ends(document[key])) for key in ("claim", "bound"))
    found = Evaluator(document).result(claim)
    if found is None:
        return Answer(False, None, "the second evaluation does not bound the element")
    enclosure = [hexed(found[0], "f"), hexed(found[1], "c")]
    if claim is None:
        return Answer(True, enclosure, "the claim is no number, and all that can be reached are numbers")
    if not iv.apart(found, claim):
        return Answer(False, enclosure, "the second evaluation reaches the value that the bound excludes")
    if bound is not None and iv.apart(found, bound):
        return Answer(False, enclosure, "the second evaluation and the bound have nothing in common")
    return Answer(True, enclosure, "the value cannot be reached")


def _ends(item: Mapping[str, str]) -> tuple[float, float]:
    return float.fromhex(item["low"]), float.fromhex(item["high"])


NAMED = f"{ARITHMETIC} {PREC}"
"""The arithmetic, as a document names it: another one rounds outward elsewhere."""

_MISFITS = (Malformed, NoFormula, ArithmeticError, LookupError, ValueError, TypeError, AttributeError, AssertionError)


def _as_stated(answer: Answer, document: Mapping[str, Any]) -> bool:
    """To the last bit where the document was made with this arithmetic; else both enclosures hold what can be."""
    stated = document.get("enclosure")
    if answer.agrees != document.get("agrees") or document.get("arithmetic") == NAMED:
        return answer.agrees == document.get("agrees") and answer.enclosure == stated
    if answer.enclosure is None or stated is None:
        return answer.enclosure == stated
    here, there = (iv.interval(*map(float.fromhex, ends)) for ends in (answer.enclosure, stated))
    return here is not None and there is not None and not iv.apart(here, there)


def rechecked(document: Mapping[str, Any]) -> Answer:
    """A saved witness judged again; one that was changed since it was made does not agree."""
    try:
        shaped(document)
        if document.get("digest") != digest(document):
            return Answer(False, None, "it was changed after it was made", intact=False)
        answer = evaluated(document)
    except _MISFITS as error:
        return Answer(False, None, f"it cannot be read: {error}", intact=False)
    if not _as_stated(answer, document):
        return Answer(False, answer.enclosure, "evaluated again, it gives another result than it states", intact=False)
    return answer
