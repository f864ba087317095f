"""`render accum`: the index without torch, the report of a kernel."""

import json
import subprocess
import sys

from typer.testing import CliRunner

from render.cli import app
from tests.render.cli.test_lazy import command, modules


def test_the_index_needs_no_torch():
    for line in (("accum", "--help"), ("accum", "-n", "1e6", "--operands", "bf16", "--chunk", "64")):
        assert not modules(command(*line)) & {"torch", "triton", "matplotlib"}


def test_the_index_as_a_table_and_as_json():
    run = CliRunner().invoke(app, ["accum", "-n", "16384", "--products", "5", "--bits", "9", "--json", "-"])
    found = json.loads(run.stdout)
    assert (found["kind"], found["min_macc"]) == ("index", 10)
    assert [w["safe_length"] for w in found["widths"] if w["m_acc"] == 9] == [10160]
    text = CliRunner().invoke(app, ["accum", "-n", "16384", "--products", "5"]).stdout
    assert "narrowest: 10 bits" in text and "index (VRR)" in text


def test_a_kernel(tmp_path):
    run = CliRunner().invoke(app, ["accum", "kernels/matmul.py", "--json", str(tmp_path / "out.json")])
    assert run.exit_code == 0 and "this fp32 accumulator loses" in run.stdout
    for kind in ("measured", "proved", "index"):
        assert kind in run.stdout
    assert not json.loads((tmp_path / "out.json").read_text())["reductions"][0]["short"]


def test_curves(tmp_path):
    run = CliRunner().invoke(app, ["accum", "--plot", str(tmp_path / "c.png"), "--bits", "5", "--chunk", "64"])
    assert run.exit_code == 0 and (tmp_path / "c.png").read_bytes()[1:4] == b"PNG"


def test_what_is_missing_is_said_in_one_line():
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "sys.argv = ['render', 'accum', '--plot', 'x.png']\n"
        "from render.cli import main; main()"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode == 2 and "pip install 'render-triton[plot]'" in run.stderr
    assert "Traceback" not in run.stderr


def test_usage():
    assert CliRunner().invoke(app, ["accum", "--operands", "fp12"]).exit_code == 2
    assert CliRunner().invoke(app, ["accum", "nowhere.py"]).exit_code == 2
