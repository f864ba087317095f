"""The JSON schema: what is written conforms to it, and what does not is seen."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

import render
from render.result import schema
from tests.render.report.verdicts import inconclusive, output, type_i, type_ii

INF, NAN = math.inf, math.nan


def conforms(value: Any, rule: dict[str, Any], defs: dict[str, Any], path: str = "$") -> None:
    """A validator for the keywords that our schema uses; any other keyword fails."""
    known = {"$schema", "title", "description", "$defs", "type", "properties", "required", "items", "prefixItems"}
    known |= {"anyOf", "enum", "const", "$ref", "additionalProperties", "minItems", "maxItems"}
    assert rule.keys() <= known, rule.keys() - known
    if "$ref" in rule:
        return conforms(value, defs[rule["$ref"].rsplit("/", 1)[1]], defs, path)
    if "anyOf" in rule:
        failed = []
        for choice in rule["anyOf"]:
            try:
                return conforms(value, choice, defs, path)
            except AssertionError as error:
                failed.append(str(error))
        raise AssertionError(f"{path}: {failed}")
    assert "const" not in rule or value == rule["const"], path
    assert "enum" not in rule or value in rule["enum"], path
    kinds = rule.get("type", [])
    names = {"object": dict, "array": list, "string": str, "null": type(None), "boolean": bool}
    if kinds:
        ok = [(isinstance(value, int | float) and not isinstance(value, bool)) if k == "number"
              else (isinstance(value, int) and not isinstance(value, bool)) if k == "integer"
              else isinstance(value, names[k]) for k in ([kinds] if isinstance(kinds, str) else kinds)]  # fmt: skip
        assert any(ok), f"{path}: {value!r} is not {kinds}"
    if isinstance(value, dict):
        assert set(rule.get("required", ())) <= value.keys(), f"{path}: {set(rule['required']) - value.keys()}"
        fields, more = rule.get("properties", {}), rule.get("additionalProperties", {})
        for key, item in value.items():
            assert key in fields or "additionalProperties" in rule or not fields, f"{path}: {key} is not in the schema"
            conforms(item, fields.get(key, more), defs, f"{path}/{key}")
    if isinstance(value, list):
        first = rule.get("prefixItems", [])
        assert rule.get("minItems", 0) <= len(value) <= rule.get("maxItems", len(value)), path
        for i, item in enumerate(value):
            each = first[i] if i < len(first) else rule.get("items", {})
            conforms(item, each if isinstance(each, dict) else {}, defs, f"{path}/{i}")
    return None


@pytest.mark.parametrize("made", [type_i, type_ii, inconclusive])
def test_verdicts_conform_to_the_schema(made: Any) -> None:
    rule = schema.schema()
    conforms(json.loads(made(outputs=(output(worst_usage=INF),)).to_json()), rule, rule["$defs"])


def test_the_validator_can_fail() -> None:
    rule = schema.schema()
    for spoil in (lambda d: d["verdict"].update(label=1), lambda d: d.pop("outputs"), lambda d: d.update(new=1)):
        data = type_i().to_dict()
        spoil(data)
        with pytest.raises(AssertionError):
            conforms(data, rule, rule["$defs"])


def test_the_page_is_that_of_the_types() -> None:
    page = Path(render.__file__).parent.parent / "docs" / "verdict.schema.json"
    assert page.read_text() == schema.page(), "run `make docs`"
