"""Records in JSON types: strict, numbers that JSON lacks kept beside them."""

from __future__ import annotations

import json
import math

import numpy as np

from render.result.plain import plain, put_back
from tests.render.report.verdicts import output, type_i

INF, NAN = math.inf, math.nan


def test_strict_json_without_nan() -> None:
    text = type_i(outputs=(output(worst_usage=INF, got=NAN, low=-INF),)).to_json()

    def refuse(name: str) -> None:
        raise AssertionError(name)

    data = json.loads(text, parse_constant=refuse)
    assert data["outputs"][0]["worst_usage"] is None
    assert data["nonfinite"] == {"/outputs/0/worst_usage": "inf", "/outputs/0/got": "nan", "/outputs/0/low": "-inf"}


def test_numpy_scalars_are_plain() -> None:
    assert json.loads(type_i(outputs=(output(tainted=np.int64(3)),)).to_json())["outputs"][0]["tainted"] == 3


def test_numbers_are_put_back_where_they_were() -> None:
    lost: dict[str, str] = {}
    data = plain({"a": [1.0, INF, {"b": -INF}], "c": NAN}, lost)
    assert data == {"a": [1.0, None, {"b": None}], "c": None}
    put_back(data, lost)
    assert data["a"] == [1.0, INF, {"b": -INF}] and math.isnan(data["c"])
