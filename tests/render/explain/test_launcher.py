"""Functions around a kernel that is right, with one mistake: a change of them is found, and its line."""

from __future__ import annotations

import ast

import pytest
import torch

import render
from render.entry.target import load_module
from render.explain.launcher import Launcher, host_repairs
from render.interpreter.session import Session
from render.result.errors import Endless

TEXT = """import torch
import triton
import triton.language as tl


@triton.jit
def doubled(X, Y, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(Y + at, 2 * tl.load(X + at))


def run(x):
    y = torch.empty_like(x)
    doubled[(x.shape[0],)](x, y, x.shape[1])
    return y


def launch(x):
    s = x.var(1, unbiased=True, keepdim=True)
    z = x / torch.sqrt(s + 1e-5)


    y = run(z)


    m = y.amax(1, keepdim=True)
    return y - m


def reference(x):
    y = 2 * x / torch.sqrt(x.var(1, keepdim=True) + 1e-5)
    return y - y.max(1, keepdim=True).values
"""
WRONG = {
    "divisor": ("unbiased=True", "unbiased=False"),
    "axis": ("y.amax(1,", "y.amax(0,"),
    "sign": ("return y - m", "return y + m"),
    "function": ("y.amax(1,", "y.amin(1,"),
}


def module_of(tmp_path, text):
    path = tmp_path / "around.py"
    path.write_text(text)
    return load_module(path)


@pytest.mark.parametrize("name", WRONG)
def test_the_line_around_the_kernel_is_named(tmp_path, name):
    import torch

    was, now = WRONG[name]
    module = module_of(tmp_path, TEXT.replace(was, now, 1))
    x = torch.randn(6, 16, generator=torch.Generator().manual_seed(2))
    v = render.classify(module.launch, x, ref=module.reference, device="sm_90")
    line = TEXT[: TEXT.index(was)].count("\n") + 1
    assert v.label == "Type-II" and abs(v.line - line) <= 2, (v.line, line)


COUNTED = """import torch
import triton
import triton.language as tl


@triton.jit
def counting(I, Out, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    i = tl.load(I + at)
    tl.atomic_add(Out + i, 1.5)


def run(i):


    out = torch.ones(8)


    counting[(4,)](i, out, 16)
    return out


def reference(i):
    return 1.5 * torch.bincount(i, minlength=8)
"""


def test_what_is_added_to_starts_with_zeros(tmp_path):
    module = module_of(tmp_path, COUNTED)
    v = render.classify(module.run, torch.randint(0, 8, (64,)), ref=module.reference)
    assert v.label == "Type-II" and v.line == 1 + COUNTED.splitlines().index("    out = torch.ones(8)")


def test_only_plain_functions_of_the_file_are_changed(tmp_path):
    module = module_of(tmp_path, TEXT)
    names = {tree.body[0].name for tree in Launcher(module.launch).trees.values()}
    assert names == {"launch", "run"}
    assert not Launcher(lambda x: x).trees and not Launcher(module.doubled).trees and not Launcher(object()).trees


def test_the_module_is_left_as_it_is(tmp_path):
    import torch

    module = module_of(tmp_path, TEXT)
    launcher = Launcher(module.launch)
    key = next(k for k, tree in launcher.trees.items() if tree.body[0].name == "launch")
    place = next(
        p for p, n in enumerate(ast.walk(launcher.trees[key])) if isinstance(n, ast.Constant) and n.value == 1e-5
    )
    changed, before = launcher.changed(key, place, "1.0"), module.launch
    assert (
        changed is not before
        and module.launch is before
        and changed.__code__.co_filename == before.__code__.co_filename
    )
    assert torch.sqrt is module.torch.sqrt


def test_host_code_has_repairs_of_its_own():
    tree = ast.parse("def f(x):\n    return torch.softmax(x.mean(1, keepdim=True)[0].flip(0), dim=-1)")
    codes = {r.code for r in host_repairs(tree)}
    assert {"x.sum(1, keepdim=True)", "x.mean(1)", "x.mean(1, keepdim=True)", "x.mean(1, keepdim=True)[0]"} <= codes
    assert "torch" not in codes


LOOPING = """

def passes(x):
    step = 1
    while step < 8:
        {launch}
        step *= 2
    return x * 1.5
"""
"""Halving the step for doubling it, or 0 for 1, never ends."""


@pytest.mark.parametrize("launch", ["x = run(x)", "x = run(x) if step == 1 else x"], ids=["launches", "turns"])
def test_a_change_that_keeps_a_loop_from_its_end_is_given_up(tmp_path, launch):
    file = tmp_path / "looping.py"
    file.write_text(TEXT.split("def launch")[0] + LOOPING.format(launch=launch))
    entry = load_module(file).passes
    x = torch.rand(2, 8)
    found = render.classify(entry, x, ref=lambda x: x.flip(1).exp() + x.cumsum(1))
    assert (found.label, found.code) == ("Type-II", "RND201")


def test_turns_and_launches_of_a_changed_program_are_counted(tmp_path):
    file = tmp_path / "counted.py"
    file.write_text(TEXT.split("def launch")[0] + LOOPING.format(launch="pass"))
    launcher = Launcher(load_module(file).passes)
    key = next(k for k, tree in launcher.trees.items() if "while" in ast.unparse(tree))
    place = next(i for i, n in enumerate(ast.walk(launcher.trees[key])) if ast.unparse(n) == "1")
    with pytest.raises(Endless, match="turns of its loops"):
        launcher.changed(key, place, "0")(torch.rand(2, 8))
    run, x = load_module(file).run, torch.rand(2, 8)
    with Session(most=1):
        run(x)
        with pytest.raises(Endless, match="more than 1 launches"):
            run(x)
