"""A notebook written for a GPU runs: cells, magics, verdicts, errors by cell."""

from __future__ import annotations

from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
KERNEL = """
import torch, triton, triton.language as tl

@triton.jit
def kernel(x, y, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(y + i, tl.exp(tl.load(x + i, mask=i < n)), mask=i < n)

def exponential(x):
    y = torch.empty_like(x)
    kernel[(1,)](x, y, x.numel(), B=64)
    return y
"""
CELLS = (
    "import render",
    KERNEL,
    'with render.cpu():\n    x = torch.randn(50, device="cuda")\n    y = exponential(x)\n    expected = x.exp()',
    "render.compare(y, expected)",
    "with render.watch() as w:\n    print(torch.allclose(exponential(x), x.exp() + 1))\nw.verdicts[0].label",
    "render.compare(x, x)",
    "def broken(x):\n    return kernel[(1,)](x, x, 3.5, B=nothing)\nrender.classify(broken, x, ref=torch.exp)",
    "render.classify(exponential, x, ref=torch.exp).file",
)


@pytest.mark.slow
def test_a_notebook_for_a_gpu() -> None:
    notebook: Any = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in CELLS])
    nbclient.NotebookClient(notebook, timeout=120, allow_errors=True, kernel_name="python3").execute()
    outputs = [cell.outputs for cell in notebook.cells]
    assert not outputs[2]
    assert "text/html" in outputs[3][0].data and "Type-I" in outputs[3][0].data["text/plain"]
    assert "cell [2]:" in outputs[3][0].data["text/html"] and "ipykernel_" not in outputs[3][0].data["text/html"]
    assert outputs[4][0].text == "False\n" and "Type-II" in outputs[4][1].data["text/plain"]
    told = outputs[5][0]
    assert told.output_type == "error" and [t for t in told.traceback if t.startswith("error[RND904]")]
    assert len(told.traceback) == 2
    broken = "\n".join(outputs[6][0].traceback)
    assert "NameError" in broken and "cell [7]:2 in broken" in broken and "site-packages" not in broken
