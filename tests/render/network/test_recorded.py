"""A run on file is judged as a live one: here the file of a wrong model, and one of another precision."""

from __future__ import annotations

import copy

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import nn
from typer.testing import CliRunner

import render
from render.cli import app
from render.network.capture import Model, capture
from render.network.recorded import load_modules, load_program
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


@pytest.mark.parametrize("kind", ["decoder", "vit", "resnet"])
def test_two_recorded_runs_of_right_models_are_round_off(kind, tmp_path):
    model, other, x = build(kind), build(kind, "plain"), inputs(kind)
    other.load_state_dict(model.state_dict())
    files = [render.record_modules(m, x, path=tmp_path / f"{i}.safetensors") for i, m in enumerate((model, other))]
    found = render.compare_models(*files)
    assert (found.label, found.first) == ("Type-I", None), found.message


@pytest.mark.parametrize("bug", ["float16 sums", "scale of attention", "missing bias", "statistics of a batch"])
def test_two_recorded_runs_name_the_fault_without_either_source(bug, tmp_path):
    wrong, right, given = BUGS[bug].models()
    files = [render.record_modules(m, *given, path=tmp_path / f"{i}.safetensors") for i, m in enumerate((wrong, right))]
    found = render.compare_models(*files)
    assert (found.label, found.first) == ("Type-II", BUGS[bug].where), found.message


def test_a_program_repeats_the_run(tmp_path):
    for kind in ("decoder", "vit", "resnet"):
        model, x = build(kind), inputs(kind)
        program = load_program(render.record_modules(model, x, path=tmp_path / "run.safetensors"))
        again = capture(program, program.module.inputs())
        for key, crossing in capture(Model.of(model), (x,)).crossings.items():
            for a, b in zip(crossing.tensors, again.crossings[key].tensors, strict=True):
                torch.testing.assert_close(a, b)  # attention in its fused form, and in the steps that define it


def test_files_that_hold_no_code(tmp_path):
    x = inputs("vit")
    file = render.record_modules(build("vit"), x, path=tmp_path / "run.safetensors")
    with safe_open(str(file), "pt") as held:
        names = [n for n in held.keys() if not n.startswith("kept ")]  # noqa: SIM118
        tensors, events = {n: held.get_tensor(n) for n in names}, held.metadata()["render_events"]
    bare = tmp_path / "bare.safetensors"
    save_file(tensors, str(bare), {"render_events": events})
    with pytest.raises(RenderError, match="without operations"):
        render.compare_models(bare, bare, x)
    assert render.compare_models(bare, file).label == "Type-I"
    with pytest.raises(RenderError, match="no such file"):
        render.compare_models(tmp_path / "none", build("vit"), x)


def test_the_command_takes_a_model_by_its_name(tmp_path):
    file, told = tmp_path / "m.py", []
    file.write_text(
        "import torch\ntorch.manual_seed(0)\nmodel = torch.nn.Linear(3, 4)\nother = torch.nn.Linear(3, 5)\n"
        "def make_inputs():\n    return (torch.randn(2, 3),)\n"
    )
    for words in ([f"{file}::other"], [str(file), "--entry", "other"], [str(file)]):
        told.append(tmp_path / f"{len(told)}.safetensors")
        done = CliRunner().invoke(app, ["record", *words, "--modules", "-o", str(told[-1])])
        assert done.exit_code == 0, done.output
    named, entered, first = (load_file(path) for path in told)
    assert named.keys() == entered.keys() and all(torch.equal(named[k], entered[k]) for k in named)
    assert {5} & {x.shape[-1] for x in named.values() if x.dim()} and not {5} & {
        x.shape[-1] for x in first.values() if x.dim()
    }
    kept = file.read_bytes()
    assert CliRunner().invoke(app, ["record", f"{file}::other", "--modules", "-o", str(file)]).exit_code == 2
    assert file.read_bytes() == kept


class _Recurrent(nn.Module):
    def __init__(self, kind: type[nn.Module]) -> None:
        super().__init__()
        self.cell, self.head = kind(5, 6, batch_first=True), nn.Linear(6, 3)

    def forward(self, x):
        return self.head(self.cell(x)[0].relu_().transpose_(0, 1))


@pytest.mark.parametrize("kind", [nn.GRU, nn.LSTM, nn.RNN])
def test_recurrent_layers_turn_their_results_unseen(tmp_path, kind):
    """torch transposes the result of `batch_first` in its place, where no dispatch mode sees it."""
    torch.manual_seed(0)
    model, x = _Recurrent(kind), torch.randn(2, 4, 5)
    wrong = copy.deepcopy(model)
    with torch.no_grad():
        wrong.head.bias.add_(0.1)
    files = [tmp_path / name for name in ("right.safetensors", "wrong.safetensors")]
    for one, file in zip((model, wrong), files, strict=True):
        render.record_modules(one, x, path=file)
    assert render.compare_models(str(files[0]), model, x).code == "RND100"
    assert render.compare_models(model, str(files[0]), x).code == "RND100"
    found = render.compare_models(*map(str, reversed(files)))
    assert (found.label, found.first) == ("Type-II", "head"), found.message
