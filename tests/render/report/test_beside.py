"""Several verdicts side by side: what differs, and by how much."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from render.report.beside import beside, columns
from render.report.html import page
from render.result.verdict import Outputs
from tests.render.report.test_html import parsed
from tests.render.report.verdicts import output, source_file, type_i, type_ii


def test_only_facts_that_differ_and_all_figures() -> None:
    wider = output()
    wider = replace(wider, bound=replace(wider.bound, median_half_width=0.1), max_abs_diff=9.53e-3)
    rows = {row[0].strip(): row[1:] for row in beside([type_i(), type_i(device="sm_90", outputs=Outputs((wider,)))])}
    assert rows["verdict"] == ("Type-I RND101",) * 2 and rows["device"] == ("sm_80", "sm_90")
    assert "reference" not in rows and "kernel" not in rows
    assert rows["median half width"] == ("0.05", "0.1  (2x)") and rows["largest difference"] == ("0.00953",) * 2


def test_an_output_that_one_lacks() -> None:
    rows = list(beside([type_i(), type_i(outputs=Outputs((output(name="other"),)))]))
    assert ("out", "float32[64, 64]", "not compared") in rows and ("other", "not compared", "float32[64, 64]") in rows


def test_page_and_text(tmp_path: Path) -> None:
    both = [type_i(source_file(tmp_path)), type_ii(source_file(tmp_path))]
    text = parsed(page(*both, names=["a.json", "b<.json"])).text
    assert "Type-II RND201" in text and "b<.json" in text and text.count("what to do".capitalize()) == 2
    table = columns(both, ["a.json", "b.json"])
    assert table.splitlines()[1].split() == ["verdict", "Type-I", "RND101", "Type-II", "RND201"]
    assert max(map(len, table.splitlines())) < 140
