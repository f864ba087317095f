"""What `render classify` finds by itself: wrappers, pairs of models, expressions, calls and comparisons of a script."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from render.cli import app
from render.entry.inputs import parse_specs

SCRIPTS = Path(__file__).resolve().parents[2] / "fixtures" / "scripts"


def classified(*words: str) -> tuple[int, str]:
    name, *rest = words
    done = CliRunner().invoke(app, ["classify", str(SCRIPTS / name), "--no-budget", "-q", *rest])
    return done.exit_code, done.output


@pytest.mark.parametrize(
    "words",
    [
        ("kernelbench.py",),
        ("wrapped.py", "--entry", "Exp", "--input", "x=randn(30)", "--ref", "torch.exp"),
        ("wrapped.py", "--entry", "Exp.apply", "--input", "x=randn(30)", "--ref", "torch.exp(x)"),
        ("wrapped.py", "--entry", "layer", "--input", "x=randn(4,8)", "--ref", "torch.exp(x + layer.w)"),
        ("wrapped.py", "--entry", "scaled", "--ref", "lambda x, scale: torch.exp(x) * scale"),
        ("softmax_no_max_print.py", "--input", "x=randn(3)"),
    ],
    ids=" ".join,
)
def test_what_people_bring_is_found(words: tuple[str, ...]) -> None:
    code, text = classified(*words)
    if words[0] == "softmax_no_max_print.py":  # inputs were given: the script part is not asked
        assert code == 2
        return
    assert code == 0 and ("TYPE-I" in text or "EQUAL" in text), text


@pytest.mark.slow
def test_a_script_that_compares_is_judged_where_it_does() -> None:
    code, text = classified("softmax_no_max_print.py")
    assert code == 1 and "RND201" in text
    code, text = classified("compiled_reference.py", "--entry", "swiglu", "--ref", "torch.nn.functional.silu(g) * u")
    assert code == 0, text
    code, text = classified("tutorial_softmax.py", "--ref", "torch.softmax", "--ref-args", "dim=1")
    assert code == 0, text


def test_inputs_are_numbers_dtypes_lists_and_tensors() -> None:
    found = parse_specs(["d=torch.float16", "e=bf16", "n=-inf", "s=[4, 8]", "xs=[randn(2), zeros(3)]:fp16", "m='mean'"])
    assert found["d"] is torch.float16 and found["e"] is torch.bfloat16 and found["n"] == float("-inf")
    assert found["s"] == [4, 8] and found["m"] == "mean"
    assert [tuple(x.shape) for x in found["xs"]] == [(2,), (3,)]
