"""Every planted bug is called Type-II with the code that names its kind."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from render.classify import classify_file
from tests.kernels.bugs import BUGS, KERNELS, Bug


def test_every_kernel_has_bugs() -> None:
    count = Counter(bug.kernel for bug in BUGS)
    assert all(count[path.stem] >= 2 for path in KERNELS.glob("*.py"))


QUICK = 3
"""Every so many of them are among the quick tests: each is a whole classification with its diagnosis."""


@pytest.mark.parametrize(
    "bug", [pytest.param(b, id=str(b), marks=[pytest.mark.slow] if i % QUICK else []) for i, b in enumerate(BUGS)]
)
def test_type_two(bug: Bug, tmp_path: Path) -> None:
    verdict = classify_file(str(bug.write(tmp_path)), device="any")
    assert (verdict.label, verdict.exit_code) == ("Type-II", 1), f"{bug.what}: {verdict.label} {verdict.code}"
    assert verdict.code in bug.codes, f"{bug.what}: {verdict.code}"
