"""Several files and profiles in one command: the same verdicts as one by one, in order, with the worst exit code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from render.classify import classify_devices, classify_file
from render.cli import app, classify_many
from render.entry.memo import Memo
from render.interpreter.device import current, described
from render.result.errors import RenderError

KERNEL = """
import torch, triton, triton.language as tl

@triton.jit
def kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.exp(tl.load(x + i, mask=i < n)) * FACTOR, mask=i < n)

def scaled(x):
    HOST
    y = torch.empty_like(x)
    kernel[(triton.cdiv(x.numel(), 32),)](x, y, x.numel(), BLOCK=32)
    return y

def make_inputs():
    return (torch.randn(100),)

def reference(x):
    with open(__file__ + ".runs", "a") as runs:
        runs.write(".")
    return torch.exp(x) * 2.0
"""
DEVICES = ("any", "sm_90", "gfx942")


def written(folder: Path, name: str, factor: str = "2.0", host: str = "pass") -> Path:
    path = folder / name
    path.write_text(KERNEL.replace("FACTOR", factor).replace("HOST", host))
    return path


def plain(verdict: Any) -> dict[str, Any]:
    return {key: value for key, value in verdict.to_dict().items() if key not in ("timing", "versions")}


@pytest.mark.parametrize("factor", ["2.0", "2.001"])
def test_shared_verdicts_are_those_of_single_runs(tmp_path, factor):
    path = written(tmp_path, "k.py", factor)
    runs = Path(f"{path}.runs")
    alone = {device: plain(classify_file(path, device=device)) for device in DEVICES}
    single = len(runs.read_text()) / len(DEVICES)
    runs.unlink()
    shared = {device: plain(verdict) for device, verdict in classify_devices(path, DEVICES)}
    assert shared == alone
    assert len(runs.read_text()) < 2 * single


def test_host_code_that_asks_ends_the_sharing(tmp_path):
    path = written(tmp_path, "k.py", host="torch.cuda.get_device_capability()")
    assert [device for device, _ in classify_devices(path, DEVICES)] == ["any"]


def test_what_was_asked_belongs_to_its_device():
    memo, calls = Memo(), []

    def compute(asks: bool) -> int:
        calls.append(asks)
        return current().ask("name").multiprocessors if asks else 7

    seen = []
    for device in ("sm_80", "sm_90", "sm_80"):
        with described(device):
            seen += [memo("plain", lambda: compute(False)), memo("asks", lambda: compute(True))]
            assert current().asked == {"name"}
    assert seen == [7, 108, 7, 132, 7, 108] and calls == [False, True, True]


def test_all_are_targets():
    names = classify_many.devices_of("all")
    assert {"any", "ieee", "sm_90", "gfx942"} <= set(names) and not classify_many.FRAMEWORKS & set(names)
    assert classify_many.devices_of("sm_90, any,sm_90") == ["sm_90", "any"]
    with pytest.raises(RenderError):
        classify_many.devices_of(",")


@pytest.mark.slow
def test_the_table_is_in_order_with_the_worst_exit_code(tmp_path):
    right, wrong = written(tmp_path, "right.py"), written(tmp_path, "wrong.py", "3.0")
    asks = written(tmp_path, "asks.py", host="torch.cuda.get_device_capability()")
    (tmp_path / "broken.py").write_text("import nowhere_at_all\n")
    files = [str(wrong), str(tmp_path / "broken.py"), str(right), str(asks)]
    run = CliRunner().invoke(
        app, ["classify", *files, "--device", "any,sm_90", "-j", "2", "--json", str(tmp_path / "all.json")]
    )
    assert run.exit_code == 2, run.output
    told = json.loads((tmp_path / "all.json").read_text())
    assert [(r["file"], r["device"]) for r in told["results"]] == [(f, d) for f in files for d in ("any", "sm_90")]
    assert [r["exit_code"] for r in told["results"]] == [1, 1, 2, 2, 0, 0, 0, 0] and told["exit_code"] == 2
    assert told["results"][4]["result"]["verdict"]["label"] == "Type-I"
    lines = run.output.splitlines()
    assert [text.split()[:2] for text in lines[:8]] == [[r["file"], r["device"]] for r in told["results"]]
    assert "4 files x 2 profiles: 4 Type-I, 2 Type-II, 0 Inconclusive, 2 error" in lines[8]


def test_what_is_for_one_file_alone_says_so(tmp_path):
    path = str(written(tmp_path, "k.py"))
    run = CliRunner().invoke(app, ["classify", path, "--device", "all", "--html", str(tmp_path / "x.html")])
    assert run.exit_code == 2 and "RND902" in run.output
