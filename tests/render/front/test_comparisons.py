"""Comparisons are heard whoever makes them for the user."""

from __future__ import annotations

import os
from types import ModuleType
from typing import Any

import pytest
import torch

from render.front.comparisons import Taken, intercepted, recording

TESTING = """
from torch.testing._comparison import TensorLikePair, not_close_error_metas
class TestCase:
    def check(self, x, y):
        if found := not_close_error_metas(x, y, pair_types=(TensorLikePair,)):
            raise found[0].to_error("not close")
"""


def _test_case() -> Any:
    """As torch's own, which needs a package that users of it have."""
    module = ModuleType("common_utils")
    file = os.sep + os.path.join("site-packages", "torch", "testing", "_internal", "common_utils.py")
    exec(compile(TESTING, file, "exec"), module.__dict__)
    return module.TestCase


@pytest.mark.parametrize(("answer", "fails"), [(True, True), (None, False), (lambda: True, False)])
def test_a_test_class_of_torch_asks_for_its_caller(answer: Any, fails: bool) -> None:
    heard: list[Any] = []

    def take(left: Any, right: Any, file: str, line: int) -> Any:
        heard.append((left, right, file))
        return answer

    taken: Taken = take
    with intercepted(), recording(taken):
        case, one, two = _test_case()(), torch.ones(3), torch.zeros(3)
        if fails:
            with pytest.raises(AssertionError, match="not close"):
                case.check(one, two)
        else:
            case.check(one, two)
        case.check(one, one)
    assert len(heard) == 2 and heard[0][0] is one and heard[0][1] is two and heard[0][2] == __file__


def test_what_torch_compares_for_itself_is_nobody_s() -> None:
    def take(*told: Any) -> bool:
        raise AssertionError(told)

    with intercepted(), recording(take):
        scope = {"x": torch.ones(2), "compare": torch.testing.assert_close}
        exec(compile("compare(x, x)", torch.__file__, "exec"), scope)
