"""`render dual-delta` on packaged and written kernels."""

import json
import subprocess
import sys

from typer.testing import CliRunner

from render.cli import app
from tests.render.cli.test_lazy import command, modules


def test_help_is_light():
    assert not modules(command("dual-delta", "--help")) & {"torch", "triton", "numpy", "scipy"}


def test_a_packaged_kernel(tmp_path):
    line = ["dual-delta", "kernels/matmul.py", "-n", "6", "--jobs", "1", "--gate", "flash-attn"]
    line += ["--json", str(tmp_path / "o.json"), "--html", str(tmp_path / "o.html")]
    run = CliRunner().invoke(app, line)
    assert run.exit_code == 0 and "Dual-Delta: the errors are equivalent" in run.stdout
    assert json.loads((tmp_path / "o.json").read_text())["n"] == 6
    assert (tmp_path / "o.html").stat().st_size > 1000


def test_inputs_of_another_kind_and_another_oracle():
    line = ["dual-delta", "kernels/fused_softmax.py", "-n", "4", "--jobs", "1", "--generate", "wide", "--json", "-"]
    run = CliRunner().invoke(app, [*line, "--oracle", "reference", "--metric", "ulp"])
    found = json.loads(run.stdout)
    assert (found["generator"], found["metric"], found["oracle"]) == ("wide", "ulp", "reference")


def test_scipy_is_asked_for_in_one_line():
    code = (
        "import sys; sys.modules['scipy'] = None; sys.modules['scipy.stats'] = None\n"
        "sys.argv = ['render', 'dual-delta', 'kernels/matmul.py']\n"
        "from render.cli import main; main()"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode == 2 and "pip install 'render-triton[stats]'" in run.stderr and "Traceback" not in run.stderr


def test_usage():
    for bad in (["--metric", "cosine"], ["--gate", "x"], ["--generate", "x"], ["--oracle", "nothing.there"]):
        assert CliRunner().invoke(app, ["dual-delta", "kernels/matmul.py", "-n", "2", *bad]).exit_code == 2
