"""The data of a verdict: three-valued truth, one-line form, JSON types, numbers about one output."""

from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
import pytest
import torch

from interval_ops.formats.model import FP32
from render.judgement.measure import measure
from render.result.decision import Case, compare, decide
from render.result.verdict import Finding, Outputs, Verdict

INF, NAN = math.inf, math.nan


def output(ref=(1.0, 2.0), half=0.5, **more):
    exact = np.array([1.0, 2.0])
    ends = lambda: (exact, exact)  # noqa: E731
    case = Case("c", exact, exact - half, exact + half, np.array(ref), exact, ends, FP32, FP32, **more)
    masks = compare(case)
    return measure(case, masks, decide(case, masks, "RND101"), torch.float32, torch.float32, 0)


def verdict(**more):
    base = {"label": "Type-I", "code": "RND101", "subtype": "", "paper_rule": "Type-I", "message": "m"}
    return Verdict(**(base | more))


def test_a_verdict_has_no_truth_value():
    with pytest.raises(TypeError, match="Type-I"):
        bool(verdict())
    with pytest.raises(dataclasses.FrozenInstanceError):
        verdict().label = "Type-II"


def test_one_line():
    v = verdict(outputs=Outputs([output((1.1, 2.0))]))
    assert repr(v) == "<Verdict Type-I RND101 'inputs rounded to TF32': 2/2 in bound, worst 20% used>"
    assert repr(verdict()) == "<Verdict Type-I RND101 'inputs rounded to TF32'>"


def test_outputs_by_name_and_place():
    v = verdict(outputs=Outputs([output()]))
    assert v.outputs["c"] is v.outputs[0]
    with pytest.raises(KeyError, match="there are: c"):
        v.outputs["d"]


def test_json_has_no_infinities_and_no_arrays():
    finding = Finding("RND207", "m", program=(0, 1))
    v = verdict(outputs=Outputs([output(half=np.array([INF, 0.5]))]), findings=(finding,))
    text = json.dumps(v.to_dict(), allow_nan=False)
    assert json.loads(text) == v.to_dict()
    assert "lo" not in v.to_dict()["outputs"][0]["bound"]
    assert json.loads(v.to_json())["findings"][0]["program"] == [0, 1]
