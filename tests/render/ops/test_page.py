"""docs/ops.md is what the tables say, and the tests it names exist."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from render.cli import app
from render.ops import page as ops_page
from render.ops.library import CONVERSIONS, LIBRARY, REFUSED
from render.ops.table import EXACT, RULES, UNSUPPORTED

ROOT = Path(__file__).parents[3]


def test_the_page_is_up_to_date() -> None:
    assert (ROOT / "docs" / "ops.md").read_text() == ops_page.page(), "run `make docs`"


def test_the_command_prints_it() -> None:
    assert CliRunner().invoke(app, ["ops", "--page"]).stdout == ops_page.page()


@pytest.mark.parametrize("name", [*RULES, *LIBRARY, *CONVERSIONS, *REFUSED, *sorted(EXACT), *UNSUPPORTED])
def test_every_name_is_on_it(name: str) -> None:
    text = ops_page.page()
    headings = [line[4:].split(", ") for line in text.splitlines() if line.startswith("### ")]
    assert any(name in heading for heading in headings) or f"`{name}`" in text


def test_the_tests_it_names_exist() -> None:
    assert set(ops_page.TESTS) == {rule.shape for rule in RULES.values()}
    named = {*ops_page.LIBRARY_TESTS, *(test for _, test in ops_page.LANGUAGE.values())}
    assert all((ROOT / file).exists() for file in named.union(*ops_page.TESTS.values()))
