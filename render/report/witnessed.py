"""The witness of a saved verdict, evaluated again: `render explain --check REPORT`.

Works on the JSON alone; what it imports evaluates numbers and knows neither kernels nor torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from render.result.errors import RenderError


def recheck(report: Mapping[str, Any]) -> tuple[bool, str]:
    """(does the witness hold, the answer in words).

    Raises RenderError where the report has none, or one that was changed or belongs to another verdict.
    """
    from render.witness.check import rechecked

    document = _document(report)
    answer = rechecked(document)
    place = f"{document.get('output')}{document.get('index')}"
    if not answer.intact:
        raise RenderError("RND901", f"the witness of {place} does not stand: {answer.why}", _AGAIN)
    try:
        wrong = _other_verdict(report, document)
    except (LookupError, TypeError, ValueError, AttributeError):
        wrong = "the rest of the report is no verdict"
    if wrong:
        raise RenderError("RND901", f"the witness of {place} does not belong to this verdict: {wrong}", _AGAIN)
    if not answer.agrees:
        return False, f"the witness of {place} does not hold: {answer.why}"
    return True, _holds(document, answer.enclosure or [], place)


_AGAIN = "save the verdict again with `render classify --json PATH`"


def _document(report: Mapping[str, Any]) -> Mapping[str, Any]:
    found, verdict = report.get("witness"), report.get("verdict")
    document = found.get("document") if isinstance(found, dict) else None
    if isinstance(document, dict) and document:
        return document
    if (found is not None and not isinstance(found, dict)) or document or not isinstance(verdict, dict):
        raise RenderError("RND901", "the report's witness is none that RENDER wrote", _AGAIN)
    why = f": {found.get('why')}" if found else ""
    hint = "only a Type-II that rests on the bound (RND201, RND202) carries one"
    raise RenderError("RND901", f"{verdict.get('label')} {verdict.get('code')} has no witness{why}", hint)


def _holds(document: Mapping[str, Any], enclosure: list[str], place: str) -> str:
    low, high = (float.fromhex(end) for end in enclosure)
    claim = [float.fromhex(document["claim"][end]) for end in ("low", "high")]
    which = "the reference's exact value" if document["claim"]["side"] == "reference" else "the device's value"
    ends = dict.fromkeys(f"{end:.9g}" for end in claim)
    value = next(iter(ends)) if len(ends) == 1 else f"[{', '.join(ends)}]"
    lines = [f"the witness of {place} holds: [{low:.9g}, {high:.9g}] does not reach {which} {value}"]
    return "\n".join([*lines, *(f"  taken from the run: {note}" for note in document["notes"])])


def _other_verdict(report: Mapping[str, Any], document: Mapping[str, Any]) -> str:
    """What of the verdict contradicts the witness, or ''."""
    verdict = report["verdict"]
    agreed = document.get("agrees")
    if (verdict["label"] == "Type-II") != bool(agreed):
        return f"it is {verdict['label']} {verdict['code']}"
    same = [o for o in report["outputs"] if o["name"] == document.get("output")]
    if not same:
        return "it has no such output"
    for output in same:
        key = "exact" if document["claim"]["side"] == "reference" else "got"
        value = output[key]
        if output["worst_index"] == document["index"] and value is not None:
            low, high = (float.fromhex(document["claim"][end]) for end in ("low", "high"))
            if not low <= value <= high:
                return f"the verdict names {value:.9g} there"
    return ""
