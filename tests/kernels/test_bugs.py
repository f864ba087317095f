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
"""Every so many of them are among the quick tests."""


def check(bug: Bug, folder: Path, diagnose: bool) -> None:
    verdict = classify_file(str(bug.write(folder)), device="any", diagnose=diagnose)
    assert (verdict.label, verdict.exit_code) == ("Type-II", 1), f"{bug.what}: {verdict.label} {verdict.code}"
    assert verdict.code in bug.codes, f"{bug.what}: {verdict.code}"


@pytest.mark.parametrize("bug", BUGS[::QUICK], ids=str)
def test_type_two(bug: Bug, tmp_path: Path) -> None:
    """What is decided: the search for the line takes twenty times as long."""
    check(bug, tmp_path, diagnose=False)


@pytest.mark.slow
@pytest.mark.parametrize("bug", BUGS, ids=str)
def test_type_two_with_its_diagnosis(bug: Bug, tmp_path: Path) -> None:
    check(bug, tmp_path, diagnose=True)
