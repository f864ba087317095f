"""`render ops`: every rule once, with the error term of the device."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from interval_ops.profiles.profile import MissingRule, load_profile
from render.cli import app, ops

runner = CliRunner()


def rule(**changes: object) -> SimpleNamespace:
    fields = {"op": "exp", "shape": "monotone", "cause": "function", "error": lambda p: f"from {p.name}", "tight": True,
              "doc": "e to\n  the x", "source": "PTX"}  # fmt: skip
    return SimpleNamespace(**{**fields, **changes})


def missing(profile: object) -> str:
    raise MissingRule("exp", "any")


@pytest.mark.parametrize(
    ("error", "text"),
    [(lambda p: f"from {p.name}", "from ieee"), (None, "exact"), ("2 ulp", "2 ulp"),
     (missing, "profile 'any' has no rule for 'exp'")],
)  # fmt: skip
def test_error_term(error: object, text: str) -> None:
    row = ops._row(rule(error=error), load_profile("ieee"))
    assert row.error == text
    assert row.doc == "e to the x"


def test_source_is_split_from_the_error() -> None:
    assert ops._split("x(1 +- 2^-23) [PTX ISA 8]") == ("x(1 +- 2^-23)", "PTX ISA 8")
    assert ops._split("exact") == ("exact", "")
    assert ops._split("a [b] c [d]") == ("a [b] c [d]", "")


def test_table_names_every_rule() -> None:
    rules = pytest.importorskip("render.ops.table")
    result = runner.invoke(app, ["ops", "--device", "sm_90", "--json"])
    assert result.exit_code == 0
    data = json.loads(result.stdout)
    assert data["device"] == "sm_90"
    assert [row["op"] for row in data["rules"]] == [r.op for r in rules.RULES.values()]
    assert set(data["exact"]) == set(rules.EXACT)
    assert data["unsupported"] == dict(rules.UNSUPPORTED)
    assert all(row["error"] and row["shape"] for row in data["rules"])


def test_text_form_and_filter() -> None:
    rules = pytest.importorskip("render.ops.table")
    name = next(iter(rules.RULES.values())).op
    result = runner.invoke(app, ["ops", "-k", name], env={"COLUMNS": "150"})
    assert result.exit_code == 0
    assert name in result.stdout
    assert "device any" in result.stdout


def test_unknown_device_names_the_known_ones() -> None:
    pytest.importorskip("render.ops.table")
    result = runner.invoke(app, ["ops", "--device", "sm_1"], env={"COLUMNS": "150"})
    assert result.exit_code == 2
    assert "sm_90" in result.stderr
