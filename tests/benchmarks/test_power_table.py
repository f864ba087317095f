"""The table of mutants: what counts is decided by the float64 reference, and the tables add up."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from interval_ops.formats.model import FP16, FP32
from render.result.decision import Case

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def modules() -> tuple[ModuleType, ModuleType, ModuleType]:
    """(mutants, power_table, power_source): scripts, not a package."""
    sys.path.insert(0, str(FOLDER))
    try:
        found = []
        for name in ("mutants", "power_store", "power_source", "power_table"):
            spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
            assert spec is not None and spec.loader is not None
            module = sys.modules[name] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            found.append(module)
        return found[0], found[3], found[2]
    finally:
        sys.path.remove(str(FOLDER))


def case(exact, fmt=FP32):
    y = np.array(exact, np.float64)
    return Case("c", y, y, y, y, y, lambda: (y, y), fmt, fmt)


@pytest.mark.parametrize(
    ("now", "gone", "beyond"),
    [
        ([1.0, 2.0], [False, False], False),
        ([1.0 + 2.0**-24, 2.0], [False, False], False),  # half a unit in the last place
        ([1.0 + 2.0**-22, 2.0], [False, False], True),
        ([1.0, np.nan], [False, False], True),
        ([1.0, 2.0], [False, True], True),  # not stored any more
    ],
)
def test_what_is_beyond_rounding(modules, now, gone, beyond):
    differs = modules[0]._differs
    assert differs(case([1.0, 2.0]), np.array([1.0, 2.0]), np.array(now), np.array(gone)) is beyond


def test_the_kernels_own_literals_are_no_fault(modules):
    """1.44269504 for log2(e): the unchanged kernel is off by as much."""
    base, none = np.array([1.0 + 1e-6]), np.array([False])
    assert not modules[0]._differs(case([1.0]), base, np.array([1.0 + 1.5e-6]), none)
    assert modules[0]._differs(case([1.0]), base, np.array([1.0 + 9e-6]), none)
    assert not modules[0]._differs(case([1.0], FP16), np.array([1.0]), np.array([1.0 + 2.0**-11]), none)


@pytest.mark.slow
def test_one_kernel_from_end_to_end(modules, tmp_path, capsys):
    _, table, source = modules
    out, data = tmp_path / "p.md", tmp_path / "p.json"
    arguments = ["--kernel", "vector_add", "--device", "any", "--markdown", str(out), "--json", str(data)]
    assert table.main(arguments) == 0
    assert "[1/1] vector_add on any" in capsys.readouterr().err
    found = table.restored(data)
    rows = found.counted("any")
    assert {r.kind for r in rows} == {"boundary", "downgrade", "program", "scale", "zero"}
    assert all(r.bound == "Type-II" and r.assert_close for r in rows)
    assert {r.source for r in rows if r.kind != "downgrade"} == {"Type-II"}
    assert {(r.source, r.source_subtype) for r in rows if r.kind == "downgrade"} == {("Type-I", "downgrade")}
    assert found.alarms == [{"what": "kernel", "name": "vector_add", "device": "any", "label": "Type-I",
                             "code": "RND100", "render": False, "assert_close": False, "twice": False}]  # fmt: skip
    assert {(r.named, source.outcome(r)) for r in rows if r.kind == "downgrade"} == {("downgrade", "downgrade")}
    assert all(r.price > 8 for r in rows if r.kind == "downgrade")
    text = out.read_text()
    assert f"| downgrade | {sum(r.kind == 'downgrade' for r in rows)} | 0 | 0 |" in text
    assert f"| mutants that change the result beyond rounding | {len(rows)} |" in text
    again = table.updated(found, found)
    assert (len(again.rows), again.alarms, again.smallest) == (len(found.rows), found.alarms, found.smallest)
    assert table.main([*arguments, "--resume"]) == 0
    assert capsys.readouterr().err == "" and out.read_text() == text  # nothing is measured again


def test_a_type_i_mutant_that_nothing_names_is_missed(modules):
    mutants, _, source = modules
    row = mutants.Row("k", "any", "trip", "a turn less", 3, True, "Type-II", "", "Type-I", "RND102", "", True, True)
    assert source.outcome(row) == "missed"
    assert "- k:3, trip: a turn less (RND102)" in source.section("any", [row])
    changes = [({"bound": "Type-I"}, "within"), ({"named": "cause"}, "cause"), ({"source": "crash"}, "Type-II"),
               ({"source": "Inconclusive"}, "Inconclusive")]  # fmt: skip
    for change, outcome in changes:
        assert source.outcome(mutants.replace(row, **change)) == outcome
