"""Tests are collected by pytest and judged at their comparisons, not by their tolerances."""

from __future__ import annotations

from pathlib import Path

import pytest

from render.front.comparisons import COMPARATORS, intercepted, recording
from render.lab.suite.find import find
from render.lab.suite.options import SuiteOptions
from render.lab.suite.rows import ERROR, SKIPPED, Row
from render.lab.suite.runner import run

TESTS = """
import unittest

import numpy as np
import pytest
import torch
from torch.testing import assert_close
from scaling_library import scale, scale_kernel


@pytest.fixture
def x():
    return torch.randn(100, device="cuda")


@pytest.mark.parametrize("factor", [1.5, 2.5])
def test_right(x, factor):
    assert_close(scale(x, factor), factor * x, rtol=0, atol=0)


def test_loose_tolerance_hides_a_bug(x):
    torch.testing.assert_close(scale(x, 3.0), 3.01 * x, rtol=1, atol=1)


def test_either_side_and_both_kinds(x):
    assert torch.allclose(2 * x, scale(x, 2.0))
    np.testing.assert_allclose(scale(x, 2.0).cpu().numpy(), (x + x).cpu().numpy())


class TestGradient:
    def test_backward(self, x):
        x.requires_grad_()
        scale(x, 0.5).sum().backward()
        torch.testing.assert_close(x.grad, torch.full_like(x, 0.5))


def test_draws_its_own_inputs():
    a = torch.randn(64, dtype=torch.float16)
    torch.testing.assert_close(scale(a, 0.3), (a.float() * 0.3).half())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_marked_for_a_gpu(x):
    assert x.is_cuda
    assert_close(scale(x), 3 * x)


def test_no_kernel(x):
    assert_close(x + x, 2 * x)


def test_two_kernels(x):
    assert_close(scale(x), scale(x))


def test_by_hand(x):
    assert (scale(x) - 3 * x).abs().max() < 1


def test_by_hand_and_wrong(x):
    err = (scale(x) - 3.1 * x).abs().max().item()
    assert err < 1e-5, f"largest difference {err}"


def test_two_after_each_other(x):
    assert_close(scale(x), 3.1 * x)
    assert_close(scale(x), 3 * x)


def test_looks_at_its_shape(x):
    assert scale(x).shape == (100,)


def test_fails_before_it_compares(x):
    assert scale(x).shape == (101,)
    assert_close(scale(x), 3 * x)


async def test_asynchronous(x):
    assert_close(scale(x), 3 * x)


def test_skips(x):
    pytest.skip("not on Tuesdays")


def test_broken(x):
    scale(x, factor="three")
    assert_close(scale(x), 3 * x)


class OldStyle(unittest.TestCase):
    def setUp(self):
        self.factor = 2.5

    def test_method(self):
        x = torch.randn(40)
        self.assertEqual(1, 1)
        self.assertEqual(scale(x, self.factor), x * self.factor)

    def test_wrong(self):
        self.assertEqual(scale(torch.randn(40)), torch.ones(40), msg="rows")

    def test_skipped(self):
        self.skipTest("needs two of them")


def near(a, b):
    assert (a - b).abs().max() < 1


def test_by_its_own_function(x):
    near(scale(x), 3 * x)
"""
EXPECTED = {
    "test_right[1.5]": "Type-I", "test_right[2.5]": "Type-I", "test_loose_tolerance_hides_a_bug": "Type-II",
    "test_either_side_and_both_kinds": "Type-I", "TestGradient::test_backward": "Type-I",
    "test_draws_its_own_inputs": "Type-I", "test_marked_for_a_gpu": "Type-I", "test_no_kernel": SKIPPED,
    "test_two_kernels": "Type-I", "test_by_hand": "Type-I", "test_by_hand_and_wrong": "Type-II",
    "test_two_after_each_other": "Type-II", "test_looks_at_its_shape": SKIPPED,
    "test_fails_before_it_compares": ERROR, "test_asynchronous": SKIPPED, "test_skips": SKIPPED, "test_broken": ERROR,
    "test_by_its_own_function": "Type-I", "OldStyle::test_method": "Type-I", "OldStyle::test_skipped": SKIPPED,
    "OldStyle::test_wrong": "Type-II",
}  # fmt: skip


@pytest.fixture
def rows(library: Path) -> dict[str, Row]:
    inner = library / "inner"
    inner.mkdir()
    (inner / "conftest.py").write_text("# pytest then asks which plugins a file is not for")
    (inner / "test_of_scaling.py").write_text(TESTS)
    return {row.test.split("::", 1)[1]: row for row in run(find([str(library)]), SuiteOptions())}


def test_each_test_is_judged_or_says_why_not(rows: dict[str, Row]) -> None:
    assert {name: row.label for name, row in rows.items()} == EXPECTED
    assert rows["test_either_side_and_both_kinds"].outputs == 2
    assert rows["test_right[1.5]"].kernel == "scale_kernel"

    reasons = {name: rows[name].message for name, label in EXPECTED.items() if label == SKIPPED}
    assert "launches no kernel" in reasons["test_no_kernel"]
    assert "--comparator" in reasons["test_looks_at_its_shape"]
    assert "asynchronous" in reasons["test_asynchronous"]
    assert "assert torch.Size([100]) == (101,)" in rows["test_fails_before_it_compares"].message
    assert "not on Tuesdays" in reasons["test_skips"]


def test_comparisons_are_restored_and_are_themselves_outside_of_a_recording() -> None:
    import torch

    plain = torch.testing.assert_close
    heard: list[tuple[object, object]] = []
    with intercepted():
        with pytest.raises(AssertionError):
            torch.testing.assert_close(torch.ones(2), torch.zeros(2))
        assert not torch.allclose(torch.ones(2), torch.zeros(2))
        heard.clear()
        with recording(lambda left, right, file, line: heard.append((left, right))):
            torch.testing.assert_close(actual=1, expected=2)
            assert torch.ones(2).allclose(torch.zeros(2))
    assert torch.testing.assert_close is plain
    assert heard[0] == (1, 2) and len(heard) == 2 and len(COMPARATORS) > 2
