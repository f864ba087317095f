"""The script part of a user's file: launches at the top level are left out, everything else is there."""

from __future__ import annotations

import sys
import textwrap

import pytest
import torch

import render
from render.classify import classify_file
from render.entry.target import find_entry, left_out_note, load_module
from render.interpreter.script import LEFT_OUT
from render.result.errors import RenderError

HEAD = """\
from __future__ import annotations
import torch, triton
import triton.language as tl
DEVICE = triton.runtime.driver.active.get_active_torch_device()
@triton.jit
def kernel(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, 2 * tl.load(x + i, mask=i < n), mask=i < n)
def double(x: torch.Tensor) -> Undefined:
    y = torch.empty_like(x)
    kernel[(triton.cdiv(x.numel(), 16),)](x, y, x.numel(), B=16)
    return y
def reference(x):
    return x + x
"""
SCRIPT = """\
x = torch.arange(40.0, device=DEVICE)
y = double(x)
error = (y - reference(x)).abs().max()
print(error)
assert torch.equal(y, reference(x))
def make_inputs():
    return (torch.arange(40.0),)
@triton.testing.perf_report(triton.testing.Benchmark(
    x_names=["n"], x_vals=[1 << 30], line_arg="p", line_vals=["a"], line_names=["A"], plot_name="plot", args={}))
def benchmark(n, p):
    return triton.testing.do_bench(lambda: double(torch.ones(n, device="cuda")))
benchmark.run(print_data=True)
SIZE = 3
"""


@pytest.fixture
def write(tmp_path):
    before = list(sys.path)

    def make(body, head=HEAD):
        path = tmp_path / "k.py"
        path.write_text(head + textwrap.dedent(body))
        return path

    yield make
    sys.path[:] = before


def test_a_tutorial_is_judged_as_it_is(write, capsys):
    path = write(SCRIPT)
    verdict = classify_file(path)
    assert verdict.label == "Type-I"
    first = HEAD.count("\n")
    lines = [first + k for k in (2, 3, 4, 5, 12)]
    assert f"lines {', '.join(map(str, lines))} of the file launch kernels" in " ".join(verdict.notes)
    assert capsys.readouterr().out == ""


def test_what_does_not_depend_on_a_launch_is_there(write):
    module = load_module(write(SCRIPT))
    assert module.SIZE == 3
    assert not hasattr(module, "y")
    assert not hasattr(module, "error")
    assert torch.equal(module.x, torch.arange(40.0))
    assert find_entry(module) is module.double


def test_a_tensor_handed_to_a_launch_counts_as_unknown(write):
    body = """\
    x = torch.ones(16)
    out = torch.zeros(16)
    kernel[(1,)](x, out, 16, B=16)
    assert out.sum() == 32
    """
    module = load_module(write(body))
    assert len(getattr(module, LEFT_OUT)) == 2


def test_arguments_of_a_call_that_returns_its_result_stay(write):
    module = load_module(write("x = torch.ones(16)\ny = double(x)\nEXAMPLE = (x,)\nassert y.sum() == 32\n"))
    assert module.EXAMPLE[0] is module.x
    assert len(getattr(module, LEFT_OUT)) == 2


def test_what_a_launch_was_to_fill_counts_as_unknown(write):
    module = load_module(write(
        "x, errors, table = torch.ones(16), [], {}\nfor k in range(2):\n    y = double(x)\n    errors.append(y.sum())\n"
        "    table[k] = y\nWORST = max(errors)\nFIRST = table[0]\nKEPT = len('ab')\n"))  # fmt: skip
    assert not hasattr(module, "WORST") and not hasattr(module, "FIRST") and module.KEPT == 2


def test_a_file_without_a_script_part_is_run_whole(write):
    module = load_module(write("TWO = 2\n"))
    assert module.TWO == 2
    assert left_out_note(module) is None


def test_other_errors_of_a_file_are_told(write):
    with pytest.raises(RenderError, match="NameError"):
        load_module(write("z = nothing_of_that_name\n"))
    with pytest.raises(RenderError, match="ZeroDivisionError"):
        load_module(write("y = double(torch.ones(3))\nz = 1 / 0\n"))


def test_an_exception_handler_of_the_file_does_not_hide_a_launch(write):
    module = load_module(write("try:\n    ok = bool(double(torch.ones(3)).sum())\nexcept Exception:\n    ok = False\n"))
    assert not hasattr(module, "ok")


def test_a_script_without_a_launcher_is_told_what_to_do(write):
    head = HEAD[: HEAD.index("def double")]
    path = write("x = torch.ones(16)\nout = torch.zeros(16)\nkernel[(1,)](x, out, 16, B=16)\n", head)
    with pytest.raises(RenderError) as caught:
        classify_file(path)
    assert "put them into a function that returns the output" in str(caught.value.hint)


def test_launches_work_again_after_loading(write):
    module = load_module(write(SCRIPT))
    assert render.classify(module.double, torch.ones(20), ref=module.reference).label == "Type-I"


def test_a_function_that_makes_its_own_inputs(write):
    path = write("def run():\n    return double(torch.ones(8))\ndef ref():\n    return 2 * torch.ones(8)\n")
    verdict = classify_file(path, entry="run", ref="ref")
    assert verdict.label == "Type-I"


def test_a_class_is_no_entry(write):
    path = write("class M:\n    def run(self, x):\n        return double(x)\n")
    with pytest.raises(RenderError, match="is a class"):
        classify_file(path, entry="M", ref="torch.abs")
