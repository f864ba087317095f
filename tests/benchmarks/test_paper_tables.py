"""The tables and figures on a document of two hand-made cases."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest

from render.lab.replay.rows import Extreme, Output, ReplayRow, RuleAnswer

FILE = Path(__file__).resolve().parents[2] / "benchmarks" / "paper_tables.py"
spec = importlib.util.spec_from_file_location("paper_tables", FILE)
tables = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tables)


def row(name, truth, label, difference, **more):
    return ReplayRow(
        id=name, operation="x + y", expected_label=truth, expected_codes=["RND102"], expected_paper_rule=truth,
        expected_source_label=truth, truth=truth, device_kind="model", label=label, code="RND102", paper_rule=label,
        reference_axis="inside", device_axis="inside", source_label=label, ok=label == truth,
        disagreements=[] if label == truth else ["label: wrong"],
        outputs=[Output("out", 4, 0, 0, 0, 1e-3, 1e-2, 0.5, difference)],
        extremes=[Extreme("out", side, [0], difference, 1e-2, 10.0) for side in ("left", "right")],
        baselines={"paper": RuleAnswer(label), "high_precision": RuleAnswer(note="needs the device: a fault")},
        published={"satire": "wrong", "high_precision": "right", "inside": truth == "Type-I",
                   "package": {"median_relative_width": 1e-2, "interval_s": 8.0, "plain_s": 1.0}}, **more,
    )  # fmt: skip


@pytest.fixture
def document():
    first = row(
        "1", "Type-I", "Type-I", 1e-3, interval_cpu_s=2.4, stock_s=4.0, stock_fraction=0.25, case_notes=["a note"]
    )
    second = row(
        "2", "Type-II", "Type-I", 0.0, interval_cpu_s=0.3, stock_s=0.15, interval_again_s=0.15, stock_again_s=0.1
    )
    return {"versions": {"render": "0"}, "cases": [first.to_dict(), second.to_dict()]}


def test_markdown(document):
    text = tables.markdown(document)
    assert "| 1 | x + y | I | I | RND102 | yes |" in text
    assert "NO: label: wrong" in text
    assert "| 1 | 1.00e-03 | 1.00e-02 | 0.1 |" in text
    assert "| 1 | 2.400 | 4.000 (from 25.0 % of the programs) | 0.600 | - | - | 0.600 |" in text
    assert "| 2 | 0.300 | 0.150 | 2.000 | 0.150 | 0.100 | 1.500 |" in text
    assert "(above 0.1 s where the plain run takes less than 0.2 s): 1 (0.60x, 2.40 s), 2 (1.50x, 0.15 s)." in text
    assert "| 2 | II | I (wrong) | I (wrong) | needs the device |" in text
    assert "| right |  | 1 / 2 | 1 / 2 | 0 / 2 |" in text
    assert "- 1: a note" in text
    assert "Geometric mean of the ratio over 2 cases: 0.949; over the 1 whose plain run takes 0.2 s" in text
    assert "First runs alone: Geometric mean of the ratio over 2 cases: 1.095" in text
    assert "so ours are 10.0 times tighter. Wider than the original's: none." in text


def test_bounds_are_taken_by_side(document):
    found = tables.bounds_of(document["cases"][0])
    assert tables._sizes(found["left"], relative=True) == (1e-4, 1e-3)
    assert tables._sizes(None, relative=False) is None


@pytest.mark.parametrize(
    ("first", "again", "taken"),
    [
        ((0.3, 0.15), (0.15, 0.1), (0.15, 0.1)),
        ((0.3, 2.4), (0.15, None), (0.15, 2.4)),  # long: first use is a small part of it
        ((0.3, 0.15), (0.15, None), (0.3, 0.15)),  # short, and it could not be repeated
        ((3.0, 9.0), (None, None), (3.0, 9.0)),
        ((0.3, None), (0.15, None), (0.3, None)),
    ],
)
def test_times_without_first_use(first, again, taken):
    case = dict(zip(("interval_cpu_s", "stock_s", "interval_again_s", "stock_again_s"), (*first, *again), strict=True))
    assert tables.times(case) == taken


@pytest.mark.filterwarnings("error::UserWarning")
def test_figures(document, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib").use("Agg")
    given = tmp_path / "replay.json"
    given.write_text(json.dumps(document))
    monkeypatch.setattr(sys, "argv", ["paper_tables.py", str(given), "--out", str(tmp_path / "out")])
    tables.main()
    for name in ("bounds.png", "times.png"):
        assert (tmp_path / "out" / name).stat().st_size > 10_000
