"""`render classify` end to end: a correct kernel, bugs, and the mistakes of a user."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from render.cli import app, selftest

runner = CliRunner()

SOURCE = """\
import torch
import triton
import triton.language as tl


@triton.jit
def kernel(X, Y, O, N: tl.constexpr):
    i = tl.arange(0, N)
    offs = i[:, None] * N + i[None, :]
    x = tl.load(X + offs)
    y = tl.load(Y + offs)
    o = tl.dot(x, y)
    tl.store(O + offs, o)


def mm(a, b):
    o = torch.empty_like(a)
    kernel[(1,)](a, b, o, N=32)
    return o


def make_inputs():
    print("making inputs")
    return dict(a=torch.randn(32, 32), b=torch.randn(32, 32))
"""


def classify(tmp_path: Path, *options: str, old: str = "", new: str = "", ref: str = "torch.mm") -> Any:
    assert old in SOURCE
    file = tmp_path / "k.py"
    file.write_text(SOURCE.replace(old, new) if old else SOURCE)
    return runner.invoke(app, ["classify", str(file), "--ref", ref, "--device", "sm_80", *options])


def test_round_off(tmp_path: Path) -> None:
    result = classify(tmp_path, "--html", str(tmp_path / "r.html"))
    assert result.exit_code == 0
    assert "TYPE-I" in result.stdout
    assert "RND101" in result.stdout
    assert "k.py:12:9" in result.stdout
    assert "inputs rounded to TF32" in result.stdout
    assert (tmp_path / "r.html").read_text().count("<svg") == 2


def test_json_is_all_of_stdout(tmp_path: Path) -> None:
    result = classify(tmp_path, "--json", "-", "--no-budget")
    data = json.loads(result.stdout)
    assert (data["verdict"]["label"], data["exit_code"], data["outputs"][0]["elements"]) == ("Type-I", 0, 1024)
    assert "making inputs" in result.stderr


def test_assumptions_about_the_compiler(tmp_path: Path) -> None:
    """They are in the result, they narrow the bound, and one that cannot be is refused."""
    ieee = {"old": "tl.dot(x, y)", "new": 'tl.dot(x, y, input_precision="ieee")'}
    plain = json.loads(classify(tmp_path, "--json", "-", "--no-budget", **ieee).stdout)
    assert plain["compiler"]["sum_order"] == "any"
    options = ("--sum-order", "tree", "--fp-contraction", "off", "--triton-version", "3.7")
    data = json.loads(classify(tmp_path, "--json", "-", "--no-budget", *options, **ieee).stdout)
    assert data["compiler"] == {"sum_order": "tree", "fp_contraction": "off", "triton": "3.7"}
    assert any("balanced trees from Triton 3.8 on only" in line for line in data["assumptions"])
    half = [d["outputs"][0]["bound"]["median_half_width"] for d in (plain, data)]
    assert half[1] < 0.5 * half[0]
    for wrong in (("--triton-version", "2.0"), ("--sum-order", "sorted"), ("--device", "torch-cpu", *options[:2])):
        refused = classify(tmp_path, *wrong)
        assert refused.exit_code == 2 and "Traceback" not in refused.stderr


def test_wrong_formula(tmp_path: Path) -> None:
    result = classify(tmp_path, old="tl.dot(x, y)", new="tl.dot(x, x)")
    assert result.exit_code == 1
    assert "RND201" in result.stdout


def test_out_of_bounds(tmp_path: Path) -> None:
    result = classify(tmp_path, old="i[:, None] * N", new="i[:, None] * (N + 1)")
    assert result.exit_code == 1
    assert "RND207" in result.stdout
    assert "first in program" in result.stdout


@pytest.mark.parametrize(
    ("old", "new", "ref", "words"),
    [
        ("def make_inputs", "def other", "torch.mm", ["RND901", "def make_inputs():", "torch.randn"]),
        ("", "", "torch.no_such_thing", ["RND902", "no_such_thing"]),
        (
            "tl.dot(x, y)",
            "tl.dot(x, unknown)",
            "torch.mm",
            ["NameError: unknown is not defined", "k.py:12 in kernel", "tl.dot(x, unknown)"],
        ),
        ("    kernel[(1,)](a, b, o, N=32)\n", "    if a is b: kernel[(1,)](a, b, o, N=32)\n", "torch.mm", ["RND904"]),
    ],
)
def test_mistakes_of_a_user(tmp_path: Path, old: str, new: str, ref: str, words: list[str]) -> None:
    result = classify(tmp_path, old=old, new=new, ref=ref)
    assert result.exit_code == 2
    assert all(word in result.stderr for word in words), result.stderr
    assert "Traceback" not in result.stderr


def test_self_test_of_the_doctor() -> None:
    assert selftest.vector_add() == "x + y is Type-I, x - y is Type-II"
