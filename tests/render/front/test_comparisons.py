"""Comparisons are heard whoever makes them for the user."""

from __future__ import annotations

import unittest
from typing import Any

import pytest
import torch

from render.front.comparisons import Taken, intercepted, recording


class TorchLike(unittest.TestCase):
    """With an `assertEqual` of its own, as torch's, which needs a package that users of it have."""

    __test__ = False
    one, two = torch.ones(3), torch.zeros(3)

    def assertEqual(self, first: Any, second: Any, msg: Any = None) -> None:
        torch.testing.assert_close(first, second, msg=msg)

    def test_it(self) -> None:
        self.assertEqual(self.one, self.two)  # noqa: PT009 - it is what is tested


class Plain(unittest.TestCase):
    __test__ = False
    one, two = 1, 2

    def test_it(self) -> None:
        self.assertEqual(first=self.one, second=self.two)  # noqa: PT009 - it is what is tested


@pytest.mark.parametrize("case", [TorchLike, Plain])
@pytest.mark.parametrize(("answer", "fails"), [(True, True), (None, False), (lambda: True, False)])
def test_test_classes_compare_for_their_caller(case: Any, answer: Any, fails: bool) -> None:
    heard: list[Any] = []

    def take(left: Any, right: Any, file: str, line: int) -> Any:
        heard.append((left, right, file))
        return answer

    taken: Taken = take
    with intercepted(), recording(taken):
        done = unittest.TestResult()
        case("test_it").run(done)
    assert len(done.failures) == fails and not done.errors
    assert heard == [(case.one, case.two, __file__)]
    assert all("front/comparisons.py" not in text for _, text in done.failures)


def test_what_torch_compares_for_itself_is_nobody_s() -> None:
    def take(*told: Any) -> bool:
        raise AssertionError(told)

    with intercepted(), recording(take):
        scope = {"x": torch.ones(2), "compare": torch.testing.assert_close}
        exec(compile("compare(x, x)", torch.__file__, "exec"), scope)
