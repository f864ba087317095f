"""A verdict written as JSON and read back: strict, stable keys, no arrays, and the same numbers again."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import render
from render.result.defects import Defect
from render.result.errors import RenderError
from render.result.loading import load, verdict_of
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
