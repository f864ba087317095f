"""`render evidence`: every fact with its kind and its figure."""

from typer.testing import CliRunner

from render.cli import app

FILE = """import torch, triton
import triton.language as tl


@triton.jit
def rows(x, y, n, B: tl.constexpr):
    r = tl.program_id(0)
    acc = tl.zeros((B,), tl.float32)
    for at in range(0, n, B):
        acc += tl.load(x + r * n + at + tl.arange(0, B))
    tl.store(y + r, tl.sum(acc, 0))


def row_sum(x):
    y = torch.empty(x.shape[0])
    rows[(x.shape[0],)](x, y, x.shape[1], 16)
    return y


def reference(x):
    return x.sum(1)


def make_inputs(seed=0):
    return (torch.randn(4, 128, generator=torch.Generator().manual_seed(seed)),)
"""


def test_facts_of_all_kinds(tmp_path):
    path = tmp_path / "rows.py"
    path.write_text(FILE)
    done = CliRunner().invoke(app, ["evidence", str(path), "-n", "6"])
    assert done.exit_code == 0, done.output
    kinds = {kind: [x for x in done.output.splitlines() if x.strip().startswith(kind)]
             for kind in ("proof", "measurement", "estimate", "index")}  # fmt: skip
    assert all(kinds.values())
    assert any("fp32 accumulator loses" in line for line in kinds["measurement"])
    assert any("VRR" in line for line in kinds["index"])
    (width,) = (line for line in kinds["proof"] if "largest half width" in line)
    assert float(width.rsplit(": ", 1)[1]) > 0
