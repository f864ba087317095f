"""What the host made without a rounding is judged as exact, what it drew or computed of a kernel's result is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from render.entry.execution import Entry
from render.entry.inputs import Inputs
from render.trace.observed import observed
from tests.verdicts import classify

N = 64


@triton.jit
def _sines(x_ptr, y_ptr, n: tl.constexpr):
    i = tl.arange(0, n)
    tl.store(y_ptr + i, tl.sin(tl.load(x_ptr + i)))


def wrapper(returned: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> Callable[[torch.Tensor], torch.Tensor]:
    def run(x: torch.Tensor) -> torch.Tensor:
        y = torch.empty_like(x)
        _sines[(1,)](x, y, N)
        return returned(x, y)

    return run


def _written(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    out.copy_(x)
    out[3:].mul_(2.0)
    return out


EXACT: dict[str, Callable[[Any, Any], Any]] = {
    "a copy": lambda x, y: x.clone(),
    "zeros": lambda x, y: torch.zeros_like(x),
    "zeros for the shape of a result": lambda x, y: torch.zeros_like(y) + 1,
    "a number": lambda x, y: torch.full((N,), 3.0),
    "moved": lambda x, y: x.roll(1).flip(0),
    "a power of two": lambda x, y: x * 2,
    "counted": lambda x, y: torch.arange(N) * 2.0,
    "chosen": lambda x, y: torch.where(x > 0, x, -x),
    "written over": _written,
}
UNKNOWN: dict[str, Callable[[Any, Any], Any]] = {
    "drawn": lambda x, y: torch.randn_like(x),
    "drawn, then moved": lambda x, y: torch.rand(N).flip(0),
    "decided by a result": lambda x, y: torch.zeros(N) if y.sum().item() > 1e3 else torch.ones(N),
}


@pytest.mark.parametrize("form", EXACT)
def test_what_the_host_made_exactly_is_a_bug_where_it_is_something_else(form: str) -> None:
    found = classify(wrapper(EXACT[form]), torch.randn(N), ref=lambda x: torch.sin(x) + 5)
    assert (found.label, found.code) == ("Type-II", "RND201")
    assert any("no kernel stored to" in note for note in found.notes)
    assert found.file is not None and found.file.endswith("test_exact_tracker.py")


@pytest.mark.parametrize("form", UNKNOWN)
def test_what_is_not_known_to_be_exact_is_no_evidence(form: str) -> None:
    found = classify(wrapper(UNKNOWN[form]), torch.randn(N), ref=lambda x: torch.sin(x) + 5)
    assert (found.label, found.code) == ("Inconclusive", "RND302")
    assert any("was not seen from the inputs on" in taint.message for taint in found.taints)


def test_what_equals_the_reference_without_a_kernel_is_no_finding() -> None:
    found = classify(wrapper(lambda x, y: x * 2), torch.randn(N), ref=lambda x: x + x)
    assert found.code == "RND310"


def test_looking_at_the_host_again_leaves_a_recording_as_it_is() -> None:
    run = observed(Entry(wrapper(lambda x, y: x.clone()), Inputs((torch.randn(N),), {}, ("x",))))
    before = run.recording.launch, len(run.recording.passes), run.recording.kept_bytes
    assert run.exactly() == {out.name for out in run.outputs}
    assert (run.recording.launch, len(run.recording.passes), run.recording.kept_bytes) == before
