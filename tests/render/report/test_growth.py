"""The listing of a kernel's lines with the width of what each makes."""

from __future__ import annotations

import math

from render.report.growth import growth
from render.result.records import LineWidth, SourceLine


def test_each_line_shows_its_width_and_what_it_adds():
    file = "k.py"
    source = [SourceLine(file, n, f"line {n}") for n in range(1, 21)]
    widths = [
        LineWidth(file, 5, "load", 0.0, 0.0, 1),
        LineWidth(file, 6, "fadd", 1e-8, 0.0, 1),
        LineWidth(file, 7, "exp", 2.5e-8, 1e-8, 1),
        LineWidth(file, 15, "reduce", 1e-5, 1e-8, 1),
        LineWidth(file, 16, "fmul", 1e-5, 1e-5, 1),
        LineWidth(file, 17, "fdiv", math.nan, 1e-5, 1),
    ]
    shown = {line.split("|")[-1].strip(): line.split("|")[0].split() for line in growth(widths, source) if "|" in line}
    assert shown["line 3"] == ["3"] and "line 2" not in shown and "line 20" not in shown
    assert shown["line 5"] == ["exact", "5"]
    assert shown["line 6"] == ["1.0e-08", "new", "6"]
    assert shown["line 7"] == ["2.5e-08", "x", "2.5", "7"]
    assert shown["line 15"] == ["1.0e-05", "x", "1000", "15"]
    assert shown["line 16"] == ["1.0e-05", "16"]
    assert sum(line.strip() == "..." for line in growth(widths, source)) == 1


def test_nothing_to_list():
    assert list(growth((), ())) == []
