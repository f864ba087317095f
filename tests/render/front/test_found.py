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


KERNEL = """
import torch, triton
import triton.language as tl
@triton.jit
def k(x, y, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(y + i, tl.load(x + i, mask=i < n) * 3.0, mask=i < n)
"""
RUN = """
def run(x):
    y = torch.empty_like(x)
    LAUNCHED[(1,)](x, y, x.numel(), B=64)
    return y
"""
REST = """
def make_inputs(): return (torch.randn(40),)
def reference(x): return x * 3
"""
TESTS = """
import pytest
@pytest.mark.parametrize("n", [7, 40])
def test_it(n):
    x = torch.randn(n, device="cuda")
    torch.testing.assert_close(run(x), x * FACTOR)
"""


def _classified(file: Path, text: str) -> tuple[int, str]:
    file.write_text(text)
    done = CliRunner().invoke(app, ["classify", str(file), "--no-budget", "-q"])
    return done.exit_code, done.output


def test_a_kernel_out_of_a_table_is_launched(tmp_path: Path) -> None:
    run = RUN.replace("LAUNCHED", "KERNELS['three']")
    text = (
        KERNEL + "KERNELS = {'three': k}\nNAMES = {'x': [[len]]}\ndef other(x): return NAMES['x'][0](x)\n" + run + REST
    )
    code, said = _classified(tmp_path / "table.py", text)
    assert code == 0 and "RND100" in said, said


def test_a_file_of_a_package_imports_its_neighbours(tmp_path: Path) -> None:
    home = tmp_path / "of_a_package" / "ops"
    home.mkdir(parents=True)
    for folder in (home, home.parent):
        (folder / "__init__.py").touch()
    (home / "kernel.py").write_text(KERNEL)
    text = "import torch\nfrom .kernel import k\nfrom ..ops import kernel\n" + RUN.replace("LAUNCHED", "k") + REST
    code, said = _classified(home / "launch.py", text)
    assert code == 0 and "RND100" in said, said


@pytest.mark.parametrize(("factor", "expected"), [("3", 0), ("3.01", 1)])
def test_the_tests_of_a_file_are_what_it_compares(tmp_path: Path, factor: str, expected: int) -> None:
    text = KERNEL + RUN.replace("LAUNCHED", "k") + TESTS.replace("FACTOR", factor)
    code, said = _classified(tmp_path / f"check_{expected}.py", text)
    assert code == expected, said
