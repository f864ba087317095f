"""A verdict written to a folder: what is shrunk keeps label and code, and another process says the same."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from render.cli import app
from render.entry.inputs import Inputs
from render.entry.target import load_module
from render.front import repro

KERNEL = """\
import torch, triton
import triton.language as tl
from own_helper import rows

@triton.jit
def k(x_ptr, keep_ptr, y_ptr, n, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(x_ptr + o, mask=o < n, other=0.0)
    keep = tl.load(keep_ptr + o, mask=o < n, other=0).to(tl.int1)
    tl.store(y_ptr + o, tl.where(keep, x * SCALE, x * 2.0), mask=o < n)

def double(x, keep, n):
    y = torch.empty_like(x)
    k[(rows(n),)](x, keep, y, n, 16)
    return y

def reference(x, keep, n):
    return x * 2.0

def make_inputs():
    x = torch.arange(1.0, 41.0)
    return dict(x=x, keep=x > 5, n=40)
"""


def test_a_bug_behind_a_mask_ends_with_one_element(tmp_path: Path) -> None:
    (tmp_path / "own_helper.py").write_text("def rows(n):\n    return (n + 15) // 16\n")
    (tmp_path / "double.py").write_text(KERNEL.replace("SCALE", "3.0"))
    folder = tmp_path / "out"
    words = ["classify", str(tmp_path / "double.py"), "--device", "sm_80", "--save-repro", str(folder), "-q"]
    found = CliRunner().invoke(app, words)
    assert found.exit_code == 1, found.output
    assert "run again from the folder: the same verdict" in found.stderr
    assert sorted(p.name for p in folder.iterdir()) == [
        "command.sh",
        "double.py",
        "inputs.safetensors",
        "own_helper.py",
    ]
    made = load_module(folder / "double.py").make_inputs()
    assert made["n"] == made["x"].numel() <= 8 and int(made["keep"].sum()) == 1
    assert "render classify double.py --entry double --device sm_80" in (folder / "command.sh").read_text()
    again = CliRunner().invoke(app, words)
    assert again.exit_code == 2 and "not empty" in again.stderr


def test_inputs_are_written_as_they_are(tmp_path: Path) -> None:
    base = torch.arange(24.0)
    given = {
        "a": base.view(4, 6).T, "b": base[3:9], "c": [torch.ones(2, dtype=torch.bfloat16), 3, None],
        "d": {"eps": 1e-5, "big": float("inf"), "kind": torch.float16}, "e": torch.zeros(2, 2, requires_grad=True),
        "f": torch.tensor(2.5), "g": torch.zeros(0, 4), "h": ("x", True),
    }  # fmt: skip
    body, tensors = repro.written(Inputs((), given, ()))
    from safetensors.torch import save_file

    save_file(tensors, tmp_path / "inputs.safetensors")
    (tmp_path / "made.py").write_text(f"def make_inputs():\n{body}\n")
    made = load_module(tmp_path / "made.py").make_inputs()
    assert made["a"].stride() == (1, 6) and made["a"].data_ptr() == made["b"].data_ptr() - 12
    for name in "abefg":
        assert torch.equal(made[name], given[name]) and made[name].dtype == given[name].dtype
    assert made["e"].requires_grad and torch.equal(made["c"][0], given["c"][0])
    assert made["c"][1:] == [3, None] and made["d"] == given["d"] and made["h"] == ("x", True)
    with pytest.raises(repro.Unwritable, match="net is a Linear"):
        repro.written(Inputs((), {"net": torch.nn.Linear(2, 2)}, ()))


def test_extents_numbers_and_indices_change_together() -> None:
    given = Inputs(
        (), {"x": torch.arange(48.0).view(6, 8), "i": torch.tensor([0, 5, 3]), "rows": 6, "n": 48, "k": 7}, ()
    )
    found = repro.resized(given, 6, 4, 2).values
    assert torch.equal(found["x"], torch.arange(32.0, 48.0).view(2, 8))
    assert (found["rows"], found["n"], found["k"]) == (2, 16, 7)
    assert torch.equal(found["i"], given.values["i"])
    chosen = repro.resized(Inputs((), {"i": torch.tensor([0, 2, 1]), "w": torch.randn(3, 4)}, ()), 3, 1, 2).values
    assert torch.equal(chosen["i"], torch.tensor([0, 1])) and chosen["w"].shape == (2, 4)
