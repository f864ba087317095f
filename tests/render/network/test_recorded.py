"""A run on file is judged as a live one: here the file of a wrong model, and one of another precision."""

from __future__ import annotations

import copy

import pytest

import render
from render.network.capture import Model, capture
from render.network.recorded import load_modules
from render.result.errors import RenderError

from .bugs import BUGS
from .models import build, inputs


def test_what_is_written_comes_back(tmp_path):
    model, x = build("vit"), inputs("vit")
    found = load_modules(render.record_modules(model, x, path=tmp_path / "run.safetensors"))
    live = capture(Model.of(model), (x,))
    assert list(found.crossings) == list(live.crossings)
    for key, crossing in live.crossings.items():
        assert crossing.maker == found.crossings[key].maker
        assert all((a == b).all() for a, b in zip(crossing.tensors, found.crossings[key].tensors, strict=True))


def test_a_recorded_bug_is_named(tmp_path):
    wrong, right, given = BUGS["float16 sums"].models()
    file = render.record_modules(wrong, *given, path=tmp_path / "run.safetensors")
    found = render.compare_models(file, right, *given)
    assert (found.label, found.first) == ("Type-II", BUGS["float16 sums"].where)


def test_a_recorded_run_in_bfloat16_is_round_off(tmp_path):
    model, x = build("decoder"), inputs("decoder")
    file = render.record_modules(copy.deepcopy(model).bfloat16(), x, path=tmp_path / "run.safetensors")
    found = render.compare_models(file, model, x)
    assert (found.label, found.first) == ("Type-I", None), found.message


def test_two_recorded_runs_have_no_code(tmp_path):
    file = render.record_modules(build("vit"), inputs("vit"), path=tmp_path / "run.safetensors")
    with pytest.raises(RenderError, match="both sides are recorded"):
        render.compare_models(file, file, inputs("vit"))
    with pytest.raises(RenderError, match="no such file"):
        render.compare_models(tmp_path / "none", build("vit"), inputs("vit"))
