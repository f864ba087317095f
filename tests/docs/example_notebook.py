"""Writes and executes docs/guides/example.ipynb: `python -m tests.docs.example_notebook`."""

from __future__ import annotations

from typing import Any

import nbclient
import nbformat

from tests.docs.guides import GUIDES

CELLS = (
    ("markdown", "# A kernel written for a GPU, in a notebook without one"),
    ("code", "import torch\nimport triton\nimport triton.language as tl\n\nimport render"),
    ("code", """@triton.jit
def gelu_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    y = 0.5 * x * (1 + tl.erf(x * 0.70710678))
    tl.store(y_ptr + at, y, mask=at < n)


def gelu(x):
    y = torch.empty_like(x)
    gelu_kernel[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
    return y"""),
    ("markdown", "`render.cpu()` runs the cell; nothing is judged by itself."),
    ("code", """with render.cpu():
    x = torch.linspace(-4, 4, 256, device="cuda").reshape(8, 32)
    y = gelu(x)
    expected = torch.nn.functional.gelu(x)"""),
    ("code", "render.compare(y, expected)"),
    ("markdown", "What is compared inside of `render.watch()` gets a verdict. This reference is another function."),
    ("code", """with render.watch() as w:
    print(torch.allclose(gelu(x), torch.nn.functional.gelu(x, approximate="tanh"), atol=1e-6))
w.verdicts[0]"""),
)  # fmt: skip


def main() -> None:
    make = {"markdown": nbformat.v4.new_markdown_cell, "code": nbformat.v4.new_code_cell}
    notebook: Any = nbformat.v4.new_notebook(
        cells=[make[kind](text, id=f"cell{i}") for i, (kind, text) in enumerate(CELLS)]
    )
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        cell["outputs"] = (
            [o for o in cell.get("outputs", ()) if o.get("name") != "stderr"] if cell.cell_type == "code" else []
        )
        if cell.cell_type != "code":
            del cell["outputs"]
    nbformat.write(notebook, GUIDES / "example.ipynb")


if __name__ == "__main__":
    main()
