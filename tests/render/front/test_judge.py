"""Elements that no kernel stored are a finding, and what wrote memory out of sight is none."""

from __future__ import annotations

import ctypes
import inspect

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from render.front.watch import Compared, Watch
from tests.verdicts import DECIDED


@triton.jit
def doubled(x, out, ROWS_APART: tl.constexpr, WIDTH: tl.constexpr, B: tl.constexpr):
    c = tl.arange(0, B)
    at = tl.program_id(0) * ROWS_APART + c
    tl.store(out + at, tl.load(x + at, mask=c < WIDTH) * 2, mask=c < WIDTH)


FRESH = {
    "empty": lambda x: torch.empty(x.shape),
    "empty, cuda": lambda x: torch.empty(x.shape, device="cuda"),
    "empty, viewed": lambda x: torch.empty(x.numel()).view(x.shape),
    "empty_like": torch.empty_like,
    "empty_strided": lambda x: torch.empty_strided(x.shape, x.stride()),
    "new_empty": lambda x: x.new_empty(x.shape),
}
SHORT = {"grid": (5, 60), "columns": (6, 48), "both": (4, 7)}
"""(programs, columns) of 6 rows of 60 columns."""


def compared(fresh: str, programs: int, width: int, after=lambda out: out) -> list[Compared]:
    with Watch(DECIDED) as watch:
        # The allocator hands out what these leave, and other memory once they are judged.
        waste = [torch.full((6, 60), 10.0**k) for k in range(20)]
        del waste
        x = torch.linspace(1, 2, 360, device="cuda").view(6, 60)
        out = FRESH[fresh](x)
        doubled[(programs,)](x, out, 60, width, B=64)
        torch.allclose(after(out), after(x * 2))
    return watch.comparisons


@pytest.mark.parametrize("short", SHORT)
@pytest.mark.parametrize("fresh", FRESH)
def test_elements_that_no_kernel_stored_are_found(fresh: str, short: str) -> None:
    (found,) = compared(fresh, *SHORT[short])
    assert found.error is None and found.verdict.code == "RND205", found


@pytest.mark.parametrize("fresh", FRESH)
def test_memory_that_is_stored_in_full_is_no_finding(fresh: str) -> None:
    (found,) = compared(fresh, 6, 60)
    assert found.verdict.label == "Type-I"


def again(out: torch.Tensor) -> torch.Tensor:
    second = torch.empty_like(out)
    doubled[(6,)](out, second, 60, 60, B=64)
    return second


AFTER = {
    "moved": (lambda out: torch.cat([out.t().contiguous(), out.t()]), "RND205"),
    "scaled": (lambda out: out * 2, None),
    "summed": (lambda out: out.sum(0), None),
    "read by a kernel": (again, "RND208"),
}


@pytest.mark.parametrize("after", AFTER)
def test_elements_that_no_kernel_stored_are_found_behind_other_steps(after: str) -> None:
    step, code = AFTER[after]
    with Watch(DECIDED) as watch:
        x = torch.linspace(1, 2, 360).view(6, 60)
        out = torch.empty_like(x)
        doubled[(5,)](x, out, 60, 60, B=64)
        torch.allclose(step(out), x * 4 if step is again else step(x * 2))
    (found,) = watch.comparisons
    assert found.error is None and found.verdict.label == "Type-II"
    assert code in (None, found.verdict.code)


@pytest.mark.parametrize("read", [False, True])
def test_what_wrote_out_of_sight_is_no_bug_of_the_kernel(read: bool) -> None:
    with Watch(DECIDED) as watch:
        x = torch.linspace(1, 2, 360).view(6, 60)
        out = torch.empty_like(x)
        doubled[(5,)](x, out, 60, 60, B=64)
        row = (x[5] * 2).tolist()
        memory = (ctypes.c_float * 360).from_address(out.data_ptr())
        memory[300:] = row
        torch.allclose(again(out), x * 4) if read else torch.allclose(out, x * 2)
    (found,) = watch.comparisons
    assert found.verdict is None and "RND907" in str(found.error)


def test_memory_that_an_operation_fills_keeps_its_contents() -> None:
    with Watch(DECIDED) as watch:
        kept = torch.ones(6, 60)
        torch.empty(6, 60, out=kept)
        out = torch.empty_like(kept)
        doubled[(6,)](kept, out, 60, 60, B=64)
        assert torch.equal(out, torch.full((6, 60), 2.0))
    assert [c.verdict.label for c in watch.comparisons] == ["Type-I"]


TAKEN = {
    "compared": np.asarray,
    "torch.from_numpy": torch.from_numpy,
    "torch.tensor": torch.tensor,
}


@pytest.mark.parametrize("taken", TAKEN)
def test_a_reference_of_numpy_is_named_with_its_line(taken: str) -> None:
    with Watch(DECIDED) as watch:
        x = torch.linspace(1, 2, 360).view(6, 60)
        out = torch.empty_like(x)
        doubled[(6,)](x, out, 60, 60, B=64)
        expected = np.exp(np.linspace(1, 2, 360, dtype=np.float32)).reshape(6, 60)
        line = inspect.currentframe().f_lineno - 1
        np.testing.assert_allclose(out, TAKEN[taken](expected), rtol=10)
    (found,) = watch.comparisons
    assert found.verdict.label == "Inconclusive"
    assert any("by numpy" in note and f"test_judge.py:{line})" in note for note in found.verdict.notes)
