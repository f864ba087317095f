"""A verdict written as JSON and read back: strict, stable keys, no arrays, and the same numbers again."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import render
from render.result import schema
from render.result.defects import Defect
from render.result.errors import RenderError
from render.result.loading import load, verdict_of
from render.result.plain import plain, put_back
from render.result.verdict import Verdict
from tests.render.report.verdicts import inconclusive, output, type_i, type_ii

INF, NAN = math.inf, math.nan


def test_stable_keys() -> None:
    data = json.loads(type_ii().to_json())
    assert data["verdict"]["label"] == "Type-II"
    assert data["verdict"]["code"] == "RND201"
    assert {"paper_rule", "subtype"} <= set(data["verdict"])
    first = data["outputs"][0]
    promised = {"name", "shape", "dtype", "elements", "outside_reference", "outside_device", "worst_usage", "bound"}
    assert promised <= set(first)
    assert {"median_relative_width", "max_relative_width"} <= set(first["bound"])
    assert not {"lo", "hi", "used"} & set(first["bound"])
    assert {"budget", "timing", "assumptions", "versions", "exit_code", "schema"} <= set(data)
    assert data["exit_code"] == 1


def test_strict_json_without_nan() -> None:
    text = type_i(outputs=(output(worst_usage=INF, got=NAN, low=-INF),)).to_json()

    def refuse(name: str) -> None:
        raise AssertionError(name)

    data = json.loads(text, parse_constant=refuse)
    assert data["outputs"][0]["worst_usage"] is None
    assert data["nonfinite"] == {"/outputs/0/worst_usage": "inf", "/outputs/0/got": "nan", "/outputs/0/low": "-inf"}


def test_numpy_scalars_are_plain() -> None:
    assert json.loads(type_i(outputs=(output(tainted=np.int64(3)),)).to_json())["outputs"][0]["tainted"] == 3


def test_lists_of_numbers_stand_on_one_line() -> None:
    v = type_i(grid=(8, 1, 2), notes=("[\n  1,\n  2\n]",))
    assert '"grid": [ 8, 1, 2 ]' in v.to_json()
    assert json.loads(v.to_json())["notes"] == ["[\n  1,\n  2\n]"]


@pytest.mark.parametrize("made", [type_i, type_ii, inconclusive])
def test_the_same_verdict_comes_back(made: Any, tmp_path: Path) -> None:
    known = replace(made(outputs=(output(worst_usage=INF, covering_atol=-INF),)), defects=(Defect("a", "b", "c", 2),))
    known.save(tmp_path / "v.json")
    found = render.load(tmp_path / "v.json")
    assert isinstance(found, Verdict)
    assert found.to_json() == known.to_json() == (tmp_path / "v.json").read_text()
    assert found.outputs["out"].worst_usage == INF
    with pytest.raises(RenderError, match="cannot be run again"):
        found.provenance("out", (0, 0))


@pytest.mark.parametrize("spoil", [
    lambda d: d["verdict"].pop("label"), lambda d: d["outputs"][0].pop("bound"), lambda d: d.update(outputs=3),
    lambda d: d["nonfinite"].update({"/nowhere/7": "inf"}), lambda d: d["verdict"].update(label="Type-III"),
])  # fmt: skip
def test_a_damaged_report_is_an_input_error(spoil: Any) -> None:
    data = type_i().to_dict()
    spoil(data)
    with pytest.raises(RenderError, match="RND901"):
        verdict_of(data)


def test_no_report(tmp_path: Path) -> None:
    for text in ("{", "[]", "{}", '{"verdict": 1}'):
        (tmp_path / "v.json").write_text(text)
        with pytest.raises(RenderError, match="RND901"):
            load(tmp_path / "v.json")


def test_numbers_are_put_back_where_they_were() -> None:
    lost: dict[str, str] = {}
    data = plain({"a": [1.0, INF, {"b": -INF}], "c": NAN}, lost)
    assert data == {"a": [1.0, None, {"b": None}], "c": None}
    put_back(data, lost)
    assert data["a"] == [1.0, INF, {"b": -INF}] and math.isnan(data["c"])


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
