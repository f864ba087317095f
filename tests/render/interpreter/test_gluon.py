"""Gluon kernels whose layouts only say who holds a value run; others are refused by name and line."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
import torch
from gluon_refused import REFUSED
from gluon_zoo import HEAD, KERNELS
from triton.compiler.errors import CompilationError
from triton.experimental.gluon import language as gl

from render.interpreter import gluon
from render.interpreter.session import Session
from render.result.errors import UnsupportedOp

STORE = """
@gluon.jit
def k(x_ptr, y_ptr, B: gl.constexpr, L: gl.constexpr, O: gl.constexpr):
    i = gl.arange(0, B, L)
    j = gl.arange(0, B, O)
    gl.store(y_ptr + i, gl.load(x_ptr + j))
def run(x, L, O, **options):
    y = torch.empty_like(x)
    k[(1,)](x, y, B=x.numel(), L=L, O=O, **options)
    return y
"""
THROUGH = """
@gluon.jit
def k(x_ptr, y_ptr, B: gl.constexpr, L: gl.constexpr, O: gl.constexpr):
    i, j = gl.arange(0, B, L), gl.arange(0, B, O)
    x = gl.load(x_ptr + i)
    gl.store(y_ptr + i, x)
    total = gl.sum(x, 0)
    BARRIER
    gl.store(y_ptr + j, gl.load(y_ptr + j) + total)
def run(x, L, O):
    y = torch.empty_like(x)
    k[(1,)](x, y, B=x.numel(), L=L, O=O)
    return y
"""
DECIDED = """
@gluon.jit
def k(x_ptr, y_ptr, B: gl.constexpr, L: gl.constexpr):
    x = gl.load(x_ptr + gl.arange(0, B, L))
    if x.type.layout == L:
        x = x + 1
    gl.store(y_ptr + gl.arange(0, B, L), x)
def run(x, L):
    y = torch.empty_like(x)
    k[(1,)](x, y, B=x.numel(), L=L)
    return y
"""


def loaded(text: str, folder: Path) -> ModuleType:
    file = folder / "kernel.py"
    file.write_text(text)
    spec = importlib.util.spec_from_file_location("kernel", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def outside(module: ModuleType) -> int:
    """Elements of the exact result that no legal execution of the kernel may have meant, and findings of the memory."""
    torch.manual_seed(0)
    inputs = module.make_inputs()
    exact = module.reference(*(x.double() if x.is_floating_point() else x for x in inputs))
    with Session("any") as session:
        out = module.run(*inputs)
        missed = len(session.findings)
        for made, wanted in zip(*(t if isinstance(t, tuple) else (t,) for t in (out, exact)), strict=True):
            bound = session.envelope(made)
            assert bound is not None and not bound.taints
            value = wanted.numpy()
            missed += int(((value < bound.lo) | (value > bound.hi)).sum())
    return missed


@pytest.mark.parametrize("name", KERNELS)
def test_the_bounds_hold_the_exact_result_and_a_planted_fault_leaves_them(name: str, tmp_path: Path) -> None:
    kernel = KERNELS[name]
    assert outside(loaded(str(kernel), tmp_path)) == 0
    assert outside(loaded(kernel.planted, tmp_path)) > 0


@pytest.mark.parametrize("name", REFUSED)
def test_what_means_more_than_its_values_is_refused_by_name_and_line(name: str, tmp_path: Path) -> None:
    text, op, line = REFUSED[name]
    module = loaded(text, tmp_path)
    with Session("any"), pytest.raises(UnsupportedOp, match="Gluon") as refused:
        module.run(*module.make_inputs())
    assert refused.value.op == f"Gluon's {op}" and "no mistake of yours" in refused.value.reason
    assert line in text.splitlines()[(refused.value.line or 0) - 1]


def blocked(size: int = 1, threads: int = 32, warps: int = 4) -> gl.BlockedLayout:
    return gl.BlockedLayout([size], [threads], [warps], [0])


@pytest.mark.parametrize(
    ("device", "layout", "other", "warps", "told"),
    [
        ("any", blocked(), blocked(2), 4, "Layout mismatch"),
        ("any", blocked(), blocked(), 8, "requires 8 warps"),
        ("sm_90", blocked(threads=64), blocked(threads=64), 4, "64 threads per warp"),
        ("gfx942", blocked(), blocked(), 4, "32 threads per warp"),
    ],
)
def test_layouts_that_do_not_fit_are_refused_as_by_triton(
    device: str, layout: gl.BlockedLayout, other: gl.BlockedLayout, warps: int, told: str, tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    module = loaded(HEAD + STORE, tmp_path)
    with Session(device), pytest.raises(CompilationError) as refused:
        module.run(torch.randn(128), layout, other, num_warps=warps)
    assert told in f"{refused.value} {refused.value.__cause__}" and not capfd.readouterr().err


@pytest.mark.parametrize(("device", "threads"), [("any", 32), ("any", 64), ("sm_90", 32), ("gfx942", 64)])
def test_warps_of_the_devices_own_size_run(device: str, threads: int, tmp_path: Path) -> None:
    module, x = loaded(HEAD + STORE, tmp_path), torch.randn(128)
    with Session(device):
        assert torch.equal(module.run(x, blocked(threads=threads), blocked(threads=threads)), x)


def test_what_an_inferred_layout_decides_is_refused(tmp_path: Path) -> None:
    module = loaded(HEAD + DECIDED, tmp_path)
    with Session("any"), pytest.raises(UnsupportedOp, match="a layout that the compiler infers"):
        module.run(torch.randn(128), blocked())


@pytest.mark.parametrize(("barrier", "tainted"), [("total", True), ("gl.barrier()", False)])
def test_the_threads_of_two_layouts_see_each_others_stores_behind_a_barrier(
    barrier: str, tainted: bool, tmp_path: Path
) -> None:
    """A reduction is none: in a layout of its own it may stay within a thread."""
    text = THROUGH.replace("BARRIER", barrier)
    module, x = loaded(HEAD + text, tmp_path), torch.arange(128.0)
    with Session("any") as session:
        module.run(x, blocked(1), blocked(4))
        assert {t.code for t in session.taints.values()} == ({"RND305"} if tainted else set())


def test_no_module_of_gluon_keeps_what_a_launch_put_there(tmp_path: Path) -> None:
    before = {(m.__name__, n): f for m in gluon.modules() for n, f in vars(m).items() if not n.startswith("__")}
    module = loaded(HEAD + STORE, tmp_path)
    with Session("any"):
        module.run(torch.randn(128), blocked(), blocked())
    after = {(m.__name__, n): f for m in gluon.modules() for n, f in vars(m).items() if not n.startswith("__")}
    assert all(after[key] is f for key, f in before.items())
