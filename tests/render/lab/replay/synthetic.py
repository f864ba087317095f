"""Two small cases on disk: one whose device contracts a product and a sum (Type-I), one with the wrong sign."""

from __future__ import annotations

from pathlib import Path

KERNEL = """\
import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x * y {op} x, mask=mask)


def multiply_add(x, y):
    out = torch.empty_like(x)
    kernel[(triton.cdiv(x.numel(), 64),)](x, y, out, x.numel(), BLOCK=64)
    return out


def make_inputs(n: int = 200):
    return {{"x": torch.randn(n), "y": torch.randn(n)}}


def reference(x, y):
    return x * y + x
"""

TOML = """\
id = "{id}"
title = "made for a test"
url = "https://example.org"
state = "open"
operation = "x * y {op} x"
entry = "multiply_add"
seed = 3
data = "randn"
dtypes = ["fp32"]
blocks = {{ BLOCK = 64 }}
reference = {{ fn = "reference", precision = "ieee" }}
tolerance = {{ source = "allclose", atol = 1e-08, rtol = 1e-05 }}
label = "{label}"
root_cause = "none"
evidence = "ours"
{more}

[shapes]
x = [200]

[device]
profile = "any"
{device}

[expected]
label = "{label}"
codes = ["{code}"]
paper_rule = "{label}"
source_level = "{label}"
reference = "{reference}"
device = "{axis}"

[published]
satire = "right"

[published.package]
median_relative_width = 1e-6
"""

MODEL = 'kind = "model"\nmodel = "multiply-add"\nprovenance = "one rounding; not measured."'


def write_case(folder: Path, name: str, op: str, label: str, code: str, device: str, more: str = "") -> Path:
    path = folder / name
    path.mkdir(parents=True)
    good = label == "Type-I"
    (path / "kernel.py").write_text(KERNEL.format(op=op))
    (path / "case.toml").write_text(
        TOML.format(
            id=name, op=op, label=label, code=code, device=device, more=more,
            reference="inside" if good else "outside", axis="inside" if "model" in device else "none",
        )
    )  # fmt: skip
    return path


def write_corpus(base: Path) -> Path:
    """`base` with issues/9001 (Type-I, modelled device) and twins/9001-minus (Type-II)."""
    write_case(base / "issues", "9001", "+", "Type-I", "RND108", MODEL)
    write_case(base / "twins", "9001-minus", "-", "Type-II", "RND201", 'kind = "none"',
               more='twin_of = "9001"\nchange = "the sign"')  # fmt: skip
    return base
