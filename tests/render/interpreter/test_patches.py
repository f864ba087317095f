"""Triton's language is ours while a kernel runs, and Triton's own before, between and after."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from triton.language import core, load, store

from render.interpreter.patches import RunningLaunch, patches, vendor_modules
from render.interpreter.session import Session

N = 16


@triton.jit
def doubled(X, Out, WRONG: tl.constexpr):
    i = tl.arange(0, 16)
    tl.static_assert(not WRONG, "as asked")
    store(Out + i, load(X + i) * 2)  # imported by name


def names() -> dict[tuple[Any, str], Any]:
    table = patches(tuple(vendor_modules())).names
    return {(owner, name): vars(owner).get(name) for owner, found in table.items() for name in found}


def test_names_are_ours_for_the_length_of_a_launch_only() -> None:
    x, out = torch.rand(N), torch.empty(N)
    before, inside = names(), {}
    with Session("ieee", printer=lambda text: None, progress=lambda done, total, kept: inside.update(names())) as s:
        doubled[(1,)](x, out, False)
        assert names() == before
        doubled[(1,)](x, out, False)
    assert names() == before
    assert torch.equal(out, 2 * x) and s.envelope(out) is not None
    replaced = [key for key, value in inside.items() if value is not before[key]]
    always = {(owner, name) for owner, found in patches(tuple(vendor_modules())).always for name in found}
    assert not inside or set(replaced) == always  # it reaches no vendor's module


@triton.jit
def described(X, Out, N: tl.constexpr):
    desc = tl.make_tensor_descriptor(X, shape=[N, N], strides=[N, 1], block_shape=[N, N])
    out = tl.make_tensor_descriptor(Out, shape=[N, N], strides=[N, 1], block_shape=[N, N])
    out.store([0, 0], desc.load([0, 0]) * 2)


def test_methods_of_descriptors_are_ours_where_there_are_descriptors() -> None:
    x, out, before = torch.rand(N, N), torch.empty(N, N), names()
    inside: dict[Any, Any] = {}
    with Session("ieee", progress=lambda done, total, kept: inside.update(names()) if done else None):
        doubled[(1,)](x[0], out[0], False)
        assert inside[core.tensor_descriptor_base, "load"] is before[core.tensor_descriptor_base, "load"]
        described[(1,)](x, out, N)
        assert inside[core.tensor_descriptor_base, "load"] is not before[core.tensor_descriptor_base, "load"]
        assert names() == before
    assert torch.equal(out, 2 * x)


def test_a_launch_that_fails_leaves_nothing_behind() -> None:
    before = names()
    with pytest.raises(Exception, match="as asked"), Session("ieee"):
        doubled[(1,)](torch.rand(N), torch.empty(N), True)
    assert names() == before and not hasattr(RunningLaunch, "language")


def test_replacements_are_made_once() -> None:
    modules = tuple(vendor_modules())
    assert patches(modules) is patches(modules)
    assert vars(core)["load"] is load is not patches(modules).names[core]["load"]


def test_a_session_knows_its_settings() -> None:
    with pytest.raises(TypeError, match="no setting 'chunks'"):
        Session("any", chunks=4)  # type: ignore[call-arg]


def _once_more(module: str) -> Any:
    """The module run again beside the one that is imported, as searches over versions do."""
    spec = importlib.util.find_spec(module)
    assert spec is not None and spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


rsqrt = _once_more("triton.language.extra.libdevice").rsqrt
vendors = _once_more("triton.language.extra.libdevice")
functions = _once_more("triton.language.math")


@triton.jit
def by_copies(X, Out):
    i = tl.arange(0, 16)
    x = tl.load(X + i)
    tl.store(Out + i, rsqrt(x) + vendors.tanh(x) + functions.exp(x))


def test_functions_of_a_second_copy_of_tritons_modules() -> None:
    x, out = torch.rand(N) + 0.5, torch.empty(N)
    with Session("sm_80") as session:
        by_copies[(1,)](x, out)
    envelope, exact = session.envelope(out), (y := x.double()).rsqrt() + y.tanh() + y.exp()
    assert envelope is not None and torch.allclose(out.double(), exact)
    assert (envelope.lo <= exact.numpy()).all() and (exact.numpy() <= envelope.hi).all()
