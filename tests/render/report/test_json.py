"""The canonical JSON: strict, stable keys, no arrays."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np

from render.report import json as canonical
from tests.render.report.verdicts import output, type_i, type_ii


def test_stable_keys() -> None:
    data = json.loads(canonical.dumps(type_ii()))
    assert data["verdict"]["label"] == "Type-II"
    assert data["verdict"]["code"] == "RND201"
    assert {"paper_rule", "subtype"} <= set(data["verdict"])
    first = data["outputs"][0]
    promised = {"name", "shape", "dtype", "elements", "outside_reference", "outside_device", "worst_usage", "bound"}
    assert promised <= set(first)
    assert {"median_relative_width", "max_relative_width"} <= set(first["bound"])
    assert "lo" not in first["bound"]
    assert {"budget", "timing", "assumptions", "versions", "exit_code"} <= set(data)
    assert data["exit_code"] == 1


def test_strict_json_without_nan() -> None:
    odd = output(worst_usage=math.inf, got=math.nan)
    text = canonical.dumps(type_i(outputs=(odd,)))

    def refuse(name: str) -> None:
        raise AssertionError(name)

    assert json.loads(text, parse_constant=refuse)["outputs"][0]["worst_usage"] is None


def test_numpy_scalars_are_plain() -> None:
    text = canonical.dumps(type_i(outputs=(output(tainted=np.int64(3)),)))
    assert json.loads(text)["outputs"][0]["tainted"] == 3


def test_same_verdict_same_bytes(tmp_path: Path) -> None:
    canonical.write(type_i(), tmp_path / "a.json")
    canonical.write(type_i(), tmp_path / "b.json")
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
