"""The JSON schema (2020-12) of a saved verdict, from the types of `Verdict`."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from render.result import defects, elements, records, scope, tolerance, usage, verdict
from render.result.plain import SENTENCES
from render.result.verdict import ARRAYS, HEAD, SCHEMA, UNWRITTEN, Bound, Outputs, OutputVerdict, Verdict

_CLASSES = {
    name: x for m in (defects, elements, records, scope, tolerance, usage, verdict) for name, x in vars(m).items()
}
_REF = "#/$defs/{name}"
_LEFT_OUT = {"description": "not written"}


def page() -> str:
    """docs/verdict.schema.json."""
    return json.dumps(schema(), indent=1) + "\n"


def schema() -> dict[str, Any]:
    """What every document that `Verdict.to_json` writes conforms to."""
    _, parts = msgspec.json.schema_components((Verdict, OutputVerdict), schema_hook=_hook, ref_template=_REF)
    kinds = {name: _part(name, part) for name, part in sorted(parts.items())}
    whole = kinds.pop(Verdict.__name__)
    fields = whole["properties"]
    head = {name: fields.pop(name) for name in HEAD}
    lost = {"type": "object", "additionalProperties": {"enum": ["inf", "-inf", "nan"]}}
    first = {"schema": {"const": SCHEMA}, "verdict": _object(head)}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A verdict of RENDER",
        "description": "Written by `make docs`. Numbers that JSON lacks are null; `nonfinite` says by path which they "
        "are. Keys are only ever added.",
        **_object({**first, **fields, "nonfinite": lost}),
        "$defs": kinds,
    }


def _hook(kind: Any) -> dict[str, Any]:
    return {"type": "array", "items": {"$ref": _REF.format(name="OutputVerdict")}} if kind is Outputs else _LEFT_OUT


def _part(name: str, part: dict[str, Any]) -> dict[str, Any]:
    """One record as it is written: all fields but arrays, what is read off it beside them, numbers or null."""
    kind = _CLASSES[name]
    left_out = {Bound: ARRAYS, Verdict: UNWRITTEN}.get(kind, ())
    fields = {n: _null(x) for n, x in part["properties"].items() if n not in left_out}
    said = {n: {"type": "string"} for n in SENTENCES if hasattr(kind, n)}
    return {"description": " ".join(part.get("description", "").split()), **_object(fields | said)}


def _object(fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": fields, "required": list(fields)}


def _null(schema: Any) -> Any:
    """Without defaults (every field is written); a number may be null."""
    if isinstance(schema, list):
        return [_null(x) for x in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("type") == "number":
        return {"type": ["number", "null"]}
    return {key: _null(x) for key, x in schema.items() if key != "default"}
