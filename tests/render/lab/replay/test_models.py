"""Cases of two models: the answers that their files expect; those that compile something are slow."""

from __future__ import annotations

import pytest

from render.lab.corpus.case import case_folders, find_case, load_cases
from render.lab.replay.lint import check
from render.lab.replay.models import disagreements, judged
from render.lab.replay.select import select

CASES = load_cases(("network",))


def _case(case):
    return pytest.param(case.id, marks=pytest.mark.slow if case.facts.network.compiled else ())


@pytest.mark.parametrize("name", [_case(c) for c in CASES])
def test_the_answer_is_the_expected_one(name):
    case = find_case(name)
    assert list(disagreements(case, judged(case))) == []


def test_the_papers_cases_are_there():
    ids = {c.id for c in CASES}
    assert ids >= {"122260", "136181", "137817", "137888", "138556", "140112", "140222", "143469", "148241", "34191"}


@pytest.mark.parametrize("folder", case_folders(("network",)), ids=lambda f: f.name)
def test_files_are_in_order(folder):
    assert check(folder) == []


def test_the_group_holds_models_only():
    assert {f.name for f in select(["network"])} == {c.id for c in CASES}
    assert not {f.name for f in select([])} & {c.id for c in CASES}
