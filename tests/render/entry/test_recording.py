"""A call on a device, written down and judged elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import triton
import triton.language as tl
from typer.testing import CliRunner

import render
from render.entry import recording
from render.result.errors import RenderError

FILE = Path(__file__)
N = 256


@triton.jit
def _scaled(x_ptr, y_ptr, n, s, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    tl.store(y_ptr + i, tl.load(x_ptr + i, m, other=0.0) * s, m)


def scaled(x: torch.Tensor, s: float = 0.7) -> torch.Tensor:
    y = torch.empty_like(x)
    _scaled[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), s, 64)
    return y


def reference(x: torch.Tensor, s: float = 0.7) -> torch.Tensor:
    return x * s


def device(x: torch.Tensor, s: float = 0.7) -> torch.Tensor:
    """What stands for the GPU here: the same formula by torch."""
    return x * s


def broken(x: torch.Tensor, s: float = 0.7) -> torch.Tensor:
    y = x * s
    y[10:40] = 0.0
    return y


def rubbish(x: torch.Tensor, s: float = 0.7) -> torch.Tensor:
    return torch.randn(x.shape, generator=torch.Generator().manual_seed(99))


def drawn(seed=0):
    return torch.randn(N, generator=torch.Generator().manual_seed(seed))


def test_a_recording_is_read_as_it_was_written(tmp_path):
    path, x = tmp_path / "run.safetensors", drawn()
    y = render.record(path, device, x, s=0.3, seed=5)
    found = recording.load(path)
    assert torch.equal(y, x * 0.3)
    assert torch.equal(found.inputs["x"], x)
    assert (found.inputs["s"], found.seed, found.device) == (0.3, 5, "cpu")
    assert torch.equal(found.outputs["y" if "y" in found.outputs else "out"], y)
    assert found.versions["torch"] == torch.__version__


def test_an_argument_that_the_call_changes_is_an_output(tmp_path):
    path = tmp_path / "run.safetensors"

    def into(x: torch.Tensor, y: torch.Tensor) -> None:
        y.copy_(x * 2)

    render.record(path, into, drawn(), torch.zeros(N))
    found = recording.load(path)
    assert set(found.outputs) == {"y"}
    assert not found.inputs["y"].any()


@pytest.mark.parametrize(
    ("made", "label", "code"), [(device, "Type-I", None), (broken, "Type-II", "RND202"), (rubbish, "Type-II", "RND202")]
)
def test_a_recorded_output_is_judged_with_its_inputs(tmp_path, made, label, code):
    path = tmp_path / "run.safetensors"
    render.record(path, made, drawn(3), 0.7)
    verdict = render.classify(scaled, output=path, ref=reference, budget=False)
    assert verdict.label == label
    assert code in (None, verdict.code)
    assert "recorded with these inputs on cpu" in verdict.scope.device_output


@pytest.mark.parametrize(
    ("output", "label", "code"),
    [
        (lambda x: device(x), "Type-I", None), (lambda x: broken(x), "Type-II", "RND202"),
        (lambda x: device(drawn(7)), "Inconclusive", "RND312"), (lambda x: rubbish(x), "Inconclusive", "RND312"),
        (lambda x: device(x) * 1.5, "Type-II", "RND202"), (lambda x: torch.zeros(N), "Type-II", "RND202"),
        (lambda x: device(x).flip(0), "Type-II", "RND202"), (lambda x: device(x) + 0.25, "Type-II", "RND202"),
        (lambda x: device(drawn(7)).abs() + 5, "Inconclusive", "RND312"),
    ],
)  # fmt: skip
def test_without_a_recording_an_unrelated_output_proves_nothing(output, label, code):
    x = drawn(1)
    verdict = render.classify(scaled, x, ref=reference, output=output(x), budget=False)
    assert verdict.label == label
    assert code in (None, verdict.code)


def test_other_inputs_than_the_recorded_ones_are_an_error(tmp_path):
    path = tmp_path / "run.safetensors"
    render.record(path, device, drawn(3))
    with pytest.raises(RenderError, match="recorded with another x"):
        render.classify(scaled, drawn(4), output=path, ref=reference)


def test_a_changed_recording_is_an_error(tmp_path):
    from safetensors import safe_open
    from safetensors.torch import save_file

    path = tmp_path / "run.safetensors"
    render.record(path, device, drawn(3))
    with safe_open(path, "pt") as file:
        metadata, tensors = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    tensors["input.x"][0] += 1
    save_file(tensors, path, metadata)
    with pytest.raises(RenderError, match="was changed"):
        recording.load(path)


@pytest.mark.parametrize("argument", [object(), [torch.zeros(2)], {"a": 1}])
def test_what_a_file_cannot_hold_is_refused_by_name(tmp_path, argument):
    with pytest.raises(RenderError, match="the argument x is a"):
        render.record(tmp_path / "run.safetensors", lambda x: drawn(), argument)


def test_the_command_line(tmp_path):
    from render.cli.app import app

    file, path = tmp_path / "entry.py", tmp_path / "run.safetensors"
    file.write_text(f"from {__name__} import scaled, reference, device\n")
    made = CliRunner().invoke(
        app, ["record", str(file), "--entry", "device", "--input", "x=randn(256)", "-o", str(path)]
    )
    assert (made.exit_code, "recorded with these inputs on cpu" in made.output) == (0, True), made.output
    judged = CliRunner().invoke(
        app, ["classify", str(file), "--entry", "scaled", "--ref", "reference", "--recording", str(path)]
    )
    assert judged.exit_code == 0, judged.output
