"""Random programs: right ones are no bugs, planted mistakes are no round-off, and their size is measured apart."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

SAMPLE = [1, 4, 9, 43, 55, 13, 15, 23, 36, 51, 146, 205]
"""Small ones of all dtypes and spellings."""
FAULTY = [1002, 1038, 1057]


@pytest.fixture(scope="module")
def programs() -> ModuleType:
    sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
    try:
        return importlib.import_module("random_programs")
    finally:
        sys.path.pop(0)


@pytest.mark.slow
def test_right_programs_are_round_off(programs: ModuleType) -> None:
    found = list(programs.rows(SAMPLE, faulty=False))
    assert {r["label"] for r in found} == {"Type-I"}, [r for r in found if r["label"] != "Type-I"]


@pytest.mark.slow
def test_planted_mistakes_are_not(programs: ModuleType) -> None:
    found = list(programs.rows(FAULTY, faulty=True))
    assert len(found) == len(FAULTY) and all(r["size"] >= programs.LEAST for r in found)
    assert {r["label"] for r in found} == {"Type-II"}


@pytest.mark.slow
def test_none_of_many_right_programs_is_a_bug(programs: ModuleType) -> None:
    found = list(programs.rows(range(400), faulty=False))
    labels = [r["label"] for r in found]
    assert "Type-II" not in labels and "error" not in labels
    assert labels.count("Inconclusive") <= 12  # 3 %


@pytest.mark.slow
def test_hardly_a_mistake_is_round_off(programs: ModuleType) -> None:
    found = [r for r in programs.rows(range(1000, 1400), faulty=True) if r["label"] != "error"]
    bugs = [r for r in found if r["label"] == "Type-II"]
    assert sum(r["label"] == "Type-I" for r in found) <= 0.03 * len(found)
    assert sum(r["near"] for r in bugs) >= 0.75 * len(bugs)


def test_a_size_is_counted_in_roundings_of_the_output(programs: ModuleType) -> None:
    right = np.array([1.0, -2.0, 0.0])
    assert programs.size_of(right, right, "float16") == 0.0
    assert programs.size_of(right, right * (1 + 2.0**-11), "float16") == pytest.approx(1.0, rel=1e-3)
    assert programs.size_of(right, np.array([1.0, -2.0, np.nan]), "float16") == np.inf
    assert programs.size_of(right, right[:2], "float16") == np.inf


def test_a_mistake_is_in_one_line_outside_of_the_reference(programs: ModuleType) -> None:
    given = programs.program(7)
    faults = importlib.import_module("programs.faults").faults(given.text)
    lines, end = given.text.splitlines(), given.text.splitlines().index("def reference(x, p0, p1, p2, p3):")
    assert len({f.kind for f in faults}) >= 6
    for fault in faults:
        changed = [k for k, (a, b) in enumerate(zip(lines, fault.text.splitlines(), strict=True), 1) if a != b]
        assert changed in ([], [fault.line]) and fault.line <= end
